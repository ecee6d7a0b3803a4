"""Events from MongoDB: its change streams, told in our words. They need a replica set, and end with its oplog.

An event's id is the change's resume token. It stands for one event, since no write of this store brings about two kinds
of them at one document: that a turn was indexed, got its topic and was parked are writes of their own.

Which fields of a document changed, and to what, is all that the server is asked about an update. Whose turn it was it
looks up itself (`updateLookup`), and of that too it sends ids and numbers only.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from typing import TYPE_CHECKING, Any, Final

from pymongo.read_concern import ReadConcern

from memory_agent.domain import EventKind, MemoryEvent
from memory_agent.errors import BackendError, EventsLost, EventsUnsupported, NotOpen, StoreError
from memory_agent.stores.mongo.connection import MongoConnection, bounded, driver_errors
from memory_agent.stores.mongo.documents import scope_filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from memory_agent.domain import Scope
    from memory_agent.stores.mongo.connection import Document

# https://github.com/mongodb/mongo/blob/v6.0/src/mongo/base/error_codes.yml
_NO_REPLICA_SET: Final = 40573
_LOST: Final = frozenset(
    {
        280,  # ChangeStreamFatalError: the token is of another database, or of a time that the oplog does not hold
        286,  # ChangeStreamHistoryLost
    }
)
_TOKEN: Final = re.compile(r"[0-9A-F]{2,8192}", re.ASCII)
_AWAIT_MILLISECONDS: Final = 500
"""How long the server holds a request while nothing happens: what ending a watch has to wait out."""
_ENDING_SECONDS: Final = 0.8
_SETS: Final[dict[str, EventKind]] = {"indexed": "indexed", "topic_id": "topic_assigned", "parked": "parked"}
"""What it means that an update set a field of a turn."""
_NEEDED: Final = (
    "operationType",
    "ns",
    "wallTime",
    "clusterTime",
    "documentKey._id",
    *(f"fullDocument.{name}" for name in ("user_id", "thread_id", "seq", "turn_id", "key", "id", "through")),
    *(f"updateDescription.updatedFields.{name}" for name in _SETS),
)


class MongoEvents(MongoConnection):
    """The events of a MongoStore."""

    @contextlib.asynccontextmanager
    async def watch(
        self, scope: Scope | None = None, *, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[MemoryEvent]]:
        opening = asyncio.ensure_future(self._open_stream(scope, after))
        try:
            # Here and below a task of its own, for a client that works in threads (Motor) goes on, whoever cancels.
            await asyncio.wait([opening])
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await (await opening).close()
            raise
        stream = await opening
        events = _Events(self, stream)
        try:
            yield events
        finally:
            await events.end()

    async def _open_stream(self, scope: Scope | None, after: str | None) -> Any:
        """A change stream whose position is fixed. Raises EventsLost and EventsUnsupported."""
        if after is not None and _TOKEN.fullmatch(after) is None:
            raise _no_event(after)
        # The server refuses change streams at the read concern of the store's other reads.
        database = self._turns.database.with_options(read_concern=ReadConcern("majority"))
        try:
            with driver_errors(self._timeout_seconds):
                stream: Any = database.watch(
                    _pipeline(scope, after),
                    full_document="updateLookup",
                    resume_after=None if after is None else {"_data": after},
                    max_await_time_ms=_AWAIT_MILLISECONDS,
                )
                # PyMongo's opens when it is awaited, Motor's when it is entered.
                stream = await stream if inspect.isawaitable(stream) else stream
                await stream.__aenter__()
        except StoreError as exc:
            if _code(exc) == _NO_REPLICA_SET:
                raise EventsUnsupported(
                    "this MongoDB is no replica set, and only those tell what changes; make it one (one node is "
                    "enough): https://www.mongodb.com/docs/manual/tutorial/convert-standalone-to-replica-set/"
                ) from exc
            if after is not None:
                # A token that was cut short or made up fails wherever the server happens to stumble over it.
                raise _no_event(after) from exc
            raise
        return stream

    @bounded
    async def _seq_of(self, user_id: str, turn_id: str) -> int | None:
        """The turn's `seq`; None if it is gone."""
        query = {"_id": turn_id, "user_id": user_id, "gone_at": None}
        found = await self._turns.find_one(query, {"seq": 1, "_id": 0})
        return None if found is None else found["seq"]


