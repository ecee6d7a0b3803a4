"""The document stores under test."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.sqlite import SqliteStore
from tests import profiles

ADAPTERS = ("sqlite", "mongodb", "mongodb-motor", "mongodb-standalone")
USUAL = ADAPTERS if profiles.chosen() == "nightly" else ADAPTERS[:2]
EVERY_SERVER = (
    "sqlite",
    "mongodb",
    "mongodb-standalone",
    pytest.param("mongodb-motor", marks=pytest.mark.nightly),
)
SILENT = ("mongodb-standalone",)
"""Which tell no events."""
TIMEOUT_SECONDS = 20.0


class Stores:
    """Opens stores of one adapter on one database, and closes them with their clients."""

    SQLITE: Any = SqliteStore
    MONGO: Any = MongoStore

    def __init__(self, adapter: str, *, folder: Path, db_name: str, uri: str | None) -> None:
        self._adapter = adapter
        self._path = folder / "deep" / "memory.db"
        self._db_name = db_name
        self._uri = uri
        self._stack = AsyncExitStack()

    async def open(self) -> Any:
        store = self.make()
        await store.open()
        return store

    def make(self) -> Any:
        """One that is not open yet; it is closed at the end."""
        if self._uri is None:
            store = self.SQLITE(self._path, timeout_seconds=TIMEOUT_SECONDS)
        else:
            client: Any = self._uri
            if self._adapter == "mongodb-motor":
                from motor.motor_asyncio import AsyncIOMotorClient

                client = AsyncIOMotorClient(self._uri)
                self._stack.callback(client.close)
            store = self.MONGO(client, self._db_name, timeout_seconds=TIMEOUT_SECONDS)
        self._stack.push_async_callback(store.close)
        return store

    async def close(self) -> None:
        await self._stack.aclose()
