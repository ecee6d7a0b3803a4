"""The document is the fold of its events, whoever wrote them in whichever order; a revert brings back exactly."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memory_agent import InvalidInput, MemoryService
from memory_agent.domain import FactRecord, Message
from memory_agent.facts.fold import fold, fold_facts
from memory_agent.testing import BruteForceIndex, ScriptedLLM
from tests import profiles
from tests.faults.topic_jobs import AheadClock
from tests.fixtures import on_both_by_day
from tests.integration.fact_script import Asked, Item, add, by_message, opened, retract

PATHS = ("a", "a.b", "a.b.c", "d", "e.f", "likes", "e.likes")
VALUES: tuple[Any, ...] = ("x", "y", 3, True, ["x", "z"], {"b": "x"}, {"b": {"c": 1}, "g": ["x"]})
_SAYS = re.compile(r"(?P<what>Set|Add|Drop) (?P<path>[\w.]+) (?P<value>\w+)\.")


def plain(asked: Asked) -> Iterable[Item]:
    """A model that does as texts such as "Set a.b x." say."""
    for said in _SAYS.finditer(asked.text):
        if said["what"] == "Drop":
            yield retract(said["path"], said[0], value=said["value"])
        else:
            yield add(said["path"], said["value"], said[0])


def model() -> ScriptedLLM:
    """That model, within the process."""
    answer = by_message(plain)

    def answered(messages: Sequence[Message]) -> str:
        return answer({"messages": [{"content": message.content} for message in messages]})

    return ScriptedLLM(answered)


async def act(service: MemoryService, seed: str, steps: int, *, forgets: bool = True) -> None:
    """Random turns, edits, reverts and forgetting of one thread, as they come."""
    chance = random.Random(seed)
    memory = service.agent("ann", "chat")
    for _ in range(steps):
        what = chance.choice(["say", "say", "say", "set", "add", "retract", "revert", "forget", "read"])
        path, value = chance.choice(PATHS), chance.choice(VALUES)
        with contextlib.suppress(InvalidInput):  # nothing to retract or to revert to
            if what == "say":
                verb = chance.choice(["Set", "Add", "Drop"])
                await memory.update_memory(f"{verb} {path} {chance.choice('xyz')}.", "As you say.")
            elif what == "set":
                await memory.set_fact(path, value)
            elif what == "add":
                await memory.add_fact(path, chance.choice("xyz"))
            elif what == "retract":
                await memory.retract_fact(path)
            elif what == "revert":
                history = await memory.fact_history()
                to = chance.choice([None, *(record.id for record in history if not record.refused)][-20:])
                await memory.revert_fact(chance.choice(["", path]), to=to)
            elif what == "forget" and forgets:
                turns = await memory.fetch_short_term(6)
                if turns:
                    await memory.forget([chance.choice(turns).id])
            else:
                reach = chance.choice([memory.scope, memory.scope.user])
                before = await service.core.store.fact_changes(reach)
                found = await memory.fetch_facts(scope="user" if reach.thread_id is None else "thread")
                kept = await service.core.facts.changes(reach)
                if before == await service.core.store.fact_changes(reach):  # no worker came in between
                    assert found == fold(before)
                    assert list(kept) == before
        await asyncio.sleep(chance.choice([0, 0, 0.01, 0.03]))


async def come_to_rest(service: MemoryService, clock: AheadClock) -> None:
    """Until nothing is owed any more, the last passes of forget calls included."""
    await service.settle(timeout=60)
    async with asyncio.timeout(60):
        while (await service.status()).erasures:
            clock.ahead += timedelta(minutes=15)
            await asyncio.sleep(0.02)
    await service.settle(timeout=60)


async def check_whole(service: MemoryService) -> None:
    """The document is the fold; each turn's facts are there once and of turns that are there; the history holds together."""
    memory = service.agent("ann", "chat")
    async with asyncio.timeout(30):
        # The clock's leaps let two workers make the last pass of one forget call, and the slower one may still be between
        # resetting the document and saving it anew; reading brings it up to date.
        while (await service.core.store.load_facts(memory.scope)).facts != await memory.fetch_facts():
            await asyncio.sleep(0.05)
    await service.settle(timeout=60)  # that slower one has turns read again
    changes = await service.core.store.fact_changes(memory.scope)
    document = await service.core.store.load_facts(memory.scope)
    assert document.facts == fold(changes) == await memory.fetch_facts()
    turns = await service.core.store.list_turns(memory.scope)
    ids = {turn.id for turn in turns}
    assert all({*change.turns} <= ids for change in changes)
    stating = [turn.id for turn in turns if turn.role == "user"]
    extracted = Counter(change.turn_id for change in changes if change.turn_id is not None)
    assert extracted == dict.fromkeys(stating, 1)
    check_history(await memory.fact_history(), document.facts)


