"""Next vectors in MongoDB: a field of the search row, so that whatever replaces or empties a row takes them along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from memory_agent.optimistic import Tries, overtaken
from memory_agent.stores.codec import chunks, milliseconds
from memory_agent.stores.mongo.connection import bounded, read_all
from memory_agent.stores.mongo.documents import next_document
from memory_agent.stores.mongo.rows import MongoRows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memory_agent.domain import NextVectors
    from memory_agent.stores.mongo.connection import Document

_WRITTEN_AT_ONCE: Final = 500
_ADOPTED: Final[list[dict[str, Any]]] = [
    # A field of the next vectors that is missing is taken away from the row's own: tokens, for one.
    {"$set": {name: f"$next.{name}" for name in ("vectors", "passages", "embedder", "tokens")}},
    {"$unset": "next"},
]


class MongoMigration(MongoRows):
    """The next vectors of a MongoStore."""

    @bounded
    async def vector_pointer(self, user_id: str) -> str:
        found = await self._pointers.find_one({"user_id": user_id}, {"embedder": 1})
        return "" if found is None else str(found["embedder"])

    async def set_vector_pointer(self, user_id: str, embedder: str, *, now: datetime) -> None:
        if await self.vector_pointer(user_id) == embedder:
            return
        await self._point(user_id, embedder)
        async with self._sequences.lock(("search_rows", user_id)):
            await self._renumber_newest(user_id, now)

    @bounded
    async def _point(self, user_id: str, embedder: str) -> None:
        if embedder:
            pointer = {"$set": {"embedder": embedder}}
            await self._pointers.update_one({"user_id": user_id}, pointer, upsert=True)
        else:
            await self._pointers.delete_one({"user_id": user_id})

    @bounded
    async def _renumber_newest(self, user_id: str, now: datetime) -> None:
        """Give the user's newest row that is no stub a number above all."""
        live = {"user_id": user_id, "erased": None}
        async for _ in Tries():
            newest = await self._rows.find_one(live, {"index_seq": 1}, sort=[("index_seq", -1)])
            if newest is None:
                return
            head = await self.index_head(user_id)
            number = {"index_seq": max(head + 1, milliseconds(now)), "after": head}
            try:
                done = await self._rows.update_one({**live, **newest}, {"$set": number})
            except DuplicateKeyError:
                continue
            if done.modified_count and not await self._written_unaware_of(user_id, number["index_seq"]):
                return
        raise overtaken("the user's next index number")

    @bounded
    async def turns_without(self, user_id: str, embedder: str, *, limit: int) -> list[str]:
        if limit <= 0:
            return []
        lacking: Document = {"user_id": user_id, "erased": None}
        lacking |= {"embedder": {"$ne": embedder}, "next.embedder": {"$ne": embedder}}
        found = self._rows.find(lacking, {"_id": 1}).sort("_id", 1).limit(limit)
        return [row["_id"] for row in await read_all(found)]

    async def put_next_vectors(self, user_id: str, vectors: Mapping[str, NextVectors]) -> None:
        for chunk in chunks(list(vectors), _WRITTEN_AT_ONCE):
            updates = [
                UpdateOne(
                    {"_id": turn_id, "user_id": user_id, "erased": None},
                    {"$set": {"next": next_document(vectors[turn_id])}},
                )
                for turn_id in chunk
            ]
            await self._bounded(self._rows.bulk_write(updates, ordered=False))

    @bounded
    async def adopt_next_vectors(self, user_id: str, embedder: str) -> int:
        done = await self._rows.update_many({"user_id": user_id, "next.embedder": embedder}, _ADOPTED)
        return int(done.modified_count)

    @bounded
    async def drop_next_vectors(self, user_id: str) -> int:
        having = {"user_id": user_id, "next": {"$exists": True}}
        done = await self._rows.update_many(having, {"$unset": {"next": ""}})
        return int(done.modified_count)
