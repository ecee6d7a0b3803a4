"""kill -9 in the middle of a forget call: what was to be forgotten goes everywhere, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder
from tests import profiles
from tests.faults.nursery import FORGOTTEN_USER, KEPT, Nursery, said

TURNS = 200 if profiles.chosen() == "nightly" else 100
KEPT_TURNS = 40
KILLS = 3 if profiles.chosen() == "nightly" else 2
LONGEST_SECONDS = 0.15
"""About as long as the call takes."""


def wait_for(line: str, log: Path, pid: int) -> None:
    """Until the job has logged `line`; ProcessLookupError if its process ends before."""
    deadline = time.monotonic() + 120
    while not log.exists() or line not in log.read_text().splitlines():
        assert time.monotonic() < deadline
        os.kill(pid, 0)
        time.sleep(0.002)


async def erased(service: MemoryService, memory: MemoryAgent) -> None:
    """Until nothing of the thread is left to erase but what its last pass, minutes later, looks after."""
    store = service.core.store
    async with asyncio.timeout(200):
        while (await memory.status()).turns:
            await asyncio.sleep(0.05)
        while True:
            some_day = service.clock.now() + timedelta(days=1)
            owed = [
                erasure
                for erasure in await store.due_erasures(some_day, limit=100)
                if erasure.scope == memory.scope
            ]
            if all(erasure.swept for erasure in owed):
                return
            await asyncio.sleep(0.05)


async def check_forgotten(service: MemoryService, memory: MemoryAgent) -> None:
    """Nothing of the thread is in any tier or index; its user's other turns are the only ones there."""
    store = service.core.store
    assert await store.list_turns(memory.scope) == []
    assert await memory.fetch_facts(scope="thread") == {}
    assert await store.fact_changes(memory.scope) == []
    assert (await store.load_facts(memory.scope)).facts == {}
    for question in ("What is my name? Zebulon?", "Where are the parcels?"):
        assert await memory.fetch_long_term(question, top_k=50, scope="thread") == []
        assert (await memory.fetch_memory(question, scope="thread")).long_term == ()
        found = await memory.fetch_long_term(question, top_k=50)
        assert {recollection.turn.thread_id for recollection in found} <= {thread for _, thread in KEPT}
    rows = await store.search_rows(FORGOTTEN_USER)
    of_thread = [row for row in rows if row.thread_id == memory.scope.thread_id]
    assert len(of_thread) == TURNS
    assert all(row.erased and not row.terms and not row.vectors.size for row in of_thread)


async def check_kept(service: MemoryService) -> None:
    """The threads that nobody forgot have all they had, and nothing else is indexed."""
    store, vectors = service.core.store, service.core.vectors
    for user, thread in KEPT:
        agent = service.agent(user, thread)
        turns = await store.list_turns(agent.scope)
        assert [turn.content for turn in turns] == [turn["content"] for turn in said(KEPT_TURNS)]
        ids = {turn.id for turn in turns}
        assert {row.turn_id for row in await store.search_rows(user) if not row.erased} == ids
        # Without a Chroma server the rows are the index.
        assert await vectors.turn_ids(user) == (set() if service.cfg.embedded else ids)
        assert (await agent.fetch_facts())["name"] == "Zebulon"
        assert [change.turn_id for change in await store.fact_changes(agent.scope)] == [
            turn.id for turn in turns if "Zebulon" in turn.content
        ]
        assert "Zebulon" in (await agent.fetch_long_term("What is my name?", top_k=1))[0].text


@pytest.mark.parametrize("way", ["embedded", "server"])
async def test_the_process_is_killed_while_it_forgets(
    way: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    nursery: Nursery,
    shared_embedder: LocalEmbedder,
) -> None:
    """A clear() killed at random moments is finished by the next process, or never began; other threads stay."""
    settings: dict[str, Any] = dict(request.getfixturevalue(f"{way}_settings"))
    settings |= {"lease_seconds": 1, "resident_max_turns": 0}
    job = {
        "kind": "forget",
        "settings": {name: str(value) for name, value in settings.items()},
        "turns": TURNS,
        "kept": KEPT_TURNS,
    }
    chance = random.Random()  # the moments differ from run to run, on purpose
    for kill in range(KILLS):
        thread, log = f"round {kill}", tmp_path / f"steps {kill}"
        pid = nursery.spawn({**job, "thread": thread, "log": str(log)})
        wait_for("filled", log, pid)
        time.sleep(LONGEST_SECONDS * chance.random() ** 2)  # rather early: erasing from SQLite is soon done
        os.kill(pid, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL
        async with MemoryService(MemoryConfig(**settings), embedder=shared_embedder) as service:
            memory = service.agent(FORGOTTEN_USER, thread)
            status = await memory.status()
            if not status.erasures:  # killed before the call was recorded
                assert (status.turns, status.owed_count) == (TURNS, 0)
                assert (await memory.clear()).turns == TURNS
            await erased(service, memory)
            await check_forgotten(service, memory)
            await check_kept(service)
