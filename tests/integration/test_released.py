"""Stores that earlier versions wrote: opening one upgrades it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sqlite3
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

import pymongo
import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.domain import Scope
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.stores.fields import NEWEST
from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.mongo.connection import INDEXES
from memory_agent.stores.mongo.meta import DROPPED_COLLECTIONS, DROPPED_FIELDS, DROPPED_META
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.stores.sqlite.schema import copy_of
from tests.conformance.values import stored
from tests.faults import steps
from tests.integration.commands import Quick
from tests.released.fixture import DB_NAME, FIRST, VERSIONS, known, put_documents, put_file
from tests.released.write import GONE
from tests.released.write import known as known_now
from tests.servers.mongod import Mongod

AFTER = Scope(user_id="ada", thread_id="after")


@pytest.fixture(params=["sqlite", "mongodb"])
def old_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A store of an earlier version: of 0.1.0, or of the folder that a parameter `release` names."""
    release = request.node.callspec.params.get("release", FIRST)
    settings: dict[str, Any] = {"data_dir": tmp_path, "db_name": DB_NAME, "lease_seconds": 1}
    if request.param == "sqlite":
        put_file(tmp_path, release)
    else:
        server: Mongod = request.getfixturevalue("mongod")
        name = request.getfixturevalue("db_name")
        with pymongo.MongoClient[Any](server.uri) as client:
            put_documents(client, name, release)
            client[name]["search_rows"].create_index([("user_id", 1), ("thread_id", 1), ("seq", 1)])
        settings |= {"mongo_uri": server.uri, "db_name": name}
    return settings


def store_of(settings: dict[str, Any]) -> Any:
    if "mongo_uri" in settings:
        return MongoStore(settings["mongo_uri"], settings["db_name"], timeout_seconds=20)
    return SqliteStore(settings["data_dir"] / f"{DB_NAME}.sqlite3")


async def upgraded(service: MemoryService) -> None:
    """Wait until the worker has brought every user into the new form."""
    async with asyncio.timeout(60):
        while (schema := (await service.status()).store_schema) is None or schema.left:
            await asyncio.sleep(0.05)
    assert schema.version == NEWEST


@pytest.mark.parametrize("release", VERSIONS.values(), ids=VERSIONS)
async def test_what_it_knew_is_known(
    old_settings: dict[str, Any], release: Path, shared_embedder: LocalEmbedder
) -> None:
    """Every turn, every fact, and the topics; questions are answered from the user's turns, during the upgrade and after it."""
    expected = _without_ranks(known("mongodb" if "mongo_uri" in old_settings else "sqlite", release))
    for _ in range(2):
        async with MemoryService(MemoryConfig(**old_settings), embedder=shared_embedder) as service:
            assert _without_ranks(json.loads(json.dumps(await known_now(service)))) == expected
            await upgraded(service)
            people = stored_facts(old_settings)
            assert {user for user, _ in people} == {"ada", "ben"}
            for (user, thread), facts in people.items():
                assert facts == await service.agent(user, thread).fetch_facts(scope="thread") != {}
    async with MemoryService(MemoryConfig(**old_settings), embedder=shared_embedder) as service:
        await service.agent("ada", "home").update_memory("My boat is called Otter.", "Ahoy.")
        await service.settle(timeout=60)
        [found] = await service.search("ada", "What is my boat called?", 1)
        assert "Otter" in found.text
        # The forget call whose last pass the old process left owed.
        assert all(GONE[2] != hit.text for hit in await service.search("gus", "the secret ingredient", 10))


def _without_ranks(found: dict[str, Any]) -> dict[str, Any]:
    """Of what is found, whether anything is, and all of it the user's: how turns are ranked is each version's own."""
    for of_user in found.values():
        own = {turn[0] for turns in of_user["turns"].values() for turn in turns}
        of_user["search"] = {
            question: bool(hits) and own.issuperset(hits) for question, hits in of_user["search"].items()
        }
    return found


