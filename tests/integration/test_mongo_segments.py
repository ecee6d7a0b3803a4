"""Compressed turns on MongoDB when several processes meet, or one of them dies: no text lost, doubled or left over."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import AsyncMongoClient

from memory_agent.domain import ErasedCounts, PackedSize, Tombstone
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.segments import unpack_texts
from tests.conformance.stores import NOW, a_call, a_scope, a_topic, an_erasure, stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pymongo.asynchronous.database import AsyncDatabase

    from memory_agent.domain import Turn
    from tests.servers.mongod import Mongod

    Database = AsyncDatabase[dict[str, Any]]

SCOPE = a_scope()
COMPRESSING = ("_plain_turns", "_segments_holding", "_read_plain", "_insert_segment", "_move", "_count")
ERASING = ("_empty_turns", "_emptied", "_segments_holding", "_needed", "_rewrite_segment", "_end_erasing")


@pytest.fixture
async def client(mongod: Mongod) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        yield client


@pytest.fixture
def database(client: AsyncMongoClient[dict[str, Any]], db_name: str) -> Database:
    """What the stores keep, to look into."""
    return client[db_name]


@pytest.fixture
async def one(client: AsyncMongoClient[dict[str, Any]], db_name: str) -> AsyncIterator[MongoStore]:
    """The store of one process."""
    store = MongoStore(client, db_name, timeout_seconds=20)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(client: AsyncMongoClient[dict[str, Any]], db_name: str) -> AsyncIterator[MongoStore]:
    """The store of another process on the same database."""
    store = MongoStore(client, db_name, timeout_seconds=20)
    await store.open()
    yield store
    await store.close()


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


def pack_side_by_side(*stores: MongoStore) -> None:
    """Each store reads what it packs before another wrote a segment, and writes its own before one moves a turn."""
    read, written = asyncio.Barrier(len(stores)), asyncio.Barrier(len(stores))
    for store in stores:
        once(store, "_read_plain", read.wait)
        once(store, "_insert_segment", written.wait)


async def crash() -> None:
    raise StoreUnavailable("the process died here")


def ids_of(turns: list[Turn]) -> list[str]:
    return [turn.id for turn in turns]


async def texts(store: MongoStore) -> list[str]:
    return [turn.content for turn in await store.list_turns(SCOPE)]


async def held(database: Database) -> dict[str, list[str]]:
    """The texts that lie in segments, by turn id."""
    found: dict[str, list[str]] = {}
    async for segment in database.segments.find():
        packed = unpack_texts(segment["codec"], segment["data"])
        assert segment["raw_bytes"] == sum(len(text.encode()) for text in packed)
        for turn_id, text in zip(segment["turn_ids"], packed, strict=True):
            found.setdefault(turn_id, []).append(text)
    return found


async def check_all_packed(store: MongoStore, database: Database, turns: list[Turn]) -> None:
    """The turns, and nothing else, lie in segments: each once, under the segment that it points at."""
    assert await held(database) == {turn.id: [turn.content] for turn in turns}
    async for segment in database.segments.find():
        pointing = await database.turns.find({"segment_id": segment["_id"]}).sort("seq", 1).to_list()
        assert [turn["_id"] for turn in pointing] == segment["turn_ids"]
        assert all("content" not in turn for turn in pointing)
    assert await texts(store) == [turn.content for turn in turns]


# --- two compressors -----------------------------------------------------------------------------------------


async def test_two_that_pack_the_same_turns_at_once(
    one: MongoStore, other: MongoStore, database: Database
) -> None:
    """Both wrote their segment before either moved a turn: each text is kept once, and counted once."""
    turns = await stored(one, SCOPE, *(f"text {n}" for n in range(50)))
    pack_side_by_side(one, other)
    packed = await asyncio.gather(*(s.compress_turns(SCOPE, "topic", ids_of(turns)) for s in (one, other)))
    assert sum(part.turns for part in packed) == 50
    assert sum(part.raw_bytes for part in packed) == sum(len(turn.content) for turn in turns)
    await check_all_packed(one, database, turns)


@pytest.mark.parametrize("step", ["_insert_segment", "_move"])
async def test_a_second_one_finishes_what_the_first_began(
    one: MongoStore, other: MongoStore, database: Database, step: str
) -> None:
    """Who finds a segment that another is still filling may finish it, and the other goes on as if nothing was."""
    turns = await stored(one, SCOPE, *"abcdef")
    parts: list[PackedSize] = []

    async def overtake() -> None:
        parts.append(await other.compress_turns(SCOPE, "topic", ids_of(turns[2:])))

    once(one, step, overtake)
    parts.append(await one.compress_turns(SCOPE, "topic", ids_of(turns[:4])))
    assert sum(part.turns for part in parts) == 6
    await check_all_packed(one, database, turns)


async def test_overlapping_halves_at_once(one: MongoStore, other: MongoStore, database: Database) -> None:
    """Segments of overlapping turns end up with what points at them, whichever worker moved it."""
    turns = await stored(one, SCOPE, *(f"text {n}" for n in range(30)))
    pack_side_by_side(one, other)
    packed = await asyncio.gather(
        one.compress_turns(SCOPE, "topic", ids_of(turns[:20])),
        other.compress_turns(SCOPE, "topic", ids_of(turns[10:])),
    )
    assert sum(part.turns for part in packed) == 30
    await check_all_packed(one, database, turns)


# --- compressing and erasing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["_plain_turns", "_read_plain", "_insert_segment", "_move"])
async def test_a_turn_forgotten_under_the_compressors_hands(
    one: MongoStore, other: MongoStore, database: Database, step: str
) -> None:
    """Wherever the compressor is when a turn is forgotten, the text is in no segment when it has finished."""
    gone, *kept = await stored(one, SCOPE, "gone", "kept", "also kept")
    once(one, step, lambda: other.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=5))
    await one.compress_turns(SCOPE, "topic", ids_of([gone, *kept]))
    await check_all_packed(one, database, kept)


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


async def test_erasers_of_one_segment_at_once(one: MongoStore, other: MongoStore, database: Database) -> None:
    """Two that each forget a turn of the same segment: neither brings the other's text back."""
    turns = await stored(one, SCOPE, *"abcdef")
    await one.compress_turns(SCOPE, "topic", ids_of(turns))
    both = asyncio.Barrier(2)
    for store in (one, other):
        once(store, "_rewrite_segment", both.wait, before=True)
    counts = await asyncio.gather(
        one.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW, limit=5),
        other.erase_turns(an_erasure(SCOPE, [turns[3].id]), now=NOW, limit=5),
    )
    assert sum(part.packed_texts for part in counts) == 2
    await check_all_packed(one, database, [turns[n] for n in (1, 2, 4, 5)])


