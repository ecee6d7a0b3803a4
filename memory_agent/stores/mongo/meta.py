"""Metadata of a MongoDB store."""

from __future__ import annotations

from typing import Any

from pymongo.errors import DuplicateKeyError

from memory_agent.stores.mongo.connection import MongoConnection, bounded
from memory_agent.stores.mongo.documents import from_bson, to_bson


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
