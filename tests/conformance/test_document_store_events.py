"""What every DocumentStore must tell of what happens in it. `memory_agent.ports` is the contract.

A MongoDB without a replica set can't tell, and must say so; all others must tell the same.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_agent.domain import EVENT_KINDS, MemoryEvent, RefusedFact, Scope, Turn
from memory_agent.errors import EventsLost, NotOpen
from memory_agent.ports import DocumentStore

from .values import NOW, OpenStore, a_change, a_compression, a_draft, a_scope, an_erasure, only_turns, stored

telling = pytest.mark.telling
"""Marks what a store tells that tells events at all."""
telling_by_any_driver = pytest.mark.telling_by_any_driver
"""Marks what depends on how a driver waits, is cancelled or is opened; what is told is the server's, whoever asks."""

SCOPE = a_scope()
SECRET = "the-harbour-at-dawn"
WAIT_SECONDS = 60.0


async def take(events: AsyncIterator[MemoryEvent], count: int) -> list[MemoryEvent]:
    """The next `count` events; fails if they don't come."""
    async with asyncio.timeout(WAIT_SECONDS):
        return [await anext(events) for _ in range(count)]


async def rest(
    store: DocumentStore, events: AsyncIterator[MemoryEvent], scope: Scope = SCOPE
) -> list[MemoryEvent]:
    """All that there is to tell by now, known by the turn that is stored in `scope` behind it."""
    [last] = await stored(store, scope, "that was all")
    told: list[MemoryEvent] = []
    async with asyncio.timeout(WAIT_SECONDS):
        async for event in events:
            if event.turn_id == last.id:
                return told
            told.append(event)
    raise AssertionError("the watch ended by itself")


async def since(
    store: DocumentStore, after: str | None, scope: Scope | None = None, *, mark: Scope = SCOPE
) -> list[MemoryEvent]:
    """All that a new watch tells, without what marks the end."""
    async with store.watch(scope, after=after) as events:
        return await rest(store, events, mark)


def kinds(events: Sequence[MemoryEvent]) -> list[str]:
    return [event.kind for event in events]


async def a_life(store: DocumentStore, scope: Scope = SCOPE) -> list[Turn]:
    """One event of every kind and two of `turn_stored`, all with the same words in them; the thread's two turns."""
    said: dict[str, Any] = {"metadata": {SECRET: SECRET}, "speaker": SECRET}
    pending = ("index", "topics", "facts")
    drafts = [a_draft(SECRET, pending=pending, index=index, size=2, **said) for index in range(2)]
    turns = only_turns(await store.append_turns(scope, drafts))
    first, second = turns
    await store.strike_off(scope, [first.id], "index")
    await store.assign_topics(scope, {first.id: "the topic"})
    await store.strike_off(scope, [first.id], "topics")
    assert await store.append_fact_change(scope, a_change(first.id, key="the change", value=SECRET))
    await store.strike_off(scope, [first.id], "facts")
    assert await store.append_compression(
        a_compression(turns, scope=scope, id="the compression", made_by=SECRET)
    )
    await store.postpone(scope, [second.id], error=SECRET, due_at=None, counted=True)
    return turns


LIFE = ["turn_stored", "turn_stored", "indexed", "topic_assigned", "facts_changed", "compressed", "parked"]


# --- what is told ------------------------------------------------------------------------------------------------


