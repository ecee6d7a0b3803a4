"""The doctor: each fault planted in a memory is found, named and mended, and a whole one has none."""

from __future__ import annotations

import asyncio
import json
import operator
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pymongo
import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys
from memory_agent.data_dir import DataDirLock
from memory_agent.doctor.examine import BY_HAND, GIVEN_UP, Examiner, Finding
from memory_agent.doctor.repair import make_anew
from memory_agent.domain import ErasureReceipt, FactsDocument, PassageVector, Scope, new_id
from memory_agent.stores.chroma import SHARDS, ChromaServer
from memory_agent.work.claims import lease_name
from memory_agent.work.forget import hasher_of
from tests import profiles
from tests.conformance.values import a_change, a_compression, a_row
from tests.integration.commands import Quick, one_line, with_store
from tests.released.write import fill, known
from tests.servers.mongod import Mongod

SCOPE = Scope(user_id="ada", thread_id="home")
Store = Any
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """A memory with two tenants' users, facts, topics, and a forget call under way: its folder, and what is filled of MongoDB's collections."""
    return tmp_path_factory.mktemp("written"), {}


@pytest.fixture(params=profiles.by_day("sqlite", "mongodb"))
async def settings(
    request: pytest.FixtureRequest, tmp_path: Path, written: tuple[Path, dict[str, list[Any]]]
) -> dict[str, Any]:
    """A copy of it, which is written once on each store."""
    found: dict[str, Any] = {"data_dir": tmp_path / "data"}
    folder, collections = written
    if request.param == "sqlite":
        if not any(folder.iterdir()):
            await fill({"data_dir": folder})
        shutil.copytree(folder, tmp_path / "data")
        return found
    server: Mongod = request.getfixturevalue("mongod")
    found |= {"mongo_uri": server.uri, "db_name": request.getfixturevalue("db_name")}
    with pymongo.MongoClient[dict[str, Any]](server.uri) as client:
        database = client[found["db_name"]]
        if not collections:
            await fill(found)
            collections |= {name: list(database[name].find()) for name in database.list_collection_names()}
        else:
            for name, documents in collections.items():
                if documents:
                    database[name].insert_many(documents)
    return found


async def examined(service: MemoryService, *, vectors: bool = False) -> list[Finding]:
    """What is wrong. `vectors`: the Chroma server is looked at as well."""
    async with AsyncExitStack() as stack:
        keys = await open_keys(service.cfg, None, stack)
        now = service.clock.now()
        index = service.core.vectors if vectors else None
        examiner = Examiner(
            service.core.store, keys, index, now=now, moment_seconds=0.1, topics=service.cfg.enable_topics
        )
        found = [finding async for finding in examiner.findings()]
    assert examiner.totals.turns > 40
    assert examiner.totals.users == 4
    return [finding for finding in found if finding.wrong]


async def first_turn(store: Store) -> Any:
    return (await store.list_turns(SCOPE, limit=1))[0]


async def raw(store: Store, sql: str, collection: str, change: Callable[[Any], Awaitable[Any]]) -> None:
    """Change the stored data behind the store's back."""
    if hasattr(store, "_execute"):
        await store._execute(sql, [])
    else:
        await change(store._turns.database[collection])


async def lose_a_row(store: Store) -> None:
    one = (await first_turn(store)).id
    sql = f"DELETE FROM search_rows WHERE unpack_id(turn_id) = '{one}'"
    await raw(store, sql, "search_rows", lambda rows: rows.delete_one({"_id": one}))


async def orphan_a_row(store: Store) -> None:
    await store.put_search_rows("ada", [a_row(scope=SCOPE, seq=99)], now=datetime.now(UTC))


async def a_row_of_no_thread(store: Store) -> None:
    row = a_row(scope=Scope(user_id="ada", thread_id="attic"), seq=1)
    await store.put_search_rows("ada", [row], now=datetime.now(UTC))


async def _first_row(store: Store) -> Any:
    return next(row for row in await store.search_rows("ada") if row.thread_id == "home")


async def spoil_vectors(store: Store) -> None:
    row = await _first_row(store)
    spoilt = replace(row, vectors=np.zeros_like(row.vectors))
    await store.put_search_rows("ada", [spoilt], now=datetime.now(UTC))


