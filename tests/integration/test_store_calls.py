"""How many calls of the document store the worker makes: as many for a batch of many topics as for one of a single one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from memory_agent.domain import STAGES
from memory_agent.work.stages import Rounds
from tests.integration.conversations import counted, opened

WORDS = [
    *("abbey", "acorn", "anvil", "apron", "badge", "banjo", "basil", "beach", "birch", "bison", "cabin"),
    *("camel", "cedar", "chalk", "clove", "coral", "daisy", "dingo", "eagle", "ember"),
]


async def test_a_batch_costs_the_same_calls_whatever_number_of_topics_it_touches(
    quiet: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For topics that are opened, and for topics that are there."""
    async with opened(quiet, enable_topics=True, run_worker=False) as service:
        calls = counted(service, monkeypatch)
        topics = service.core.topics
        spent = []
        for touched in (1, 5, 20):
            memory = service.agent("ann", f"chat {touched}")
            for _ in ("opened", "there"):
                turns = await memory.add_turns(
                    [{"role": "user", "content": " ".join([WORDS[n % touched]] * 3)} for n in range(20)]
                )
                await service.core.worker._stages.indexer.index(turns)
                calls.clear()
                await topics.assign(turns)
                spent.append(dict(calls))
            assert len(await service.core.store.list_topics(memory.scope)) == touched
        assert spent[0::2] == [spent[0]] * 3
        assert spent[1::2] == [spent[1]] * 3
        assert sum(spent[1].values()) <= sum(spent[0].values()) <= 10


async def test_turns_that_another_worker_was_first_with_stay_in_its_topic(quiet: dict[str, Any]) -> None:
    """Of two that claimed the same turns, one dies before its topics hold them: the other brings those up to them, and opens none."""
    async with opened(quiet, enable_topics=True, run_worker=False) as service:
        store, memory = service.core.store, service.agent("ann", "chat")
        turns = await memory.add_turns([{"role": "user", "content": f"{word} " * 3} for word in WORDS[:4]])
        await service.core.worker._stages.indexer.index(turns)
        first = await service.core.topics.assign(turns[:1])
        await store.assign_topics(
            memory.scope, dict.fromkeys([turn.id for turn in turns], first[turns[0].id])
        )
        assert await service.core.topics.assign(turns) == {turn.id: first[turns[0].id] for turn in turns}
        (topic,) = await store.list_topics(memory.scope)
        assert topic.through == 4


async def test_a_live_exchange_is_settled_in_one_round(
    quiet: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch of each stage, and no more writes than the stages have something to write, whatever came before."""
    async with opened(quiet, enable_topics=True, enable_fact_extraction=True) as service:
        memory = service.agent("ann", "chat")
        calls = counted(service, monkeypatch)
        acquire = service.core.store.acquire_leases

        async def acquired(names: Sequence[str], *given: Any, **named: Any) -> set[str]:
            taken = await acquire(names, *given, **named)
            # Loops that look while the round has the thread find its leases taken: how many do is a matter of time.
            calls["acquire_leases"] -= not taken
            return taken

        monkeypatch.setattr(service.core.store, "acquire_leases", acquired)
        spent = []
        for said in ("abbey acorn anvil", "banjo basil beach", "cabin camel cedar"):
            calls.clear()
            await memory.update_memory(said, "I see.")
            await memory.settle(timeout=60)
            spent.append(Counter(calls))
        # Leases are asked for twice, and once more by each loop that looked for work meanwhile: on a busy machine some do.
        writes = ("release_leases", "strike_off", "put_search_rows", "assign_topics", "save_topics")
        assert [{name: each[name] for name in writes} for each in spent[1:]] == [dict.fromkeys(writes, 1)] * 2


async def test_a_round_leaves_a_stage_alone_that_asks_a_model_or_is_behind(quiet: dict[str, Any]) -> None:
    """Its own loop needs the lease: rounds would hold it for the length of an import, without any use for it."""
    async with opened(quiet, enable_topics=True, enable_fact_extraction=True, run_worker=False) as service:
        store, worker, memory = service.core.store, service.core.worker, service.agent("ann", "chat")
        turns = await memory.add_turns([{"role": "user", "content": f"{word} " * 3} for word in WORDS])
        await worker._run_index(turns)
        await worker._mark_done(turns, "index")
        assert [kind.stage for kind in worker._in_order] == list(STAGES[1:])
        rounds = Rounds(
            worker._claims,
            worker._in_order,
            service.clock,
            may_work=lambda _: True,
            mark_done=worker._mark_done,
        )

        async def round_from(place: int) -> list[str]:
            async with worker._claims.leases("topics") as claimed:
                async for _ in worker._claims.claim("topics", claimed, at_once=1):
                    assert await rounds.work_off(turns[place], limit=5, claimed=claimed)
                return sorted(name.split(":")[0] for name in claimed.names)

        await store.strike_off(memory.scope, [turn.id for turn in turns[:5]], "topics")
        assert await round_from(5) == ["topics"]
        await store.strike_off(memory.scope, [turn.id for turn in turns[:10]], "compact")
        assert await round_from(10) == ["compact", "topics"]
        await store.strike_off(memory.scope, [turn.id for turn in turns[:15]], "compress")
        assert await round_from(15) == ["compact", "compress", "topics"]
        assert {turn.pending for turn in await store.list_turns(memory.scope)} == {("facts",)}