@telling_by_any_driver
async def test_each_kind_is_told_with_its_ids(store: DocumentStore) -> None:
    """Every kind of event comes once, in order, and names the turn, topic or change that it is about.

    Nothing that was said, stated, summed up or reported as an error is in it.
    """
    before = datetime.now(UTC)
    async with store.watch(SCOPE) as events:
        first, second = await a_life(store)
        told = await rest(store, events)
    assert kinds(told) == LIFE
    assert set(LIFE) == set(EVENT_KINDS)
    of_first: dict[str, Any] = {"turn_id": first.id, "seq": 1, "topic_id": None, "change_id": None}
    expected = [
        of_first,
        of_first | {"turn_id": second.id, "seq": 2},
        of_first,
        of_first | {"topic_id": "the topic"},
        of_first | {"change_id": "the change"},
        of_first | {"turn_id": None, "seq": 2, "change_id": "the compression"},
        of_first | {"turn_id": second.id, "seq": 2},
    ]
    assert [{name: getattr(event, name) for name in of_first} for event in told] == expected
    assert SECRET not in str([dataclasses.asdict(event) for event in told])
    assert {event.scope for event in told} == {SCOPE}
    assert len({event.id for event in told}) == len(told)
    times = [event.at for event in told]
    assert times == sorted(times)
    assert all(time.tzinfo == UTC and time.microsecond % 1_000 == 0 for time in times)
    assert before - timedelta(seconds=2) < times[0] <= times[-1] < before + timedelta(seconds=30)


@telling_by_any_driver
async def test_a_watch_begins_when_it_is_entered(store: DocumentStore) -> None:
    """What was stored before is not told; what is stored after is, though nobody had asked for the next event yet."""
    await stored(store, SCOPE, "before")
    async with store.watch(SCOPE) as events:
        [turn] = await stored(store, SCOPE, "after")
        await asyncio.sleep(0.05)
        [event] = await rest(store, events)
    assert (event.kind, event.turn_id) == ("turn_stored", turn.id)


@telling
async def test_an_event_is_told_when_it_comes_about(store: DocumentStore) -> None:
    """Striking off another stage than `index`, or one that is not owed, says nothing; one owed again says it again.

    A turn that fails again while it is parked, or is given a topic that it has, says nothing more.
    """
    async with store.watch(SCOPE) as events:
        [turn] = await stored(store, SCOPE, "hello", pending=("index", "topics", "facts"))
        for stage in ("topics", "index", "facts", "index"):
            await store.strike_off(SCOPE, [turn.id], stage)
        await store.owe(SCOPE, "facts", now=NOW)
        await store.strike_off(SCOPE, [turn.id], "facts")
        for _ in range(2):
            await store.owe(SCOPE, "index", now=NOW)
            await store.owe(SCOPE, "index", now=NOW)
            await store.strike_off(SCOPE, [turn.id], "index")
        await store.owe(SCOPE, "index", now=NOW)
        for due_at in (None, None, NOW):
            await store.postpone(SCOPE, [turn.id], error="down", due_at=due_at, counted=True)
        await store.retry_parked(None, now=NOW)
        await store.postpone(SCOPE, [turn.id], error="down", due_at=None, counted=True)
        for topic_id in ("one", "other"):
            await store.assign_topics(SCOPE, {turn.id: topic_id})
        told = await rest(store, events)
    assert kinds(told) == ["turn_stored", *["indexed"] * 3, "parked", "parked", "topic_assigned"]
    assert told[-1].topic_id == "one"


@telling
async def test_facts_changed_is_told_of_changes_that_count(store: DocumentStore) -> None:
    """What people do and what turns state is told; an extraction of nothing, or of a generation, is not."""
    [turn] = await stored(store, SCOPE, "I am Ada")
    refused = RefusedFact(path="a.b", said='{"events":[]}', quote=None, reason='{"events":')
    changes = [
        a_change(turn.id, key="nothing", events=()),
        a_change(turn.id, key="refused", events=(), refused=(refused,)),
        a_change(turn.id, key="of a generation", generation="g1"),
        a_change(turn.id, key="stated", refused=(refused,)),
        a_change(None, key="edit"),
        a_change(None, key="counts", kind="replay", events=(), generation="g1"),
        a_change(None, key="undo", kind="undo", events=(), generation="g1"),
    ]
    async with store.watch(SCOPE) as events:
        for change in changes:
            assert await store.append_fact_change(SCOPE, change)
            assert not await store.append_fact_change(SCOPE, change)
        told = await rest(store, events)
    assert [(event.kind, event.change_id, event.turn_id, event.seq) for event in told] == [
        ("facts_changed", "stated", turn.id, turn.seq),
        ("facts_changed", "edit", None, None),
        ("facts_changed", "counts", None, None),
        ("facts_changed", "undo", None, None),
    ]


