"""Many writers on one thread: nothing lost, doubled or reordered."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService, Turn
from memory_agent.facts.fold import fold
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.fixtures import OpenService, outgrown


def check_order(turns: list[Turn], writers: int, each: int) -> None:
    """Every writer's exchanges are there once, whole, in its order; seq is unique and rising."""
    seqs = [turn.seq for turn in turns]
    assert seqs == sorted(set(seqs))
    by_writer: dict[str, list[str]] = defaultdict(list)
    for turn in turns:
        writer, _, rest = turn.content.partition(":")
        by_writer[writer].append(rest)
    assert len(by_writer) == writers
    for question, answer in zip(turns[::2], turns[1::2], strict=True):  # a call's two turns are neighbours
        assert answer.content == question.content.replace("question", "answer")
    for said in by_writer.values():
        assert said == [f"{kind} {number}" for number in range(each) for kind in ("question", "answer")]


async def test_many_tasks_on_one_thread(open_service: OpenService) -> None:
    """Some exchanges each, reading in between."""
    tasks, each = (50, 4) if profiles.chosen() == "nightly" else (25, 3)
    async with open_service(embedder=HashEmbedder()) as service:
        memory = service.agent("ann", "chat")

        async def write(writer: int) -> None:
            for number in range(each):
                await memory.update_memory(f"{writer}:question {number}", f"{writer}:answer {number}")
                if writer % 10 == 0:
                    await memory.fetch_memory("question")

        await asyncio.gather(*[write(writer) for writer in range(tasks)])
        turns = await memory.fetch_short_term(1_000)
        check_order(turns, tasks, each)
        assert [turn.seq for turn in turns] == list(range(1, 2 * tasks * each + 1))
        await memory.settle(timeout=120)
        rows = await service.core.store.search_rows("ann")
        assert {row.turn_id for row in rows} == {turn.id for turn in turns}


def town(number: int) -> str:
    """A town of its own for each number, named by letters alone."""
    return "Town" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:02}")


EXCHANGES = 60 if profiles.chosen() == "nightly" else 12


async def test_two_workers_on_three_threads(
    server_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exchanges through two services whose workers share the work: each turn's facts, row and place in a topic are made once, in order."""
    monkeypatch.setattr("memory_agent.work.worker._BATCH_TURNS", 5)  # small batches, so that both get some
    cfg = MemoryConfig(**server_settings)
    async with (
        MemoryService(cfg, embedder=HashEmbedder()) as one,
        MemoryService(cfg, embedder=HashEmbedder()) as other,
    ):
        await outgrown(one, "ann")

        async def write(service: MemoryService, numbers: range) -> None:
            for number in numbers:
                memory = service.agent("ann", f"thread {number % 3}")
                await memory.update_memory(f"I live in {town(number)}.", f"{town(number)} it is.")

        await asyncio.gather(
            *[write(service, range(i, EXCHANGES, 4)) for i, service in enumerate((one, other, one, other))]
        )
        await other.settle(timeout=120)
        ids: list[str] = []
        for thread in range(3):
            memory = one.agent("ann", f"thread {thread}")
            turns = await one.core.store.list_turns(memory.scope)
            assert sorted(turn.content for turn in turns[::2]) == sorted(
                f"I live in {town(number)}." for number in range(thread, EXCHANGES, 3)
            )
            changes = await one.core.store.fact_changes(memory.scope)
            assert [change.turn_id for change in changes] == [
                turn.id for turn in turns if turn.role == "user"
            ]
            last_town = turns[-2].content.removeprefix("I live in ").removesuffix(".")
            document = await one.core.store.load_facts(memory.scope)
            assert document.facts == fold(changes) == {"location": last_town}
            topics = await memory.topics(include_archived=True)
            assert sum(topic.total_messages for topic in topics) == len(turns)
            assert sum(topic.access_count + 1 for topic in topics) == len(turns) // 2
            ids += [turn.id for turn in turns]
        assert len(ids) == 2 * EXCHANGES
        for service in (one, other):
            assert sorted(row.turn_id for row in await service.core.store.search_rows("ann")) == sorted(ids)
            assert await service.core.vectors.turn_ids("ann") == set(ids)
            assert (await service.status()).owed_count == 0
