"""Remains of forgotten turns in MongoDB: emptied documents in `turns`, spent keys. Under ids at first, then under hashes.

A document gets another id by being written under it, before the first goes; whoever looks meanwhile asks for the first and then for the other.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pymongo.errors import BulkWriteError

from memory_agent.domain import Scope
from memory_agent.domain.work import HASHING, Hasher, is_of_remains, new_secret
from memory_agent.stores.codec import SEQ_HELD, SEQ_TRUST_SECONDS, thread_of
from memory_agent.stores.mongo.connection import bounded, read_all
from memory_agent.stores.mongo.documents import scope_filter
from memory_agent.stores.mongo.meta import MongoMeta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.stores.mongo.connection import Collection, Document

_DUPLICATE: Final = 11_000
_REMEMBERED_THREADS: Final = 20_000
_CALL: Final = ("seq", "gone_at", "idempotency_key", "call_index", "call_size")


class MongoRemains(MongoMeta):
    """The remains of a MongoStore's forgotten turns."""

    def __init__(self, client_or_uri: object, db_name: str, *, timeout_seconds: float) -> None:
        super().__init__(client_or_uri, db_name, timeout_seconds=timeout_seconds)
        self._known_hasher: Hasher | None = None
        self._left: dict[Scope, tuple[bool, float]] = {}

    async def _hasher(self) -> Hasher | None:
        """The store's; None if it has no secret yet, and so nothing under hashes."""
        if self._known_hasher is None and (found := await self.get_meta(HASHING)) is not None:
            self._known_hasher = Hasher.of(found)
        return self._known_hasher

    async def _of_remains(self, scope: Scope) -> list[Document]:
        """Filters of what the scope left: under its ids, then under hashes."""
        hasher = await self._hasher()
        hashed = [] if hasher is None else [scope_filter(hasher.remains(scope))]
        return [scope_filter(scope), *hashed]

    async def _has_left(self, scope: Scope, places: Sequence[Document] | None = None) -> bool:
        """True if turns of a keyed call were forgotten in the thread (at these `places`), as of the last SEQ_TRUST_SECONDS.

        That is soon enough: such remains are older than SEQ_HELD when they go under hashes, where no unique index meets a repeat.
        """
        left, known_at = self._left.get(scope, (False, -math.inf))
        if time.monotonic() - known_at >= SEQ_TRUST_SECONDS:
            known_at = time.monotonic()
            keyed = {"gone_at": {"$exists": True}, "idempotency_key": {"$type": "string"}}
            places = await self._of_remains(scope) if places is None else places
            left = any([await self._turns.find_one({**where, **keyed}, {"_id": 1}) for where in places])
            if len(self._left) >= _REMEMBERED_THREADS:
                self._left.clear()
            self._left[scope] = (left, known_at)
        return left

    async def _last_seq(self, scope: Scope) -> int:
        """The last `seq` of the thread's turns, those that are gone included; 0 without any."""
        return await self._highest(await self._of_remains(scope))

    async def _last_hashed(self, scope: Scope) -> int:
        """The last `seq` of those that are under hashes."""
        return await self._highest((await self._of_remains(scope))[1:])

    async def _highest(self, places: Sequence[Document]) -> int:
        last = 0
        for where in places:
            newest = await self._turns.find_one(where, {"seq": 1, "_id": 0}, sort=[("seq", -1)])
            last = max(last, newest["seq"] if newest else 0)
        return last

    @bounded
    async def _upgrade_user(self, user_id: str) -> None:
        """Version 0.1.0 kept the remains under ids."""
        await super()._upgrade_user(user_id)
        if not is_of_remains(user_id):
            await self._hash_remains(user_id, gone_before=datetime.now(UTC) - SEQ_HELD)

    async def _hash_remains(self, user_id: str, *, gone_before: datetime) -> None:
        """Put the user's remains under hashes: documents that were emptied before that time, and spent keys."""
        self._left.clear()
        old = {"gone_at": {"$lt": gone_before}, "erasing": None}
        await self.put_meta(HASHING, new_secret(), only_new=True)
        hasher = Hasher.of(await self.get_meta(HASHING) or {})
        for thread_id in await self._threads_with_gone_turns(user_id):
            thread = Scope(user_id=user_id, thread_id=thread_id)
            kept = hasher.remains(thread)
            place = {"user_id": kept.user_id, "thread_id": kept.thread_id}
            gone = await read_all(self._turns.find({**scope_filter(thread), **old}))
            if not gone:
                continue
            highest = max(turn["seq"] for turn in gone)
            left = [turn for turn in gone if "idempotency_key" in turn or turn["seq"] == highest]
            hashed = [
                {
                    "_id": hasher.gone(turn["_id"]),
                    **place,
                    **{name: turn[name] for name in _CALL if name in turn},
                }
                for turn in left
            ]
            await self._insert_missing(self._turns, hashed)
            ids = [turn["_id"] for turn in gone]
            await self._turns.delete_many({**scope_filter(thread), "_id": {"$in": ids}})
            await self._turns.delete_many({**place, "idempotency_key": None, "seq": {"$lt": highest}})
        spent = await read_all(self._spent_keys.find({"user_id": user_id}))
        moved = []
        for one in spent:
            kept = hasher.remains(Scope(user_id=user_id, thread_id=one["thread_id"]))
            place = {"user_id": kept.user_id, "thread_id": thread_of(kept)}
            moved.append({**one, "_id": hasher.turn(str(one["_id"])), **place, "id": hasher.gone(one["id"])})
        await self._insert_missing(self._spent_keys, moved)
        ids = [one["_id"] for one in spent]
        await self._spent_keys.delete_many({"user_id": user_id, "_id": {"$in": ids}})

    async def _insert_missing(self, collection: Collection, documents: Sequence[Document]) -> set[int]:
        """Insert the documents, but those of which something has the id or a unique key; the places of those."""
        if not documents:
            return set()
        try:
            await collection.insert_many(documents, ordered=False)
        except BulkWriteError as exc:
            errors = exc.details["writeErrors"]
            if any(error["code"] != _DUPLICATE for error in errors):
                raise
            return {error["index"] for error in errors}
        return set()

    async def _threads_with_gone_turns(self, user_id: str) -> list[str]:
        gone = {"user_id": user_id, "gone_at": {"$exists": True}}
        return list(await self._turns.distinct("thread_id", gone))
