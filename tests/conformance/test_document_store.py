"""What every DocumentStore must do: turns, their scoping, and work owed. `memory_agent.ports` is the contract."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from memory_agent.domain import STAGES, Scope, Tombstone, Turn, new_id, stored_at
from memory_agent.errors import InvalidInput, NotOpen, StoreError
from memory_agent.ports import DocumentStore
from tests.conformance.stores import (
    NOW,
    a_call,
    a_draft,
    a_scope,
    an_erasure,
    on_every_server,
    only_turns,
    stored,
)

if TYPE_CHECKING:
    from tests.conformance.stores import OpenStore

DAY = timedelta(days=1)
SCOPE = a_scope()


async def test_is_a_document_store(store: DocumentStore) -> None:
    """The adapter has every method of the port."""
    assert isinstance(store, DocumentStore)


@on_every_server
async def test_opens_and_closes_again_and_again(open_store: OpenStore) -> None:
    """open and close can be repeated, and what was stored is there after opening again."""
    store = await open_store()
    await store.open()
    [turn] = await stored(store, SCOPE, "kept")
    await store.close()
    await store.close()
    await store.open()
    assert await store.list_turns(SCOPE) == [turn]


@on_every_server
async def test_several_open_one_new_database_at_once(open_store: OpenStore) -> None:
    """Stores that open the same new database at the same time all work."""
    stores = await asyncio.gather(*(open_store() for _ in range(4)))
    for store in stores:
        await stored(store, SCOPE, "hello")
    assert len(await stores[0].list_turns(SCOPE)) == 4


async def test_refuses_calls_when_closed(store: DocumentStore) -> None:
    """A closed store says that it is not open."""
    await store.close()
    with pytest.raises(NotOpen):
        await store.list_turns(SCOPE)
    with pytest.raises(NotOpen):
        await stored(store, SCOPE, "hello")


# --- append_turns --------------------------------------------------------------------------------------------


async def test_numbers_turns_from_one(store: DocumentStore) -> None:
    """seq counts from 1 in each thread, in the order of the call."""
    first = await stored(store, SCOPE, "a", "b", "c")
    second = await stored(store, SCOPE, "d")
    other = await stored(store, a_scope(thread_id="t2"), "e")
    assert [turn.seq for turn in first + second + other] == [1, 2, 3, 4, 1]
    assert [turn.content for turn in await store.list_turns(SCOPE)] == ["a", "b", "c", "d"]


@on_every_server
async def test_appending_nothing_does_nothing(store: DocumentStore) -> None:
    """A call without drafts stores nothing and returns nothing."""
    assert await store.append_turns(SCOPE, []) == []
    assert await store.list_turns(SCOPE) == []


async def test_appending_needs_a_thread(store: DocumentStore) -> None:
    """A scope without a thread is refused."""
    with pytest.raises(InvalidInput, match="thread"):
        await store.append_turns(SCOPE.user, [a_draft()])


@pytest.mark.parametrize(
    "content",
    [
        "nul\0inside",
        "👩‍👩‍👧‍👦 🇳🇴",
        "שלום \u202bעולם\u202c",
        "crlf\r\n\ttab\n",
        "é e\u0301 ﬁ Å",
        "\ufeff$set.a/b",
        "x" * 200_000,
    ],
    ids=["nul", "emoji", "rtl", "crlf", "normal-forms", "bom-and-operators", "long"],
)
async def test_gives_content_back_byte_for_byte(store: DocumentStore, content: str) -> None:
    """Text comes back exactly as it was stored."""
    await store.append_turns(SCOPE, [a_draft(content, speaker=content[:100])])
    [turn] = await store.list_turns(SCOPE)
    assert turn.content.encode() == content.encode()
    assert turn.speaker == content[:100]


async def test_gives_every_field_back(store: DocumentStore) -> None:
    """What is returned by the append equals what is read later, and holds all that the draft did."""
    draft = a_draft(
        metadata={"a.b": {"$-ish": [1, 2.5, True, None, "é", {"x": []}]}, "big": 2**63 - 1, "low": -(2**63)},
        pending=("index", "facts"),
        speaker="Ada",
        importance=0.25,
        timestamp=datetime(1, 1, 1, tzinfo=UTC),
    )
    [turn] = await store.append_turns(SCOPE, [draft])
    assert [turn] == await store.list_turns(SCOPE)
    assert turn == Turn(
        id=draft.id,
        user_id="ada",
        thread_id="t1",
        seq=1,
        role="user",
        content="hello",
        speaker="Ada",
        timestamp=draft.timestamp,
        tokens=5,
        importance=0.25,
        metadata=draft.metadata,
        pending=("index", "facts"),
        due_at=draft.due_at,
    )


@pytest.mark.parametrize(
    "timestamp",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    ],
    ids=str,
)
async def test_keeps_times_to_the_millisecond(store: DocumentStore, timestamp: datetime) -> None:
    """Times come back equal and aware, in UTC."""
    await store.append_turns(SCOPE, [a_draft(timestamp=timestamp)])
    [turn] = await store.list_turns(SCOPE)
    assert turn.timestamp == timestamp
    assert turn.timestamp.utcoffset() == timedelta(0)


async def test_refuses_an_id_that_is_taken(store: DocumentStore) -> None:
    """A turn id that is stored already is an error that waiting will not mend, and the first turn stays."""
    draft = a_draft("first")
    await store.append_turns(SCOPE, [draft])
    with pytest.raises(StoreError):
        await store.append_turns(a_scope("eve"), [a_draft("second", turn_id=draft.id)])
    assert [turn.content for turn in await store.list_turns(SCOPE)] == ["first"]
    assert await store.list_turns(a_scope("eve")) == []


@on_every_server
@pytest.mark.parametrize("instances", [1, 2], ids=["one-store", "two-stores"])
async def test_numbers_rise_as_calls_return(open_store: OpenStore, instances: int) -> None:
    """50 concurrent tasks: numbers are unique without a gap, and above all that were returned before."""
    stores = [await open_store() for _ in range(instances)]
    returned = 0

    async def write(task: int) -> None:
        nonlocal returned
        for _ in range(2):
            floor = returned
            turns = await stored(stores[task % instances], SCOPE, f"{task}a", f"{task}b")
            assert floor < turns[0].seq < turns[1].seq
            returned = max(returned, turns[1].seq)

    await asyncio.gather(*(write(task) for task in range(50)))
    assert [turn.seq for turn in await stores[0].list_turns(SCOPE)] == list(range(1, 201))


@on_every_server
async def test_nothing_appears_below_what_was_seen(open_store: OpenStore) -> None:
    """A reader that asks for what is after the last number it saw misses no turn."""
    writers = [await open_store() for _ in range(3)]
    seen: list[str] = []
    done = asyncio.Event()

    async def read() -> None:
        last = 0
        while True:
            finished = done.is_set()
            for turn in await writers[0].list_turns(SCOPE, after_seq=last):
                seen.append(turn.content)
                last = turn.seq
            if finished:
                return

    reader = asyncio.create_task(read())
    contents = [f"{i}" for i in range(60)]
    await asyncio.gather(*(stored(writers[i % 3], SCOPE, content) for i, content in enumerate(contents)))
    done.set()
    await reader
    assert sorted(seen) == sorted(contents)


@on_every_server
async def test_a_number_is_not_given_again(open_store: OpenStore) -> None:
    """After the newest turns were erased by another process, numbers go on above theirs."""
    ours, theirs = await open_store(), await open_store()
    await stored(ours, SCOPE, "a")
    newer = await stored(theirs, SCOPE, "b", "c")
    await theirs.erase_turns(an_erasure(SCOPE, [turn.id for turn in newer]), now=NOW, limit=10)
    await theirs.sweep_orphans(SCOPE, stubs_before=NOW + DAY, now=NOW)
    [again] = await stored(ours, SCOPE, "d")
    assert again.seq > newer[-1].seq
    [later] = await stored(await open_store(), SCOPE, "e")
    assert later.seq > again.seq


# --- idempotency keys ----------------------------------------------------------------------------------------


async def test_a_repeat_changes_nothing(store: DocumentStore) -> None:
    """The same key again stores nothing and returns the first call's turns."""
    first = await stored(store, SCOPE, "a", "b", key="k")
    await stored(store, SCOPE, "between")
    assert await stored(store, SCOPE, "a", "b", key="k") == first
    assert await stored(store, SCOPE, "other", "words", "and more", key="k") == first
    assert len(await store.list_turns(SCOPE)) == 3