async def test_everything_at_once(one: MongoStore, other: MongoStore, database: Database) -> None:
    """Compressors, erasers and readers of two processes on one topic: in the end each kept text lies there once."""
    turns = await stored(one, SCOPE, *(f"text {n} é" for n in range(90)))
    gone = set(ids_of(turns[::4]))
    kept = [turn for turn in turns if turn.id not in gone]
    await asyncio.gather(
        *(
            (one, other)[n % 2].compress_turns(SCOPE, "topic", ids_of(turns[n * 5 : n * 5 + 20]))
            for n in range(18)
        ),
        *(
            (one, other)[n % 2].erase_turns(an_erasure(SCOPE, [turn_id]), now=NOW, limit=5)
            for n, turn_id in enumerate(sorted(gone))
        ),
        *((one, other)[n % 2].list_turns(SCOPE) for n in range(20)),
    )
    await check_all_packed(one, database, kept)


# --- reading -------------------------------------------------------------------------------------------------


async def test_a_turn_forgotten_between_two_reads(one: MongoStore, other: MongoStore) -> None:
    """The reader found the turn and then no text of it: it is left out, and the others come in order."""
    turns = await stored(one, SCOPE, *"abc", pending=("index",), key="k")
    await one.compress_turns(SCOPE, "topic", ids_of(turns))

    async def forget(turn: Turn) -> None:
        await other.erase_turns(an_erasure(SCOPE, [turn.id]), now=NOW, limit=5)

    once(one, "_fill_in", lambda: forget(turns[1]), before=True)
    assert await texts(one) == ["a", "c"]
    once(one, "_fill_in", lambda: forget(turns[0]), before=True)
    assert [turn.content for turn in await one.owed_turns(SCOPE, "index", limit=5)] == ["c"]
    once(one, "_fill_in", lambda: forget(turns[2]), before=True)
    repeated = await one.append_turns(SCOPE, a_call(*"abc", key="k"))
    assert [type(turn) for turn in repeated] == [Tombstone] * 3


async def test_a_segment_rewritten_between_two_reads(one: MongoStore, other: MongoStore) -> None:
    """A reader that meets the segment without a neighbour's text reads its own turns as ever."""
    turns = await stored(one, SCOPE, *"abc")
    await one.compress_turns(SCOPE, "topic", ids_of(turns))
    erasure = an_erasure(SCOPE, [turns[0].id])
    once(one, "_fill_in", lambda: other.erase_turns(erasure, now=NOW, limit=5), before=True)
    assert [turn.content for turn in await one.list_turns(SCOPE, ids=ids_of(turns[1:]))] == ["b", "c"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"$set": {"data": b"\x07damaged"}}, "damaged"),
        ({"$set": {"codec": 9}}, "codec 9"),
        ({"$push": {"turn_ids": "more"}}, "damaged"),
        ({"$set": {"turn_ids": ["another"]}}, "has no text"),
        (None, "has no text"),
    ],
    ids=["bytes", "codec", "count", "ids", "deleted"],
)
async def test_a_damaged_segment_is_an_error(
    one: MongoStore, database: Database, damage: dict[str, Any] | None, says: str
) -> None:
    """A text that cannot be read is never left out silently; the error says which, and nothing of what it said."""
    [turn] = await stored(one, SCOPE, "secret words " * 9)
    await one.compress_turns(SCOPE, "topic", [turn.id])
    if damage is None:
        await database.segments.delete_one({})
    else:
        await database.segments.update_one({}, damage)
    with pytest.raises(StoreError, match=says) as caught:
        await one.list_turns(SCOPE)
    assert "secret" not in str(caught.value)
    assert turn.id in str(caught.value) or "segment" in str(caught.value)


