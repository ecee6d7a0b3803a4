"""kill -9 before and after every write of extraction, edits and forgetting: facts are whole, and none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from memory_agent import MemoryAgent, MemoryService
from memory_agent.facts.fold import applied_generations, fold, unfinished_generations
from tests.faults import fact_jobs
from tests.faults.fact_jobs import WATCHED, Model
from tests.faults.killing import HOUR, acknowledged, end_erasures, kill_at_every_write
from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import AheadClock, Database, opened

Check = Callable[[MemoryService, MemoryAgent, list[str]], Awaitable[None]]

SETTINGS = fact_jobs.SETTINGS
TALK = (
    "My motto is Zebulon.",
    "My colour is Teal.",
    "My motto was agreed.",
    "My town is Bergen.",
    "My town is Oslo.",
    "Nothing to say.",
)
FACTS = {"motto": "Zebulon", "colour": "Teal", "agrees": "Zebulon agreed", "town": "Oslo"}
WITHOUT_HER = {"colour": "Teal", "agrees": "agreed", "town": "Oslo"}


async def fill(database: Database, *, extracted: bool, rhyme: bool = False) -> list[str]:
    """The talk; the turns' ids."""
    async with opened({**database.settings, "run_worker": extracted}, llm=Model()) as service:
        memory = service.agent("ann", "chat")
        turns = await memory.add_turns([{"role": "user", "content": text} for text in TALK])
        if extracted:
            await memory.settle(200)
            assert await memory.fetch_facts() == FACTS
        if rhyme:
            turns.append(await memory.add_user_message("My motto has a rhyme."))
            await memory.settle(200)
            assert "a rhyme about Zebulon." in str(await memory.fact_history())
    return [turn.id for turn in turns]


async def check_whole(service: MemoryService, memory: MemoryAgent) -> None:
    """What is read is the fold, and so is the document; each change is there once, none of turns that are gone."""
    store = service.core.store
    changes = await store.fact_changes(memory.scope)
    assert await memory.fetch_facts() == fold(changes)
    document = await store.load_facts(memory.scope)
    if document.through == max((change.seq for change in changes), default=0):
        assert document.facts == fold(changes)
    await service.core.facts.save(memory.scope)  # a kill may have left it behind, until the next change
    assert (await store.load_facts(memory.scope)).facts == fold(changes) == await memory.fetch_facts()
    ids = {turn.id for turn in await store.list_turns(memory.scope)}
    assert all({*change.turns} <= ids for change in changes)
    keys = Counter(change.key for change in changes)
    assert set(keys.values()) <= {1}
    seqs = [change.seq for change in changes]
    assert seqs == sorted({*seqs})


async def owes(service: MemoryService) -> bool:
    """Whether anything is to be done."""
    return (await service.status()).owed_count > 0


async def kill(
    nursery: Nursery,
    database: Database,
    job: dict[str, Any],
    check: Check,
    *,
    least: int,
    model: str = "plain",
    at_once: Callable[[MemoryService, MemoryAgent], Awaitable[None]] | None = None,
) -> None:
    """Kill the job at each of its writes; after a restart (`at_once`) and all that is owed, `check` it."""

    async def recover(_: int) -> None:
        clock = AheadClock(HOUR)
        if at_once is not None:
            async with opened({**database.settings, "run_worker": False}, llm=Model(model)) as service:
                await at_once(service, service.agent("ann", "chat"))
        async with opened(database.settings, llm=Model(model), clock=clock) as service:
            await end_erasures(service, clock)
            for _ in range(2):
                await service.settle(200)
                # What was struck off while it was forgotten is owed again a moment later.
                async with asyncio.timeout(200):
                    while any(service.core.worker.at_work.values()) or await owes(service):
                        await asyncio.sleep(0.01)
            memory = service.agent("ann", "chat")
            await check_whole(service, memory)
            await check(service, memory, acknowledged(database))

    facts = {"kind": "facts", "watched": WATCHED, **job}
    await kill_at_every_write(nursery, database, facts, recover, least=least)


