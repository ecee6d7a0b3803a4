"""How the MongoDB adapter keeps compressions and sessions without a transaction, and what its reads cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection

from memory_agent.domain import ErasedCounts
from memory_agent.stores.mongo import MongoStore
from tests.conformance.stores import (
    NOW,
    a_compression,
    a_row,
    a_scope,
    a_session,
    an_erasure,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from memory_agent.domain import Compression, Scope, Turn
    from tests.servers.mongod import Mongod

SCOPE = a_scope()
WRITES = ("bulk_write", "insert_one", "insert_many", "update_one", "update_many", "delete_one", "delete_many")


@pytest.fixture
async def mongo(mongod: Mongod, db_name: str) -> AsyncIterator[MongoStore]:
    """An open store."""
    store = MongoStore(mongod.uri, db_name, timeout_seconds=10)
    await store.open()
    yield store
    await store.close()


async def compressed(store: MongoStore, scope: Scope, turns: Sequence[Turn]) -> list[Compression]:
    """A compression of each turn, in a row."""
    made = [a_compression([turn], turn.seq, after_seq=turn.seq - 1, scope=scope) for turn in turns]
    for compression in made:
        assert await store.append_compression(compression)
    return made


async def numbers(store: MongoStore, scope: Scope) -> list[int]:
    return [compression.number for compression in await store.compressions(scope)]


async def owing(store: MongoStore, scope: Scope) -> list[str]:
    return [turn.content for turn in await store.owed_turns(scope, "compress", limit=100)]


# --- crashes -------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process dies."""


class Life:
    """How many writes the process has left."""

    left = 1_000


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    """Every write costs one; the one too many raises Crash instead."""
    life = Life()

    def dying(name: str) -> None:
        write = getattr(AsyncCollection, name)

        async def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
            life.left -= 1
            if life.left < 0:
                raise Crash
            return await write(self, *args, **kwargs)

        monkeypatch.setattr(AsyncCollection, name, counted)

    for name in WRITES:
        dying(name)
    return life


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
    crashed, writes = True, 0
    while crashed:
        scope = a_scope(f"u{writes}")
        life.left = 1_000
        session = a_session(1, scope=scope)
        await mongo.put_sessions([session])
        turns = await stored(mongo, scope, *"abcd", session_id=session.id)
        await compressed(mongo, scope, turns[:3])
        erasure = an_erasure(scope, None if whole else [turns[1].id])
        if whole:
            await stored(mongo, scope, "later")
        life.left, crashed = writes, False
        try:
            await mongo.erase_turns(erasure, now=NOW, limit=10)
        except Crash:
            crashed = True
        life.left = 1_000
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
        writes += 1
    assert writes >= 6


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


async def test_what_follows_a_gap_is_swept(mongo: MongoStore) -> None:
    """A row of which a crash left only the later part goes, and its thread owes `compress` again."""
    turns = await stored(mongo, SCOPE, *"abcd")
    await compressed(mongo, SCOPE, turns)
    await mongo._compressions.delete_many({"number": 2})
    assert await mongo.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts(compressions=2)
    assert await numbers(mongo, SCOPE) == [1]
    assert await owing(mongo, SCOPE) == ["d"]


# --- workers in between --------------------------------------------------------------------------------------