# --- crashes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("step", COMPRESSING)
async def test_a_compressor_dies_at_any_step(
    one: MongoStore, other: MongoStore, database: Database, step: str, before: bool
) -> None:
    """Every text can be read then, and a repeat, also for the topic that absorbed this one, finishes."""
    turns = await stored(one, SCOPE, *(f"text {n}" for n in range(20)))
    once(one, step, crash, before=before)
    with pytest.raises(StoreUnavailable):
        await one.compress_turns(SCOPE, "topic", ids_of(turns))
    assert await texts(other) == [turn.content for turn in turns]
    plain = await database.turns.count_documents({"segment_id": None})
    assert (await other.compress_turns(SCOPE, "absorbing", ids_of(turns))).turns == plain
    await check_all_packed(other, database, turns)


async def test_a_compressor_dies_while_it_moves_turns(
    one: MongoStore, other: MongoStore, database: Database
) -> None:
    """Some turns point at the segment already, one was forgotten since: a repeat moves the rest there."""
    turns = await stored(one, SCOPE, *"abcdef")
    once(one, "_insert_segment", crash)
    with pytest.raises(StoreUnavailable):
        await one.compress_turns(SCOPE, "topic", ids_of(turns))
    segment = await database.segments.find_one()
    assert segment
    moved = {"$set": {"segment_id": segment["_id"]}, "$unset": {"content": ""}}
    await database.turns.update_many({"_id": {"$in": ids_of(turns[:3])}}, moved)
    await other.erase_turns(an_erasure(SCOPE, [turns[1].id]), now=NOW, limit=5)
    assert await texts(other) == ["a", "c", "d", "e", "f"]
    again = await other.compress_turns(SCOPE, "topic", ids_of(turns))
    assert (again.turns, again.raw_bytes) == (5, 5)
    await check_all_packed(other, database, [turns[0], *turns[2:]])
    assert await database.segments.count_documents({}) == 1


@pytest.mark.parametrize("finisher", ["erase_turns", "sweep_orphans"])
@pytest.mark.parametrize("step", [*ERASING, "_reset_topics"])
async def test_an_eraser_dies_at_any_step(
    one: MongoStore, other: MongoStore, database: Database, step: str, finisher: str
) -> None:
    """A repeat finishes: no text, no topic of what was, no mark is left. Nor can a fold of it be saved then."""
    gone, kept = await stored(one, SCOPE, "gone", "kept")
    await one.assign_topics(SCOPE, dict.fromkeys([gone.id, kept.id], "topic"))
    await one.save_topic(a_topic("topic", title="gone"), expected=None)
    await one.compress_turns(SCOPE, "topic", [gone.id, kept.id])
    [read] = await one.list_topics(SCOPE)
    erasure = an_erasure(SCOPE, [gone.id])
    once(one, step, crash)
    with pytest.raises(StoreUnavailable):
        await one.erase_turns(erasure, now=NOW, limit=5)
    assert await texts(other) == ["kept"]
    # What cleans up elsewhere must not take away the marks of what is left to do.
    await other.erase_user_remains("ada", before_id="z")
    if finisher == "erase_turns":
        await other.erase_turns(erasure, now=NOW, limit=5)
        assert await other.erase_turns(erasure, now=NOW, limit=5) == ErasedCounts()
    else:
        await other.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW)
    assert await other.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts()
    await check_all_packed(other, database, [kept])
    assert not await one.save_topic(read, expected=read.revision)
    [topic] = await one.list_topics(SCOPE)
    assert (topic.title, topic.stale) == ("", True)
    left = await database.turns.find_one({"_id": gone.id})
    assert left is None or not {"erasing", "topic_id", "content", "segment_id"} & left.keys()


async def test_a_topic_saved_between_emptying_and_reset(one: MongoStore, other: MongoStore) -> None:
    """A worker folded the turn before it was emptied and saves only now: the reset still takes it back."""
    gone, kept = await stored(one, SCOPE, "gone", "kept")
    await one.assign_topics(SCOPE, dict.fromkeys([gone.id, kept.id], "topic"))
    once(one, "_emptied", lambda: other.save_topic(a_topic("topic", title="gone"), expected=None))
    await one.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=5)
    [topic] = await other.list_topics(SCOPE)
    assert (topic.title, topic.stale) == ("", True)