async def shorten_vectors(store: Store) -> None:
    row = await _first_row(store)
    short = replace(row, vectors=row.vectors[:, :7])
    await store.put_search_rows("ada", [short], now=datetime.now(UTC))


async def falsify_a_row(store: Store) -> None:
    row = await _first_row(store)
    false = replace(row, role="assistant" if row.role == "user" else "user")
    await store.put_search_rows("ada", [false], now=datetime.now(UTC))


async def falsify_facts(store: Store) -> None:
    document = await store.load_facts(SCOPE)
    false = FactsDocument(people={"": {"name": "Eve"}}, through=document.through)
    assert await store.save_facts(SCOPE, false, expected=document.revision)


async def overstate_facts(store: Store) -> None:
    document = await store.load_facts(SCOPE)
    assert await store.save_facts(SCOPE, replace(document, through=5_000), expected=document.revision)


async def plant_a_change(store: Store) -> None:
    assert await store.append_fact_change(SCOPE, a_change(NOBODY))


async def lose_a_topic(store: Store) -> None:
    [first, *_] = await store.list_topics(SCOPE)
    assert await store.delete_topic(SCOPE, first.id, expected=first.revision)


async def overstate_a_topic(store: Store) -> None:
    [first, *_] = await store.list_topics(SCOPE)
    assert await store.save_topics([replace(first, through=5_000)])


async def understate_a_topic(store: Store) -> None:
    [first, *_] = await store.list_topics(SCOPE)
    assert await store.save_topics([replace(first, through=1)])


async def plant_a_topic(store: Store) -> None:
    [first, *_] = await store.list_topics(SCOPE)
    assert await store.save_topics([replace(first, id=NOBODY, absorbed=(), revision=None)])


async def take_a_topic_away(store: Store) -> None:
    last = (await store.list_turns(SCOPE, limit=1, newest=True))[0].id
    sql = f"UPDATE turns SET topic_id = NULL WHERE id = '{last}'"
    await raw(store, sql, "turns", lambda turns: turns.update_one({"_id": last}, {"$unset": {"topic_id": 1}}))
    for topic in await store.list_topics(SCOPE):
        assert await store.save_topics([replace(topic, stale=True, through=0)])


async def lose_a_session(store: Store) -> None:
    sql = "DELETE FROM sessions WHERE user_id = 'ada' AND thread_id = 'home'"
    await raw(store, sql, "sessions", lambda each: each.delete_many({"user_id": "ada", "thread_id": "home"}))


async def park_a_turn(store: Store) -> None:
    one = (await first_turn(store)).id
    await store.owe(SCOPE, "facts", now=datetime.now(UTC), turn_ids=[one])
    await store.postpone(SCOPE, [one], error="the model is on fire", due_at=None, counted=True)


async def put_off_a_turn(store: Store) -> None:
    one = (await first_turn(store)).id
    await store.owe(SCOPE, "facts", now=datetime.now(UTC) + timedelta(days=400), turn_ids=[one])


async def hold_a_lease(store: Store) -> None:
    await put_off_a_turn(store)
    now = datetime.now(UTC)
    await store.owe(SCOPE, "facts", now=now, turn_ids=[(await first_turn(store)).id])
    name = lease_name("facts", SCOPE)
    assert await store.acquire_leases([name], "nobody", now=now, until=now + timedelta(days=400))


async def plant_a_compression(store: Store) -> None:
    assert await store.append_compression(a_compression((), scope=SCOPE, covers=()))
    sql = "UPDATE compressions SET after_seq = 3, number = 4 WHERE user_id = 'ada' AND thread_id = 'home'"
    change = {"$set": {"after_seq": 3, "number": 4}}
    where = {"user_id": "ada", "thread_id": "home"}
    await raw(store, sql, "compressions", lambda each: each.update_many(where, change))


async def lose_an_erasure(store: Store) -> None:
    hasher = await hasher_of(store)
    receipt = ErasureReceipt(
        id=new_id(),
        at=datetime.now(UTC),
        key=hasher.key,
        tenant="default",
        user=hasher.user("zoe"),
        thread=None,
        turns=(),
        before_id=new_id(),
    )
    await store.put_receipt(receipt)