@telling
async def test_one_write_may_tell_several(store: DocumentStore) -> None:
    """Turns that are stored, struck off, assigned and parked together are told one by one, each with an id of its own."""
    async with store.watch(SCOPE) as events:
        turns = await stored(store, SCOPE, *"abcde", pending=("index", "topics"))
        ids = [turn.id for turn in turns]
        await store.strike_off(SCOPE, ids, "index")
        await store.assign_topics(SCOPE, dict.fromkeys(ids, "one"))
        await store.postpone(SCOPE, ids, error="down", due_at=None, counted=True)
        told = await rest(store, events)
    for number, kind in enumerate(("turn_stored", "indexed", "topic_assigned", "parked")):
        some = told[number * 5 : number * 5 + 5]
        assert {(event.kind, event.turn_id) for event in some} == {(kind, turn_id) for turn_id in ids}
    assert [event.seq for event in told[:5]] == [1, 2, 3, 4, 5]
    assert len({event.id for event in told}) == len(told) == 20


@telling_by_any_driver
async def test_turns_of_a_thread_are_told_by_rising_number(open_store: OpenStore) -> None:
    """Whoever stores them, and however many at once: each thread's turns are told in the order of their numbers."""
    store = await open_store()
    threads = [a_scope(thread_id=name) for name in ("t1", "t2", "t3")]
    async with store.watch(SCOPE.user) as events:
        await asyncio.gather(*(stored(store, thread, "a", "b") for thread in threads for _ in range(8)))
        told = await rest(store, events)
    for thread in threads:
        of_thread = [event.seq for event in told if event.thread_id == thread.thread_id]
        assert of_thread == list(range(1, 17))


# --- whose -------------------------------------------------------------------------------------------------------


@telling
async def test_a_watch_tells_of_its_scope_only(store: DocumentStore) -> None:
    """A thread's watch tells of the thread, a user's of all its threads; same names of other tenants are others."""
    other_thread, other_user = a_scope(thread_id="t2"), a_scope("bob")
    tenants = Scope.of("ada", "t1", tenant="acme")
    for scope in (SCOPE, other_thread, other_user, tenants):
        await stored(store, scope, "before")
    async with (
        store.watch(SCOPE) as of_thread,
        store.watch(SCOPE.user) as of_user,
        store.watch(tenants.user) as of_tenants_user,
        store.watch() as of_all,
    ):
        for scope in (other_user, tenants, other_thread, SCOPE):
            await a_life(store, scope)
        told = {
            "thread": await take(of_thread, 7),
            "user": await take(of_user, 14),
            "tenant": await take(of_tenants_user, 7),
            "all": await take(of_all, 28),
        }
    assert [event.scope for event in told["thread"]] == [SCOPE] * 7
    assert [event.scope for event in told["user"]] == [other_thread] * 7 + [SCOPE] * 7
    assert [event.scope for event in told["tenant"]] == [tenants] * 7
    assert told["all"][21:] == told["thread"]
    assert told["all"][14:] == told["user"]


# --- resuming ----------------------------------------------------------------------------------------------------


@telling_by_any_driver
async def test_every_id_is_a_place_to_go_on_from(store: DocumentStore) -> None:
    """After whichever event a watch is cut, one that goes on after it tells exactly the rest, in whatever scope.

    Also from a store that was opened anew.
    """
    other = a_scope("bob")
    async with store.watch() as events:
        await a_life(store)
        await a_life(store, other)
        told = await rest(store, events)
    await store.close()
    await store.open()
    assert await since(store, told[2].id, other, mark=other) == told[7:]
    for cut, event in enumerate(told):
        again = [event for event in await since(store, event.id) if event.id in {one.id for one in told}]
        assert again == told[cut + 1 :]
        mine = [one for one in told[cut + 1 :] if one.scope == SCOPE]
        assert (await since(store, event.id, SCOPE))[: len(mine)] == mine
    assert len(told) == 2 * len(LIFE)