async def test_a_key_counts_within_its_thread(store: DocumentStore) -> None:
    """The same key in another thread, or of another user, is another call; so is another key."""
    scopes = [SCOPE, a_scope(thread_id="t2"), a_scope("eve")]
    ids = {(await stored(store, scope, "a", key="k"))[0].id for scope in scopes}
    ids |= {(await stored(store, SCOPE, "a", key=key))[0].id for key in ("K", "k ", "$k", "e\u0301", "é")}
    assert len(ids) == 8


@on_every_server
@pytest.mark.parametrize("instances", [1, 2], ids=["one-store", "two-stores"])
async def test_concurrent_repeats_agree(open_store: OpenStore, instances: int) -> None:
    """Of calls with one key that run at once, all return the same turns, stored once."""
    stores = [await open_store() for _ in range(instances)]
    results = await asyncio.gather(
        *(stored(stores[i % instances], SCOPE, "a", "b", "c", key="k") for i in range(12)),
        *(stored(stores[i % instances], SCOPE, f"{i}") for i in range(6)),
    )
    assert all(result == results[0] for result in results[:12])
    assert len(await stores[0].list_turns(SCOPE)) == 9


async def test_completes_a_call_that_was_cut_short(store: DocumentStore) -> None:
    """A repeat stores what a crash kept the first call from storing, and keeps what it stored."""
    first = a_call("a", "b", "c", key="k")
    [head] = only_turns(await store.append_turns(SCOPE, first[:1]))
    await stored(store, SCOPE, "between")
    repeat = await stored(store, SCOPE, "a", "b", "c", key="k")
    assert repeat[0] == head
    assert [turn.content for turn in await store.list_turns(SCOPE)] == ["a", "between", "b", "c"]
    assert await stored(store, SCOPE, "a", "b", "c", key="k") == repeat


