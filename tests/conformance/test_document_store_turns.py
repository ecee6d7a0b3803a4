"""What every TurnStore must do. `memory_agent.ports` is the contract."""

import asyncio
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_agent.domain import Entity, OldTurn, Scope, Turn, new_id
from memory_agent.errors import InvalidInput, StoreError
from memory_agent.ports import DocumentStore

from .values import NOW, OpenStore, a_call, a_draft, a_scope, on_every_server, only_turns, stored

DAY = timedelta(days=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


# --- append_turns --------------------------------------------------------------------------------------------


async def test_numbers_turns_from_one(store: DocumentStore) -> None:
    """seq counts from 1 in each thread, in the order of the call."""
    first = await stored(store, SCOPE, "a", "b", "c")
    second = await stored(store, SCOPE, "d")
    other = await stored(store, a_scope(thread_id="t2"), "e")
    assert [turn.seq for turn in first + second + other] == [1, 2, 3, 4, 1]
    assert [turn.content for turn in await store.list_turns(SCOPE)] == ["a", "b", "c", "d"]


@on_every_server
async def test_appending_needs_turns_and_a_thread(store: DocumentStore) -> None:
    """A call without drafts stores nothing and returns nothing; a scope without a thread is refused."""
    assert await store.append_turns(SCOPE, []) == []
    with pytest.raises(InvalidInput, match="thread"):
        await store.append_turns(SCOPE.user, [a_draft()])
    assert await store.list_turns(SCOPE.user) == []


TEXTS = (
    *("nul\0inside", "👩‍👩‍👧‍👦 🇳🇴", "שלום \u202bעולם\u202c", "crlf\r\n\ttab\n", "é e\u0301 ﬁ Å"),
    *("\ufeff$set.a/b", "x" * 200_000),
)


async def test_gives_content_back_byte_for_byte(store: DocumentStore) -> None:
    """Text comes back exactly as it was stored."""
    await store.append_turns(
        SCOPE, [a_draft(text, index=i, speaker=text[:100]) for i, text in enumerate(TEXTS)]
    )
    turns = await store.list_turns(SCOPE)
    assert [turn.content.encode() for turn in turns] == [text.encode() for text in TEXTS]
    assert [turn.speaker for turn in turns] == [text[:100] for text in TEXTS]


@on_every_server
async def test_gives_every_field_back(store: DocumentStore) -> None:
    """What the append returns, a repeat of the call and every read are equal, and hold all that the drafts did."""
    names = (("people", "Zoë"), ("brands", "3M $x.y"), ("a-b_9", "海 é"))
    full: dict[str, Any] = {
        "metadata": {
            "a.b": {"$-ish": [1, 2.5, True, None, "é", {"x": []}]},
            "big": 2**63 - 1,
            "low": -(2**63),
        },
        "pending": ("index", "facts"),
        "speaker": "Ada",
        "importance": 0.25,
        "timestamp": datetime(1, 1, 1, tzinfo=UTC),
        "utc_offset_minutes": 765,
        "session_id": "$s.1 é",
        "entities": tuple(Entity(kind=kind, name=name) for kind, name in names),
    }
    times = (
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    )
    drafts = [
        a_draft(size=3, key="k", **full),
        *(a_draft(index=i, size=3, key="k", timestamp=time) for i, time in enumerate(times, start=1)),
    ]
    turns = only_turns(await store.append_turns(SCOPE, drafts))
    place: dict[str, Any] = {
        "user_id": "ada",
        "thread_id": "t1",
        "role": "user",
        "content": "hello",
        "tokens": 5,
    }
    assert turns[0] == Turn(id=drafts[0].id, seq=1, due_at=drafts[0].due_at, **place, **full)
    assert turns[1:] == [
        Turn(
            id=draft.id,
            seq=seq,
            timestamp=draft.timestamp,
            importance=None,
            speaker=None,
            metadata={},
            **place,
        )
        for seq, draft in enumerate(drafts[1:], start=2)
    ]
    assert await store.list_turns(SCOPE) == turns
    assert await store.append_turns(SCOPE, drafts) == turns
    assert {turn.timestamp.utcoffset() for turn in await store.list_turns(SCOPE)} == {timedelta(0)}


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
            await asyncio.sleep(0.002)  # a store may answer without letting others have the loop
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


# --- idempotency keys ----------------------------------------------------------------------------------------


async def test_a_repeat_changes_nothing(store: DocumentStore) -> None:
    """The same key again stores nothing and returns the first call's turns; within its thread, and another is another."""
    first = await stored(store, SCOPE, "a", "b", key="k")
    await stored(store, SCOPE, "between")
    assert await stored(store, SCOPE, "a", "b", key="k") == first
    assert await stored(store, SCOPE, "other", "words", "and more", key="k") == first
    assert len(await store.list_turns(SCOPE)) == 3
    ids = {first[0].id, *[(await stored(store, scope, "a", key="k"))[0].id for scope in (T2, EVE)]}
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


async def test_another_call_under_a_key_completes_nothing(store: DocumentStore) -> None:
    """A call that says otherwise than the one that a crash cut short is given what there is of that, and adds nothing."""
    begun = only_turns(await store.append_turns(SCOPE, a_call("a", "b", key="k")[:1]))
    assert await stored(store, SCOPE, "x", "y", key="k") == begun
    assert await store.list_turns(SCOPE) == begun
    whole = await stored(store, SCOPE, "a", "b", key="k")
    assert [turn.content for turn in whole] == ["a", "b"]


# --- list_turns ----------------------------------------------------------------------------------------------


@on_every_server
async def test_lists_by_number_by_id_and_within_limits(store: DocumentStore) -> None:
    """Limits count from the front, or with newest from the back, and the order always rises; of a user, by id.

    Of `ids` only the asked turns come; unknown and foreign ones are left out.
    """
    turns = await stored(store, SCOPE, *"abcde")
    mixed = turns[:]
    for i in range(4):
        mixed += await stored(store, (SCOPE, T2)[i % 2], f"{i}")
    [foreign] = await stored(store, EVE, "not hers")
    turns = [turn for turn in mixed if turn.thread_id == "t1"]
    for scope, found in ((SCOPE, turns), (SCOPE.user, mixed)):
        assert await store.list_turns(scope) == await store.list_turns(scope, newest=True) == found
        assert await store.list_turns(scope, limit=2) == found[:2]
        assert await store.list_turns(scope, limit=2, newest=True) == found[-2:]
        assert await store.list_turns(scope, after_seq=2) == [turn for turn in found if turn.seq > 2]
        assert await store.list_turns(scope, limit=0) == await store.list_turns(scope, ids=[]) == []
    assert await store.list_turns(SCOPE, after_seq=1, limit=2) == turns[1:3]
    elsewhere = mixed[-1]
    ids = [turns[2].id, foreign.id, elsewhere.id, "nobody", turns[0].id]
    assert await store.list_turns(SCOPE, ids=ids) == [turns[0], turns[2]]
    assert await store.list_turns(SCOPE.user, ids=ids) == [turns[0], turns[2], elsewhere]
    many = [turn.id for turn in turns] + [new_id() for _ in range(5_000)]
    assert await store.list_turns(SCOPE, ids=many) == turns


@on_every_server
async def test_lists_turns_of_a_session(store: DocumentStore) -> None:
    """`session_id` and `through` narrow every other filter; of a user, threads are mixed by id."""
    one = await stored(store, SCOPE, "a", "b", session_id="s1")
    two = await stored(store, SCOPE, "c", "d", session_id="s2")
    one += await stored(store, SCOPE, "e", session_id="s1")
    none = await stored(store, SCOPE, "f")
    [elsewhere] = await stored(store, T2, "g", session_id="s1")
    await stored(store, EVE, "h", session_id="s1")

    assert await store.list_turns(SCOPE, session_id="s1") == one
    assert await store.list_turns(SCOPE.user, session_id="s1") == [*one, elsewhere]
    assert await store.list_turns(SCOPE, session_id="s3") == []
    assert await store.list_turns(SCOPE, session_id="s1", limit=2) == one[:2]
    assert await store.list_turns(SCOPE, session_id="s1", limit=2, newest=True) == one[1:]
    assert await store.list_turns(SCOPE.user, session_id="s1", limit=1, newest=True) == [elsewhere]
    assert await store.list_turns(SCOPE, session_id="s1", after_seq=1, through=2) == one[1:2]
    assert await store.list_turns(SCOPE, session_id="s1", ids=[one[2].id, two[0].id]) == one[2:]
    assert await store.list_turns(SCOPE, through=0) == []
    assert await store.list_turns(SCOPE, through=3) == [*one[:2], two[0]]
    assert await store.list_turns(SCOPE, through=5, limit=2, newest=True) == [two[1], one[2]]
    assert await store.list_turns(SCOPE, after_seq=4, through=6) == [one[2], *none]
    assert await store.list_turns(SCOPE.user, through=1) == [one[0], elsewhere]


# --- turns_before --------------------------------------------------------------------------------------------


@on_every_server
async def test_finds_everybodys_old_turns(store: DocumentStore) -> None:
    """Turns from before a time come by timestamp and id, page by page, whoever's they are."""
    times = [NOW - DAY * 3, NOW - DAY * 2, NOW - DAY * 2, NOW - DAY * 2, NOW - DAY, NOW]
    scopes = [EVE, SCOPE, T2, EVE, SCOPE, SCOPE]
    turns = []
    for scope, time in reversed(list(zip(scopes, times, strict=True))):
        turns += only_turns(await store.append_turns(scope, [a_draft(timestamp=time)]))
    names = [field.name for field in fields(OldTurn)]
    old = [
        OldTurn(**{name: getattr(turn, name) for name in names})
        for turn in sorted(turns, key=lambda turn: (turn.timestamp, turn.id))
    ]
    assert await store.turns_before(NOW, limit=10) == old[:5]
    assert await store.turns_before(NOW - DAY, limit=10) == old[:4]
    assert await store.turns_before(NOW - DAY * 3, limit=10) == []
    found: list[OldTurn] = []
    while page := await store.turns_before(NOW + DAY, after=found[-1] if found else None, limit=2):
        assert len(page) <= 2
        found += page
    assert found == old
    # From where a turn was that is gone meanwhile.
    gone = replace(old[1], id=f"{old[1].id}~")
    assert await store.turns_before(NOW, after=gone, limit=1) == old[2:3]


async def test_reads_turns_at_places(store: DocumentStore) -> None:
    """Turns come by their thread and number, each once: of that scope, and none for a place without one."""
    far = a_scope(thread_id="$t2 é")
    turns = await stored(store, a_scope(), "one", "two")
    [elsewhere] = await stored(store, far, "elsewhere")
    [foreign] = await stored(store, a_scope("eve"), "foreign")
    here = a_scope().thread_id or ""
    places = [(here, 1), (here, 2), (here, 2), (here, 99), (here, 0), ("$t2 é", 1), ("t9", 1)]
    whole = Scope(user_id=a_scope().user_id)
    expected = {
        turn.id: turn for turn in await store.list_turns(whole, ids=[t.id for t in (*turns, elsewhere)])
    }
    found = await store.turns_at(whole, places)
    assert len(found) == 3
    assert {turn.id: turn for turn in found} == expected
    assert {turn.id for turn in await store.turns_at(a_scope(), places)} == {turn.id for turn in turns}
    assert [turn.id for turn in await store.turns_at(a_scope("eve"), places)] == [foreign.id]
    assert await store.turns_at(whole, []) == []
