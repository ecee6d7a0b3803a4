"""Turns on MongoDB when several processes meet, or one of them dies: no text of compressed ones lost, doubled or left over, no facts lost."""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from memory_agent.domain import ErasedCounts, Scope, Tombstone, Turn
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.codec import unpack_texts
from memory_agent.stores.mongo import MongoStore
from tests import profiles
from tests.conformance.values import (
    NOW,
    a_call,
    a_change,
    a_scope,
    a_topic,
    an_erasure,
    stored,
    stored_compressed,
)
from tests.servers.mongod import Mongod

Database = AsyncDatabase[dict[str, Any]]

SCOPE = a_scope()


@pytest.fixture
async def client(mongod: Mongod) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        yield client


@pytest.fixture
def database(client: AsyncMongoClient[dict[str, Any]], db_name: str) -> Database:
    """What the stores keep, to look into."""
    return client[db_name]


@pytest.fixture
async def pair(
    client: AsyncMongoClient[dict[str, Any]], db_name: str
) -> AsyncIterator[tuple[MongoStore, MongoStore]]:
    """The stores of two processes on one database."""
    stores = (
        MongoStore(client, db_name, timeout_seconds=20),
        MongoStore(client, db_name, timeout_seconds=20),
    )
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


@pytest.fixture
def one(pair: tuple[MongoStore, MongoStore]) -> MongoStore:
    return pair[0]


@pytest.fixture
def other(pair: tuple[MongoStore, MongoStore]) -> MongoStore:
    return pair[1]


def once(
    store: MongoStore, step: str, then: Callable[[], Awaitable[object]], *, before: bool = False
) -> None:
    """The next time that `store` has done its inner `step` (or is about to), `then` happens first of all."""
    original = getattr(store, step)

    @functools.wraps(original)
    async def interrupted(*args: Any, **kwargs: Any) -> Any:
        setattr(store, step, original)
        if before:
            await then()
        result = await original(*args, **kwargs)
        if not before:
            await then()
        return result

    setattr(store, step, interrupted)


async def crash() -> None:
    raise StoreUnavailable("the process died here")


async def dies_at(store: MongoStore, step: int, work: Callable[[], Awaitable[object]]) -> bool:
    """Let the process die after one of the calls of the driver of which `work` consists; False if it has fewer."""
    calls = 0
    original = store._bounded

    async def counted(call: Any) -> Any:
        nonlocal calls
        result = await original(call)
        calls += 1
        if calls == step:
            await crash()
        return result

    store._bounded = counted  # type: ignore[method-assign]
    try:
        await work()
    except StoreUnavailable:
        return True
    finally:
        store._bounded = original  # type: ignore[method-assign]
    return False


def ids_of(turns: list[Turn]) -> list[str]:
    return [turn.id for turn in turns]


async def texts(store: MongoStore, scope: Scope = SCOPE) -> list[str]:
    return [turn.content for turn in await store.list_turns(scope)]


async def held(database: Database, scope: Scope = SCOPE) -> dict[str, list[str]]:
    """The texts that lie in the user's segments, by turn id."""
    found: dict[str, list[str]] = {}
    async for segment in database.segments.find({"user_id": scope.user_id}):
        packed = unpack_texts(segment["codec"], segment["data"])
        assert segment["raw_bytes"] == sum(len(text.encode()) for text in packed)
        for turn_id, text in zip(segment["turn_ids"], packed, strict=True):
            found.setdefault(turn_id, []).append(text)
    return found


async def check_all_packed(
    store: MongoStore, database: Database, turns: list[Turn], scope: Scope = SCOPE
) -> None:
    """The user's turns, and nothing else, lie in segments: each once, under the segment that it points at."""
    assert await held(database, scope) == {turn.id: [turn.content] for turn in turns}
    async for segment in database.segments.find({"user_id": scope.user_id}):
        pointing = await database.turns.find({"segment_id": segment["_id"]}).sort("seq", 1).to_list()
        assert [turn["_id"] for turn in pointing] == segment["turn_ids"]
        assert all("content" not in turn for turn in pointing)
    assert await texts(store, scope) == [turn.content for turn in turns]