@on_every_server
async def test_a_repeat_after_forgetting_finds_tombstones(store: DocumentStore) -> None:
    """A repeat of a call whose turns were forgotten stores nothing and tells which are gone."""
    first = await stored(store, SCOPE, "a", "b", key="k")
    await store.erase_turns(an_erasure(SCOPE, [first[0].id]), now=NOW, limit=10)
    await store.sweep_orphans(SCOPE, stubs_before=NOW + DAY, now=NOW + DAY)
    gone, kept = await store.append_turns(SCOPE, a_call("a", "b", key="k"))
    assert gone == Tombstone(turn_id=first[0].id, seq=1, call_index=0, call_size=2)
    assert kept == first[1]
    assert await store.list_turns(SCOPE) == [kept]


# --- list_turns ----------------------------------------------------------------------------------------------


@on_every_server
async def test_lists_a_thread_by_number(store: DocumentStore) -> None:
    """Limits count from the front, or with newest from the back, and the order always rises."""
    turns = await stored(store, SCOPE, *"abcde")
    assert await store.list_turns(SCOPE, after_seq=2) == turns[2:]
    assert await store.list_turns(SCOPE, limit=2) == turns[:2]
    assert await store.list_turns(SCOPE, limit=2, newest=True) == turns[3:]
    assert await store.list_turns(SCOPE, after_seq=1, limit=2) == turns[1:3]
    assert await store.list_turns(SCOPE, newest=True) == turns
    assert await store.list_turns(SCOPE, limit=0) == []


async def test_lists_a_user_by_id(store: DocumentStore) -> None:
    """Without a thread, all threads' turns come by rising id."""
    turns = []
    for i in range(6):
        turns += await stored(store, a_scope(thread_id=f"t{i % 2}"), f"{i}")
    await stored(store, a_scope("eve"), "not hers")
    assert await store.list_turns(SCOPE.user) == turns
    assert await store.list_turns(SCOPE.user, limit=2, newest=True) == turns[4:]
    assert await store.list_turns(SCOPE.user, after_seq=2) == [turn for turn in turns if turn.seq > 2]


async def test_lists_by_ids(store: DocumentStore) -> None:
    """Only the asked turns come; unknown and foreign ids are left out."""
    turns = await stored(store, SCOPE, *"abc")
    [foreign] = await stored(store, a_scope("eve"), "x")
    [elsewhere] = await stored(store, a_scope(thread_id="t2"), "y")
    ids = [turns[2].id, foreign.id, elsewhere.id, "nobody", turns[0].id]
    assert await store.list_turns(SCOPE, ids=ids) == [turns[0], turns[2]]
    assert await store.list_turns(SCOPE.user, ids=ids) == [turns[0], turns[2], elsewhere]
    assert await store.list_turns(SCOPE, ids=[]) == []
    many = [turn.id for turn in turns] + [new_id() for _ in range(5_000)]
    assert await store.list_turns(SCOPE, ids=many) == turns


