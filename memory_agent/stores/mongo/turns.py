"""Turns in MongoDB: appended with one write, numbered by a unique index, read by scope.

A turn that was forgotten leaves its document, emptied but for its number (and its idempotency key, if it has
one): a number must not be given twice, and a late repeat of its call must find that it was here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymongo.errors import BulkWriteError

from memory_agent.optimistic import Tries, overtaken
from memory_agent.stores.codec import thread_of
from memory_agent.stores.fields import OLD_TURN, TURN
from memory_agent.stores.mongo.connection import bounded, read_all
from memory_agent.stores.mongo.documents import scope_filter, turn_document, turn_or_tombstone
from memory_agent.stores.mongo.errors import first_write_error, violated_keys
from memory_agent.stores.mongo.indexes import CALL_KEYS, SEQ_KEYS
from memory_agent.stores.mongo.segments import MongoSegments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import OldTurn, Scope, Tombstone, Turn, TurnDraft
    from memory_agent.stores.mongo.connection import Document


class MongoTurns(MongoSegments):
    """The turns of a MongoStore."""

    @bounded
    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        thread_of(scope)
        if not drafts:
            return []
        documents = [turn_document(scope, draft) for draft in drafts]
        async with self._sequences.lock(scope):
            if drafts[0].idempotency_key is None:
                await self._insert_turns(scope, documents)
            else:
                documents = await self._insert_call(scope, documents)
        return list(map(turn_or_tombstone, await self._with_texts(documents)))

    async def _insert_call(self, scope: Scope, documents: list[Document]) -> list[Document]:
        """Insert what the thread has not seen of this call; everything it then has of it, in order."""
        async for _ in Tries():
            seen = await self._turns_of_call(scope, documents[0]["idempotency_key"])
            # The first call decides how many turns it has, whatever its repeat brings.
            size = seen[0]["call_size"] if seen else documents[0]["call_size"]
            known = {document["call_index"] for document in seen}
            missing = [d for d in documents if d["call_index"] not in known and d["call_index"] < size]
            if not missing:
                return seen
            for document in missing:
                document["call_size"] = size
            try:
                await self._insert_turns(scope, missing)
            except BulkWriteError as exc:
                if violated_keys(exc) != CALL_KEYS:
                    raise
                continue
            return sorted([*seen, *missing], key=lambda document: document["call_index"])
        raise overtaken("the call's turns")

    async def _turns_of_call(self, scope: Scope, key: str) -> list[Document]:
        query = {**scope_filter(scope), "idempotency_key": key}
        return await read_all(self._turns.find(query).sort("call_index", 1))

    async def _insert_turns(self, scope: Scope, documents: list[Document]) -> None:
        """Insert in order under the next numbers, which the documents then carry.

        The cost is one write. Only when the last number is not known, or another process took the next one,
        is it read first.
        """
        remaining = documents
        async for _ in Tries():
            last = self._sequences.take(scope)
            if last is None:
                last = await self._last_seq(scope)
            for seq, document in enumerate(remaining, start=last + 1):
                document["seq"] = seq
            try:
                await self._turns.insert_many(remaining, ordered=True)
            except BulkWriteError as exc:
                error = first_write_error(exc)
                if error is None or violated_keys(exc) != SEQ_KEYS:
                    raise
                remaining = remaining[error["index"] :]
                continue
            self._sequences.put(scope, last + len(remaining))
            return
        raise overtaken("the thread's next number")

    async def _last_seq(self, scope: Scope) -> int:
        newest = await self._turns.find_one(scope_filter(scope), {"seq": 1, "_id": 0}, sort=[("seq", -1)])
        return newest["seq"] if newest else 0

    @bounded
    async def list_turns(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        topic_ids: Sequence[str] | None = None,
        compressed: bool | None = None,
        session_id: str | None = None,
        after_seq: int = 0,
        through: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Turn]:
        if limit is not None and limit <= 0:
            return []
        query: Document = {**scope_filter(scope, ids), "gone_at": None}
        if topic_ids is not None:
            query["topic_id"] = {"$in": list(topic_ids)}
        if compressed is not None:
            query["segment_id"] = {"$exists": compressed}
        if session_id is not None:
            query["session_id"] = session_id
        if after_seq > 0:
            query["seq"] = {"$gt": after_seq}
        if through is not None:
            query.setdefault("seq", {})["$lte"] = through
        order = "_id" if scope.thread_id is None else "seq"
        cursor = self._turns.find(query).sort(order, -1 if newest else 1).limit(limit or 0)
        found = await self._with_texts(await read_all(cursor))
        turns = [TURN.get(document) for document in found if "gone_at" not in document]
        return turns[::-1] if newest else turns

    @bounded
    async def turns_before(
        self, time: datetime, *, after: OldTurn | None = None, limit: int
    ) -> list[OldTurn]:
        if limit <= 0:
            return []
        query: Document = {"timestamp": {"$lt": time}}
        if after is not None:
            # The lower bound says once more what the branches do, for it is what the index is searched by.
            query["timestamp"]["$gte"] = after.timestamp
            query["$or"] = [{"timestamp": {"$gt": after.timestamp}}, {"_id": {"$gt": after.id}}]
        fields = {"user_id": 1, "thread_id": 1, "timestamp": 1, "topic_id": 1}
        order = [("timestamp", 1), ("_id", 1)]
        found = await read_all(self._turns.find(query, fields).sort(order).limit(limit))
        return list(map(OLD_TURN.get, found))