GROUPS: tuple[dict[Callable[[Store], Awaitable[None]], str], ...] = (
    {
        lose_a_row: "1 turn without a search row",
        a_row_of_no_thread: "1 search row of turns that are gone",
        falsify_facts: "1 facts document not the fold of the thread's changes",
        lose_a_topic: "1 topic missing that turns belong to",
        lose_a_session: "1 session missing that turns belong to",
        put_off_a_turn: "1 turn with work that no worker would ever begin",
    },
    {
        orphan_a_row: "1 search row of turns that are gone",
        spoil_vectors: "1 search row with vectors that are none",
        plant_a_change: "1 fact change of turns that are gone",
        overstate_a_topic: "1 topic made of other turns than there are",
        plant_a_compression: "1 compression of turns that are gone, miscounted or out of order",
        hold_a_lease: "1 lease held far into the future: was a clock ahead?",
    },
    {
        shorten_vectors: "1 search row with vectors that are none",
        overstate_facts: "1 facts document not the fold of the thread's changes",
        understate_a_topic: "1 topic made of other turns than there are",
        plant_a_topic: "1 topic of turns that are all gone",
    },
    {
        falsify_a_row: "1 search row with another place, role or time than the turn's",
        take_a_topic_away: "1 turn without a topic",
    },
)
"""Faults that don't hide each other, and what the doctor says of each."""

on_both_by_day = pytest.mark.parametrize("settings", ["sqlite", "mongodb"], indirect=True)


async def remade(service: MemoryService, *, forget_unreadable: bool = False) -> list[Finding]:
    """What is still wrong once all was made anew, as the command does it: what kept more from being looked at first."""
    for _ in range(3):
        by_scope: dict[Scope, list[Finding]] = {}
        for one in await examined(service):
            if one.repair or (forget_unreadable and one.kind in GIVEN_UP):
                assert one.scope is not None
                by_scope.setdefault(one.scope, []).append(one)
        await service.pause_worker()
        for scope, found in by_scope.items():
            now = service.clock.now()
            await make_anew(service.core, scope, found, now=now, forget_unreadable=forget_unreadable)
        await service.resume_worker()
        await service.settle(timeout=60)
    return await examined(service)


@on_both_by_day
async def test_each_fault_is_found_and_made_anew(settings: dict[str, Any]) -> None:
    """The doctor finds those planted and no others; made anew from the turns, what is known is as before."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        assert await examined(service) == []
        before = await known(service)
        fingerprint = service.core.embedder.fingerprint
        for faults in GROUPS:
            await service.pause_worker()
            for plant in faults:
                await plant(service.core.store)
            found = await examined(service)
            assert sorted(one.what for one in found) == sorted(faults.values())
            assert {one.scope for one in found} <= {SCOPE, SCOPE.user}
            assert await remade(service) == []
            assert await known(service) == before
            rows = [row for row in await service.core.store.search_rows("ada") if not row.erased]
            assert {row.embedder for row in rows} == {fingerprint}


@on_both_by_day
async def test_what_only_a_person_mends_is_left_with_what_to_do(settings: dict[str, Any]) -> None:
    """A parked turn is tried again, and what came back is erased again by the receipts, with a call whose last pass was lost."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        store: Store = service.core.store
        turn, dog = await store.list_turns(SCOPE, limit=2)
        await park_a_turn(store)
        await lose_an_erasure(store)
        hasher = await hasher_of(store)
        receipts = [one for one in await store.receipts() if one.turns]
        whose = {"user": hasher.user("ada"), "thread": hasher.thread("ada", "home")}
        of_it = replace(receipts[0], state="erased", id=new_id(), turns=(hasher.turn(dog.id),), **whose)
        await store.put_receipt(of_it)
        found = await examined(service)
        assert sorted(one.what for one in found) == [
            "1 forget call whose last pass nobody owes",
            "1 turn parked (the model is on fire)",
            "1 turn there again after being forgotten",
        ]
        assert {one.kind for one in found} < BY_HAND.keys()
        await service.retry_parked()
        assert await service.replay_erasures(await service.erasures())
        await service.settle(timeout=60)
        assert await examined(service) == []
        assert [one.id for one in await store.list_turns(SCOPE, ids=[turn.id, dog.id])] == [turn.id]


