"""Idempotency keys of edits and sessions that were erased: enough to recognise a late repeat, no content."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from pymongo import UpdateOne

from memory_agent.stores.codec import thread_of
from memory_agent.stores.mongo.connection import MongoConnection, bounded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memory_agent.domain import KeyedKind, Scope
    from memory_agent.stores.mongo.connection import Document


class MongoSpentKeys(MongoConnection):
    """The spent keys of a MongoStore."""

    @bounded
    async def key_spent(self, scope: Scope, kind: KeyedKind, key: str) -> bool:
        where = {"user_id": scope.user_id, "thread_id": thread_of(scope), "kind": kind, "key": key}
        return await self._spent_keys.find_one(where, {"_id": 1}) is not None

    @bounded
    async def _spend_keys(
        self, user_id: str, kind: KeyedKind, gone: Iterable[Document], id_name: str
    ) -> None:
        """Note the keys of these documents of the user, before they go: a repeat finds the one or the other."""
        operations = [
            UpdateOne(
                {
                    "user_id": user_id,
                    "thread_id": document["thread_id"],
                    "kind": kind,
                    "key": document["idempotency_key"],
                },
                {"$set": {"id": document[id_name]}, "$setOnInsert": {"_id": str(uuid4())}},
                upsert=True,
            )
            for document in gone
            if "idempotency_key" in document
        ]
        if operations:
            await self._spent_keys.bulk_write(operations, ordered=False)

    async def _drop_spent_keys(self, user_id: str, before_id: str) -> None:
        await self._spent_keys.delete_many({"user_id": user_id, "id": {"$lt": before_id}})
