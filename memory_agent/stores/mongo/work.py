"""Owed work in MongoDB: stages owed to turns, and leases.

A turn's document carries `owes` while stages are pending and `due_at` while they are not parked, and only then,
so that partial indexes hold just the turns that somebody still has to work on. `indexed` is set when `index` is struck
off and goes when it is owed again: change streams tell what an update set, but not what `pending` was before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from memory_agent.domain import (
    OUTAGE_NAMES,
    STAGES,
    ExtractionCost,
    MemoryStatus,
    Scope,
    outages_of,
    stored_at,
)
from memory_agent.stores.fields import COST, LEASE, PARKED, TURN
from memory_agent.stores.mongo.connection import bounded, read_all, united
from memory_agent.stores.mongo.documents import STANDING, one_of, scope_filter
from memory_agent.stores.mongo.segments import MongoSegments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import Lease, Stage, Tenant, Turn
    from memory_agent.stores.mongo.connection import Document

_DUE_TURNS_READ: Final = (2_000, 100_000)
"""Of a backlog, longest due first: nearly always the first is all of it. More only where one thread is all that was found."""
_PARKED_LISTED: Final = 100
_FEW_OWED: Final = 16
"""Turns of some exchanges."""
_NEWEST_COUNTED: Final = 128
"""More than come between two compressions of a thread."""
_ERASING: Final = {
    "$group": {
        "_id": None,
        "erasures": {"$sum": 1},
        "at_work": {"$sum": {"$cond": [{"$ifNull": ["$swept", False]}, 0, 1]}},
    }
}
_DUPLICATE_KEY: Final = 11_000
# By an array: grouping by a document is planned anew each time, which takes longer than all the rest of it.
_OWING: Final = {
    "$group": {
        "_id": ["$pending", "$parked"],
        "turns": {"$sum": 1},
        "first": {"$min": "$_id"},
    }
}


class MongoWork(MongoSegments):
    """The owed work of a MongoStore."""

    @bounded
    async def due_threads(self, now: datetime, stage: Stage, *, limit: int) -> list[Scope]:
        first, read = _DUE_TURNS_READ
        threads = await read_all(self._turns.aggregate(_due_threads_pipeline(now, stage, first)))
        whole = sum(thread["turns"] for thread in threads) < first
        while not whole:
            # Neither a thread with a long backlog nor a user of many may hide the others.
            threads = await read_all(self._turns.aggregate(_due_threads_pipeline(now, stage, read)))
            whole = len(threads) >= limit or sum(thread["turns"] for thread in threads) < read
            read *= 10
        return [
            Scope(user_id=thread["_id"]["user"], thread_id=thread["_id"]["thread"])
            for thread in threads[:limit]
        ]

    @bounded
    async def owed_turns(
        self, scope: Scope, stage: Stage | None, *, limit: int, parked: bool = True, newest: bool = False
    ) -> list[Turn]:
        if limit <= 0:
            return []
        query = {
            **scope_filter(scope),
            "owes": True,
            "pending": stage or {"$in": list(STAGES)},
            **({} if parked else {"parked": None}),
        }
        by = "_id" if scope.thread_id is None else "seq"
        if stage is None:
            # In the order of one index of all stages, MongoDB takes three times as long over what an exchange owes.
            few = await read_all(self._turns.find(query).limit(_FEW_OWED + 1))
            if len(few) <= _FEW_OWED:
                return (await self._standing(sorted(few, key=lambda turn: turn[by], reverse=newest)))[:limit]
        order = [(by, -1 if newest else 1)]
        while found := await read_all(self._turns.find(query).sort(order).limit(limit)):
            if turns := await self._standing(found):
                return turns
            # All were forgotten since; that does not say that no other owes anything.
        return []

    async def _standing(self, found: Sequence[Document]) -> list[Turn]:
        """Turns that were found, but for those that were forgotten since."""
        return [TURN.get(each) for each in await self._with_texts(found) if "gone_at" not in each]

    @bounded
    async def owes_more_than(self, turns: int) -> bool:
        owing = self._turns.find({"due_at": {"$exists": True}, "pending": {"$in": list(STAGES)}}, {"_id": 1})
        return bool(await read_all(owing.skip(turns).limit(1)))

    @bounded
    async def strike_off(self, scope: Scope, turn_ids: Sequence[str], *stages: Stage) -> None:
        query = {**scope_filter(scope, turn_ids), "pending": {"$in": list(stages)}}
        left = _stages_where("$pending", {"$not": {"$in": ["$$this", list(stages)]}})
        nothing_left = {"$eq": ["$pending", []]}
        kept = {
            name: {"$cond": [nothing_left, "$$REMOVE", f"${name}"]} for name in ("owes", "due_at", "parked")
        }
        struck: Document = {"pending": left}
        if "index" in stages:
            struck["indexed"] = {"$cond": [{"$in": ["index", "$pending"]}, True, "$indexed"]}
        await self._turns.update_many(
            query, [{"$set": struck}, {"$set": kept}, {"$unset": ["attempts", "last_error"]}]
        )

    @bounded
    async def postpone(
        self, scope: Scope, turn_ids: Sequence[str], *, error: str, due_at: datetime | None, counted: bool
    ) -> None:
        query = {**scope_filter(scope, turn_ids), "owes": True}
        when: Document = {"parked": True} if due_at is None else {"due_at": due_at}
        update: Document = {"$set": {"last_error": error, **when}}
        update["$unset"] = {"due_at" if due_at is None else "parked": ""}
        if counted:
            update["$inc"] = {"attempts": 1}
        await self._turns.update_many(query, update)

    @bounded
    async def owe(
        self, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None = None
    ) -> int:
        query = {**scope_filter(scope, turn_ids), "gone_at": None}
        return int((await self._turns.update_many(query, owing(stage, now))).matched_count)

    @bounded
    async def retry_parked(self, scope: Scope | Tenant | None, *, now: datetime) -> int:
        update = {"$set": {"due_at": now}, "$unset": {"parked": "", "attempts": ""}}
        result = await self._turns.update_many({**scope_filter(scope), "parked": True}, update)
        return int(result.modified_count)

    @bounded
    async def status(self, scope: Scope | Tenant | None, *, now: datetime) -> MemoryStatus:
        where = scope_filter(scope)
        erasures = scope_filter(scope)
        if "thread_id" in where:
            # A forget call for the whole user concerns each of the threads.
            erasures["thread_id"] = {"$in": [where["thread_id"], None]}

        sums = {"$group": {"_id": None, **{name: {"$sum": f"${name}"} for name in COST.kinds}}}
        # One command; erasures last, for a compression goes once one has begun.
        first, second, owing, costs, outages, erasing = await united(
            *(self._counted_thread(where) if "thread_id" in where else self._counted_all(where)),
            (self._turns, {"$match": {**where, "owes": True, "pending": {"$in": list(STAGES)}}}, _OWING),
            (self._costs, {"$match": where}, sums),
            (self._leases, {"$match": one_of(OUTAGE_NAMES)}),
            (self._erasures, {"$match": erasures}, _ERASING),
        )
        if "thread_id" in where:
            turns = await self._thread_count(where, first, second, at_work=_only(erasing, "at_work") > 0)
        else:
            turns = _only(first, "turns") - _only(second, "gone")
        parked_count = sum(each["turns"] for each in owing if each["_id"][1])
        parked: list[Document] = []
        if parked_count:
            listed = self._turns.find({**where, "parked": True}).sort("_id", 1).limit(_PARKED_LISTED)
            parked = await read_all(listed)
        due = [each["first"] for each in owing if not each["_id"][1]]
        lag = (now - stored_at(min(due))).total_seconds() if due else 0.0
        pending: dict[Stage, int] = {
            stage: sum(each["turns"] for each in owing if stage in each["_id"][0]) for stage in STAGES
        }
        return MemoryStatus(
            turns=turns,
            pending=pending,
            owed_count=sum(each["turns"] for each in owing),
            parked_count=parked_count,
            parked=tuple(map(PARKED.get, parked)),
            lag_seconds=max(lag, 0.0),
            erasures=_only(erasing, "erasures"),
            extraction=COST.get(costs[0]) if costs else ExtractionCost(),
            outages=outages_of(map(LEASE.get, outages), pending),
        )

    def _counted_all(self, where: Document) -> list[tuple[Any, ...]]:
        """Parts that count all turns, and the few forgotten ones.

        This stays within indexes, everybody's by a bound that all are within; a filter on each document would not.
        """
        all_of = {"user_id": {"$gt": ""}, **where}
        return [
            (self._turns, {"$match": all_of}, {"$count": "turns"}),
            (self._turns, {"$match": {**all_of, "gone_at": {"$exists": True}}}, {"$count": "gone"}),
        ]

    def _counted_thread(self, where: Document) -> list[tuple[Any, ...]]:
        """Parts that find the numbers of a thread's newest turns, and its last compression, which counts those up to its own."""
        newest = {"$project": {"_id": 0, "seq": 1}}
        found = ({"$match": {**where, **STANDING}}, {"$sort": {"seq": -1}}, {"$limit": _NEWEST_COUNTED})
        last = ({"$match": where}, {"$sort": {"number": -1}}, {"$limit": 1})
        return [
            (self._turns, *found, newest),
            (self._compressions, *last, {"$project": {"turns": 1, "through": 1}}),
        ]

    async def _thread_count(
        self, where: Document, newest: list[Document], last: list[Document], *, at_work: bool
    ) -> int:
        """The thread's turns. All are counted only where many have come since its last compression, or an erasure is at work."""
        seqs = [turn["seq"] for turn in newest]
        if len(seqs) < _NEWEST_COUNTED:
            return len(seqs)
        if last and not at_work and seqs[-1] <= last[0]["through"]:
            return int(last[0]["turns"]) + sum(1 for seq in seqs if seq > last[0]["through"])
        return int(await self._turns.count_documents({**where, **STANDING}))

    @bounded
    async def acquire_leases(
        self, names: Sequence[str], holder: str, *, now: datetime, until: datetime, note: str | None = None
    ) -> set[str]:
        taken = _taken(holder, now=now, until=until, note=note)
        asked = list(dict.fromkeys(names))
        if not asked:
            return set()
        operations = [UpdateOne(_free(name, holder, now), taken, upsert=True) for name in asked]
        try:
            await self._leases.bulk_write(operations, ordered=False)
        except BulkWriteError as exc:
            # Another's lease is live, so the filter missed it and the upsert ran into its id.
            refused = exc.details["writeErrors"]
            if any(error["code"] != _DUPLICATE_KEY for error in refused):
                raise
            return set(asked) - {asked[error["index"]] for error in refused}
        return set(asked)

    @bounded
    async def load_lease(self, name: str) -> Lease | None:
        document = await self._leases.find_one({"_id": name})
        return None if document is None else LEASE.get(document)

    @bounded
    async def held_leases(self, now: datetime, *, limit: int) -> list[Lease]:
        query = {"until": {"$gt": now}, "_id": {"$nin": list(OUTAGE_NAMES)}}
        found = self._leases.find(query).sort("_id", 1).limit(limit)
        return [LEASE.get(document) for document in await read_all(found)] if limit > 0 else []

    @bounded
    async def release_leases(self, names: Sequence[str], holder: str) -> None:
        await self._leases.delete_many({**one_of(names), "holder": holder})


def _only(found: Sequence[Document], name: str) -> int:
    """A count, of which there is no document where it is 0."""
    return int(found[0][name]) if found else 0


def owing(stage: Stage, now: datetime) -> list[dict[str, Any]]:
    """The update by which a turn owes `stage` (again), due at `now`, with no attempts and no last error."""
    owed = _stages_where(list(STAGES), {"$or": [{"$eq": ["$$this", stage]}, {"$in": ["$$this", "$pending"]}]})
    return [
        {"$set": {"pending": owed, "owes": True, "due_at": now}},
        {"$unset": ["parked", "attempts", "last_error", *(["indexed"] if stage == "index" else [])]},
    ]


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
        {
            "$setWindowFields": {
                "partitionBy": "$_id.user",
                "sortBy": {"due_at": 1, "_id": 1},
                "output": {"nth": {"$sum": 1, "window": {"documents": ["unbounded", "current"]}}},
            }
        },
        {"$sort": {"nth": 1, "due_at": 1, "_id": 1}},
    ]


def _free(name: str, holder: str, now: datetime) -> Document:
    """Matches the lease if it is `holder`'s, or nobody's any more."""
    return {"_id": name, "$or": [{"holder": holder}, {"until": {"$lte": now}}]}


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