async def test_killed_while_extracting(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a batch's extraction, each turn's facts are there once in the end."""
    ids = await fill(database, extracted=False)
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, _: list[str]) -> None:
        changes = await service.core.store.fact_changes(memory.scope)
        assert sorted(change.turn_id or "" for change in changes) == ids[:5]
        assert await memory.fetch_facts() == FACTS
        assert (await memory.status()).extraction.requests >= 2

    await kill(nursery, database, {"step": "extract"}, check, least=8)


async def test_killed_while_editing(nursery: Nursery, database: Database) -> None:
    """Killed at any write of edits, every edit that was acknowledged counts, and the one in hand does or does not."""
    await fill(database, extracted=True)
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, done: list[str]) -> None:
        changes = await service.core.store.fact_changes(memory.scope)
        edits = [change.events[0] for change in changes if change.kind == "edit"]
        assert len(done) <= len(edits) <= len(done) + 1
        expected: dict[str, Any] = {}
        for number, op in enumerate(event.op for event in edits):
            if op == "set":
                expected[f"set{number // 3}"] = number // 3
            elif op == "add":
                expected["list"] = [f"add{number // 3}"]
            else:
                del expected["list"]
        assert (await memory.fetch_facts()).get("edits", {}) == expected

    await kill(nursery, database, {"step": "edit"}, check, least=12)


AGAIN = {"again": {"motto": "Zebulon", "colour": "Teal", "agrees": "Zebulon agreed", "town": "Oslo"}}


async def test_killed_while_extracting_again(nursery: Nursery, database: Database) -> None:
    """Killed at any write, the former facts stand whole until all is read, and then the new ones do."""
    await fill(database, extracted=True)
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, done: list[str]) -> None:
        changes = await service.core.store.fact_changes(memory.scope)
        assert unfinished_generations(changes) == []
        # The last turns are read once more where they still owed the stage when they counted.
        made = {change.turn_id for change in changes if change.kind == "extraction" and change.generation}
        assert len(made) in ((5,) if done else (0, 5))  # none where it died before anything was owed
        assert await memory.fetch_facts() == (AGAIN if made else FACTS)

    async def at_once(service: MemoryService, memory: MemoryAgent) -> None:
        changes = await service.core.store.fact_changes(memory.scope)
        whole = bool(applied_generations(changes))
        assert await memory.fetch_facts() == (AGAIN if whole else FACTS)

    job = {"step": "reextract", "model": "again"}
    await kill(nursery, database, job, check, least=8, model="again", at_once=at_once)


async def test_killed_while_forgetting_what_others_had_in_view(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a forget call, the turn, and what was understood with its help, are gone in the end."""
    ids = await fill(database, extracted=True, rhyme=True)
    async with opened(database.settings, llm=Model()) as service:
        await service.agent("ann", "chat").set_fact("nickname", "Bee")
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, done: list[str]) -> None:
        turns = await service.core.store.list_turns(memory.scope)
        if len(turns) == len(TALK) + 1:  # killed before the call was recorded
            assert not done
            assert await service.core.store.receipts() == []
            assert await memory.fetch_facts() == {**FACTS, "nickname": "Bee"}
            return
        assert [turn.id for turn in turns[:6]] == ids[1:]
        assert await memory.fetch_facts() == {**WITHOUT_HER, "nickname": "Bee"}
        history = str(await memory.fact_history())
        assert "Zebulon" not in history
        assert "Zebulon" not in str(await memory.status())
        changes = await service.core.store.fact_changes(memory.scope)
        assert sorted(str(change.turn_id) for change in changes if change.turn_id) == [*ids[1:5], ids[6]]
        assert "a rhyme about somebody." in history
        # All at rest is read, whichever read may hide it.
        assert "zebulon" not in database.raw().everything.casefold()

    job = {"step": "forget", "turn_id": ids[0]}
    await kill(nursery, database, job, check, least=5)
