"""What every DocumentStore must do with sessions: keep them in order, count what is theirs, and forget them."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from memory_agent.domain import ErasedCounts, Scope, Session, ThreadHead, new_id
from memory_agent.errors import InvalidInput
from memory_agent.ports import DocumentStore

from .values import (
    FULL_SESSION,
    NOW,
    OpenStore,
    a_compression,
    a_draft,
    a_scope,
    a_session,
    an_erasure,
    on_every_server,
    only_turns,
    stored,
)

HOUR = timedelta(hours=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


def without_counts(session: Session) -> Session:
    """The session as it was put."""
    return replace(session, last_activity=None, total_turns=0, compression_count=0)


async def ids_of(store: DocumentStore, scope: Scope) -> list[str]:
    return [session.id for session in await store.sessions(scope)]


# --- storing -------------------------------------------------------------------------------------------------


@on_every_server
async def test_gives_every_field_of_a_session_back(store: DocumentStore) -> None:
    """What is stored is what was put, whether fields are full or empty; what is counted is not taken over."""
    full = a_session(1, **FULL_SESSION)
    empty = a_session(2)
    for session in (full, empty):
        counted = replace(session, last_activity=NOW, total_turns=9, compression_count=9)
        assert await store.put_sessions([counted])
        assert (await store.thread_head(SCOPE)).session == session
    assert await store.sessions(SCOPE) == [
        replace(session, last_activity=session.started_at) for session in (full, empty)
    ]


@on_every_server
async def test_stores_many_sessions_at_once_or_none(store: DocumentStore) -> None:
    """Of one call all are stored, unless one of their numbers is taken, be it the first or a later one."""
    assert await store.put_sessions([])
    assert await store.sessions(SCOPE) == []
    first = [a_session(n, participants=(f"{n}",)) for n in (1, 2, 3)]
    assert await store.put_sessions(first)
    taken = a_session(6)
    for others in ([taken], [a_session(1, scope=T2)], [a_session(1, scope=EVE)]):
        assert await store.put_sessions(others)
    assert not await store.put_sessions(first[:1])
    for numbers in ((3, 4), (4, 5, 6), (4, 5, 6, 7), (1,)):
        assert not await store.put_sessions([a_session(n) for n in numbers])
        assert [without_counts(found) for found in await store.sessions(SCOPE)] == [*first, taken]
    assert await store.put_sessions([a_session(n) for n in (4, 5)])
    assert [found.number for found in await store.sessions(SCOPE)] == [1, 2, 3, 4, 5, 6]
    assert len(await ids_of(store, T2)) == len(await ids_of(store, EVE)) == 1


@on_every_server
async def test_of_many_that_put_sessions_one_wins(open_store: OpenStore) -> None:
    """Whoever asks at once for the same numbers, from whichever process, gets all that it asked for or none."""
    stores = [await open_store(), await open_store()]
    before: list[Session] = []
    for sizes in ((1,) * 8, (40, 1, 20, 3, 40, 7, 2, 30)):
        first = len(before) + 1
        calls = [[a_session(number) for number in range(first, first + size)] for size in sizes]
        won = await asyncio.gather(*(stores[i % 2].put_sessions(call) for i, call in enumerate(calls)))
        assert sum(won) == 1
        before += calls[won.index(True)]
        assert [without_counts(found) for found in await stores[0].sessions(SCOPE)] == before
        assert (await stores[1].thread_head(SCOPE)).session == before[-1]


# --- the head of a thread ------------------------------------------------------------------------------------


async def test_tells_how_far_a_thread_has_come(store: DocumentStore) -> None:
    """The head is the session of the highest number and the last turn, of this thread alone; it needs a thread."""
    with pytest.raises(InvalidInput, match="thread"):
        await store.thread_head(SCOPE.user)
    assert await store.thread_head(SCOPE) == ThreadHead()
    await store.put_sessions([a_session(9, scope=T2)])
    await stored(store, T2, *"abc", session_id="other")
    await store.put_sessions([a_session(9, scope=EVE)])
    await stored(store, EVE, *"abc", session_id="hers")
    assert await store.thread_head(SCOPE) == ThreadHead()

    early = a_session(1, started_at=NOW + HOUR)
    late = a_session(2, started_at=NOW)
    for session in (late, early):
        await store.put_sessions([session])
    assert await store.thread_head(SCOPE) == ThreadHead(session=late)
    times = [NOW + HOUR, NOW - HOUR]
    for time, session_id in zip(times, ("$s1", late.id), strict=True):
        await store.append_turns(SCOPE, [a_draft(timestamp=time, session_id=session_id)])
    expected = ThreadHead(session=late, last_seq=2, last_given=2, last_at=NOW - HOUR, last_session_id=late.id)
    assert await store.thread_head(SCOPE) == expected
    await stored(store, SCOPE, "without a session")
    head = await store.thread_head(SCOPE)
    assert (head.last_seq, head.last_given, head.last_at, head.last_session_id) == (3, 3, NOW, None)


@on_every_server
@pytest.mark.parametrize("key", [None, "k"])
async def test_the_head_is_of_turns_that_are_there(store: DocumentStore, key: str | None) -> None:
    """Once the newest turns were forgotten, the last one left is the head's, and none if none is; numbers go on.

    Named turns take no session with them, not even the last of its turns.
    """
    session = a_session(1)
    await store.put_sessions([session])
    turns = await stored(store, SCOPE, "a", "b", "c", key=key, session_id=session.id)
    await store.erase_turns(an_erasure(SCOPE, [turn.id for turn in turns[1:]]), now=NOW, limit=10)
    left = ThreadHead(session=session, last_seq=1, last_given=3, last_at=NOW, last_session_id=session.id)
    assert await store.thread_head(SCOPE) == left
    for expected in (ErasedCounts(turns=1), ErasedCounts()):
        counts = await store.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW, limit=10)
        assert counts == expected
        await store.sweep_orphans(SCOPE, stubs_before=NOW + HOUR, now=NOW + HOUR)
        assert await store.thread_head(SCOPE) == ThreadHead(session=session, last_given=3)
        assert [(left.id, left.total_turns) for left in await store.sessions(SCOPE)] == [(session.id, 0)]
    [new] = await stored(store, SCOPE, "d")
    assert await store.thread_head(SCOPE) == ThreadHead(
        session=session, last_seq=4, last_given=4, last_at=NOW
    )
    assert new.seq == 4


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_session_started_after_a_user_was_forgotten_counts_on(
    store: DocumentStore, key: str | None
) -> None:
    """The numbers of its thread go on though nothing else of it is left; of other threads nothing is known any more."""
    for scope in (SCOPE, T2):
        await stored(store, scope, "a", "b", "c", key=key)
    erasure = an_erasure(SCOPE.user)
    await store.erase_turns(erasure, now=NOW, limit=10)
    started = a_session(1, after_seq=(await store.thread_head(SCOPE)).last_given, explicit=True)
    await store.put_sessions([started])
    for _ in range(2):
        await store.erase_remains(SCOPE.user, before_id=erasure.before_id)
    assert await store.thread_head(SCOPE) == ThreadHead(session=started, last_given=3)
    assert await store.thread_head(T2) == ThreadHead()
    assert [turn.seq for turn in await stored(store, SCOPE, "d", key=key)] == [4]


# --- reading -------------------------------------------------------------------------------------------------


@on_every_server
async def test_reads_sessions_in_order(store: DocumentStore) -> None:
    """By `started_at` and number, whatever order they were put in; `ids` and `newest` choose among them."""
    sessions = [
        a_session(3, started_at=NOW - HOUR),
        a_session(1, started_at=NOW),
        a_session(1, scope=T2, started_at=NOW),
        a_session(2, started_at=NOW),
        a_session(4, started_at=NOW + HOUR),
    ]
    hers = a_session(1, scope=EVE, started_at=NOW)
    for session in (sessions[4], hers, sessions[0], sessions[2], sessions[3], sessions[1]):
        assert await store.put_sessions([session])
    mine = [session.id for session in sessions]
    thread = [session.id for session in sessions if session.thread_id == "t1"]
    assert await ids_of(store, SCOPE.user) == mine
    assert await ids_of(store, SCOPE) == thread
    assert await ids_of(store, EVE.user) == [hers.id]
    assert await ids_of(store, a_scope("nobody")) == []

    for newest in (1, 2, 3, 9):
        assert [session.id for session in await store.sessions(SCOPE, newest=newest)] == thread[-newest:]
        assert [s.id for s in await store.sessions(SCOPE.user, newest=newest)] == mine[-newest:]
    assert await store.sessions(SCOPE, newest=0) == []
    asked = [mine[4], mine[2], hers.id, "unknown", mine[0]]
    assert [session.id for session in await store.sessions(SCOPE, ids=asked)] == [mine[0], mine[4]]
    assert [s.id for s in await store.sessions(SCOPE.user, ids=asked)] == [mine[0], mine[2], mine[4]]
    assert [s.id for s in await store.sessions(SCOPE.user, ids=asked, newest=2)] == [mine[2], mine[4]]
    assert await store.sessions(SCOPE, ids=[]) == []


async def test_counts_what_belongs_to_a_session(store: DocumentStore) -> None:
    """Its turns, the time of the last one by `seq` if that is after its start, and its compressions."""
    busy, early, idle = (a_session(n, started_at=NOW) for n in (1, 2, 3))
    elsewhere = a_session(1, scope=T2, id=busy.id, started_at=NOW)
    for session in (busy, early, idle, elsewhere):
        assert await store.put_sessions([session])
    turns = []
    for minutes, session in ((5, busy), (90, busy), (30, busy), (-60, early)):
        time = NOW + timedelta(minutes=minutes)
        turns += only_turns(await store.append_turns(SCOPE, [a_draft(timestamp=time, session_id=session.id)]))
    await stored(store, SCOPE, "of none")
    other = await stored(store, T2, "elsewhere", session_id=busy.id)
    await stored(store, EVE, "hers", session_id=busy.id)
    await store.compress_turns(SCOPE, "topic", [turns[0].id])
    assert await store.append_compression(a_compression(turns[:1], 1, session_id=busy.id))
    assert await store.append_compression(a_compression(turns[1:2], 2, after_seq=1, session_id=busy.id))
    assert await store.append_compression(a_compression(other, 1, scope=T2))

    expected = [
        replace(busy, total_turns=3, last_activity=NOW + timedelta(minutes=30), compression_count=2),
        replace(early, total_turns=1, last_activity=NOW),
        replace(idle, last_activity=NOW),
    ]
    assert await store.sessions(SCOPE) == expected
    there = replace(elsewhere, total_turns=1, last_activity=NOW)
    assert await store.sessions(T2) == [there]
    assert await store.sessions(SCOPE.user) == [expected[0], there, *expected[1:]]
    assert await store.sessions(SCOPE, ids=[early.id]) == [expected[1]]
    assert await store.sessions(SCOPE, newest=1) == [expected[2]]

    await store.erase_turns(an_erasure(SCOPE, [turns[2].id]), now=NOW, limit=10)
    [busy_now, *_] = await store.sessions(SCOPE)
    assert (busy_now.total_turns, busy_now.last_activity) == (2, NOW + timedelta(minutes=90))


# --- deleting ------------------------------------------------------------------------------------------------


@on_every_server
async def test_deletes_a_session_without_turns(store: DocumentStore) -> None:
    """One that a turn belongs to stays, and so do others'; a repeat finds nothing. Others' turns belong to none."""
    used, idle = a_session(1), a_session(2)
    namesake = a_session(2, scope=EVE, id=idle.id)
    other = a_session(2, scope=T2)
    for session in (used, idle, namesake, other):
        await store.put_sessions([session])
    [turn] = await stored(store, SCOPE, "a", session_id=used.id)
    for scope in (T2, EVE):
        await stored(store, scope, "a", session_id=idle.id)
    assert not await store.delete_session(SCOPE, used.id)
    assert not await store.delete_session(SCOPE, other.id)
    assert not await store.delete_session(SCOPE, "unknown")
    assert await store.delete_session(SCOPE, idle.id)
    assert not await store.delete_session(SCOPE, idle.id)
    assert await ids_of(store, SCOPE.user) == [used.id, other.id]
    assert await ids_of(store, EVE) == [namesake.id]
    assert await store.put_sessions([a_session(2)])
    await store.erase_turns(an_erasure(SCOPE, [turn.id]), now=NOW, limit=10)
    assert await store.delete_session(SCOPE, used.id)


# --- forgetting ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("whole", "limit"), [("thread", 1), ("thread", 10), ("user", 3)])
async def test_forgetting_a_scope_takes_its_sessions(store: DocumentStore, whole: str, limit: int) -> None:
    """Those from before the call that no turn belongs to any more, in however many batches, or where none is left."""
    old = [a_session(n) for n in (1, 2, 3)]
    other, hers = a_session(1, scope=T2), a_session(1, scope=EVE)
    for session in (*old, other, hers):
        await store.put_sessions([session])
    await stored(store, SCOPE, "a", "b", session_id=old[0].id)
    await stored(store, SCOPE, "c", session_id=old[1].id)
    await stored(store, T2, "d", session_id=other.id)
    erasure = an_erasure(SCOPE if whole == "thread" else SCOPE.user)
    new = a_session(4)
    await store.put_sessions([new])
    await stored(store, SCOPE, "e", session_id=old[1].id)

    total, batches = ErasedCounts(), 0
    while (counts := await store.erase_turns(erasure, now=NOW, limit=limit)) != ErasedCounts():
        total, batches = total + counts, batches + 1
        assert batches < 10
    gone = 2 if whole == "thread" else 3
    assert total == ErasedCounts(turns=gone + 1, sessions=gone)
    assert await ids_of(store, SCOPE) == [old[1].id, new.id]
    assert await ids_of(store, T2) == ([other.id] if whole == "thread" else [])
    # Where there never was a turn; and the last step, which leaves what was started since the call.
    assert await store.erase_turns(an_erasure(EVE), now=NOW, limit=10) == ErasedCounts(sessions=1)
    assert await ids_of(store, EVE) == []
    if whole == "thread":
        before_id = new_id()
        started = a_session(1, scope=a_scope(thread_id="t3"))
        for session in (started, a_session(1, scope=EVE)):
            await store.put_sessions([session])
        await store.erase_turns(
            an_erasure(T2, [turn.id for turn in await store.list_turns(T2)]), now=NOW, limit=9
        )
        for _ in range(2):
            await store.erase_remains(SCOPE.user, before_id=before_id)
        assert await ids_of(store, SCOPE.user) == [started.id, old[1].id, new.id]
        assert len(await ids_of(store, EVE)) == 1


# --- by key and by id ----------------------------------------------------------------------------------------


@on_every_server
async def test_an_idempotency_key_is_stored_once_in_a_thread(open_store: OpenStore) -> None:
    """Of many sessions with one key exactly one is stored, and found by it; other threads and users have their own."""
    stores = [await open_store(), await open_store()]
    sessions = [a_session(number, idempotency_key="$k") for number in range(1, 7)]
    won = await asyncio.gather(*(stores[i % 2].put_sessions([s]) for i, s in enumerate(sessions)))
    assert sum(won) == 1
    stored_one = sessions[won.index(True)]
    for scope in (T2, EVE):
        assert await stores[0].put_sessions([a_session(1, scope=scope, idempotency_key="$k")])
    assert await stores[0].put_sessions([a_session(8), a_session(9)])
    [found] = await stores[1].sessions(SCOPE, idempotency_key="$k")
    assert without_counts(found) == stored_one
    assert await stores[1].sessions(SCOPE, idempotency_key="$K") == []
    assert len(await stores[1].sessions(SCOPE.user, idempotency_key="$k")) == 2


@on_every_server
async def test_the_key_of_an_erased_session_is_spent(store: DocumentStore) -> None:
    """Until the user's remains are erased, and only for what was older; one that stays keeps its key."""
    for scope, key in ((SCOPE, "$k"), (T2, "$k")):
        await store.put_sessions([a_session(1, scope=scope, idempotency_key=key)])
    kept = a_session(2, idempotency_key="kept")
    await store.put_sessions([kept])
    turns = await stored(store, SCOPE, "a", session_id=kept.id)
    erasure = an_erasure(SCOPE)
    await stored(store, SCOPE, "b", session_id=kept.id)
    for _ in range(2):
        await store.erase_turns(erasure, now=NOW, limit=10)
    assert await ids_of(store, SCOPE) == [kept.id]
    assert turns[0] not in await store.list_turns(SCOPE)
    assert await store.key_spent(SCOPE, "session", "$k")
    assert not await store.key_spent(SCOPE, "edit", "$k")
    assert not await store.key_spent(SCOPE, "session", "kept")
    assert not await store.key_spent(T2, "session", "$k")
    with pytest.raises(InvalidInput, match="names no thread"):
        await store.key_spent(SCOPE.user, "session", "$k")
    await store.erase_remains(SCOPE.user, before_id=kept.id[:8])
    assert await store.key_spent(SCOPE, "session", "$k")
    await store.erase_remains(Scope(user_id="eve"), before_id=new_id())
    assert await store.key_spent(SCOPE, "session", "$k")
    await store.erase_remains(SCOPE.user, before_id=new_id())
    assert not await store.key_spent(SCOPE, "session", "$k")


@on_every_server
async def test_finds_a_session_by_its_id_alone(store: DocumentStore) -> None:
    """Counted as in every read, whosever of the tenant it is; another tenant's or user's is not there."""
    ours, theirs = Scope.of("ada", "t1", tenant="acme"), Scope.of("ada", "t1", tenant="acme-2")
    session, plain, other = a_session(1, scope=ours), a_session(1), a_session(1, scope=theirs)
    for each in (session, plain, other):
        assert await store.put_sessions([each])
    await stored(store, ours, "a", "b", session_id=session.id)
    [counted] = await store.sessions(ours)
    assert counted.total_turns == 2
    assert await store.find_session(session.id, tenant="acme") == counted
    assert await store.find_session(session.id, tenant="acme", user_id="ada") == counted
    assert await store.find_session(session.id, tenant="acme", user_id="eve") is None
    for tenant in ("acme-2", "acm", "default", "other"):
        assert await store.find_session(session.id, tenant=tenant) is None
    assert (await store.find_session(plain.id, tenant="default")) == (await store.sessions(SCOPE))[0]
    assert await store.find_session(plain.id, tenant="acme") is None
    assert await store.find_session("$ne", tenant="default") is None