# What is changed: in SQLite by a statement, in MongoDB by an update; and what the doctor calls it.
HOME = "user_id = 'ada' AND thread_id = 'home'"
TURN = f"(SELECT id FROM turns WHERE {HOME} ORDER BY seq LIMIT 1)"
DERIVED: dict[str, tuple[str, dict[str, Any]]] = {
    "topics": (
        f"UPDATE topics SET tags = CAST(x'ff' AS TEXT) WHERE {HOME} AND id = (SELECT min(id) FROM topics WHERE {HOME})",
        {"$unset": {"last_access": 1}},
    ),
    "fact_events": (
        f"UPDATE fact_events SET turns = '[' WHERE {HOME} AND seq = 1",
        {"$set": {"stated": "{"}},
    ),
    "facts": (f"UPDATE facts SET facts = '[' WHERE {HOME}", {"$unset": {"people": 1}}),
    "compressions": (f"UPDATE compressions SET derived = x'00' WHERE {HOME}", {"$set": {"derived": b"0"}}),
    "search_rows": (
        f"UPDATE search_rows SET vectors = x'00' WHERE turn_id = pack_id({TURN})",
        {"$set": {"terms": 7}},
    ),
}
TRUTH: dict[str, tuple[str, dict[str, Any]]] = {
    "turns": (f"UPDATE turns SET metadata = '{{' WHERE id = {TURN}", {"$unset": {"timestamp": 1}}),
    "sessions": (f"UPDATE sessions SET participants = '[' WHERE {HOME}", {"$unset": {"started_at": 1}}),
    "fact_events": (
        f"UPDATE fact_events SET turns = '[' WHERE {HOME} AND turn_id IS NULL",
        {"$set": {"stated": "{"}},
    ),
}


async def damage(service: MemoryService, records: dict[str, tuple[str, dict[str, Any]]], **of: Any) -> None:
    """Damage records of each kind. `of`: which ones, of a collection."""
    for table, (sql, update) in records.items():
        where = {"user_id": "ada", "thread_id": "home", **of.get(table, {})}
        await raw(service.core.store, sql, table, operator.methodcaller("update_many", where, update))
    service.core.residents.drop("ada")
    service.core.facts.drop("ada")


@on_both_by_day
async def test_derived_records_that_cannot_be_read_are_made_anew(settings: dict[str, Any]) -> None:
    """Of each kind at once: they are named, and what is known is as before."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        store: Store = service.core.store
        [first, *_] = await store.list_turns(SCOPE)
        before = json.dumps(await known(service))
        assert await store.append_compression(a_compression([first], scope=SCOPE))
        await damage(service, DERIVED, fact_events={"seq": 1}, search_rows={"_id": first.id})
        [found] = await examined(service)
        assert (found.kind, found.scope) == ("derived_damaged", SCOPE)
        assert {one.split()[0] for one in found.ids} == DERIVED.keys()
        assert await remade(service) == []
        assert json.dumps(await known(service)) == before


@on_both_by_day
async def test_a_turn_and_what_people_set_are_given_up_only_if_asked(settings: dict[str, Any]) -> None:
    """A turn, a session, an edit: named, and left as they are; given up the thread can be read again, and the turn is forgotten."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        store: Store = service.core.store
        await service.agent("ada", "home").set_fact("shoe_size", "41")
        turns, receipts = await store.list_turns(SCOPE), len(await service.erasures())
        await damage(service, TRUTH, turns={"_id": turns[0].id}, fact_events={"turn_id": None})
        [found] = await examined(service)
        assert (found.kind, found.scope, found.repair) == ("damaged", SCOPE, False)
        assert {one.split()[0] for one in found.ids} == TRUTH.keys()
        assert await remade(service) == [found]
        assert await remade(service, forget_unreadable=True) == []
        assert [turn.id for turn in await store.list_turns(SCOPE)] == [turn.id for turn in turns[1:]]
        assert len(await service.erasures()) == receipts + 1
        assert "shoe_size" not in await service.agent("ada", "home").fetch_facts()
        assert (await service.search("ada", "What is my dog called?", 1))[0].turn.content.count("Turnip")


