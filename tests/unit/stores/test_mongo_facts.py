"""How the MongoDB adapter forgets facts without a transaction: crashes, workers in between, and what it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection

from memory_agent.clock import SystemClock
from memory_agent.domain import ErasedCounts, FactsDocument
from memory_agent.facts.extractors import PatternFactExtractor
from memory_agent.facts.keeper import FactKeeper, FactSettings
from memory_agent.stores.mongo import MongoStore
from memory_agent.text.patterns import extract_facts
from tests.conformance.stores import NOW, a_change, a_scope, an_erasure, keys_of, stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from memory_agent.domain import Scope
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


async def test_forgetting_a_turn_reads_its_changes_only(mongod: Mongod, fresh_db_name: str) -> None:
    """Of a thread with many changes, those are read that had the turn in view, and those of the turns they belong to."""
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        store = MongoStore(client, fresh_db_name, timeout_seconds=10)
        await store.open()
        scope = a_scope()
        ids = [turn.id for turn in await stored(store, scope, *(f"{i}" for i in range(200)))]
        for i, turn_id in enumerate(ids):
            await store.append_fact_change(scope, a_change(turn_id, seen=ids[max(0, i - 2) : i]))
        await client[fresh_db_name].command({"profile": 2})
        counts = await store.erase_turns(an_erasure(scope, [ids[100]]), now=NOW, limit=5)
        await client[fresh_db_name].command({"profile": 0})
        operations = (
            await client[fresh_db_name]["system.profile"]
            .find({"ns": f"{fresh_db_name}.fact_events"})
            .to_list()
        )
        await store.close()
    assert counts.fact_changes == 3
    assert {operation["op"] for operation in operations} == {"command", "remove"}
    assert [operation["docsExamined"] for operation in operations if operation["docsExamined"] > 6] == []


async def test_an_ordinary_query_finds_users_by_a_fact(
    mongo: MongoStore, mongod: Mongod, db_name: str
) -> None:
    """By a value at a path, by an element of a list, by comparison."""
    known: dict[str, dict[str, Any]] = {
        "ada": {"name": "Ada", "preferences": {"likes": ["jazz", "tea"]}, "age": 31},
        "bob": {"name": "Bob", "preferences": {"likes": ["tea"]}, "age": 58},
    }
    for user_id, facts in known.items():
        await mongo.save_facts(a_scope(user_id), FactsDocument(facts=facts, through=1), expected=None)
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:

        async def users(query: dict[str, Any]) -> list[str]:
            return sorted(found["user_id"] for found in await client[db_name].facts.find(query).to_list())

        assert await users({"facts.name": "Ada"}) == ["ada"]
        assert await users({"facts.preferences.likes": "tea"}) == ["ada", "bob"]
        assert await users({"facts.age": {"$gt": 40}}) == ["bob"]
        assert await client[db_name].facts.distinct("facts.name") == ["Ada", "Bob"]


async def test_facts_in_another_form_are_folded_anew(mongo: MongoStore, mongod: Mongod, db_name: str) -> None:
    """As an earlier version kept them, as text: they are a copy of what the changes come to."""
    await mongo.append_fact_change(SCOPE, a_change(None, value="Ada"))
    patterns = PatternFactExtractor(extract_facts, version="1")
    keeper = FactKeeper(mongo, patterns, patterns, SystemClock(), FactSettings())
    await keeper.save(SCOPE)
    saved = await mongo.load_facts(SCOPE)
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        await client[db_name].facts.update_one({}, {"$set": {"facts": '{"name":"Ada"}'}})
        assert (await mongo.load_facts(SCOPE)).through == 0
        assert await keeper.read(SCOPE) == saved.facts != {}
    assert await mongo.load_facts(SCOPE) == replace(saved, revision=(await mongo.load_facts(SCOPE)).revision)


# The names of edits are their keys, and sort before the id of an erasure, as ids made earlier do.
KEPT: dict[str, set[str]] = {"": {"fourth", "0 edit", "0 alone"}, "thread": {"0 alone"}, "user": set()}
OWING: dict[str, set[str]] = {"": {"second", "third"}, "thread": {"third"}, "user": set()}


class Crash(BaseException):
    """The process dies."""


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
        await store.save_facts(thread, FactsDocument(facts={"name": "Ada"}, through=9), expected=None)
    return [first, second, third, fourth]


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


@pytest.mark.parametrize("whole", ["", "thread", "user"])
async def test_forgetting_changes_survives_a_crash_at_any_write(
    mongo: MongoStore, life: Life, whole: str
) -> None:
    """Whichever write is the last before a crash, no turn is without its facts unowed, and a repeat ends right."""
    crashed, writes = True, 0
    while crashed:
        scope = a_scope(f"u{writes}")
        life.left = 1_000
        first, *staying = await survivors(mongo, scope)
        asked = scope.user if whole == "user" else scope
        erasure = an_erasure(asked, None if whole else [first])
        life.left, crashed = writes, False
        try:
            await mongo.erase_turns(erasure, now=NOW, limit=10)
        except Crash:
            crashed = True
        life.left = 1_000
        makers = [change.turn_id for change in await mongo.fact_changes(scope.user)]
        for turn in await mongo.list_turns(scope.user, ids=staying):
            made = {"second": 2, "third": 2, "fourth": 1}[turn.content]
            doomed = whole == "user" or (whole == "thread" and turn.thread_id == "t1")
            assert makers.count(turn.id) == made or "facts" in turn.pending or doomed, (
                writes,
                turn.content,
            )
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
        writes += 1
    assert writes >= 10


async def test_dropping_a_generation_survives_a_crash_at_any_write(mongo: MongoStore, life: Life) -> None:
    """Whichever write is the last before a crash, a repeat leaves the thread without it, its document reset."""
    crashed, writes = True, 0
    while crashed:
        scope = a_scope(f"u{writes}")
        life.left = 1_000
        for change in (a_change(key="kept"), a_change(generation="g")):
            await mongo.append_fact_change(scope, change)
        await mongo.save_facts(scope, FactsDocument(facts={"name": "Ada"}, through=2), expected=None)
        life.left, crashed = writes, False
        try:
            await mongo.drop_generation(scope, "g")
        except Crash:
            crashed = True
        life.left = 1_000
        await mongo.drop_generation(scope, "g")
        assert await keys_of(mongo, scope) == {"kept"}, writes
        assert (await mongo.load_facts(scope)).facts == {}, writes
        await mongo.append_fact_change(scope, a_change())
        assert [change.seq for change in await mongo.fact_changes(scope)] == [1, 3], writes
        writes += 1
    assert writes >= 3


async def test_what_is_done_again_too_early_is_forgotten_too(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is quick to do again what is owed, before the turn is emptied, has it in view once more: in vain."""
    gone, stays = await stored(mongo, SCOPE, "gone", "stays")
    change = a_change(stays.id, key="k", seen=[gone.id])
    await mongo.append_fact_change(SCOPE, change)
    empty = mongo._empty_turns

    async def too_late(user_id: str, ids: Any, *, now: Any) -> None:
        assert await mongo.append_fact_change(SCOPE, change)
        await mongo.strike_off(SCOPE, [stays.id], "facts")
        await empty(user_id, ids, now=now)

    monkeypatch.setattr(mongo, "_empty_turns", too_late)
    counts = await mongo.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    assert counts == ErasedCounts(turns=1, fact_changes=2)
    assert await keys_of(mongo, SCOPE) == set()
    [left] = await mongo.list_turns(SCOPE)
    assert left.pending == ("facts",)


async def test_what_is_struck_off_in_between_is_owed_again(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that finds its change still there and strikes the stage off leaves no turn without facts unowed."""
    gone, stays = await stored(mongo, SCOPE, "gone", "stays")
    await mongo.append_fact_change(SCOPE, a_change(stays.id, seen=[gone.id]))
    delete = mongo._delete_changes

    async def meanwhile(user_id: str, where: Any) -> int:
        if "turns" in where:
            await mongo.strike_off(SCOPE, [stays.id], "facts")
        return await delete(user_id, where)

    monkeypatch.setattr(mongo, "_delete_changes", meanwhile)
    await mongo.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    [left] = await mongo.list_turns(SCOPE)
    assert left.pending == ("facts",)


async def test_a_change_appended_while_others_are_deleted_keeps_its_number(
    mongo: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only changes whose numbers were noted are deleted, so no number is given twice."""
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
