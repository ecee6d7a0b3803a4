"""Every turn's embedding is in Chroma from the first: behind whatever else is done, and whatever happens to Chroma."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.stores.chroma import ChromaServer
from memory_agent.testing import HashEmbedder
from tests.constants import settings_of
from tests.servers.chroma import ChromaProcess

QUIET = {"enable_fact_extraction": False}


def opened(settings: dict[str, Any], **more: Any) -> MemoryService:
    return MemoryService(MemoryConfig(**{**settings, **more}), embedder=HashEmbedder())


async def talk(memory: MemoryAgent, count: int, about: str = "lantern") -> list[str]:
    turns = await memory.add_turns(
        [
            {"role": "user", "content": f"The {about} number {n} hangs behind door {n + 40}."}
            for n in range(count)
        ]
    )
    return [turn.id for turn in turns]


async def until_all_is_there(service: MemoryService) -> None:
    async with asyncio.timeout(60):
        while (await service.status()).vectors_missing:
            await asyncio.sleep(0.05)


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_chroma_that_hangs_holds_nothing_up(server_settings: dict[str, Any], deaf: int) -> None:
    """Turns, topics and facts are done with; what is missing is counted, with the reason."""
    hangs = {"chroma_host": "127.0.0.1", "chroma_port": deaf, "store_timeout_seconds": 1}
    async with opened(server_settings, **hangs) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("My name is Ann and I live in Lisbon.", "Nice to meet you, Ann.")
        await memory.settle(60)
        assert (await memory.status()).owed_count == 0
        assert (await memory.fetch_facts())["name"] == "Ann"
        assert await memory.topics()
        assert (await memory.fetch_long_term("Where do I live?"))[0].similarity
        async with asyncio.timeout(60):
            while not (status := await memory.status()).outages:
                await asyncio.sleep(0.05)
        assert status.vectors_missing == 2
        [outage] = status.outages
        assert (outage.stage, outage.part) == ("vectors", "vector_index")
        assert "Timeout" in outage.error


@pytest.mark.parametrize("settings", ["embedded", "servers"], indirect=True)
async def test_a_memory_from_before_is_filled_once(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its search rows, so that nothing is embedded again; how many are left is in the status."""
    away = {**settings, **QUIET}
    for name in ("chroma_host", "chroma_port"):
        away.pop(name, None)
    async with opened(away) as service:
        ids = {user: set(await talk(service.agent(user, "chat"), 6)) for user in ("ann", "bob")}
        await service.settle(60)
        assert (await service.status()).vectors_missing == 0
    index = {} if "chroma_host" in settings else {"chroma_db_dir": tmp_path / "chroma"}
    embedder = HashEmbedder()
    embedder.fail = AssertionError("embedded again")
    with settings_of({**settings, **QUIET, **index}) as known:
        async with MemoryService(MemoryConfig(**known), embedder=embedder) as service:
            await service.core.store.want_vectors(None)
            await until_all_is_there(service)
            for user, of_user in ids.items():
                assert await service.core.vectors.turn_ids(user) == of_user


async def test_nobody_need_be_in_memory_to_be_found(
    server_settings: dict[str, Any], chroma_server: ChromaProcess
) -> None:
    """Everybody is searched by Chroma, in a thread alone too; and by the rows while it lacks something."""
    async with opened(server_settings, **QUIET, resident_memory_mb=0) as service:
        first, second = service.agent("ann", "first"), service.agent("ann", "second")
        await talk(first, 8)
        await talk(second, 8, about="kettle")
        await service.settle(60)
        assert await service.core.residents.get("ann") is None
        [best] = await first.fetch_long_term("kettle number 5", 1)
        assert best.text.startswith("The kettle number 5")
        inside = await first.fetch_long_term("kettle number 5", 4, scope="thread")
        assert {found.turn.thread_id for found in inside} == {"first"}
        assert isinstance(service.core.vectors, ChromaServer)
        await service.pause_worker()
        with chroma_server.client() as client:
            client.delete_collection(service.core.vectors.collection_name("ann"))
        await service.core.store.want_vectors(["ann"], anew=True)
        [again] = await first.fetch_long_term("kettle number 5", 1)
        assert (again.text, again.similarity) == (best.text, best.similarity)


async def test_what_is_forgotten_goes_there_once_it_is_back(
    server_settings: dict[str, Any], tmp_path: Path
) -> None:
    """With its text, where Chroma has those."""
    server = ChromaProcess(tmp_path / "chroma").start()
    own = {"chroma_host": server.host, "chroma_port": server.port, "chroma_documents": True}
    try:
        async with opened(server_settings, **own, **QUIET) as service:
            memory = service.agent("ann", "chat")
            ids = await talk(memory, 3)
            await memory.settle(60)

            def texts() -> str:
                with server.client() as client:
                    [collection] = client.list_collections()
                    return str(collection.get()["documents"])

            assert "door 41" in texts()
            server.kill()
            receipt = await memory.forget([ids[1]])
            assert receipt.owed == ("vector_index",)
            server.start()
            async with asyncio.timeout(60):
                while await service.core.vectors.turn_ids("ann") != {ids[0], ids[2]}:
                    await asyncio.sleep(0.05)
            assert "door 41" not in texts()
    finally:
        server.stop()


async def test_a_damaged_folder_is_put_aside_and_filled_anew(
    embedded_settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it is deleted."""
    folder = tmp_path / "chroma"
    async with opened(embedded_settings, **QUIET, chroma_db_dir=folder) as service:
        ids = await talk(service.agent("ann", "chat"), 5)
        await service.settle(60)
        assert await service.core.vectors.turn_ids("ann") == set(ids)
    file = folder / "chroma.sqlite3"
    broken = b"\0" * 4_096 + file.read_bytes()[4_096:]
    file.write_bytes(broken)
    async with opened(embedded_settings, **QUIET, chroma_db_dir=folder) as service:
        async with asyncio.timeout(60):
            while await service.core.vectors.turn_ids("ann") != set(ids):
                await asyncio.sleep(0.05)
    [aside] = folder.glob("damaged-*")
    assert (aside / "chroma.sqlite3").read_bytes() == broken
    assert f"kept in {aside.name}" in caplog.text


async def test_a_folder_is_one_process_and_others_go_on_without(
    server_settings: dict[str, Any], tmp_path: Path
) -> None:
    """On MongoDB with a folder of Chroma's: what another service remembers is written there by the one that has it."""
    settings = {**server_settings, **QUIET, "chroma_db_dir": tmp_path / "chroma"}
    del settings["chroma_host"], settings["chroma_port"]
    async with opened(settings) as service, opened(settings) as other:
        await service.core.vectors.ping()
        ids = set(await talk(other.agent("ann", "chat"), 3))
        await other.settle(60)
        async with asyncio.timeout(60):
            while await service.core.vectors.turn_ids("ann") != ids:
                await asyncio.sleep(0.05)
