"""Sessions in MongoDB, and the compressions of their conversations: one document each, numbered by a unique index.

What is counted of sessions is read from indexes. A compression is checked, inserted under its number, and checked again,
for there is no transaction: it goes before the turn whose words it may hold, and what was made of that turn meanwhile
goes after it. So one that is inserted in between is either seen by the eraser or sees itself that a turn is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from memory_agent.concurrency import together
from memory_agent.domain import Scope, Session, ThreadHead
from memory_agent.domain.work import HASHING
from memory_agent.errors import StoreError
from memory_agent.stores.codec import completed, lowest_by_thread, of_tenant, pack_derived, thinned, thread_of
from memory_agent.stores.fields import COMPRESSION, SESSION
from memory_agent.stores.mongo.connection import (
    NUMBER_KEYS,
    ONCE_KEYS,
    bounded,
    first_write_error,
    read_all,
    united,
    violated_keys,
)
from memory_agent.stores.mongo.documents import STANDING, scope_filter
from memory_agent.stores.mongo.meta import MongoRemains
from memory_agent.stores.mongo.turns import owing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from memory_agent.domain import Compression, Erasure, KeyedKind
    from memory_agent.stores.mongo.connection import Collection, Document

    Key = tuple[str, str]
    """Thread and id of a session."""

_IDENTITY: Final = {"user_id": 1, "thread_id": 1, "session_id": 1, "idempotency_key": 1}
_BY_SESSION: Final[Document] = {"thread": "$thread_id", "session": "$session_id"}
_HEAD: Final[Document] = {"$project": {"seq": 1, "timestamp": 1, "session_id": 1, "gone_at": 1}}


class MongoSessions(MongoRemains):
    """The sessions and compressions of a MongoStore."""

    @bounded
    async def thread_head(self, scope: Scope) -> ThreadHead:
        thread_of(scope)
        where = scope_filter(scope)
        # In this order: what leaves its id is under its hash before. Without the secret it is seen that there is none yet.
        hasher = self._known_hasher
        left = (
            (self._meta, {"$match": {"_id": HASHING}})
            if hasher is None
            else (self._turns, *_newest(scope_filter(hasher.remains(scope)), "seq"))
        )
        opened, turns, hashed = await united(
            (self._sessions, *_newest(where, "number")), (self._turns, *_newest(where, "seq"), _HEAD), left
        )
        newest, given = next(iter(opened), None), next(iter(turns), None)
        if hashed and hasher is None:
            last_hashed = await self._last_hashed(scope)
        else:
            last_hashed = hashed[0]["seq"] if hashed else 0
        last = given
        if given is not None and "gone_at" in given:
            # Forgotten turns are read past, down to the first that is there: few, but right after the newest ones went.
            below = {**where, "gone_at": None, "seq": {"$lt": given["seq"]}}
            last = await self._turns.find_one(below, _HEAD["$project"], sort=[("seq", -1)])
        return ThreadHead(
            session=None if newest is None else SESSION.get(newest),
            last_seq=last["seq"] if last else 0,
            last_given=max(given["seq"] if given else 0, last_hashed),
            last_at=last["timestamp"] if last else None,
            last_session_id=last.get("session_id") if last else None,
        )

    @bounded
    async def put_sessions(self, sessions: Sequence[Session]) -> bool:
        if not sessions:
            return True
        documents = [{"_id": str(uuid4()), **SESSION.document(session)} for session in sessions]
        try:
            await self._sessions.insert_many(documents, ordered=True)
        except BulkWriteError as exc:
            error = first_write_error(exc)
            if error is None or violated_keys(exc) not in (NUMBER_KEYS, ONCE_KEYS):
                raise
            if stored := [document["session_id"] for document in documents[: error["index"]]]:
                await self._delete_unused({**scope_filter(sessions[0].scope), "session_id": {"$in": stored}})
            return False
        return True

    @bounded
    async def sessions(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        newest: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[Session]:
        if newest is not None and newest <= 0:
            return []
        query = scope_filter(scope)
        if idempotency_key is not None:
            query["idempotency_key"] = idempotency_key
        if ids is not None:
            query["session_id"] = {"$in": list(ids)}
        order = [("started_at", -1), ("number", -1), ("thread_id", -1)]
        found = await read_all(self._sessions.find(query).sort(order).limit(newest or 0))
        sessions = [SESSION.get(document) for document in reversed(found)]
        if not sessions:
            return []
        of_these = {**scope_filter(scope), "session_id": {"$in": [session.id for session in sessions]}}
        turns, compressions = await together(
            self._by_session(self._turns, of_these), self._by_session(self._compressions, of_these)
        )
        counted = []
        for session in sessions:
            key = (session.thread_id, session.id)
            total, last = turns.get(key, (0, None))
            last = max(session.started_at, last or session.started_at)
            made, _ = compressions.get(key, (0, None))
            counted.append(replace(session, last_activity=last, total_turns=total, compression_count=made))
        return counted

    @bounded
    async def find_session(
        self, session_id: str, *, tenant: str, user_id: str | None = None
    ) -> Session | None:
        order = [("user_id", 1), ("thread_id", 1)]
        found = await read_all(self._sessions.find({"session_id": session_id}).sort(order))
        for session in of_tenant(map(SESSION.get, found), tenant, user_id):
            counted = await self.sessions(session.scope, ids=[session_id])
            return counted[0] if counted else None
        return None

    async def _by_session(
        self, holder: Collection, where: Document
    ) -> dict[Key, tuple[int, datetime | None]]:
        """How many documents belong to each session, and the timestamp of the last turn; from an index alone."""
        count: list[Document] = [
            {"$match": where},
            {"$sort": {"session_id": 1, "thread_id": 1, "seq": 1}},
            {"$group": {"_id": _BY_SESSION, "number": {"$sum": 1}, "last": {"$last": "$timestamp"}}},
        ]
        if holder.name != self._turns.name:
            count = [count[0], {"$group": {"_id": _BY_SESSION, "number": {"$sum": 1}}}]
        found = await read_all(holder.aggregate(count))
        return {_key(group): (group["number"], group.get("last")) for group in found}

    @bounded
    async def delete_session(self, scope: Scope, session_id: str) -> bool:
        query = {**scope_filter(scope), "session_id": session_id}
        return await self._delete_unused(query) > 0

    async def _delete_unused(self, query: Document, *, spend: bool = False) -> int:
        """Delete those of these sessions that no turn belongs to; how many. `spend`: note their idempotency keys."""
        found = await read_all(self._sessions.find(query, _IDENTITY))
        if not found:
            return 0
        where: Document = {name: query[name] for name in ("user_id", "thread_id") if name in query}
        where["session_id"] = {"$in": [document["session_id"] for document in found]}
        used: list[dict[str, Any]] = [{"$match": where}, {"$group": {"_id": _BY_SESSION}}]
        kept = set(map(_key, await read_all(self._turns.aggregate(used))))
        unused = [
            document for document in found if (document["thread_id"], document["session_id"]) not in kept
        ]
        if spend:
            await self._spend_keys(query["user_id"], "session", unused, "session_id")
        ids = [document["_id"] for document in unused]
        result = await self._sessions.delete_many({"_id": {"$in": ids}, "user_id": query["user_id"]})
        return int(result.deleted_count)

    # --- compressions ----------------------------------------------------------------------------------------
    @bounded
    async def append_compression(self, compression: Compression) -> bool:
        newest = await self._compressions.find_one(scope_filter(compression.scope), sort=[("number", -1)])
        number = newest["number"] if newest else 0
        if number != compression.number - 1 or not await self._stands(compression):
            return False
        document = COMPRESSION.document(compression, derived=pack_derived(compression))
        document["_id"] = str(uuid4())
        try:
            await self._compressions.insert_one(document)
        except DuplicateKeyError:
            return False
        if not await self._stands(compression):
            await self._compressions.delete_one({"_id": document["_id"], "user_id": compression.user_id})
            return False
        if newest is not None:
            before = thinned(COMPRESSION.get(newest), compression)
            # Unless an erasure has dropped the new one again meanwhile, and completed the one before.
            where = {name: newest.get(name) for name in ("_id", "user_id", "completed")}
            await self._compressions.update_one(where, {"$set": {"derived": pack_derived(before)}})
        return True

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
        query, limit = scope_filter(scope), newest or 0
        if through is not None:
            wanted = {**query, "through": {"$lte": through}}
            # Both rise together, and in this order only the wanted ones are read.
            order = [("through", -1), ("number", -1)]
            numbers = await read_all(self._compressions.find(wanted, {"number": 1}).sort(order).limit(limit))
            if not numbers:
                return []
            # Later ones, too: each has the moments that those before it share.
            query["number"], limit = {"$gte": numbers[-1]["number"]}, 0
        found = await read_all(self._compressions.find(query).sort("number", -1).limit(limit))
        made = list(completed(map(COMPRESSION.get, found)))[::-1]
        return [one for one in made if through is None or one.through <= through]

    # --- forgetting ------------------------------------------------------------------------------------------
    @bounded
    async def _spend_keys(
        self, user_id: str, kind: KeyedKind, gone: Iterable[Document], id_name: str
    ) -> None:
        """Note the keys of these documents of the user, before they go: a repeat finds the one or the other."""
        operations = []
        for document in gone:
            if "idempotency_key" in document:
                place = {"user_id": user_id, "thread_id": document["thread_id"]}
                where = {**place, "kind": kind, "key": document["idempotency_key"]}
                noted = {"$set": {"id": document[id_name]}, "$setOnInsert": {"_id": str(uuid4())}}
                operations.append(UpdateOne(where, noted, upsert=True))
        if operations:
            await self._spent_keys.bulk_write(operations, ordered=False)

    @bounded
    async def _forget_sessions(self, erasure: Erasure) -> int:
        """Delete the sessions that the erasure takes: none, unless it is of a whole scope. How many."""
        if erasure.turn_ids is not None:
            return 0
        before = {"session_id": {"$lt": erasure.before_id}}
        return await self._delete_unused({**scope_filter(erasure.scope), **before}, spend=True)

    async def _forget_compressions(
        self, user_id: str, turns: Iterable[Document], erasure: Erasure | None, *, now: datetime
    ) -> int:
        """Delete the compressions that go up to one of these turns (`thread_id`, `seq`), gone or new, or further. How many.

        The newest turn of each of their threads that the erasure spares owes `compress` again.
        """
        lowest = lowest_by_thread((turn["thread_id"], turn["seq"]) for turn in turns)
        # Up to which turn each of these threads is compressed, where it is; from an index alone.
        highest: list[Document] = [
            {"$match": {"user_id": user_id, "thread_id": {"$in": list(lowest)}, "through": {"$gte": 0}}},
            {"$group": {"_id": "$thread_id", "through": {"$max": "$through"}}},
        ]
        found = await self._bounded(read_all(self._compressions.aggregate(highest)))
        ends = {group["_id"]: group["through"] for group in found}
        dropped = 0
        for thread_id, seq in lowest.items():
            if ends.get(thread_id, -1) >= seq:
                thread = {"user_id": user_id, "thread_id": thread_id}
                dropped += await self._drop(thread, {"through": {"$gte": seq}}, erasure, now=now)
        return dropped

    @bounded
    async def _covering(self, user_id: str) -> list[Document]:
        """All of the user's compressions, by thread and number, with the turns that they cover."""
        found = self._compressions.find({"user_id": user_id}, {"thread_id": 1, "number": 1, "covers": 1})
        return await read_all(found.sort([("thread_id", 1), ("number", 1)]))

    async def _drop_miscounted(self, scope: Scope, *, now: datetime) -> int:
        """Delete all compressions of those threads of the scope whose last one miscounts the turns up to it. How many."""
        where = scope_filter(scope)
        last: list[Document] = [
            {"$match": where},
            {"$sort": dict.fromkeys(NUMBER_KEYS, 1)},
            {"$group": {"_id": "$thread_id", "turns": {"$last": "$turns"}, "through": {"$last": "$through"}}},
        ]
        dropped = 0
        for group in await self._bounded(read_all(self._compressions.aggregate(last))):
            thread = {**where, "thread_id": group["_id"]}
            there = {**thread, **STANDING, "seq": {"$lte": group["through"]}}
            if group["turns"] != await self._bounded(self._turns.count_documents(there)):
                dropped += await self._drop(thread, {}, None, now=now)
        return dropped

    async def _sweep_compressions(
        self, user_id: str, found: Iterable[Document], gone: set[str], *, now: datetime
    ) -> int:
        """Delete those of these compressions (as `_covering` finds them) that cover one of the turns in `gone`.

        Also those whose predecessor is missing, for a crash may have stopped the deletion of a row of them, and
        whatever follows in their threads; and all of threads that the last one miscounts. How many.
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
        return dropped + await self._drop_miscounted(Scope(user_id=user_id), now=now)

    @bounded
    async def _drop(
        self, thread: Document, which: Document, erasure: Erasure | None, *, now: datetime
    ) -> int:
        # Before, for after a crash nobody would know any more that they were there; and again, for a worker may
        # have been quick, and struck it off since they still were.
        await self._owe_compress(thread, erasure, now=now)
        which = await self._complete_before(thread, which)
        deleted = await self._compressions.delete_many({**thread, **which})
        await self._owe_compress(thread, erasure, now=now)
        return int(deleted.deleted_count)

    async def _complete_before(self, thread: Document, which: Document) -> Document:
        """Give the one before those `which` go the moments that they have of it. Which go: all where one is damaged."""
        newest_first = [("number", -1)]
        dropping = await read_all(self._compressions.find({**thread, **which}).sort(newest_first))
        if not dropping:
            return which
        before = {**thread, "number": {"$lt": dropping[-1]["number"]}}
        last = await self._compressions.find_one(before, sort=newest_first)
        if last is None:
            return which
        try:
            *_, whole = completed(map(COMPRESSION.get, [*dropping, last]))
        except StoreError:
            return {}
        of_last = {"_id": last["_id"], "user_id": last["user_id"]}
        update = {"$set": {"derived": pack_derived(whole)}, "$inc": {"completed": 1}}
        await self._compressions.update_one(of_last, update)
        return which

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


def _key(group: Document) -> Key:
    return group["_id"]["thread"], group["_id"]["session"]


def _newest(where: Document, number: str) -> tuple[Document, ...]:
    """Stages that find the document of the highest number."""
    return {"$match": where}, {"$sort": {number: -1}}, {"$limit": 1}
