"""Owed work in MongoDB: stages owed to turns, and leases.

A turn's document carries `owes` while stages are pending and `due_at` while they are not parked, and only then,
so that partial indexes hold just the turns that somebody still has to work on. `indexed` is set when `index` is struck
off and goes when it is owed again: change streams tell what an update set, but not what `pending` was before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pymongo.errors import DuplicateKeyError

from memory_agent.domain import (
    OUTAGE_NAMES,
    STAGES,
    ExtractionCost,
    Lease,
    MemoryStatus,
    Scope,
    outages_of,
    stored_at,
)
from memory_agent.stores.fields import COST, LEASE, PARKED, parked_turn
from memory_agent.stores.mongo.connection import bounded, read_all
from memory_agent.stores.mongo.documents import scope_filter, turn
from memory_agent.stores.mongo.segments import MongoSegments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import Stage, Turn
    from memory_agent.stores.mongo.connection import Document

_DUE_TURNS_READ: Final = 2_000
_PARKED_LISTED: Final = 100


class MongoWork(MongoSegments):
    """The owed work of a MongoStore."""

    @bounded
    async def due_threads(self, now: datetime, stage: Stage, *, limit: int) -> list[Scope]:
        read = _DUE_TURNS_READ
        while True:
            threads = await read_all(self._turns.aggregate(_due_threads_pipeline(now, stage, read)))
            # One thread with a long backlog must not hide the others: look further if too few were found.
            if len(threads) >= limit or sum(thread["turns"] for thread in threads) < read:
                break
            read *= 10
        return [
            Scope(user_id=thread["_id"]["user"], thread_id=thread["_id"]["thread"])
            for thread in threads[:limit]
        ]

    @bounded
    async def owed_turns(
        self, scope: Scope, stage: Stage, *, limit: int, parked: bool = True, newest: bool = False
    ) -> list[Turn]:
        if limit <= 0:
            return []
        query = {**scope_filter(scope), "owes": True, "pending": stage}
        if not parked:
            query["parked"] = None
        order = [("_id" if scope.thread_id is None else "seq", -1 if newest else 1)]
        found = await self._with_texts(await read_all(self._turns.find(query).sort(order).limit(limit)))
        return [turn(document) for document in found if "gone_at" not in document]

    @bounded
    async def strike_off(self, scope: Scope, turn_ids: Sequence[str], stage: Stage) -> None:
        query = {**scope_filter(scope), "_id": {"$in": list(turn_ids)}, "pending": stage}
        nothing_left = {"$eq": ["$pending", []]}
        kept = {
            name: {"$cond": [nothing_left, "$$REMOVE", f"${name}"]} for name in ("owes", "due_at", "parked")
        }
        await self._turns.update_many(
            query,
            [
                {
                    "$set": {
                        "pending": _stages_where("$pending", {"$ne": ["$$this", stage]}),
                        **({"indexed": True} if stage == "index" else {}),
                    }
                },
                {"$set": kept},
                {"$unset": ["attempts", "last_error"]},
            ],
        )

    @bounded
    async def postpone(
        self, scope: Scope, turn_ids: Sequence[str], *, error: str, due_at: datetime | None, counted: bool
    ) -> None:
        query = {**scope_filter(scope), "_id": {"$in": list(turn_ids)}, "owes": True}
        update: Document = {"$set": {"last_error": error}}
        if due_at is None:
            update["$set"]["parked"] = True
            update["$unset"] = {"due_at": ""}
        else:
            update["$set"]["due_at"] = due_at
            update["$unset"] = {"parked": ""}
        if counted:
            update["$inc"] = {"attempts": 1}
        await self._turns.update_many(query, update)

    @bounded
    async def owe(
        self, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None = None
    ) -> int:
        query = {**scope_filter(scope), "gone_at": None}
        if turn_ids is not None:
            query["_id"] = {"$in": list(turn_ids)}
        return int((await self._turns.update_many(query, owing(stage, now))).matched_count)

    @bounded
    async def retry_parked(self, scope: Scope | None, *, now: datetime) -> int:
        query = {**_filter(scope), "parked": True}
        result = await self._turns.update_many(
            query, {"$set": {"due_at": now}, "$unset": {"parked": "", "attempts": ""}}
        )
        return int(result.modified_count)

    @bounded
    async def status(self, scope: Scope | None, *, now: datetime) -> MemoryStatus:
        where = _filter(scope)
        # Counting all and the few forgotten ones stays within indexes; a filter on each document would not.
        every = await self._turns.count_documents(where)
        gone = await self._turns.count_documents({**where, "gone_at": {"$exists": True}})
        pending: dict[Stage, int] = {}
        for stage in STAGES:
            pending[stage] = await self._turns.count_documents({**where, "owes": True, "pending": stage})
        parked_count = await self._turns.count_documents({**where, "parked": True})
        parked = await read_all(
            self._turns.find({**where, "parked": True}).sort("_id", 1).limit(_PARKED_LISTED)
        )
        waited_for = await read_all(self._leases.find({"_id": {"$in": list(OUTAGE_NAMES)}}))
        return MemoryStatus(
            turns=every - gone,
            pending=pending,
            owed_count=await self._turns.count_documents(
                {**where, "owes": True, "pending": {"$in": list(STAGES)}}
            ),
            parked_count=parked_count,
            parked=tuple(parked_turn(PARKED.of_document(document)) for document in parked),
            lag_seconds=await self._lag_seconds(where, now),
            erasures=await self._erasures.count_documents(_erasures_filter(scope)),
            extraction=await self._extraction(where),
            outages=outages_of(map(_lease, waited_for), pending),
        )

    async def _extraction(self, where: Document) -> ExtractionCost:
        sums = {name: {"$sum": f"${name}"} for name in COST.columns.split(", ")}
        found = await read_all(self._costs.aggregate([{"$match": where}, {"$group": {"_id": None, **sums}}]))
        return ExtractionCost(**COST.of_document(found[0])) if found else ExtractionCost()

    async def _lag_seconds(self, where: Document, now: datetime) -> float:
        oldest = await read_all(
            self._turns.aggregate(
                [
                    {"$match": {**where, "due_at": {"$exists": True}}},
                    {"$group": {"_id": None, "first": {"$min": "$_id"}}},
                ]
            )
        )
        return max(0.0, (now - stored_at(oldest[0]["first"])).total_seconds()) if oldest else 0.0

    @bounded
    async def acquire_lease(
        self, name: str, holder: str, *, now: datetime, until: datetime, note: str | None = None
    ) -> bool:
        free = {"_id": name, "$or": [{"holder": holder}, {"until": {"$lte": now}}]}
        try:
            await self._leases.update_one(free, _taken(holder, now=now, until=until, note=note), upsert=True)
        except DuplicateKeyError:
            # Another's lease is live, so the filter missed it and the upsert ran into its id.
            return False
        return True

    @bounded
    async def load_lease(self, name: str) -> Lease | None:
        document = await self._leases.find_one({"_id": name})
        return None if document is None else _lease(document)

    @bounded
    async def release_lease(self, name: str, holder: str) -> None:
        await self._leases.delete_one({"_id": name, "holder": holder})


def owing(stage: Stage, now: datetime) -> list[dict[str, Any]]:
    """The update by which a turn owes `stage` (again), due at `now`, with no attempts and no last error."""
    owed = _stages_where(list(STAGES), {"$or": [{"$eq": ["$$this", stage]}, {"$in": ["$$this", "$pending"]}]})
    return [
        {"$set": {"pending": owed, "owes": True, "due_at": now}},
        {"$unset": ["parked", "attempts", "last_error", *(["indexed"] if stage == "index" else [])]},
    ]


def _filter(scope: Scope | None) -> Document:
    return {} if scope is None else scope_filter(scope)


def _erasures_filter(scope: Scope | None) -> Document:
    """Forget calls that concern the scope; those of a whole user concern each of the threads."""
    query = _filter(scope)
    if "thread_id" in query:
        query["thread_id"] = {"$in": [scope.thread_id if scope else None, None]}
    return query


def _stages_where(stages: list[Stage] | str, condition: Document) -> Document:
    """Those of `stages` (in the order they run, or a field that holds them) that fulfil `condition`."""
    return {"$filter": {"input": stages, "as": "this", "cond": condition}}


def _due_threads_pipeline(now: datetime, stage: Stage, read: int) -> list[dict[str, Any]]:
    thread = {"user": "$user_id", "thread": "$thread_id"}
    return [
        {"$match": {"pending": stage, "pending.0": stage, "due_at": {"$lte": now}}},
        {"$sort": {"due_at": 1}},
        {"$limit": read},
        {"$group": {"_id": thread, "due_at": {"$min": "$due_at"}, "turns": {"$sum": 1}}},
        {"$sort": {"due_at": 1, "_id": 1}},
    ]


def _taken(holder: str, *, now: datetime, until: datetime, note: str | None) -> list[dict[str, Any]]:
    """The update of a lease that is free for `holder`. Text that a pipeline must not read as its own is literal."""
    renewed = {"$and": [{"$eq": ["$holder", {"$literal": holder}]}, {"$gt": ["$until", now]}]}
    return [
        {
            "$set": {
                "since": {"$cond": [renewed, "$since", now]},
                "holder": {"$literal": holder},
                "until": until,
                "note": "$$REMOVE" if note is None else {"$literal": note},
            }
        }
    ]


def _lease(document: Document) -> Lease:
    return Lease(**LEASE.of_document(document))
