"""Facts in MongoDB: an append-only log of changes per thread, and its fold as one document per thread.

Changes number themselves as turns do. The facts document remembers in `floor` up to which number changes were
erased, so that these numbers are not given again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from pymongo import DeleteMany, ReplaceOne, UpdateOne
from pymongo.errors import DuplicateKeyError

from memory_agent.concurrency import Tries, overtaken
from memory_agent.domain import FactsDocument, Scope
from memory_agent.errors import InvalidInput
from memory_agent.stores.codec import thread_of
from memory_agent.stores.fields import CHANGE, COST
from memory_agent.stores.mongo.connection import (
    CHANGE_KEYS,
    ONCE_KEYS,
    SEQ_KEYS,
    MongoConnection,
    bounded,
    read_all,
    united,
    violated_keys,
)
from memory_agent.stores.mongo.documents import change_document, facts_document, facts_fields, scope_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import ExtractionCost, FactChange
    from memory_agent.stores.mongo.connection import Document


class MongoFacts(MongoConnection):
    """The facts of a MongoStore."""

    @bounded
    async def _delete_changes(self, user_id: str, where: Document) -> int:
        """Delete these changes of the user, whose numbers stay taken, and empty their threads' documents. How many."""
        query = {"user_id": user_id, **where}
        by_thread: list[Document] = [
            {"$match": query},
            {"$group": {"_id": "$thread_id", "seq": {"$max": "$seq"}}},
        ]
        found = await read_all(self._fact_events.aggregate(by_thread))
        highest = {group["_id"]: group["seq"] for group in found}
        if not highest:
            return 0
        await self._update_facts(
            user_id, {thread: {"$max": {"floor": seq}} for thread, seq in highest.items()}
        )
        # Not above the number just noted: a change that is appended meanwhile would give its own back.
        gone = [
            DeleteMany({**query, "thread_id": thread, "seq": {"$lte": seq}})
            for thread, seq in highest.items()
        ]
        deleted = await self._fact_events.bulk_write(gone, ordered=False)
        await self._reset_facts(user_id, highest)
        return int(deleted.deleted_count)

    @bounded
    async def _strip_changes(self, user_id: str, turn_ids: Sequence[str]) -> None:
        """Take these turns and their words out of the changes with them in view. What is known stays."""
        seen = {"$in": list(turn_ids)}
        where = {"user_id": user_id, "$or": [{"turns": seen}, {"turn_id": seen}]}
        left: dict[str, FactChange] = {
            document["_id"]: CHANGE.get(document).without(turn_ids)
            for document in await read_all(self._fact_events.find(where))
        }
        replaced = [
            ReplaceOne(
                {"_id": id_, "user_id": user_id},
                change_document(Scope(user_id=user_id, thread_id=change.thread_id), change),
            )
            for id_, change in left.items()
        ]
        if replaced:
            await self._fact_events.bulk_write(replaced, ordered=False)
        # Afterwards: whoever reads before that reads once more.
        await self._count_stripped(user_id, {change.thread_id for change in left.values()})

    async def _count_stripped(self, user_id: str, threads: Iterable[str]) -> None:
        """Have everybody read these threads' changes anew."""
        await self._update_facts(user_id, {thread_id: {"$inc": {"stripped": 1}} for thread_id in threads})

    @bounded
    async def _reset_facts(self, user_id: str, threads: Iterable[str]) -> None:
        """Empty these threads' documents. Call it after the changes went.

        A fold of the old changes that is saved from now on finds another revision than it read, also where
        there was no document: one is made.
        """
        empty = facts_fields(FactsDocument())
        await self._update_facts(user_id, {thread_id: {"$set": empty} for thread_id in threads})

    async def _update_facts(self, user_id: str, updates: dict[str, Document]) -> None:
        operations = []
        for thread_id, update in updates.items():
            made: Document = {"_id": str(uuid4())}
            if "$set" not in update:
                made |= facts_fields(FactsDocument())
            where = {"user_id": user_id, "thread_id": thread_id}
            operations.append(UpdateOne(where, {**update, "$setOnInsert": made}, upsert=True))
        if operations:
            await self._facts.bulk_write(operations, ordered=False)

    @bounded
    async def append_fact_change(self, scope: Scope, change: FactChange) -> bool:
        document = change_document(scope, change)
        async with self._sequences.lock(("facts", scope)):
            async for _ in Tries():
                last = await self._last_change(scope)
                try:
                    await self._fact_events.insert_one({**document, "_id": str(uuid4()), "seq": last + 1})
                except DuplicateKeyError as exc:
                    violated = violated_keys(exc)
                    if violated in (CHANGE_KEYS, ONCE_KEYS) or await self._has_change(scope, change):
                        return False
                    if violated != SEQ_KEYS:
                        raise
                    continue
                return True
        raise overtaken("the next number of the thread's facts")

    async def _has_change(self, scope: Scope, change: FactChange) -> bool:
        keys: list[Document] = [{"key": change.key}]
        if change.idempotency_key is not None:
            keys.append({"idempotency_key": change.idempotency_key})
        return await self._fact_events.find_one({**scope_filter(scope), "$or": keys}) is not None

    async def _last_change(self, scope: Scope) -> int:
        where = scope_filter(scope)
        newest = await self._fact_events.find_one(where, {"seq": 1, "_id": 0}, sort=[("seq", -1)])
        # Read second: erasing raises the floor before it deletes, so one of the two reads shows the number.
        document = await self._facts.find_one(where, {"floor": 1, "_id": 0})
        floor: int = (document or {}).get("floor", 0)
        return max(newest["seq"] if newest else 0, floor)

    @bounded
    async def fact_changes(
        self, scope: Scope, *, after_seq: int = 0, keys: Sequence[str] | None = None
    ) -> list[FactChange]:
        query = {**scope_filter(scope), "seq": {"$gt": after_seq}}
        if keys is not None:
            query["key"] = {"$in": list(keys)}
        order = [("seq", 1)]
        if scope.thread_id is None:
            order = [("recorded_at", 1), ("thread_id", 1), ("seq", 1)]
        found = await read_all(self._fact_events.find(query).sort(order))
        return list(map(CHANGE.get, found))

    @bounded
    async def fact_heads(self, scope: Scope) -> dict[str, tuple[int, int, int]]:
        head = {"_id": "$thread_id", "count": {"$sum": 1}, "last": {"$max": "$seq"}}
        where = {"$match": scope_filter(scope)}
        stripped = {"$match": {**scope_filter(scope), "stripped": {"$gt": 0}}}
        found, counts = await united(
            (self._fact_events, where, {"$group": head}),
            (self._facts, stripped, {"$project": {"thread_id": 1, "stripped": 1, "_id": 0}}),
            hint=dict.fromkeys(SEQ_KEYS, 1),
        )
        of_thread = {one["thread_id"]: one["stripped"] for one in counts}
        return {one["_id"]: (one["count"], one["last"], of_thread.get(one["_id"], 0)) for one in found}

    async def drop_generation(self, scope: Scope, generation: str) -> int:
        thread_id = thread_of(scope)
        if not generation:
            raise InvalidInput("generation is empty; name the one whose changes are to go")
        where = {"thread_id": thread_id, "generation": generation}
        dropped = await self._delete_changes(scope.user_id, where)
        # Also if nothing was found, for a crash may have come between the deletion and the reset.
        await self._reset_facts(scope.user_id, [thread_id])
        return dropped

    @bounded
    async def add_extraction_cost(self, scope: Scope, cost: ExtractionCost) -> None:
        thread_of(scope)
        added = {"$inc": COST.document(cost), "$setOnInsert": {"_id": str(uuid4())}}
        await self._costs.update_one(scope_filter(scope), added, upsert=True)

    @bounded
    async def load_facts(self, scope: Scope) -> FactsDocument:
        thread_of(scope)
        return facts_document(await self._facts.find_one(scope_filter(scope)))

    @bounded
    async def save_facts(self, scope: Scope, document: FactsDocument, *, expected: str | None) -> bool:
        thread_of(scope)
        fields = facts_fields(document)
        if expected is None:
            try:
                await self._facts.insert_one({"_id": str(uuid4()), **scope_filter(scope), **fields})
            except DuplicateKeyError:
                return False
            return True
        result = await self._facts.update_one({**scope_filter(scope), "revision": expected}, {"$set": fields})
        return bool(result.matched_count)