# --- owed work -----------------------------------------------------------------------------------------------


async def test_new_turns_are_due_at_once(store: DocumentStore) -> None:
    """Threads with owed turns are due as soon as they are stored, and those owing nothing never."""
    await stored(store, SCOPE, "a", pending=("index",))
    await stored(store, a_scope(thread_id="t2"), "b")
    assert await store.due_threads(NOW, "index", limit=10) == [SCOPE]
    assert await store.due_threads(NOW - DAY, "index", limit=10) == []


async def test_longest_due_threads_come_first(store: DocumentStore) -> None:
    """Due threads come by the time since when, each once, up to the limit, whoever's they are."""
    scopes = [a_scope("ada", "t1"), a_scope("eve", "t1"), a_scope("ada", "t2")]
    for i, scope in enumerate(scopes):
        turns = await stored(store, scope, "a", "b", pending=("index",))
        due_at = NOW - DAY * (i + 1)
        await store.postpone(scope, [turns[1].id], error="e", due_at=due_at, counted=True)
        await store.postpone(scope, [turns[0].id], error="e", due_at=NOW, counted=True)
    assert await store.due_threads(NOW, "index", limit=10) == scopes[::-1]
    assert await store.due_threads(NOW, "index", limit=2) == scopes[:0:-1]
    assert await store.due_threads(NOW - DAY * 2, "index", limit=10) == scopes[:0:-1]


@on_every_server
async def test_a_long_backlog_hides_no_other_thread(store: DocumentStore) -> None:
    """A thread that has owed thousands of turns for longest doesn't keep others from being found."""
    await store.append_turns(SCOPE, a_call(*["x"] * 2_500, pending=("index",)))
    other = a_scope("eve")
    await stored(store, other, "a", pending=("index",))
    assert await store.due_threads(NOW, "index", limit=10) == [SCOPE, other]


async def test_threads_are_due_for_the_stage_that_comes_next(store: DocumentStore) -> None:
    """A turn that owes both stages is due for the first; for the second it is once the first is struck off."""
    [turn] = await stored(store, SCOPE, "a", pending=("index", "facts"))
    assert await store.due_threads(NOW, "index", limit=5) == [SCOPE]
    assert await store.due_threads(NOW, "facts", limit=5) == []
    await store.strike_off(SCOPE, [turn.id], "index")
    assert await store.due_threads(NOW, "index", limit=5) == []
    assert await store.due_threads(NOW, "facts", limit=5) == [SCOPE]


@on_every_server
async def test_finds_what_is_owed(store: DocumentStore) -> None:
    """Owed turns come by stage: of a thread by number, of a user by id, the lowest or the newest first."""
    both = await stored(store, SCOPE, "a", "b", pending=("index", "facts"))
    facts = await stored(store, a_scope(thread_id="t2"), "c", pending=("facts",))
    await stored(store, a_scope("eve"), "d", pending=("index", "facts"))
    await store.postpone(SCOPE, [both[0].id], error="e", due_at=None, counted=True)
    await store.postpone(SCOPE, [both[1].id], error="e", due_at=NOW + DAY, counted=True)

    async def owed(scope: Scope, stage: str, **options: bool) -> list[str]:
        found = await store.owed_turns(scope, stage, limit=10, **options)  # type: ignore[arg-type]
        return [turn.content for turn in found]

    assert await owed(SCOPE, "index") == ["a", "b"]
    assert await owed(SCOPE, "index", newest=True) == ["b", "a"]
    assert await owed(SCOPE.user, "index") == ["a", "b"]
    assert await owed(SCOPE.user, "facts", newest=True) == ["c", "b", "a"]
    assert await owed(SCOPE, "index", parked=False) == ["b"]
    assert await owed(a_scope(thread_id="t2"), "index") == []
    assert [turn.id for turn in await store.owed_turns(SCOPE, "facts", limit=1)] == [both[0].id]
    assert [turn.id for turn in await store.owed_turns(SCOPE.user, "facts", limit=1, newest=True)] == [
        facts[0].id
    ]