class _Events:
    """The events of an open change stream. Whatever is cancelled in it can be called again, and nothing is lost."""

    def __init__(self, store: MongoEvents, stream: Any) -> None:
        self._store = store
        self._stream = stream
        self._step: asyncio.Task[MemoryEvent | None] | None = None
        self._over = False

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> MemoryEvent:
        while not self._over:
            # One that the last call was cancelled in goes on, and its event is this call's.
            step = self._step = self._step or asyncio.ensure_future(self._advance())
            await asyncio.wait([step])
            if self._over:
                break
            self._step = None
            try:
                event = step.result()
            except Exception:
                self._over = True
                raise
            if event is not None:
                return event
        raise StopAsyncIteration

    async def end(self) -> None:
        """Stop, and leave no request, cursor or task behind."""
        self._over = True
        step, self._step = self._step, None
        if step is not None:
            try:
                await asyncio.wait([step], timeout=_ENDING_SECONDS)
            finally:
                step.cancel()
            await asyncio.wait([step])
            if not step.cancelled():
                step.exception()  # nobody is left to raise it to
        # Whatever it is that goes wrong here: nothing is lost, and the server drops what nobody asks for.
        with contextlib.suppress(Exception), driver_errors(_ENDING_SECONDS):
            await self._stream.close()

    async def _advance(self) -> MemoryEvent | None:
        """The next event, or None if there was none for a while, or none to be told."""
        try:
            with driver_errors(self._store._timeout_seconds):
                change = await self._stream.try_next()
        except BackendError as exc:
            self._check_open()
            if _code(exc) in _LOST:
                raise EventsLost("what followed is not kept any more; read the state anew") from exc
            raise
        self._check_open()
        if change is not None:
            return await self._event(change)
        if not self._stream.alive:
            raise EventsLost("the database was dropped; read the state anew")
        return None

    def _check_open(self) -> None:
        if self._store._database is None:
            raise NotOpen("the MongoStore was closed")

    async def _event(self, change: Document) -> MemoryEvent | None:
        event, document = _EVENTS[change["ns"]["coll"]](change), change["fullDocument"]
        if event["kind"] == "facts_changed" and event["turn_id"] is not None:
            event["seq"] = await self._store._seq_of(document["user_id"], event["turn_id"])
            if event["seq"] is None:
                return None
        return MemoryEvent(
            id=change["_id"]["_data"],
            user_id=document["user_id"],
            thread_id=document["thread_id"],
            at=_time_of(change),
            **event,
        )


def _code(exc: BaseException) -> int | None:
    """The server's code of the driver's error that `exc` was raised from."""
    return getattr(exc.__cause__, "code", None)


def _no_event(after: str) -> EventsLost:
    return EventsLost(
        f"{after!r:.80} is no event's id here, or what followed is not kept any more; read the state anew, then "
        "watch without `after`"
    )


def _pipeline(scope: Scope | None, after: str | None) -> list[Document]:
    updated = [{f"updateDescription.updatedFields.{name}": {"$exists": True}} for name in _SETS]
    # A generation counts from a change of its own on, and many extractions state nothing.
    counts: Document = {
        "fullDocument.generation": None,
        "fullDocument.stated": {"$regex": '^\\{"events":'},
    }
    changed_facts = [{"fullDocument.kind": {"$ne": "extraction"}}, counts]
    told = [
        {"operationType": "insert", "ns.coll": {"$in": ["turns", "compressions"]}},
        {"operationType": "insert", "ns.coll": "fact_events", "$or": changed_facts},
        {"operationType": "update", "ns.coll": "turns", "$or": updated},
    ]
    # A document that is gone by now has no owner here, and one that was emptied says so.
    there: Document = {"fullDocument.user_id": {"$exists": True}, "fullDocument.gone_at": None}
    return [
        {"$match": {"$or": told}},
        {"$match": there},
        {"$match": _owned(scope, after)},
        {"$project": dict.fromkeys(_NEEDED, 1)},
    ]


def _owned(scope: Scope | None, after: str | None) -> Document:
    if scope is None:
        return {}
    owner = {f"fullDocument.{name}": value for name, value in scope_filter(scope).items()}
    # The server filters as early as it can, then looks for the change to go on from among what is left; that may be one
    # of another scope. It is not told again.
    return owner if after is None else {"$or": [owner, {"_id": {"_data": after}}]}


def _of_turn(change: Document) -> Document:
    event: Document = {"turn_id": change["documentKey"]["_id"], "seq": change["fullDocument"]["seq"]}
    if change["operationType"] == "insert":
        return {"kind": "turn_stored", **event}
    updated = change["updateDescription"]["updatedFields"]
    kind = next(kind for name, kind in _SETS.items() if name in updated)
    return {"kind": kind, "topic_id": updated.get("topic_id"), **event}


def _of_facts(change: Document) -> Document:
    document = change["fullDocument"]
    return {"kind": "facts_changed", "turn_id": document.get("turn_id"), "change_id": document["key"]}


def _of_compression(change: Document) -> Document:
    document = change["fullDocument"]
    return {"kind": "compressed", "seq": document["through"], "change_id": document["id"]}


_EVENTS: Final = {"turns": _of_turn, "fact_events": _of_facts, "compressions": _of_compression}


def _time_of(change: Document) -> datetime:
    """The server's time of the change; before MongoDB 6.0 in whole seconds."""
    time: datetime = change["wallTime"] if "wallTime" in change else change["clusterTime"].as_datetime()
    return time
