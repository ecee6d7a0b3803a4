"""How the MongoDB adapter forgets without a transaction: crashes, workers in between, and what it reads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pymongo.asynchronous.collection import AsyncCollection

from memory_agent.domain import Compression, ErasedCounts, FactsDocument, Scope, Turn
from memory_agent.stores.mongo import MongoStore
from tests.conformance.values import (
    NOW,
    a_change,
    a_compression,
    a_row,
    a_scope,
    a_session,
    an_erasure,
    keys_of,
    put_large,
    stored,
)
from tests.unit.stores.conftest import Asked, Crash, Life

SCOPE = a_scope()


# --- facts ---------------------------------------------------------------------------------------------------
async def test_forgetting_a_turn_reads_its_changes_only(asked: Asked) -> None:
    """Of a thread with many changes, those are read that had the turn in view, and those of the turns they belong to."""
    ids = [turn.id for turn in await stored(asked.store, SCOPE, *(f"{i}" for i in range(200)))]
    for i, turn_id in enumerate(ids):
        await asked.store.append_fact_change(SCOPE, a_change(turn_id, seen=ids[max(0, i - 2) : i]))
    async with asked.noting(ns=asked.of("fact_events")) as operations:
        counts = await asked.store.erase_turns(an_erasure(SCOPE, [ids[100]]), now=NOW, limit=5)
    assert counts.fact_changes == 3
    assert {operation["op"] for operation in operations} == {"query", "command", "remove"}
    assert [operation["docsExamined"] for operation in operations if operation["docsExamined"] > 6] == []


async def test_an_ordinary_query_finds_users_by_a_fact(mongo: MongoStore) -> None:
    known: dict[str, dict[str, Any]] = {
        "ada": {"name": "Ada", "preferences": {"likes": ["jazz", "tea"]}, "age": 31},
        "bob": {"name": "Bob", "preferences": {"likes": ["tea"]}, "age": 58},
    }
    for user_id, facts in known.items():
        await mongo.save_facts(
            a_scope(user_id), FactsDocument(people={"Ann": facts}, through=1), expected=None
        )
    for query, users in (
        ({"facts.name": "Ada"}, ["ada"]),
        ({"facts.preferences.likes": "tea"}, ["ada", "bob"]),
        ({"facts.age": {"$gt": 40}}, ["bob"]),
    ):
        found = await mongo._facts.find(query).to_list()
        assert sorted(document["user_id"] for document in found) == users
    assert await mongo._facts.distinct("facts.name") == ["Ada", "Bob"]


# The names of edits are their keys, and sort before the id of an erasure, as ids made earlier do.
KEPT: dict[str, set[str]] = {"": {"fourth", "0 edit", "0 alone"}, "thread": {"0 alone"}, "user": set()}
OWING: dict[str, set[str]] = {"": {"second", "third"}, "thread": {"third"}, "user": set()}


async def survivors(store: MongoStore, scope: Scope) -> list[str]:
    """Four turns with changes in two threads, the second and the third with the first in view; edits, also in a third."""
    first, second = [turn.id for turn in await stored(store, scope, "first", "second")]
    other = a_scope(scope.user_id, "t2")
    [third] = [turn.id for turn in await stored(store, other, "third")]
    [fourth] = [turn.id for turn in await stored(store, scope, "fourth")]
    changes = {
        "first": (scope, a_change(first)),
        "second": (scope, a_change(second, seen=[first])),
        "second again": (scope, a_change(second, generation="g")),
        "third": (other, a_change(third, seen=[first])),
        "third again": (other, a_change(third, generation="g")),
        "fourth": (scope, a_change(fourth, seen=[second])),
        "0 edit": (scope, a_change(None)),
        "its edit": (other, a_change(None, seen=[first])),
        "0 alone": (a_scope(scope.user_id, "t3"), a_change(None)),
    }
    for key, (thread, change) in changes.items():
        await store.append_fact_change(thread, replace(change, key=key))
    for thread in {thread for thread, _ in changes.values()}:
        await store.save_facts(
            thread, FactsDocument(people={"user": {"name": "Ada"}}, through=9), expected=None
        )
    return [first, second, third, fourth]


@pytest.mark.parametrize("whole", ["", "thread", "user"])
async def test_forgetting_changes_survives_a_crash_at_any_write(
    mongo: MongoStore, life: Life, whole: str
) -> None:
    """Whichever write is the last before a crash, no turn is without its facts unowed, and a repeat ends right."""
    for writes in life:
        scope = a_scope(f"u{writes}")
        first, *staying = await survivors(mongo, scope)
        asked = scope.user if whole == "user" else scope
        erasure = an_erasure(asked, None if whole else [first])
        with life.ending():
            await mongo.erase_turns(erasure, now=NOW, limit=10)
        makers = [change.turn_id for change in await mongo.fact_changes(scope.user)]
        for turn in await mongo.list_turns(scope.user, ids=staying):
            made = {"second": 2, "third": 2, "fourth": 1}[turn.content]
            doomed = whole == "user" or (whole == "thread" and turn.thread_id == "t1")
            assert makers.count(turn.id) == made or "facts" in turn.pending or doomed, (writes, turn.content)
        for _ in range(5):
            if await mongo.erase_turns(erasure, now=NOW, limit=10) == ErasedCounts():
                break
        assert await keys_of(mongo, scope.user) == KEPT[whole], writes
        owing = {turn.content for turn in await mongo.list_turns(scope.user) if turn.pending == ("facts",)}
        assert owing == OWING[whole], writes
        assert (await mongo.load_facts(scope)).facts == {}, writes
        alone = (await mongo.load_facts(a_scope(scope.user_id, "t3"))).facts
        assert alone == ({} if whole == "user" else {"name": "Ada"}), writes
        await mongo.sweep_orphans(scope, stubs_before=NOW, now=NOW)
        assert (await mongo.load_facts(a_scope(scope.user_id, "t2"))).facts == {}, writes
    assert life.deaths >= 10


async def test_facts_that_are_kept_survive_a_crash_at_any_write(mongo: MongoStore, life: Life) -> None:
    """Whichever write is the last before a crash, no change goes; a repeat takes the turn out of all, and voids caches."""
    for writes in life:
        scope = a_scope(f"u{writes}")
        first, *_ = await survivors(mongo, scope)
        keys = await keys_of(mongo, scope.user)
        erasure = replace(an_erasure(scope, [first]), keeps_facts=True)
        with life.ending():
            await mongo.erase_turns(erasure, now=NOW, limit=10)
        for _ in range(5):
            if await mongo.erase_turns(erasure, now=NOW, limit=10) == ErasedCounts():
                break
        await mongo.sweep_orphans(scope, stubs_before=NOW, now=NOW)
        assert await keys_of(mongo, scope.user) == keys, writes
        changes = await mongo.fact_changes(scope.user)
        assert not [change for change in changes if first in (change.turn_id, *change.turns)], writes
        assert (await mongo.fact_heads(scope))["t1"][2] > 0, writes
    assert life.deaths >= 5


async def test_what_is_made_before_the_turn_is_emptied_goes_too(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is quick to state or to compress again, before the turn is emptied, does so in vain, and owes it."""
    gone, stays, newest = await stored(mongo, SCOPE, "gone", "stays", "newest")
    change = a_change(stays.id, key="k", seen=[gone.id])
    await mongo.append_fact_change(SCOPE, change)
    [made] = await compressed(mongo, SCOPE, [gone])
    empty = mongo._empty_turns

    async def too_late(user_id: str, ids: Any, *, now: Any) -> None:
        assert await mongo.append_fact_change(SCOPE, change)
        await mongo.strike_off(SCOPE, [stays.id], "facts")
        assert await mongo.append_compression(made)
        await mongo.strike_off(SCOPE, [newest.id], "compress")
        await empty(user_id, ids, now=now)

    monkeypatch.setattr(mongo, "_empty_turns", too_late)
    counts = await mongo.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    assert counts == ErasedCounts(turns=1, fact_changes=2, compressions=2)
    assert (await keys_of(mongo, SCOPE), await numbers(mongo, SCOPE)) == (set(), [])
    assert [turn.pending for turn in await mongo.list_turns(SCOPE)] == [("facts",), ("compress",)]