# --- compressing and erasing ---------------------------------------------------------------------------------


async def test_a_compressor_that_dies_with_a_forgotten_text(
    one: MongoStore, other: MongoStore, database: Database
) -> None:
    """It wrote the text of a turn that was forgotten meanwhile and died: the sweep takes it out, once."""
    gone, kept = await stored(one, SCOPE, "gone", "kept")
    once(one, "_read_plain", lambda: other.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=5))
    once(one, "_insert_segment", crash)
    with pytest.raises(StoreUnavailable):
        await one.compress_turns(SCOPE, "topic", [gone.id, kept.id])
    assert gone.id in await held(database)
    swept = [await other.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) for _ in range(2)]
    assert swept == [ErasedCounts(packed_texts=1), ErasedCounts()]
    assert await texts(other) == ["kept"]
    assert (await other.compress_turns(SCOPE, "topic", [kept.id])).turns == 1
    await check_all_packed(other, database, [kept])


# --- reading -------------------------------------------------------------------------------------------------


async def test_a_turn_forgotten_between_two_reads(one: MongoStore, other: MongoStore) -> None:
    """The reader found the turn and then no text of it: it is left out, and the others come in order."""
    turns = await stored(one, SCOPE, *"abcd", pending=("index",), key="k")
    await one.compress_turns(SCOPE, "topic", ids_of(turns))

    async def forget(turn: Turn) -> None:
        await other.erase_turns(an_erasure(SCOPE, [turn.id]), now=NOW, limit=5)

    once(one, "_fill_in", lambda: forget(turns[1]), before=True)
    assert await texts(one) == ["a", "c", "d"]
    once(one, "_fill_in", lambda: forget(turns[0]), before=True)
    assert [turn.content for turn in await one.owed_turns(SCOPE, "index", limit=5)] == ["c", "d"]
    # One whose neighbour went, and the segment with it as it was, is read as ever.
    once(one, "_fill_in", lambda: forget(turns[2]), before=True)
    assert [turn.content for turn in await one.list_turns(SCOPE, ids=[turns[3].id])] == ["d"]
    once(one, "_fill_in", lambda: forget(turns[3]), before=True)
    repeated = await one.append_turns(SCOPE, a_call(*"abcd", key="k"))
    assert [type(turn) for turn in repeated] == [Tombstone] * 4


async def test_a_damaged_segment_is_an_error(one: MongoStore, database: Database) -> None:
    """A text that cannot be read is never left out silently; the error says which, and nothing of what it said."""
    [turn] = await stored(one, SCOPE, "secret words " * 9)
    await one.compress_turns(SCOPE, "topic", [turn.id])
    [whole] = await database.segments.find().to_list()
    for damage, says in (
        ({"data": b"\x07damaged"}, "damaged"),
        ({"codec": 9}, "codec 9"),
        ({"turn_ids": [turn.id, "more"]}, "damaged"),
        ({"turn_ids": ["another"]}, "has no text"),
        ({"user_id": "another"}, "has no text"),
    ):
        await database.segments.replace_one({}, {**whole, **damage})
        with pytest.raises(StoreError, match=says) as caught:
            await one.list_turns(SCOPE)
        assert "secret" not in str(caught.value)
        assert turn.id in str(caught.value) or "segment" in str(caught.value)


# --- crashes -------------------------------------------------------------------------------------------------


async def test_a_compressor_dies_at_any_step(one: MongoStore, other: MongoStore, database: Database) -> None:
    """Every text can be read then, and a repeat, also for the topic that absorbed this one, finishes."""
    for step in itertools.count(1):
        scope = a_scope(f"u{step}")
        turns = await stored(one, scope, *(f"text {n}" for n in range(20)))
        compress = functools.partial(one.compress_turns, scope, "topic", ids_of(turns))
        died = await dies_at(one, step, compress)
        assert await texts(other, scope) == [turn.content for turn in turns]
        plain = await database.turns.count_documents({"user_id": scope.user_id, "segment_id": None})
        assert (await other.compress_turns(scope, "absorbing", ids_of(turns))).turns == plain
        await check_all_packed(other, database, turns, scope)
        if not died:
            break
    assert step > 6


