"""kill -9 of the process and of mongod: what was acknowledged is there once, and what was owed gets done."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService, StoreUnavailable
from memory_agent.domain import Scope
from memory_agent.facts.fold import fold
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.faults.nursery import Nursery, exchange
from tests.servers.chroma import ChromaProcess
from tests.servers.mongod import Mongod

UPDATES = 200 if profiles.chosen() == "nightly" else 50
KILLS = 6 if profiles.chosen() == "nightly" else 2
OLD_USERS, OLD_TURNS = ("bob", "cyd"), 150 if profiles.chosen() == "nightly" else 20
LAST_TOWN = exchange(UPDATES - 1)[0].removeprefix("I live in ").removesuffix(".")


async def check_everything(service: MemoryService, acknowledged: dict[int, tuple[list[str], int]]) -> None:
    """After settling: every exchange once and whole, in order, indexed once everywhere, its fact stated once."""
    memory: MemoryAgent = service.agent("ann", "chat")
    await memory.settle(timeout=120)
    status = await memory.status()
    assert (status.turns, status.owed_count, status.parked_count) == (2 * UPDATES, 0, 0)
    turns = await service.core.store.list_turns(memory.scope)
    assert [turn.content for turn in turns] == [
        text for number in range(UPDATES) for text in exchange(number)
    ]
    seqs = [turn.seq for turn in turns]
    assert seqs == sorted(set(seqs))
    for number, (turn_ids, seq) in acknowledged.items():
        stored = turns[2 * number : 2 * number + 2]
        assert ([turn.id for turn in stored], stored[-1].seq) == (turn_ids, seq)
    ids = [turn.id for turn in turns]
    assert sorted(row.turn_id for row in await service.core.store.search_rows("ann")) == sorted(ids)
    kept = set(ids) if service.cfg.has_chroma else set()  # without one the rows are the index
    assert await service.core.vectors.turn_ids("ann") == kept
    changes = await service.core.store.fact_changes(memory.scope)
    assert [change.turn_id for change in changes] == ids[::2]
    document = await service.core.store.load_facts(memory.scope)
    assert document.facts == fold(changes) == {"location": LAST_TOWN}


def read_log(log: Path) -> dict[int, tuple[list[str], int]]:
    """Acknowledged exchanges by number."""
    if not log.exists():
        return {}
    return {
        number: (turn_ids, seq) for number, turn_ids, seq in map(json.loads, log.read_text().splitlines())
    }


@pytest.mark.parametrize("way", profiles.by_day("embedded", "server", "folder", first=2))
async def test_the_process_is_killed(
    way: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    nursery: Nursery,
    shared_embedder: LocalEmbedder,
) -> None:
    """Killed at random moments during many updates and restarted each time, nothing is lost or doubled."""
    fixture = "server_settings" if way == "server" else "embedded_settings"
    settings: dict[str, Any] = dict(request.getfixturevalue(fixture))
    settings |= {"chroma_db_dir": tmp_path / "chroma"} if way == "folder" else {}
    settings |= {"lease_seconds": 2, "resident_max_turns": 0}
    job = {"settings": {name: str(value) for name, value in settings.items()}, "until": UPDATES}
    log = tmp_path / "acknowledged"
    chance = random.Random()  # the moments differ from run to run, on purpose
    kills = 0
    while True:
        acknowledged = read_log(log)
        first = max(acknowledged, default=-1) + 1
        pid = nursery.spawn({**job, "from": first, "log": str(log)})
        if kills < KILLS:
            time.sleep(chance.uniform(0.1, 1.0))  # so many of them are over before the last update
            os.kill(pid, signal.SIGKILL)
            kills += nursery.wait() == -signal.SIGKILL
        else:
            assert nursery.wait() == 0
            break
    acknowledged = read_log(log)
    assert len(acknowledged) == UPDATES
    async with MemoryService(MemoryConfig(**settings), embedder=shared_embedder) as service:
        await check_everything(service, acknowledged)


async def test_chroma_and_the_process_are_killed_while_vectors_are_written(
    server_settings: dict[str, Any], tmp_path: Path, nursery: Nursery, shared_embedder: LocalEmbedder
) -> None:
    """Of what is said meanwhile, and of a memory from before there was a Chroma, nothing is missing there in the end."""
    before = {name: value for name, value in server_settings.items() if not name.startswith("chroma")}
    async with MemoryService(MemoryConfig(**before), embedder=HashEmbedder()) as service:
        for user in OLD_USERS:
            said = [{"role": "user", "content": f"Note {n} of {user}."} for n in range(OLD_TURNS)]
            await service.agent(user, "chat").add_turns(said)
        await service.settle(60, without=["facts"])
    server = ChromaProcess(tmp_path / "chroma").start()
    own = {"chroma_host": server.host, "chroma_port": server.port, "lease_seconds": 2}
    settings = {**server_settings, **own}
    job = {"settings": {name: str(value) for name, value in settings.items()}, "until": UPDATES}
    log, chance, kills = tmp_path / "acknowledged", random.Random(), 0
    try:
        while True:
            first = max(read_log(log), default=-1) + 1
            pid = nursery.spawn({**job, "from": first, "log": str(log)})
            for _ in range(2 if kills < KILLS else 0):
                time.sleep(chance.uniform(0.1, 0.6))
                server.kill()
                time.sleep(chance.uniform(0.0, 0.3))
                server.start()
            if kills >= KILLS:
                assert nursery.wait() == 0
                break
            os.kill(pid, signal.SIGKILL)
            kills += nursery.wait() == -signal.SIGKILL
        async with MemoryService(MemoryConfig(**settings), embedder=shared_embedder) as service:
            for user in OLD_USERS:  # whose vectors another model made
                await service.rebuild_index(user)
            await service.settle(120)
            async with asyncio.timeout(120):
                while (await service.status()).vectors_missing:
                    await asyncio.sleep(0.05)
            await check_everything(service, read_log(log))
            for user in OLD_USERS:
                ids = {turn.id for turn in await service.core.store.list_turns(Scope(user_id=user))}
                assert len(ids) == OLD_TURNS
                assert await service.core.vectors.turn_ids(user, searched=True) == ids
    finally:
        server.stop()


# The driver (4.20) leaves a socket to the garbage collector if closing cancels a connection attempt.
@pytest.mark.filterwarnings("ignore:.*<socket.socket:pytest.PytestUnraisableExceptionWarning")
async def test_mongod_is_killed(server_settings: dict[str, Any], shared_embedder: LocalEmbedder) -> None:
    """mongod killed at random moments during many updates: what was acknowledged is there, the rest can be repeated."""
    with Mongod() as server:
        settings = {
            **server_settings,
            "mongo_uri": server.uri,
            "store_timeout_seconds": 2,
            "lease_seconds": 2,
            "resident_max_turns": 0,
        }
        async with MemoryService(MemoryConfig(**settings), embedder=shared_embedder) as service:
            memory = service.agent("ann", "chat")
            acknowledged: dict[int, tuple[list[str], int]] = {}
            restarts: list[asyncio.Task[None]] = []
            # So many updates after the last: counted, for a fast machine is through before a clock kills.
            deadly = sorted(random.sample(range(5, UPDATES), KILLS))

            async def kill_soon() -> None:
                await asyncio.sleep(random.uniform(0, 0.02))  # within an update, or between two
                server.kill9()
                await asyncio.to_thread(server.restart)

            for number in range(UPDATES):
                if number in deadly:
                    await asyncio.gather(*restarts)
                    restarts.append(asyncio.create_task(kill_soon()))
                while True:
                    try:
                        receipt = await memory.update_memory(
                            *exchange(number), idempotency_key=f"update {number}"
                        )
                        break
                    except StoreUnavailable:
                        await asyncio.sleep(0.05)
                        for restart in restarts:
                            if restart.done():
                                restart.result()  # if it failed, nobody will ever be there again
                acknowledged[number] = (list(receipt.turn_ids), receipt.seq)
                await asyncio.sleep(0.01)
            await asyncio.gather(*restarts)
            await check_everything(service, acknowledged)