async def test_what_is_made_before_the_turn_is_emptied_goes_too(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is quick to compress again, before the turn is emptied, does so in vain, and owes it once more."""
    turns = await stored(mongo, SCOPE, *"abc")
    [made] = await compressed(mongo, SCOPE, turns[:1])
    empty = mongo._empty_turns

    async def too_late(user_id: str, ids: Any, *, now: Any) -> None:
        assert await mongo.append_compression(made)
        await mongo.strike_off(SCOPE, [turns[2].id], "compress")
        await empty(user_id, ids, now=now)

    monkeypatch.setattr(mongo, "_empty_turns", too_late)
    counts = await mongo.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW, limit=10)
    assert counts == ErasedCounts(turns=1, compressions=2)
    assert await numbers(mongo, SCOPE) == []
    assert await owing(mongo, SCOPE) == ["c"]


@pytest.mark.parametrize("erased", ["its turn", "the one before"])
async def test_a_maker_takes_back_what_cannot_stand(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch, erased: str
) -> None:
    """If a turn, or the compression that it builds on, goes just before it is inserted, its maker removes it."""
    turns = await stored(mongo, SCOPE, *"abc")
    await compressed(mongo, SCOPE, turns[:1])
    gone = turns[1] if erased == "its turn" else turns[0]
    insert = AsyncCollection.insert_one

    async def too_late(self: Any, document: Any, *args: Any, **kwargs: Any) -> Any:
        await mongo.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
        return await insert(self, document, *args, **kwargs)

    monkeypatch.setattr(AsyncCollection, "insert_one", too_late)
    assert not await mongo.append_compression(a_compression(turns[1:2], 2, after_seq=1))
    assert await numbers(mongo, SCOPE) == ([1] if erased == "its turn" else [])


# --- costs ---------------------------------------------------------------------------------------------------


async def test_reads_of_sessions_and_compressions_stay_small(mongod: Mongod, fresh_db_name: str) -> None:
    """The newest compression is one document, a head is two, and what is counted of sessions reads no turn."""
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        store = MongoStore(client, fresh_db_name, timeout_seconds=10)
        await store.open()
        session = a_session(1)
        for number in range(1, 21):
            await store.put_sessions([session if number == 1 else a_session(number)])
        turns = await stored(store, SCOPE, *(f"{i}" for i in range(60)), session_id=session.id)
        await compressed(store, SCOPE, turns[:20])
        rows = [a_row(turn.id, terms={"sea": 1, **({"@a:x": 1} if turn.seq < 4 else {})}) for turn in turns]
        await store.put_search_rows("ada", rows, now=NOW)
        await client[fresh_db_name].command({"profile": 2})
        await store.compressions(SCOPE, newest=1)
        await store.compressions(SCOPE, through=7, newest=1)
        await store.thread_head(SCOPE)
        [newest] = await store.sessions(SCOPE, ids=[session.id])
        [entity] = await store.entity_counts(SCOPE)
        await client[fresh_db_name].command({"profile": 0})
        reads = await client[fresh_db_name]["system.profile"].find().sort("ts", 1).to_list()
        await store.close()
    examined: dict[str, list[int]] = {}
    for read in reads:
        if read["op"] in ("query", "command") and "docsExamined" in read:
            examined.setdefault(read["ns"].removeprefix(f"{fresh_db_name}."), []).append(read["docsExamined"])
    assert (newest.total_turns, entity.count) == (60, 3)
    assert examined == {
        "compressions": [1, 1, 0],
        "sessions": [1, 1],
        "turns": [1, 0],
        "search_rows": [3],
    }


async def test_a_whole_threads_erasure_reads_few_compressions(mongod: Mongod, fresh_db_name: str) -> None:
    """Erasing a thread batch by batch looks at its compressions once, not once for each batch."""
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        store = MongoStore(client, fresh_db_name, timeout_seconds=10)
        await store.open()
        turns = await stored(store, SCOPE, *(f"{i}" for i in range(60)))
        await compressed(store, SCOPE, turns[:20])
        await client[fresh_db_name].command({"profile": 2})
        erasure = an_erasure(SCOPE)
        while await store.erase_turns(erasure, now=NOW, limit=10) != ErasedCounts():
            pass
        await client[fresh_db_name].command({"profile": 0})
        of_these = {"ns": f"{fresh_db_name}.compressions"}
        operations = await client[fresh_db_name]["system.profile"].find(of_these).to_list()
        await store.close()
    assert sum(operation["docsExamined"] for operation in operations) <= 25
