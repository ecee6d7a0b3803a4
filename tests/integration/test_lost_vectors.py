"""A Chroma server that lost its data is filled again from the search rows, and nobody's search is the worse for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import chromadb
import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.clock import SystemClock
from memory_agent.ports import LOST_INDEX, VectorIndex
from memory_agent.stores.chroma import ChromaServer
from memory_agent.testing import HashEmbedder
from memory_agent.work.heal import IndexHealer
from tests.constants import settings_of
from tests.fixtures import outgrown

TURNS = 12


async def test_a_chroma_server_that_lost_its_data_is_filled_again(
    server_settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With a message; until then, and afterwards, large users find what they found."""
    more = {"resident_max_turns": 3, "enable_topics": False, "enable_fact_extraction": False}
    with settings_of({**server_settings, **more}) as known:
        async with MemoryService(MemoryConfig(**known), embedder=HashEmbedder()) as service:
            store, vectors = service.core.store, service.core.vectors
            memory = service.agent("ann", "chat")
            texts = [
                f"The lantern number {number} hangs behind door {number + 40}." for number in range(TURNS)
            ]
            await memory.add_turns([{"role": "user", "content": text} for text in texts])
            await memory.settle(30)
            await outgrown(service, "ann")
            assert await service.core.residents.get("ann") is None
            ids = {turn.id for turn in await store.list_turns(memory.scope)}
            assert await vectors.turn_ids("ann") == ids

            async def found() -> list[tuple[str, float]]:
                answer = await service.search("ann", "the lantern number 5", 4)
                return [(each.text, round(each.similarity or 0.0, 2)) for each in answer]

            before = await found()
            await lose(vectors, service.cfg)
            service.core.worker.pause()
            assert await found() == before  # by the rows; and it finds that the collection is gone
            service.core.worker.go_on()
            async with asyncio.timeout(30):
                while await vectors.turn_ids("ann") != ids:
                    await asyncio.sleep(0.05)
            await memory.settle(30)
            assert f"the vector index lacked {TURNS} turns" in caplog.text
            assert await found() == before


async def test_while_there_is_no_model_the_index_is_not_looked_through(
    embedded_settings: dict[str, Any],
) -> None:
    """No row is of no model, so that all would seem to be there."""
    async with MemoryService(MemoryConfig(**embedded_settings), embedder=HashEmbedder()) as service:
        store, model = service.core.store, ""
        await service.pause_worker()
        healer = IndexHealer(
            store,
            service.core.vectors,
            SystemClock(),
            embedder=lambda: model,
            lease=timedelta(seconds=5),
        )
        await store.put_meta(LOST_INDEX, {"at": "now"})
        assert not await healer.work_off("ann's")
        assert await store.get_meta(LOST_INDEX) == {"at": "now"}
        model = HashEmbedder().fingerprint
        assert await healer.work_off("ann's")
        assert await store.get_meta(LOST_INDEX) == {}


async def lose(vectors: VectorIndex, cfg: MemoryConfig) -> None:
    """Let the server lose everything, behind the back of the service."""
    assert isinstance(vectors, ChromaServer)
    other = await chromadb.AsyncHttpClient(str(cfg.chroma_host), cfg.chroma_port)
    await other.delete_collection(vectors.collection_name("ann"))