async def test_strikes_off(store: DocumentStore) -> None:
    """A struck stage is owed no more, attempts and error are forgotten, and a repeat changes nothing."""
    [turn] = await stored(store, SCOPE, "a", pending=("index", "facts"))
    await store.postpone(SCOPE, [turn.id], error="down", due_at=NOW, counted=True)
    for _ in range(2):
        await store.strike_off(SCOPE, [turn.id, "forgotten"], "index")
        [left] = await store.list_turns(SCOPE)
        assert (left.pending, left.attempts, left.last_error) == (("facts",), 0, None)
        assert left.due_at == NOW
    await store.strike_off(SCOPE, [turn.id], "facts")
    [left] = await store.list_turns(SCOPE)
    assert (left.pending, left.due_at, left.parked) == ((), None, False)
    assert await store.due_threads(NOW, "index", limit=10) == []


async def test_a_repeated_strike_keeps_the_other_stages_attempts(store: DocumentStore) -> None:
    """Striking a stage that is not owed leaves the count of the stage that is."""
    [turn] = await stored(store, SCOPE, "a", pending=("facts",))
    await store.postpone(SCOPE, [turn.id], error="down", due_at=NOW, counted=True)
    await store.strike_off(SCOPE, [turn.id], "index")
    [left] = await store.list_turns(SCOPE)
    assert (left.attempts, left.last_error) == (1, "down")


async def test_postpones(store: DocumentStore) -> None:
    """A failed stage is due again at its time, with the error kept and the attempt counted if it counts."""
    owing = await stored(store, SCOPE, "a", "b", pending=("index",))
    [free] = await stored(store, SCOPE, "c")
    ids = [owing[0].id, owing[1].id, free.id]
    await store.postpone(SCOPE, ids, error="first", due_at=NOW + DAY, counted=True)
    await store.postpone(SCOPE, ids, error="second", due_at=NOW + DAY, counted=False)
    turns = await store.list_turns(SCOPE)
    assert [(turn.attempts, turn.last_error, turn.due_at) for turn in turns] == [
        (1, "second", NOW + DAY),
        (1, "second", NOW + DAY),
        (0, None, None),
    ]
    assert await store.due_threads(NOW, "index", limit=10) == []
    assert await store.due_threads(NOW + DAY, "index", limit=10) == [SCOPE]


async def test_parks_and_retries(store: DocumentStore) -> None:
    """A parked turn is never due until it is retried, and then with no attempts counted."""
    [turn] = await stored(store, SCOPE, "a", pending=("index",))
    [foreign] = await stored(store, a_scope("eve"), "b", pending=("index",))
    for scope, parked in ((SCOPE, turn), (a_scope("eve"), foreign)):
        await store.postpone(scope, [parked.id], error="broken", due_at=None, counted=True)
    assert await store.due_threads(NOW + DAY, "index", limit=10) == []
    [parked_turn] = await store.list_turns(SCOPE)
    assert (parked_turn.parked, parked_turn.attempts, parked_turn.due_at) == (True, 1, None)
    assert await store.retry_parked(SCOPE, now=NOW) == 1
    assert await store.retry_parked(SCOPE.user, now=NOW) == 0
    [again] = await store.list_turns(SCOPE)
    assert (again.parked, again.attempts, again.due_at) == (False, 0, NOW)
    assert await store.due_threads(NOW, "index", limit=10) == [SCOPE]
    assert await store.retry_parked(None, now=NOW) == 1


@on_every_server
async def test_a_parked_turn_that_owes_nothing_is_not_parked(store: DocumentStore) -> None:
    """Striking the last stage off a parked turn ends its parking; striking another does not."""
    [turn] = await stored(store, SCOPE, "a", pending=("index", "facts"))
    await store.postpone(SCOPE, [turn.id], error="broken", due_at=None, counted=True)
    await store.strike_off(SCOPE, [turn.id], "index")
    assert (await store.status(SCOPE, now=NOW)).parked_count == 1
    await store.strike_off(SCOPE, [turn.id], "facts")
    assert (await store.status(SCOPE, now=NOW)).parked_count == 0