async def test_turns_whose_text_is_lost_are_named_and_forgotten_if_asked(settings: dict[str, Any]) -> None:
    """One segment is damaged, another missing: only a person decides that they go, and then the thread can be read again."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        store: Store = service.core.store
        turns = await store.list_turns(SCOPE)
        for some in (turns[:3], turns[3:5]):
            assert (await store.compress_turns(SCOPE, str(some[0].topic_id), [t.id for t in some])).turns
        assert await examined(service) == []
        gone = {"_id": {"$exists": True}, "turn_ids": turns[3].id}
        await raw(
            store,
            f"DELETE FROM segments WHERE id = (SELECT segment_id FROM turns WHERE id = '{turns[3].id}')",
            "segments",
            lambda each: each.delete_one(gone),
        )
        of_first = {"turn_ids": turns[0].id}
        await raw(
            store,
            "UPDATE segments SET data = x'0123' WHERE user_id = 'ada'",
            "segments",
            lambda each: each.update_one(of_first, {"$set": {"data": b"\x01\x23"}}),
        )
        [found] = await examined(service)
        assert found.what == "5 turns whose packed text is lost or damaged"
        assert set(found.ids) == {turn.id for turn in turns[:5]}
        assert await remade(service) == [found]
        assert await remade(service, forget_unreadable=True) == []
        assert [turn.content for turn in await store.list_turns(SCOPE)] == [t.content for t in turns[5:]]


async def test_turns_since_topics_were_switched_off_lack_none(settings: dict[str, Any]) -> None:
    """Nor once they are on again, where the doctor has them placed."""
    async with MemoryService(MemoryConfig(**settings, enable_topics=False)) as service:
        await service.agent("ada", "home").update_memory("My bike has a bell.", "Ring it.")
        await service.settle(timeout=60)
        assert (await service.core.store.list_turns(SCOPE, limit=1, newest=True))[0].topic_id is None
        assert await examined(service) == []
    async with MemoryService(MemoryConfig(**settings)) as service:
        [found] = await examined(service)
        assert found.what == "2 turns without a topic"
        assert await remade(service) == []


async def test_a_large_users_term_index_is_compared(settings: dict[str, Any]) -> None:
    """Terms that its rows hold and the index lost are found, and taken in again."""
    async with MemoryService(MemoryConfig(**settings, resident_max_turns=10)) as service:
        await service.rebuild_index("ada")
        await service.settle(timeout=60)
        assert await examined(service) == []
        store: Store = service.core.store
        await raw(
            store,
            "DELETE FROM row_terms WHERE user_id = 'ada' AND term = 'porto'",
            "search_rows",
            lambda rows: rows.update_many({"user_id": "ada"}, {"$pull": {"words": "porto"}}),
        )
        [found] = await examined(service)
        assert found.what == "1 term missing in the large user's term index"
        assert await remade(service) == []


async def _index_elsewhere(service: MemoryService, ids: list[str], **where: Any) -> None:
    """Vectors of these turns in a collection that no search looks at."""
    cfg, own = service.cfg, cast("ChromaServer", service.core.vectors)
    given = {"prefix": cfg.memory_collection_prefix, "fingerprint": own._fingerprint}
    other = ChromaServer(str(cfg.chroma_host), cfg.chroma_port, **{**given, **where})
    await other.open()
    await other.upsert("ada", [passage(turn_id) for turn_id in ids])
    await other.close()


def passage(turn_id: str) -> PassageVector:
    vector = np.ones(384, dtype=np.float32)
    return PassageVector(
        turn_id=turn_id, thread_id="home", passage=0, role="user", timestamp=datetime.now(UTC), vector=vector
    )


async def lose_vectors(service: MemoryService, ids: list[str]) -> None:
    assert await service.core.vectors.delete("ada", ids)


async def orphan_vectors(service: MemoryService, _: list[str]) -> None:
    await service.core.vectors.upsert("ada", [passage(NOBODY)])


async def of_a_former_model(service: MemoryService, ids: list[str]) -> None:
    await lose_vectors(service, ids)
    await _index_elsewhere(service, ids, fingerprint="former1")


async def of_other_shards(service: MemoryService, ids: list[str]) -> None:
    await lose_vectors(service, ids)
    await _index_elsewhere(service, ids, shards=SHARDS + 1)


LACKING = "2 turns without vectors where Chroma should have them"
INDEX_FAULTS = {
    "lost vectors": (lose_vectors, LACKING),
    "vectors of nobody": (orphan_vectors, "1 turn gone, with vectors in Chroma"),
    "in a former model's collection": (of_a_former_model, LACKING),
    "in a collection of another number of shards": (of_other_shards, LACKING),
}


async def test_each_fault_of_a_chroma_server_is_found_and_mended(server_settings: dict[str, Any]) -> None:
    """The doctor finds that one alone, and mends it."""
    await fill(server_settings)
    async with MemoryService(MemoryConfig(**server_settings)) as service:
        assert await examined(service, vectors=True) == []
        ids = [turn.id for turn in await service.core.store.list_turns(SCOPE, limit=2)]
        before = await service.core.vectors.turn_ids("ada", searched=True)
        assert set(ids) < before
        for name in INDEX_FAULTS if profiles.chosen() == "nightly" else [*INDEX_FAULTS][:1]:
            plant, what = INDEX_FAULTS[name]
            await service.pause_worker()
            await plant(service, ids)
            found = await examined(service, vectors=True)
            assert [finding.what for finding in found] == [what], name
            assert found[0].ids == ((NOBODY,) if plant is orphan_vectors else tuple(sorted(ids))), name
            await service.resume_worker()
            await make_anew(service.core, SCOPE.user, found, now=service.clock.now())
            await service.settle(timeout=60)
            assert await examined(service, vectors=True) == [], name
            assert await service.core.vectors.turn_ids("ada", searched=True) == before, name


async def test_a_search_row_written_of_a_turn_that_is_being_forgotten_is_nothing_wrong(
    settings: dict[str, Any],
) -> None:
    """The last pass takes it."""
    async with MemoryService(MemoryConfig(**settings, run_worker=False)) as service:
        await service.agent("ada", "home").forget([NOBODY, "x"])
        await service.agent("ada", "attic").clear()
        now = datetime.now(UTC)
        home = replace(a_row(scope=SCOPE, seq=99), turn_id=NOBODY)
        attic = replace(
            a_row(scope=Scope(user_id="ada", thread_id="attic"), seq=1), turn_id=NOBODY[:-1] + "8"
        )
        await service.core.store.put_search_rows("ada", [home, attic], now=now)
        assert [found.what for found in await examined(service) if found.kind == "row_orphan"] == []
        # But in a thread that nobody clears it is.
        cellar = replace(
            a_row(scope=Scope(user_id="ada", thread_id="cellar"), seq=1), turn_id=NOBODY[:-1] + "7"
        )
        await service.core.store.put_search_rows("ada", [cellar], now=now)
        orphans = [found.ids for found in await examined(service) if found.kind == "row_orphan"]
        assert orphans == [(cellar.turn_id,)]


async def test_nothing_is_found_while_a_service_is_at_work(settings: dict[str, Any]) -> None:
    """What is under way looks like a difference for a moment; right after it, and while it is owed, nothing is wrong."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        async with asyncio.TaskGroup() as group:
            for at in range(6):
                agent = service.agent("ada", f"busy {at % 2}")
                group.create_task(agent.update_memory(f"I bought {at} figs in Porto.", "Good."))
        for _ in range(3):
            assert await examined(service) == []
        await service.settle(timeout=60)
        assert await examined(service) == []


