"""Sessions in MongoDB: one document each, numbered by a unique index; what is counted of them is read from indexes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pymongo.errors import BulkWriteError

from memory_agent.domain import Session, ThreadHead
from memory_agent.stores.codec import of_tenant, thread_of
from memory_agent.stores.fields import SESSION
from memory_agent.stores.mongo.connection import bounded, read_all
from memory_agent.stores.mongo.documents import scope_filter
from memory_agent.stores.mongo.errors import first_write_error, violated_keys
from memory_agent.stores.mongo.indexes import NUMBER_KEYS, ONCE_KEYS
from memory_agent.stores.mongo.spent_keys import MongoSpentKeys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import Erasure, Scope
    from memory_agent.stores.mongo.connection import Document

    Key = tuple[str, str]
    """Thread and id of a session."""

_IDENTITY: Final = {"user_id": 1, "thread_id": 1, "session_id": 1, "idempotency_key": 1}
_BY_SESSION: Final[Document] = {"thread": "$thread_id", "session": "$session_id"}


class MongoSessions(MongoSpentKeys):
    """The sessions of a MongoStore."""

    @bounded
    async def thread_head(self, scope: Scope) -> ThreadHead:
        thread_of(scope)
        where = scope_filter(scope)
        newest, given = await asyncio.gather(
            self._sessions.find_one(where, sort=[("number", -1)]), self._last_turn(where)
        )
        last = given
        if given is not None and "gone_at" in given:
            # Forgotten turns are read past, down to the first that is there: few, but right after the newest ones went.
            last = await self._last_turn({**where, "gone_at": None, "seq": {"$lt": given["seq"]}})
        return ThreadHead(
            session=None if newest is None else _session(newest),
            last_seq=last["seq"] if last else 0,
            last_given=given["seq"] if given else 0,
            last_at=last["timestamp"] if last else None,
            last_session_id=last.get("session_id") if last else None,
        )

    async def _last_turn(self, where: Document) -> Document | None:
        fields = {"seq": 1, "timestamp": 1, "session_id": 1, "gone_at": 1}
        return await self._turns.find_one(where, fields, sort=[("seq", -1)])

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
        sessions = [_session(document) for document in reversed(found)]
        if not sessions:
            return []
        of_these = {**scope_filter(scope), "session_id": {"$in": [session.id for session in sessions]}}
        turns, compressions = await asyncio.gather(
            self._count_turns(of_these), self._count_compressions(of_these)
        )
        return [_counted(session, turns, compressions) for session in sessions]

    @bounded
    async def find_session(
        self, session_id: str, *, tenant: str, user_id: str | None = None
    ) -> Session | None:
        order = [("user_id", 1), ("thread_id", 1)]
        found = await read_all(self._sessions.find({"session_id": session_id}).sort(order))
        for session in of_tenant(map(_session, found), tenant, user_id):
            counted = await self.sessions(session.scope, ids=[session_id])
            return counted[0] if counted else None
        return None

    async def _count_turns(self, where: Document) -> dict[Key, tuple[int, datetime]]:
        """The number of turns of each session and the timestamp of the last one; from an index alone."""
        count: list[dict[str, Any]] = [
            {"$match": where},
            {"$sort": {"session_id": 1, "thread_id": 1, "seq": 1}},
            {"$group": {"_id": _BY_SESSION, "turns": {"$sum": 1}, "last": {"$last": "$timestamp"}}},
        ]
        found = await read_all(self._turns.aggregate(count))
        return {_key(group): (group["turns"], group["last"]) for group in found}

    async def _count_compressions(self, where: Document) -> dict[Key, int]:
        count: list[dict[str, Any]] = [
            {"$match": where},
            {"$group": {"_id": _BY_SESSION, "number": {"$sum": 1}}},
        ]
        found = await read_all(self._compressions.aggregate(count))
        return {_key(group): group["number"] for group in found}

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

    @bounded
    async def _forget_sessions(self, erasure: Erasure) -> int:
        """Delete the sessions that the erasure takes: none, unless it is of a whole scope. How many."""
        if erasure.turn_ids is not None:
            return 0
        before = {"session_id": {"$lt": erasure.before_id}}
        return await self._delete_unused({**scope_filter(erasure.scope), **before}, spend=True)


def _key(group: Document) -> Key:
    return group["_id"]["thread"], group["_id"]["session"]


def _session(document: Document) -> Session:
    """The session in a document, without what is counted."""
    return Session(**SESSION.of_document(document))


def _counted(
    session: Session, turns: dict[Key, tuple[int, datetime]], compressions: dict[Key, int]
) -> Session:
    key = (session.thread_id, session.id)
    total, last = turns.get(key, (0, session.started_at))
    return replace(
        session,
        last_activity=max(session.started_at, last),
        total_turns=total,
        compression_count=compressions.get(key, 0),
    )