@pytest.mark.parametrize("finisher", ["erase_turns", "sweep_orphans"])
async def test_an_eraser_dies_at_any_step(
    one: MongoStore, other: MongoStore, database: Database, finisher: str
) -> None:
    """A repeat finishes: no text, no topic of what was, no mark is left. Nor can a fold of it be saved then."""
    for step in profiles.kills(dear=True, least=3):
        scope = a_scope(f"u{step}")
        gone, kept = await stored(one, scope, "gone", "kept")
        await one.assign_topics(scope, dict.fromkeys([gone.id, kept.id], "topic"))
        await one.save_topics([a_topic("topic", scope=scope, title="gone")])
        await one.compress_turns(scope, "topic", [gone.id, kept.id])
        [read] = await one.list_topics(scope)
        erasure = an_erasure(scope, [gone.id])
        died = await dies_at(one, step, functools.partial(one.erase_turns, erasure, now=NOW, limit=5))
        emptied = await database.turns.count_documents({"_id": gone.id, "gone_at": None}) == 0
        assert await texts(other, scope) == (["kept"] if emptied else ["gone", "kept"])
        # What cleans up elsewhere must not take away the marks of what is left to do.
        await other.erase_remains(scope.user, before_id="z")
        if finisher == "erase_turns" or not emptied:
            await other.erase_turns(erasure, now=NOW, limit=5)
            assert await other.erase_turns(erasure, now=NOW, limit=5) == ErasedCounts()
        else:
            await other.sweep_orphans(scope, stubs_before=NOW, now=NOW)
        assert await other.sweep_orphans(scope, stubs_before=NOW, now=NOW) == ErasedCounts()
        await check_all_packed(other, database, [kept], scope)
        assert not await one.save_topics([read])
        [topic] = await one.list_topics(scope)
        assert (topic.title, topic.stale) == ("", True)
        left = await database.turns.find_one({"_id": gone.id})
        assert left is None or not {"erasing", "topic_id", "content", "segment_id"} & left.keys()
        if not died:
            break
    assert step > 12


async def test_a_turn_that_owes_work_is_found_behind_one_that_is_being_forgotten(
    one: MongoStore, other: MongoStore
) -> None:
    """The packed text of the first is gone when it is read; that doesn't say that nothing is owed."""
    [first] = await stored_compressed(one, SCOPE, "first", topic_id="topic", pending=("index",))
    [second] = await stored(one, SCOPE, "second", pending=("index",))

    async def forget() -> None:
        await other.erase_turns(an_erasure(SCOPE, [first.id]), now=NOW, limit=10)

    once(one, "_fill_in", forget, before=True)
    owed = await one.owed_turns(SCOPE, None, limit=1)
    assert [turn.id for turn in owed] == [second.id]


async def test_facts_that_went_with_a_forgotten_turn_are_owed_whenever_the_eraser_dies(
    one: MongoStore, other: MongoStore
) -> None:
    """Also where a worker that had seen the change before it went struck the stage off in between, and died as well."""
    for step in itertools.count(1):
        scope = a_scope(f"u{step}")
        gone, kept = await stored(one, scope, "gone", "kept")
        await one.strike_off(scope, [gone.id, kept.id], "facts")
        await one.append_fact_change(scope, a_change(kept.id, seen=[gone.id]))
        erasure = an_erasure(scope, [gone.id])
        await one.put_erasure(erasure)
        struck_off = functools.partial(other.strike_off, scope, [kept.id], "facts")
        once(one, "_owe_facts", struck_off)
        died = await dies_at(one, step, functools.partial(one.erase_turns, erasure, now=NOW, limit=5))
        await other.put_erasure(erasure)  # as one that is tried again
        while await other.erase_turns(erasure, now=NOW, limit=5) != ErasedCounts():
            pass
        await other.end_erasure(erasure)
        assert await other.fact_changes(scope) == []
        assert [turn.id for turn in await other.owed_turns(scope, "facts", limit=5)] == [kept.id], step
        assert await other.due_erasures(NOW, limit=5) == []
        if not died:
            break
