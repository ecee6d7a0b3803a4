"""Metadata of a MongoDB store, and its schema."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from pymongo.errors import DuplicateKeyError

from memory_agent.domain import SchemaState
from memory_agent.stores.mongo.connection import MongoConnection, bounded
from memory_agent.stores.mongo.documents import from_bson, to_bson
from memory_agent.stores.mongo.errors import driver_errors
from memory_agent.stores.versions import NEWEST, OLDEST, check_version

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

    from memory_agent.stores.mongo.connection import Document

_SCHEMA: Final = "schema"
"""Name of the mark. Version 0.1.0 put none."""


class MongoMeta(MongoConnection):
    """The metadata of a MongoStore."""

    @bounded
    async def get_meta(self, name: str) -> dict[str, Any] | None:
        found = await self._meta.find_one({"_id": name})
        value: dict[str, Any] | None = None if found is None else from_bson(found["value"])
        return value

    @bounded
    async def put_meta(self, name: str, value: dict[str, Any], *, only_new: bool = False) -> bool:
        document = {"_id": name, "value": to_bson(value)}
        try:
            if only_new:
                await self._meta.insert_one(document)
            else:
                await self._meta.replace_one({"_id": name}, document, upsert=True)
        except DuplicateKeyError:
            # Two that put a new name at once: the other has put it by now.
            return False if only_new else await self.put_meta(name, value)
        return True

    async def check_files(self, *, mend: bool = False) -> list[str]:
        return []

    async def schema(self) -> SchemaState:
        found = await self.get_meta(_SCHEMA) or {"version": OLDEST}
        return SchemaState(version=found["version"], newest=NEWEST)

    async def contract_schema(self) -> SchemaState:
        await self.put_meta(_SCHEMA, {"version": NEWEST})
        return await self.schema()

    async def _check_schema(self, database: AsyncDatabase[Document]) -> None:
        with driver_errors(self._timeout_seconds):
            found = await database["meta"].find_one({"_id": _SCHEMA})
            if found is None:
                version = await _unmarked(database)
                check_version(version, f"the database {database.name!r}")
                found = {"_id": _SCHEMA, "value": to_bson({"version": version})}
                with contextlib.suppress(DuplicateKeyError):  # of one that opens it at the same time
                    await database["meta"].insert_one(dict(found))
        check_version(from_bson(found["value"])["version"], f"the database {database.name!r}")


async def _unmarked(database: AsyncDatabase[Document]) -> int:
    """The version of a database without a mark."""
    row = await database["search_rows"].find_one({}, {"terms": 1})
    if row is not None and not isinstance(row.get("terms"), str):
        return OLDEST - 1
    return NEWEST if await database["turns"].find_one({}, {"_id": 1}) is None else OLDEST
