"""No embedding model to be had: what is remembered is kept and found by words, and embedded as soon as there is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService, MemoryStatus, ModelNotFound
from memory_agent.models.local import find
from tests.integration.commands import CommandLine, user
from tests.tiny_models import tiny_model

BIKE = "My bicycle stands behind the bakery."


async def until_waiting(service: MemoryService) -> MemoryStatus:
    async with asyncio.timeout(60):
        while not (status := await service.status()).outages:
            await asyncio.sleep(0.05)
    return status


async def test_everything_but_embedding_works_and_that_is_owed(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`update_memory`, `fetch_memory` by words, and `status`, which says the ways to get a model."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cfg = MemoryConfig(**settings, local_embedding_model="nobody/has-this-model")
    async with MemoryService(cfg) as service:
        memory = service.agent("ann", "chat")
        receipt = await memory.update_memory(BIKE, "Noted.")
        (outage,) = (await until_waiting(service)).outages
        assert (outage.stage, outage.part) == ("index", "embedder")
        assert "three ways" in outage.error.lower()
        status = await memory.status()
        assert (status.pending["index"], status.parked_count) == (2, 0)
        context = await memory.fetch_memory("Where is my bicycle?")
        assert BIKE in str(context)
        assert "embedder" in context.degraded
        assert (await memory.fetch_long_term("bicycle"))[0].text == BIKE
        await memory.forget(receipt.turn_ids)
        assert (await memory.status()).owed_count == 0


async def test_a_model_that_turns_up_is_used_without_a_restart(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for again: then the turns are embedded, found by meaning, and the resident index knows whose they are."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(find, "RETRY_SECONDS", 0.2)
    monkeypatch.chdir(tmp_path)
    cfg = MemoryConfig(**settings, local_embedding_model="my-model")
    async with MemoryService(cfg) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory(BIKE, "Noted.")
        await until_waiting(service)
        await asyncio.to_thread(tiny_model, tmp_path / "my-model")
        await memory.settle(timeout=120)
        # That model's weights are random, so its order says nothing.
        found = await memory.fetch_long_term("Where did I leave my bike?")
        assert {one.text for one in found} == {BIKE, "Noted."}
        assert all(one.similarity is not None for one in found)
        assert (await memory.status()).outages == ()


async def test_a_folder_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    """It is a slip, not an outage."""
    cfg = MemoryConfig(data_dir=tmp_path / "data", local_embedding_model=str(tmp_path / "nothing"))
    with pytest.raises(ModelNotFound, match="there is no such folder"):
        async with MemoryService(cfg):
            pass


def test_the_command_line_stores_and_tells(cli: CommandLine) -> None:
    """`ingest` ends with what is owed and why, `status` says so too."""
    none: Any = {"MEMORY_AGENT_LOCAL_EMBEDDING_MODEL": "nobody/has-this-model"}
    done = cli("ingest", cli.file(user(BIKE)), "--patience", "1", code=3, **none)
    assert "index waits for the embedder" in done.stderr
    assert "1 index" in done.stderr
    status = cli.json("status", **none)
    assert (status["turns"], status["pending"]["index"]) == (1, 1)
    assert BIKE in cli("ask", "bicycle", **none).stdout
    cli("worker", "--until-idle")
    assert cli.json("status")["pending"]["index"] == 0
