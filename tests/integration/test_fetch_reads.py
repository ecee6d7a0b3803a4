"""What a fetch reads of its store: no more where a thread has many topics."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent
from memory_agent.domain import Scope
from memory_agent.stores.sqlite import SqliteStore
from tests.conformance.values import a_topic
from tests.integration.conversations import START, lines, opened, said, settings_on

_STEP = 10
"""Instructions of SQLite's machine between two looks."""


async def _cost(store: SqliteStore, memory: MemoryAgent, question: str) -> tuple[int, int, str]:
    """Statements that a fetch runs, instructions that SQLite takes for them, and the prompt."""
    assert store._reader is not None
    reader = store._reader.connection
    assert reader is not None
    statements, steps = list[str](), list[None]()
    await memory.fetch_memory(question)
    reader.set_trace_callback(statements.append)
    reader.set_progress_handler(lambda: steps.append(None), _STEP)
    try:
        prompt = str(await memory.fetch_memory(question))
    finally:
        reader.set_trace_callback(None)
        reader.set_progress_handler(None, _STEP)
    return len(statements), _STEP * len(steps), prompt


@contextlib.asynccontextmanager
async def _remembered(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[MemoryAgent, SqliteStore]]:
    """A thread of 60 turns that owes nothing, and its store, without a worker, which reads as well."""
    settings: dict[str, Any] = settings_on("sqlite", request, tmp_path)
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns(said(lines(60), start=START))
        await memory.settle(timeout=60)
    async with opened(settings, run_worker=False) as service:
        assert isinstance(service.core.store, SqliteStore)
        yield service.agent("ann", "chat"), service.core.store


async def test_a_fetch_reads_as_much_whatever_number_of_topics_there_is(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The same statements, about as many steps of the store, and the same prompt with 10 and with 300 topics."""
    async with _remembered(request, tmp_path) as (memory, store):
        costs = []
        for first, last in ((0, 10), (10, 300)):
            for number in range(first, last):
                when = START - timedelta(days=30)
                topic = a_topic(
                    f"old{number}",
                    scope=Scope.of("ann", "chat"),
                    title=f"Old things {number}",
                    through=0,
                    last_access=when,
                    created_at=when,
                    absorbed=(f"older{number}",) if number < 5 else (),
                )
                assert await store.save_topics([topic])
            costs.append(await _cost(store, memory, "What did we say about the harbour?"))
    (few, few_steps, prompt), (many, many_steps, same) = costs
    assert prompt == same
    assert "memory_topic" in prompt or "memory_recent_turns" in prompt
    assert few == many <= 60
    assert many_steps <= 1.2 * few_steps


async def test_a_fetch_reads_everything_once(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """One look at the newest turns is enough for the window and for what was said before the question; also where nothing was said."""
    async with _remembered(request, tmp_path) as (memory, store):
        assert store._reader is not None
        reader = store._reader.connection
        assert reader is not None
        for asked in (memory, memory._service.agent("nobody", "chat")):
            statements = list[str]()
            await asked.fetch_memory("What was the first one?")
            reader.set_trace_callback(statements.append)
            await asked.fetch_memory("And the second one?")
            reader.set_trace_callback(None)
            newest = [
                sql for sql in statements if "FROM turns" in sql and "ORDER BY seq DESC LIMIT 32" in sql
            ]
            assert len(newest) == 1
            assert not [sql for sql in statements if "FROM search_rows" in sql and "vectors" in sql]
            # What is searched is looked up once, also for the entities beside; what was found is read at once.
            assert sum("pending & 1" in sql for sql in statements) == 1
            assert sum("max(index_seq)" in sql for sql in statements) == 1
            assert sum("FROM turns" in sql and "json_each" in sql for sql in statements) <= 1


async def test_a_fetch_reads_back_about_as_many_turns_as_it_looks_at(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """And of these only as many as may be worth their tokens."""
    long = [f"Tide {number} of the harbour: {'sail mast rope ' * 13}" for number in range(150)]
    texts = [text for one in long for text in (one, "Fine.", "Good.", "Well.")]
    settings: dict[str, Any] = settings_on("sqlite", request, tmp_path)
    async with opened(settings) as service:
        await service.agent("ann", "chat").add_turns(said(texts, start=START))
        await service.settle(timeout=60)
    async with opened(settings, run_worker=False) as service:
        store = service.core.store
        assert isinstance(store, SqliteStore)
        assert store._reader is not None
        assert store._reader.connection is not None
        statements = list[str]()
        store._reader.connection.set_trace_callback(statements.append)
        context = await service.agent("ann", "chat").fetch_memory(long[7])
    looked_at = sum(entry.tier == "long_term" for entry in context.ledger)
    read = sum(sql.count('","') + 1 for sql in statements if "FROM turns" in sql and "json_each" in sql)
    assert 64 <= looked_at <= read <= 1.4 * looked_at
