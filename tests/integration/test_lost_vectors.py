"""A Chroma server that lost its data is filled again from the search rows, and nobody's search is the worse for it."""

from __future__ import annotations

import asyncio
from typing import Any

import chromadb
import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.ports import VectorIndex
from memory_agent.stores.chroma import ChromaServer
from memory_agent.testing import HashEmbedder
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
            assert "the vectors of 1 users are not where they belong" in caplog.text
            assert await found() == before


async def lose(vectors: VectorIndex, cfg: MemoryConfig) -> None:
    """Let the server lose everything, behind the back of the service."""
    assert isinstance(vectors, ChromaServer)
    other = await chromadb.AsyncHttpClient(str(cfg.chroma_host), cfg.chroma_port)
    await other.delete_collection(vectors.collection_name("ann"))