def check_history(records: Sequence[FactRecord], document: Any) -> None:
    """Every value of the document is of a record that stands, and what no longer stands says what ended it."""
    ids = {record.id for record in records}
    assert len(ids) == len(records)
    for record in records:
        assert not (record.stands and record.superseded_by)
        assert record.superseded_by is None or record.superseded_by in ids
        if record.stands:
            assert record.sources
            assert record.refused is None
            node = document
            for key in record.path:
                node = node[key]
            assert node not in (None, [], {})


@on_both_by_day
@pytest.mark.parametrize("seed", profiles.by_day(1, 2, 3))
async def test_the_document_is_the_fold_after_any_interleaving(seed: int, settings: dict[str, Any]) -> None:
    """Two writers of one thread, on two services where there are servers: turns, edits, reverts and forgetting mix freely."""
    chosen = {**settings, "enable_topics": False, "facts_batch_turns": 3}
    clock = AheadClock()
    async with contextlib.AsyncExitStack() as stack:

        async def start() -> MemoryService:
            parts = {"llm": model(), "vectors": BruteForceIndex(), "clock": clock}
            return await stack.enter_async_context(opened(chosen, **parts))

        one = other = await start()
        if "mongo_uri" in settings:
            other = await start()
        await asyncio.gather(
            *(
                act(service, f"{seed} {number}", 30 if profiles.chosen() == "nightly" else 12)
                for number, service in enumerate((one, other, one))
            )
        )
        await come_to_rest(one, clock)
        await one.agent("ann", "chat").set_fact(
            "last", "words"
        )  # forgetting leaves the document to the next change
        for service in (one, other):
            await check_whole(service)


async def test_a_document_that_a_kill_left_behind_is_healed_by_a_turn(settings: dict[str, Any]) -> None:
    """A change whose document nobody saved any more, which owes nothing: a turn that states nothing saves it, once a housekeeping."""
    async with opened(settings, llm=model(), vectors=BruteForceIndex()) as service:
        memory, store = service.agent("ann", "chat"), service.core.store
        await memory.set_fact("plan", "one")
        [change] = await store.fact_changes(memory.scope)
        for value in ("two", "three"):
            events = (replace(change.events[0], value=value),)
            await store.append_fact_change(memory.scope, replace(change, key=value, events=events))
            service.core.housekeep()  # or another process
            await memory.add_user_message("Hello.")
            await memory.settle(30)
            document = await store.load_facts(memory.scope)
            assert document.facts == await memory.fetch_facts() == {"plan": value}


# --- merging into one document -------------------------------------------------------------------------------
WRITERS, EACH = (8, 125) if profiles.chosen() == "nightly" else (4, 10)


async def merge(service: MemoryService, writer: int) -> None:
    """Add to a list that all share, to a list of one's own, and replace a value of one's own, in turn."""
    memory = service.agent("ann", "chat")
    for number in range(EACH):
        if number % 5 == 4:
            await memory.set_fact(f"own.writer {writer}", number)
        else:
            path = "shared" if number % 2 else f"lists.writer {writer}"
            await memory.add_fact(path, f"writer {writer} number {number}")


@on_both_by_day
@pytest.mark.timeout(600)
async def test_several_writers_merge_into_one_document(settings: dict[str, Any]) -> None:
    """What several merge at once (on servers as services of their own) is all in the document in the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def start() -> MemoryService:
            known = {**settings, "run_worker": False}
            return await stack.enter_async_context(opened(known, vectors=BruteForceIndex()))

        service = await start()
        others = [await start() if "mongo_uri" in settings else service for _ in range(WRITERS - 1)]
        await asyncio.gather(*(merge(one, writer) for writer, one in enumerate([service, *others])))
        memory = service.agent("ann", "chat")
        changes = await service.core.store.fact_changes(memory.scope)
        assert [change.seq for change in changes] == list(range(1, WRITERS * EACH + 1))
        document = await service.core.store.load_facts(memory.scope)
        facts = document.facts
        assert facts == fold_facts(changes).document == await memory.fetch_facts()
        assert document.through == WRITERS * EACH
        expected = {"shared": set[str](), "lists": set[str]()}
        for writer in range(WRITERS):
            for number in range(EACH):
                if number % 5 != 4:
                    expected["shared" if number % 2 else "lists"].add(f"writer {writer} number {number}")
        shared = facts["shared"]
        lists = [element for of_writer in facts["lists"].values() for element in of_writer]
        assert (len(shared), {*shared}) == (len(expected["shared"]), expected["shared"])
        assert (len(lists), {*lists}) == (len(expected["lists"]), expected["lists"])
        assert facts["own"] == {f"writer_{writer}": EACH - 1 for writer in range(WRITERS)}
        for of_writer in facts["lists"].values():
            numbers = [int(element.split()[-1]) for element in of_writer]
            assert numbers == sorted(numbers)