def stored_facts(settings: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The facts of each user's thread, as an outsider reads them, who knows the store's own tools alone."""
    if "mongo_uri" in settings:
        with pymongo.MongoClient[Any](settings["mongo_uri"]) as client:
            found = list(client[settings["db_name"]]["facts"].find({"created_at": {"$ne": None}}))
        assert all(isinstance(one[name], datetime) for one in found for name in ("created_at", "updated_at"))
        return {(one["user_id"], one["thread_id"]): one["facts"] for one in found}
    with contextlib.closing(sqlite3.connect(settings["data_dir"] / f"{DB_NAME}.sqlite3")) as connection:
        sql = "SELECT user_id, thread_id, facts FROM facts WHERE created_at <= updated_at"
        return {(user, thread): json.loads(facts) for user, thread, facts in connection.execute(sql)}


def shape_of(settings: dict[str, Any]) -> set[Any]:
    """What there is in the store besides its content: tables with their columns, indexes and triggers; or indexes."""
    if "mongo_uri" in settings:
        with pymongo.MongoClient[Any](settings["mongo_uri"]) as client:
            database = client[settings["db_name"]]
            return {(name, *database[name].index_information()) for name in INDEXES}
    with contextlib.closing(sqlite3.connect(settings["data_dir"] / f"{DB_NAME}.sqlite3")) as connection:
        return set(
            connection.execute(
                "SELECT m.type, m.name, (SELECT group_concat(name) FROM"
                " (SELECT name FROM pragma_table_info(m.name) ORDER BY name)) FROM sqlite_master m"
            ).fetchall()
        )


async def ended(store: Any) -> None:
    """Open the store, and upgrade all of it."""
    await store.open()
    while await store.upgrade_some():
        pass


async def remains_under_ids(settings: dict[str, Any]) -> int:
    """How many forgotten turns and spent keys there are under the ids of users."""
    if "mongo_uri" in settings:
        with pymongo.MongoClient[Any](settings["mongo_uri"]) as client:
            database, named = client[settings["db_name"]], {"user_id": {"$in": ["gus", "ada", "ben"]}}
            gone = {"gone_at": {"$exists": True}}
            return database["turns"].count_documents({**named, **gone}) + database[
                "spent_keys"
            ].count_documents(named)
    with contextlib.closing(sqlite3.connect(settings["data_dir"] / f"{DB_NAME}.sqlite3")) as connection:
        return sum(
            connection.execute(
                f"SELECT count(*) FROM {table} WHERE user_id IN ('gus', 'ada', 'ben')"
            ).fetchone()[0]
            for table in ("tombstones", "threads", "spent_keys")
        )


@pytest.mark.parametrize("release", VERSIONS.values(), ids=VERSIONS)
async def test_nothing_of_the_earlier_schema_is_left(
    old_settings: dict[str, Any], release: Path, tmp_path: Path
) -> None:
    """It looks like a new store, and remains of forgotten turns are under hashes, however many open it at once."""
    assert await remains_under_ids(old_settings)
    stores = [store_of(old_settings) for _ in range(4)]
    await asyncio.gather(*map(ended, stores))
    assert {(await store.schema()).left for store in stores} == {0}
    assert await remains_under_ids(old_settings) == 0
    new_settings = {**old_settings, "data_dir": tmp_path / "new"}
    if "mongo_uri" in old_settings:
        new_settings["db_name"] += "_new"
    new = store_of(new_settings)
    await ended(new)
    await new.close()
    assert shape_of(old_settings) == shape_of(new_settings)
    if "mongo_uri" in old_settings:
        with pymongo.MongoClient[Any](old_settings["mongo_uri"]) as client:
            database = client[old_settings["db_name"]]
            assert not database["meta"].count_documents({"_id": {"$in": DROPPED_META}})
            assert not {*DROPPED_COLLECTIONS}.intersection(database.list_collection_names())
            for name, fields in DROPPED_FIELDS.items():
                assert not database[name].count_documents(
                    {"$or": [{field: {"$exists": True}} for field in fields]}
                )
            client.drop_database(new_settings["db_name"])
    for store in stores:
        await store.close()


async def test_a_later_version_is_refused_in_words(old_settings: dict[str, Any]) -> None:
    """Before anything is written; the name of the store, both versions and the remedy are told."""
    if "mongo_uri" in old_settings:
        with pymongo.MongoClient[Any](old_settings["mongo_uri"]) as client:
            meta = client[old_settings["db_name"]]["meta"]
            meta.insert_one({"_id": "schema", "value": {"version": NEWEST + 1}})
            with pytest.raises(
                StoreError, match=rf"database .*later memory_agent \(schema {NEWEST + 1}.*Upgrade"
            ):
                await store_of(old_settings).open()
            assert meta.count_documents({}) == 1
        return
    file = old_settings["data_dir"] / f"{DB_NAME}.sqlite3"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    before = file.read_bytes()
    with pytest.raises(StoreError, match=rf"released.*later memory_agent \(schema {NEWEST + 1}.*Upgrade"):
        await store_of(old_settings).open()
    assert file.read_bytes() == before
    assert not copy_of(str(file)).exists()


def tables(file: Path) -> dict[str, list[Any]]:
    """All rows of all tables."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}


async def test_a_copy_is_made_first(tmp_path: Path) -> None:
    """It has every row, is its owner's alone, is made once, and goes when something is erased."""
    file = put_file(tmp_path)
    before = tables(file)
    kept = copy_of(str(file))
    chroma = tmp_path / "chroma_db"
    chroma.mkdir()
    (chroma / "chroma.sqlite3").write_bytes(b"vectors")
    kept.with_name(f"{kept.name}.part").write_text("of one that was killed")
    store = SqliteStore(file)
    await store.open()
    assert tables(kept) == before
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob(f"{kept.name}*")) == [kept.name]
    await stored(store, AFTER, "after the copy")
    await store.close()
    await store.open()
    assert tables(kept) == before
    assert (await store.schema()).kept == (str(kept), str(chroma))
    assert await store.rewrite_files()
    assert not kept.exists()
    assert not chroma.exists()
    assert (await store.schema()).kept == ()
    await store.close()