async def test_a_stage_can_be_owed_again(store: DocumentStore) -> None:
    """owe adds the stage to all turns of the scope, in the order stages run, and brings parked ones back."""
    turns = await stored(store, SCOPE, "a", "b", pending=("facts",))
    await stored(store, a_scope("eve"), "c")
    await store.postpone(SCOPE, [turns[0].id], error="broken", due_at=None, counted=True)
    assert await store.owe(SCOPE.user, "index", now=NOW) == 2
    for turn in await store.list_turns(SCOPE):
        assert (turn.pending, turn.parked, turn.due_at) == (("index", "facts"), False, NOW)
    assert await store.due_threads(NOW, "index", limit=10) == [SCOPE]


async def test_status_tells_how_the_scope_stands(store: DocumentStore) -> None:
    """Counts are of the scope, of the user, or of everybody."""
    turns = await stored(store, SCOPE, "a", "b", "c", pending=("index", "facts"))
    await stored(store, a_scope(thread_id="t2"), "d", pending=("facts",))
    await stored(store, a_scope("eve"), "e")
    await store.postpone(SCOPE, [turns[0].id], error="broken", due_at=None, counted=True)
    await store.erase_turns(an_erasure(SCOPE, [turns[2].id]), now=NOW, limit=10)
    await store.put_erasure(an_erasure(SCOPE))
    await store.put_erasure(an_erasure(SCOPE.user))
    now = stored_at(turns[1].id) + timedelta(seconds=7)

    thread = await store.status(SCOPE, now=now)
    nothing = dict.fromkeys(STAGES, 0)
    assert (thread.turns, thread.pending, thread.owed_count) == (2, {**nothing, "index": 2, "facts": 2}, 2)
    assert (thread.parked_count, thread.lag_seconds, thread.erasures) == (1, 7.0, 2)
    [parked] = thread.parked
    assert (parked.turn_id, parked.scope, parked.pending) == (turns[0].id, SCOPE, ("index", "facts"))
    assert (parked.attempts, parked.last_error) == (1, "broken")
    user = await store.status(SCOPE.user, now=now)
    assert (user.turns, user.pending, user.owed_count) == (3, {**nothing, "index": 2, "facts": 3}, 3)
    everybody = await store.status(None, now=now)
    assert (everybody.turns, everybody.owed_count, everybody.erasures) == (4, 3, 2)
    nobody = await store.status(a_scope("new"), now=now)
    assert (nobody.turns, nobody.pending, nobody.lag_seconds) == (0, nothing, 0.0)


# --- leases --------------------------------------------------------------------------------------------------


@on_every_server
async def test_a_lease_has_one_holder(open_store: OpenStore) -> None:
    """Of many that ask at once exactly one gets it, and can renew it; the others cannot."""
    stores = [await open_store(), await open_store()]
    until = NOW + timedelta(seconds=60)
    got = await asyncio.gather(
        *(stores[i % 2].acquire_lease("thread:x", f"h{i}", now=NOW, until=until) for i in range(20))
    )
    assert sum(got) == 1
    holder = f"h{got.index(True)}"
    assert await stores[0].acquire_lease("thread:x", holder, now=NOW, until=until)
    assert not await stores[1].acquire_lease("thread:x", "late", now=NOW, until=until)
    assert await stores[1].acquire_lease("thread:y", "late", now=NOW, until=until)


@on_every_server
async def test_a_lease_runs_out(open_store: OpenStore) -> None:
    """At its end a lease is free, and again exactly one of many takes it."""
    store = await open_store()
    until = NOW + timedelta(seconds=60)
    assert await store.acquire_lease("l", "dead", now=NOW, until=until)
    assert not await store.acquire_lease("l", "h", now=until - timedelta(milliseconds=1), until=until + DAY)
    got = await asyncio.gather(
        *(store.acquire_lease("l", f"h{i}", now=until, until=until + DAY) for i in range(10))
    )
    assert sum(got) == 1


async def test_only_the_holder_gives_a_lease_back(store: DocumentStore) -> None:
    """Releasing another's lease does nothing; releasing one's own frees it; both can be repeated."""
    assert await store.acquire_lease("l", "a", now=NOW, until=NOW + DAY)
    await store.release_lease("l", "b")
    assert not await store.acquire_lease("l", "b", now=NOW, until=NOW + DAY)
    await store.release_lease("l", "a")
    await store.release_lease("l", "a")
    assert await store.acquire_lease("l", "b", now=NOW, until=NOW + DAY)
