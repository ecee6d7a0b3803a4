"""Compressions in MongoDB, without a transaction: checked, inserted under a unique number, and checked again.

A compression goes before the turn whose words it may hold, and what was made of that turn meanwhile goes after it.
So one that is inserted in between is either seen by the eraser or sees itself that a turn is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pymongo.errors import DuplicateKeyError

from memory_agent.stores.codec import thread_of
from memory_agent.stores.compressions import COMPRESSION, compression_of, pack_derived
from memory_agent.stores.mongo.connection import MongoConnection, bounded, read_all
from memory_agent.stores.mongo.documents import scope_filter
from memory_agent.stores.mongo.work import owing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from memory_agent.domain import Compression, Erasure, Scope
    from memory_agent.stores.mongo.connection import Document


class MongoCompressions(MongoConnection):
    """The compressions of a MongoStore."""

    @bounded
    async def append_compression(self, compression: Compression) -> bool:
        newest = await self._newest_number(compression.scope)
        if newest != compression.number - 1 or not await self._stands(compression):
            return False
        fields = COMPRESSION.document(compression, derived=pack_derived(compression))
        document = {"_id": str(uuid4()), **fields}
        try:
            await self._compressions.insert_one(document)
        except DuplicateKeyError:
            return False
        if await self._stands(compression):
            return True
        await self._compressions.delete_one({"_id": document["_id"], "user_id": compression.user_id})
        return False

    async def _newest_number(self, scope: Scope) -> int:
        fields = {"number": 1, "_id": 0}
        newest = await self._compressions.find_one(scope_filter(scope), fields, sort=[("number", -1)])
        return newest["number"] if newest else 0

    async def _stands(self, compression: Compression) -> bool:
        """True if its inputs are there: the compression before it, and the turns that it covers."""
        where = scope_filter(compression.scope)
        covered = list(set(compression.covers))
        query = {**where, "_id": {"$in": covered}, "gone_at": None}
        if covered and await self._turns.count_documents(query) < len(covered):
            return False
        before = {**where, "number": compression.number - 1}
        found = await self._compressions.find_one(before, {"through": 1, "_id": 0})
        if found is None:
            return compression.number == 1 and compression.after_seq == 0
        return bool(found["through"] == compression.after_seq)

    @bounded
    async def compressions(
        self, scope: Scope, *, through: int | None = None, newest: int | None = None
    ) -> list[Compression]:
        thread_of(scope)
        if newest is not None and newest <= 0:
            return []
        query = scope_filter(scope)
        order = [("number", -1)]
        if through is not None:
            query["through"] = {"$lte": through}
            # Both rise together, and in this order only the wanted ones are read.
            order = [("through", -1), ("number", -1)]
        found = await read_all(self._compressions.find(query).sort(order).limit(newest or 0))
        return [compression_of(COMPRESSION.of_document(document)) for document in reversed(found)]

    # --- forgetting ------------------------------------------------------------------------------------------
    async def _forget_compressions(
        self, user_id: str, turns: Iterable[Document], erasure: Erasure | None, *, now: datetime
    ) -> int:
        """Delete the compressions that go up to one of these turns (`thread_id`, `seq`) or further. How many.

        The newest turn of each of their threads that the erasure spares owes `compress` again.
        """
        lowest: dict[str, int] = {}
        for turn in turns:
            thread_id, seq = turn["thread_id"], turn["seq"]
            lowest[thread_id] = min(seq, lowest.get(thread_id, seq))
        ends = await self._ends(user_id, list(lowest))
        dropped = 0
        for thread_id, seq in lowest.items():
            if ends.get(thread_id, -1) >= seq:
                thread = {"user_id": user_id, "thread_id": thread_id}
                dropped += await self._drop(thread, {"through": {"$gte": seq}}, erasure, now=now)
        return dropped

    @bounded
    async def _ends(self, user_id: str, threads: Sequence[str]) -> dict[str, int]:
        """Up to which turn each of these threads is compressed, where it is; from an index alone."""
        highest: list[dict[str, Any]] = [
            {"$match": {"user_id": user_id, "thread_id": {"$in": threads}, "through": {"$gte": 0}}},
            {"$group": {"_id": "$thread_id", "through": {"$max": "$through"}}},
        ]
        found = await read_all(self._compressions.aggregate(highest))
        return {group["_id"]: group["through"] for group in found}

    @bounded
    async def _covering(self, user_id: str) -> list[Document]:
        """All of the user's compressions, by thread and number, with the turns that they cover."""
        found = self._compressions.find({"user_id": user_id}, {"thread_id": 1, "number": 1, "covers": 1})
        return await read_all(found.sort([("thread_id", 1), ("number", 1)]))

    async def _sweep_compressions(
        self, user_id: str, found: Iterable[Document], gone: Collection[str], *, now: datetime
    ) -> int:
        """Delete those of these compressions (as `_covering` finds them) that cover one of the turns in `gone`.

        Also those whose predecessor is missing, for a crash may have stopped the deletion of a row of them, and
        whatever follows in their threads. How many.
        """
        broken: dict[str, int] = {}
        last: dict[str, int] = {}
        for document in found:
            thread_id, number = document["thread_id"], document["number"]
            if number != last.get(thread_id, 0) + 1 or not set(document["covers"]).isdisjoint(gone):
                broken.setdefault(thread_id, number)
            last[thread_id] = number
        dropped = 0
        for thread_id, number in broken.items():
            thread = {"user_id": user_id, "thread_id": thread_id}
            dropped += await self._drop(thread, {"number": {"$gte": number}}, None, now=now)
        return dropped

    @bounded
    async def _drop(
        self, thread: Document, which: Document, erasure: Erasure | None, *, now: datetime
    ) -> int:
        # Before, for after a crash nobody would know any more that they were there; and again, for a worker may
        # have been quick, and struck it off since they still were.
        await self._owe_compress(thread, erasure, now=now)
        deleted = await self._compressions.delete_many({**thread, **which})
        await self._owe_compress(thread, erasure, now=now)
        return int(deleted.deleted_count)

    async def _owe_compress(self, thread: Document, erasure: Erasure | None, *, now: datetime) -> None:
        """The thread's newest turn that the erasure has not yet to reach owes `compress`, if there is one."""
        kept = {**thread, "gone_at": None}
        if erasure is not None:
            ids = erasure.turn_ids
            kept["_id"] = {"$gte": erasure.before_id} if ids is None else {"$nin": list(ids)}
        newest = await self._turns.find_one(kept, {"_id": 1}, sort=[("seq", -1)])
        if newest is not None:
            await self._turns.update_one(
                {**thread, "_id": newest["_id"], "gone_at": None}, owing("compress", now)
            )