NO_IDS = (
    *("", " ", "0", "-1", "17", "1" * 19, "99999999999999999", "٣", "nonsense", "abc", "82" * 3_000),
    *(
        "9" * 100_000, "zz" * 100_000, "1 OR 1=1", "\0", "\ud800", '{"$gt": ""}',
        "0190b0a0-0000-7000-8000-000000000001",
    ),
)  # fmt: skip


@telling_by_any_driver
async def test_what_is_no_id_is_refused(store: DocumentStore) -> None:
    """An id that no event can have, or one that was cut or changed, says that the events are lost."""
    async with store.watch() as events:
        await a_life(store)
        [event] = await take(events, 1)
    spoiled = (event.id[:-1], event.id[1:], event.id[:8], f"x{event.id}", f"9{event.id}")
    for after in (*NO_IDS, *spoiled):
        with pytest.raises(EventsLost):
            async with store.watch(after=after):
                pass


# --- forgetting --------------------------------------------------------------------------------------------------


@telling
async def test_what_was_forgotten_is_not_told_afterwards(store: DocumentStore) -> None:
    """Of a turn that is gone no later event is told than that it was stored; of one that stays, all."""
    async with store.watch(SCOPE) as events:
        [mark] = await stored(store, SCOPE, "here it begins")
        [begin] = await take(events, 1)
        gone, stays = await a_life(store)
        await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
        told = await since(store, begin.id, SCOPE)
    assert begin.turn_id == mark.id
    left = [event for event in told if event.kind != "compressed"]
    assert {event.kind for event in left if event.turn_id == gone.id} <= {"turn_stored"}
    assert [event.kind for event in left if event.turn_id == stays.id] == ["turn_stored", "parked"]
    assert all(event.turn_id in (gone.id, stays.id) for event in left)


# --- waiting and ending ------------------------------------------------------------------------------------------


@telling_by_any_driver
async def test_an_event_comes_while_one_waits(store: DocumentStore) -> None:
    """Who waits for the next event has it soon after it happened, and other work goes on meanwhile."""
    async with store.watch(SCOPE) as events:
        waiting = asyncio.ensure_future(take(events, 1))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(WAIT_SECONDS):
            for _ in range(20):
                assert await store.list_turns(SCOPE) == []
            assert not waiting.done()
            [turn] = await stored(store, SCOPE, "hello")
            [event] = await waiting
    assert event.turn_id == turn.id


@telling_by_any_driver
async def test_a_call_that_is_cancelled_loses_nothing(store: DocumentStore) -> None:
    """Whoever gives up waiting, and asks again, misses no event and is told none twice."""
    told: list[MemoryEvent] = []
    async with store.watch(SCOPE) as events:

        async def read() -> None:
            while len(told) < 30:
                waiting = asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait([waiting], timeout=0.002)
                if not done:
                    waiting.cancel()
                    await asyncio.wait([waiting])
                if not waiting.cancelled():
                    told.append(waiting.result())

        async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            for _ in range(30):
                await stored(store, SCOPE, "hello")
                await asyncio.sleep(0.003)
    assert [event.seq for event in told] == list(range(1, 31))


@telling_by_any_driver
async def test_who_waits_when_a_watch_ends_gets_no_event(store: DocumentStore) -> None:
    """A task that waits for the next event, or asks for it later, learns that the watch is over, or the store closed."""
    async with store.watch(SCOPE) as events:
        waiting = asyncio.ensure_future(anext(events, None))
        await asyncio.sleep(0.05)
    assert await waiting is None
    await stored(store, SCOPE, "too late")
    assert await anext(events, None) is None
    async with store.watch(SCOPE) as events:
        waiting = asyncio.ensure_future(anext(events, None))
        await asyncio.sleep(0.05)
        await store.close()
        with pytest.raises(NotOpen):
            async with asyncio.timeout(WAIT_SECONDS):
                await waiting
        assert await anext(events, None) is None
    with pytest.raises(NotOpen):
        async with store.watch(SCOPE):
            pass