async def test_a_change_appended_while_others_are_deleted_keeps_its_number(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mongo.append_fact_change(SCOPE, a_change(generation="g"))
    update = mongo._update_facts
    late = [a_change(generation="g")]

    async def meanwhile(user_id: str, updates: Any) -> None:
        await update(user_id, updates)
        if late:
            await mongo.append_fact_change(SCOPE, late.pop())

    monkeypatch.setattr(mongo, "_update_facts", meanwhile)
    assert await mongo.drop_generation(SCOPE, "g") == 1
    assert [change.seq for change in await mongo.fact_changes(SCOPE)] == [2]
    assert await mongo.drop_generation(SCOPE, "g") == 1
    await mongo.append_fact_change(SCOPE, a_change())
    assert [change.seq for change in await mongo.fact_changes(SCOPE)] == [3]


# --- compressions and sessions ---------------------------------------------------------------------------------
async def compressed(store: MongoStore, scope: Scope, turns: Sequence[Turn]) -> list[Compression]:
    made = [a_compression([turn], turn.seq, after_seq=turn.seq - 1, scope=scope) for turn in turns]
    for compression in made:
        assert await store.append_compression(compression)
    return made


async def numbers(store: MongoStore, scope: Scope) -> list[int]:
    return [compression.number for compression in await store.compressions(scope)]


async def owing(store: MongoStore, scope: Scope) -> list[str]:
    return [turn.content for turn in await store.owed_turns(scope, "compress", limit=100)]


async def test_sessions_of_a_call_that_came_too_late_are_taken_back(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another caller took a later number those before it go again, but for one that has a turn by then."""
    sessions = [a_session(number) for number in range(1, 6)]
    quick = a_session(4)
    await mongo.put_sessions([quick])
    insert = AsyncCollection.insert_many

    async def joined(self: Any, documents: Any, **options: Any) -> Any:
        try:
            return await insert(self, documents, **options)
        finally:
            monkeypatch.setattr(AsyncCollection, "insert_many", insert)
            await stored(mongo, SCOPE, "quick", session_id=sessions[1].id)

    monkeypatch.setattr(AsyncCollection, "insert_many", joined)
    assert not await mongo.put_sessions(sessions)
    assert [found.id for found in await mongo.sessions(SCOPE)] == [sessions[1].id, quick.id]


@pytest.mark.parametrize("whole", [False, True])
async def test_forgetting_compressions_survives_a_crash_at_any_write(
    mongo: MongoStore, life: Life, whole: bool
) -> None:
    """Whichever write is the last before a crash, no compression outlives its turn, and none goes unowed."""
    for writes in life:
        scope = a_scope(f"u{writes}")
        session = a_session(1, scope=scope)
        await mongo.put_sessions([session])
        turns = await stored(mongo, scope, *"abcd", session_id=session.id)
        await compressed(mongo, scope, turns[:3])
        erasure = an_erasure(scope, None if whole else [turns[1].id])
        if whole:
            await stored(mongo, scope, "later")
        with life.ending():
            await mongo.erase_turns(erasure, now=NOW, limit=10)
        left = {turn.content for turn in await mongo.list_turns(scope)}
        kept = await numbers(mongo, scope)
        assert "b" in left or 2 not in kept, writes
        assert len(kept) == 3 or await owing(mongo, scope) == ["later" if whole else "d"], writes
        for _ in range(5):
            if await mongo.erase_turns(erasure, now=NOW, limit=10) == ErasedCounts():
                break
        assert await numbers(mongo, scope) == ([] if whole else [1]), writes
        assert await owing(mongo, scope) == ["later" if whole else "d"], writes
        assert len(await mongo.sessions(scope)) == (0 if whole else 1), writes
        assert (await mongo.sweep_orphans(scope, stubs_before=NOW, now=NOW)).compressions == 0
    assert life.deaths >= 6


async def test_a_maker_that_dies_leaves_what_is_swept(
    mongo: MongoStore, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compression whose maker died before it saw that a turn was forgotten goes with the last pass, and is owed."""
    turns = await stored(mongo, SCOPE, *"abc")
    await compressed(mongo, SCOPE, turns[:1])
    other = a_scope(thread_id="t2")
    others = await compressed(mongo, other, await stored(mongo, other, *"xyz"))
    insert = AsyncCollection.insert_one

    async def too_late(self: Any, document: Any, *args: Any, **kwargs: Any) -> Any:
        await mongo.erase_turns(an_erasure(SCOPE, [turns[1].id]), now=NOW, limit=10)
        result = await insert(self, document, *args, **kwargs)
        life.left = 0
        return result

    late = a_compression(turns[1:2], 2, after_seq=1)
    with monkeypatch.context() as patch:
        patch.setattr(AsyncCollection, "insert_one", too_late)
        with pytest.raises(Crash):
            await mongo.append_compression(late)
    life.left = 1_000
    assert await numbers(mongo, SCOPE) == [1, 2]
    assert await owing(mongo, SCOPE) == []
    swept = [await mongo.sweep_orphans(other, stubs_before=NOW, now=NOW) for _ in range(2)]
    assert swept == [ErasedCounts(compressions=1), ErasedCounts()]
    assert await numbers(mongo, SCOPE) == [1]
    assert await owing(mongo, SCOPE) == ["c"]
    assert await mongo.compressions(other) == others
    # A row of which a crash left only the later part goes as well, and its thread owes `compress` again.
    await mongo._compressions.delete_many({"thread_id": "t2", "number": 2})
    assert await mongo.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts(compressions=1)
    assert await numbers(mongo, other) == [1]
    assert await owing(mongo, other) == ["z"]


# --- costs ---------------------------------------------------------------------------------------------------
async def test_reads_of_sessions_and_compressions_stay_small(asked: Asked) -> None:
    """The newest compression is one document, a head is two, and what is counted of sessions reads no turn."""
    store, session = asked.store, a_session(1)
    for number in range(1, 21):
        await store.put_sessions([session if number == 1 else a_session(number)])
    turns = await stored(store, SCOPE, *(f"{i}" for i in range(60)), session_id=session.id)
    await compressed(store, SCOPE, turns[:20])
    rows = [a_row(turn.id, terms={"sea": 1, **({"@a:x": 1} if turn.seq < 4 else {})}) for turn in turns]
    await put_large(store, "ada", rows)
    async with asked.noting(op={"$in": ["query", "command"]}, docsExamined={"$exists": True}) as reads:
        await store.compressions(SCOPE, newest=1)
        await store.compressions(SCOPE, through=7, newest=1)
        await store.thread_head(SCOPE)
        [newest] = await store.sessions(SCOPE, ids=[session.id])
        [entity] = await store.entity_counts(SCOPE)
    examined: dict[str, list[int]] = {}
    for read in reads:
        examined.setdefault(read["ns"], []).append(read["docsExamined"])
    assert (newest.total_turns, entity.count) == (60, 3)
    # A head is one command: a session and a turn. One of before is read with the later ones, which hold the moments they share.
    wanted = {"compressions": [1, 1, 14, 0], "sessions": [2, 1], "turns": [0], "search_rows": [3]}
    assert examined == {asked.of(name): counts for name, counts in wanted.items()}