def test_the_command(quick: Quick) -> None:
    """Exit codes for cron, JSON for machines, a repair; and where another process has the folder it looks, and says why it mends nothing."""
    quick("ingest", quick.file(*({"role": "user", "content": f"Box {at} holds letters."} for at in range(8))))
    assert "Examined 8 turns in 1 thread of 1 user: nothing is wrong." in quick("doctor").stdout
    totals = {"users": 1, "threads": 1, "turns": 8}
    assert quick.json("doctor") == {"totals": totals, "findings": [], "mended": []}
    with_store(quick, lambda store: store._execute("DELETE FROM search_rows WHERE seq < 4", []))
    said = quick("doctor", code=3).stdout
    assert "Wrong: 3 turns without a search row (user me, thread main)" in said
    assert "To mend it: memory-agent doctor --repair" in said
    [found] = json.loads(quick("doctor", "--json", code=3).stdout)["findings"]
    assert (found["kind"], found["user_id"], found["thread_id"]) == ("row_missing", "me", "main")
    assert len(found["ids"]) == 3
    lock = DataDirLock(quick.data)
    lock.acquire()
    assert "3 turns without a search row" in quick("doctor", code=3).stdout
    one_line(
        quick("doctor", "--repair", code=1).stderr, "--repair needs data_dir to itself", "in use by process"
    )
    lock.release()
    mended = quick("doctor", "--repair").stdout
    assert "Mended: 3 turns without a search row (user me, thread main)" in mended
    assert "nothing is wrong" in mended
    assert "nothing is wrong" in quick("doctor").stdout
    assert "--repair as well" in quick("doctor", "--forget-unreadable", code=2).stderr