async def test_without_room_for_the_copy_nothing_is_changed(tmp_path: Path) -> None:
    """A folder where the copy cannot be written: an error with the remedy, and the file as it was."""
    file = put_file(tmp_path)
    (tmp_path / f"{copy_of(str(file)).name}.part").mkdir()
    before = tables(file)
    with pytest.raises(StoreUnavailable, match=r"copied to released.*failed.*make room for a file of \d+ MB"):
        await SqliteStore(file).open()
    assert tables(file) == before


async def upgrade(*place: str) -> None:
    """What is killed: the store is opened, which upgrades it, something is stored, and what was left for later is done."""
    store = SqliteStore(*place) if len(place) == 1 else MongoStore(*place, timeout_seconds=20)
    await store.open()
    await stored(store, AFTER, "in between", key="once")
    while await store.upgrade_some():
        pass
    await store.close()


@pytest.mark.parametrize("release", VERSIONS.values(), ids=VERSIONS)
async def test_killed_at_each_step(old_settings: dict[str, Any], release: Path, tmp_path: Path) -> None:
    """The next process finds every turn, and goes on to the same end; a copy that is there is whole."""
    place, before = tmp_path / "place", tables(put_file(tmp_path / "whole", release))
    file = place / f"{DB_NAME}.sqlite3"
    settings = {**old_settings, "data_dir": place}
    uri, name = settings.get("mongo_uri"), settings["db_name"]
    with pymongo.MongoClient[Any](uri) if uri else contextlib.nullcontext() as client:

        def prepare() -> list[str]:
            if client is not None:
                client.drop_database(name)
                put_documents(client, name, release)
                return [str(uri), name]
            shutil.rmtree(place, ignore_errors=True)
            put_file(place, release)
            return [str(file)]

        async def check() -> None:
            kept = copy_of(str(file))
            if kept.exists():
                assert tables(kept) == before
            await upgrade(*([str(uri), name] if uri else [str(file)]))
            assert await remains_under_ids(settings) == 0
            store = store_of(settings)
            await store.open()
            assert (await store.schema()).left == 0
            assert [turn.seq for turn in await store.list_turns(AFTER)] == [1]
            threads = known("mongodb" if uri else "sqlite", release)["default/ada"]["turns"]
            for thread, turns in threads.items():
                found = await store.list_turns(Scope(user_id="ada", thread_id=thread))
                assert [turn.id for turn in found] == [turn[0] for turn in turns]
            await store.close()

        await steps.kill_at_each("tests.integration.test_released:upgrade", prepare, check, least=12)


def test_the_command_says_what_is_kept(quick: Quick) -> None:
    """`status` names the copy of before, and in JSON the schema; a new memory has none."""
    file = put_file(quick.data)
    found = quick.json("status", MEMORY_AGENT_DB_NAME=DB_NAME)["store_schema"]
    assert found == {"version": NEWEST, "left": 0, "kept": [str(copy_of(str(file)))]}
    assert copy_of(str(file)).name in quick("status", MEMORY_AGENT_DB_NAME=DB_NAME).stderr.replace("\n", "")
    quick("ingest", quick.file({"role": "user", "content": "hello"}), MEMORY_AGENT_DB_NAME="fresh")
    assert quick.json("status", MEMORY_AGENT_DB_NAME="fresh")["store_schema"]["kept"] == []
