"""Open stores, a process that can die at any of its writes, and what a server was asked."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.sqlite import SqliteStore
from tests import profiles
from tests.servers.mongod import Mongod

WRITES = ("bulk_write", "insert_one", "insert_many", "update_one", "update_many", "delete_one", "delete_many")


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "memory.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def mongo(mongod: Mongod, db_name: str) -> AsyncIterator[MongoStore]:
    store = MongoStore(mongod.uri, db_name, timeout_seconds=10)
    await store.open()
    yield store
    await store.close()


class Asked:
    """A store in a database of its own, and what its server was asked."""

    def __init__(self, store: MongoStore, database: AsyncDatabase[dict[str, Any]]) -> None:
        self.store = store
        self._database = database

    @contextlib.asynccontextmanager
    async def noting(self, **wanted: Any) -> AsyncIterator[list[dict[str, Any]]]:
        """The operations that are `wanted`, of all while this is open; they are there once it is closed."""
        found: list[dict[str, Any]] = []
        await self._database.command({"profile": 2})
        yield found
        await self._database.command({"profile": 0})
        found += await self._database["system.profile"].find(wanted).sort("ts", 1).to_list()

    def of(self, collection: str) -> str:
        """How the server calls a collection."""
        return f"{self._database.name}.{collection}"


@pytest.fixture
async def asked(mongod: Mongod, fresh_db_name: str) -> AsyncIterator[Asked]:
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        store = MongoStore(client, fresh_db_name, timeout_seconds=10)
        await store.open()
        yield Asked(store, client[fresh_db_name])
        await store.close()


class Crash(BaseException):
    """The process dies."""


class Life:
    """How many writes the process has left."""

    left = 1_000

    def __init__(self) -> None:
        self.deaths = 0
        self._crashed = True
        self._numbers = profiles.kills(dear=True, least=3)

    def __iter__(self) -> Life:
        return self

    def __next__(self) -> int:
        """How many writes the next life has: more than the last, until one outlives what it does; by night one more."""
        if not self._crashed:
            raise StopIteration
        self.deaths = next(self._numbers)
        return self.deaths - 1

    @contextlib.contextmanager
    def ending(self) -> Any:
        """Within this it may die."""
        self.left, self._crashed = self.deaths - 1, False
        try:
            yield
        except Crash:
            self._crashed = True
        self.left = 1_000


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    """Every write to MongoDB costs one; the one too many raises Crash instead."""
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
