"""API keys in MongoDB: the collection `api_keys`, one document each, whose `_id` is the key's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymongo.errors import DuplicateKeyError

from memory_agent.errors import StoreError
from memory_agent.stores.fields import API_KEY
from memory_agent.stores.mongo.connection import KEY_INDEXES, MongoConnection, bounded, read_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import ApiKey
    from memory_agent.stores.mongo.connection import Document


class MongoKeys(MongoConnection):
    """`KeyStore` on MongoDB, with the arguments and the guarantees of a MongoStore, on a connection of its own.

    Keys are found by `_id`, which every server of any kind keeps unique.
    """

    _indexes = KEY_INDEXES

    @bounded
    async def put(self, key: ApiKey) -> None:
        try:
            await self._keys.insert_one(API_KEY.document(key))
        except DuplicateKeyError as exc:
            raise StoreError(f"there is an API key {key.id!r:.80} already; make another one") from exc

    @bounded
    async def find(self, key_id: str) -> ApiKey | None:
        document = await self._keys.find_one({"_id": key_id})
        return None if document is None else API_KEY.get(document)

    @bounded
    async def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        where: Document = {} if tenant is None else {"tenant": tenant}
        found = await read_all(self._keys.find(where).sort([("created_at", 1), ("_id", 1)]))
        return list(map(API_KEY.get, found))

    @bounded
    async def revoke(self, key_id: str, at: datetime) -> bool:
        # One update, so that of two who revoke at once the first one's time stays.
        first: list[dict[str, Any]] = [{"$set": {"revoked_at": {"$ifNull": ["$revoked_at", at]}}}]
        return bool((await self._keys.update_one({"_id": key_id}, first)).matched_count)
