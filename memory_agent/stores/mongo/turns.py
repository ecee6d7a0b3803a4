"""Turns in MongoDB: appended with one write, read by scope; the stages they owe; and whose they are.

A turn that was forgotten leaves its document, emptied but for its number (and its idempotency key, if it has
one): a number must not be given twice, and a late repeat of its call must find that it was here.

A turn's document carries `owes` while stages are pending and `due_at` while they are not parked, and only then,
so that partial indexes hold just the turns that somebody still has to work on. `indexed` is set when `index` is struck
off and goes when it is owed again: change streams tell what an update set, but not what `pending` was before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from memory_agent.concurrency import Tries, overtaken, together
from memory_agent.domain import (
    OUTAGE_NAMES,
    STAGES,
    ExtractionCost,
    MemoryStatus,
    Scope,
    ThreadSummary,
    next_of_tenant,
    outages_of,
    said_otherwise,
    split_user_id,
    stored_at,
    tenants_range,
)
from memory_agent.stores.codec import by_thread, chunks, thread_of
from memory_agent.stores.fields import COST, LEASE, OLD_TURN, PARKED, TURN
from memory_agent.stores.mongo.connection import (
    CALL_KEYS,
    CHANGE_KEYS,
    NUMBER_KEYS,
    SEQ_KEYS,
    STANDING_KEYS,
    MongoConnection,
    bounded,
    first_write_error,
    read_all,
    united,
    violated_keys,
)
from memory_agent.stores.mongo.documents import (
    STANDING,
    one_of,
    scope_filter,
    turn_document,
    turn_or_tombstone,
)
from memory_agent.stores.mongo.meta import MongoRemains
from memory_agent.stores.mongo.topics import PACKED, MongoSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from memory_agent.domain import Lease, OldTurn, Stage, Tenant, Tombstone, Turn, TurnDraft
    from memory_agent.stores.mongo.connection import Collection, Document


_MANY_IDS: Final = 8
"""Of so many turns the segments come in the same command, found by what they hold; few are mostly fresh ones, and not packed."""


class MongoTurns(MongoSegments, MongoRemains):
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
                documents = await self._insert_call(scope, drafts, documents)
        return list(map(turn_or_tombstone, await self._with_texts(documents)))

    async def _insert_call(
        self, scope: Scope, drafts: Sequence[TurnDraft], documents: list[Document]
    ) -> list[Document]:
        """Insert what the thread has not seen of this call; everything it then has of it, in order."""
        left = await self._hashed_of_call(scope, documents[0]["idempotency_key"])
        try:
            if not left:
                await self._insert_turns(scope, documents)
        except BulkWriteError as exc:
            if not violated_keys(exc):
                raise
        else:
            if not left:
                return documents  # nearly always; whether it is a repeat is asked only where something is there already
        async for _ in Tries():
            seen = await self._turns_of_call(scope, documents[0]["idempotency_key"], left)
            # The first call decides how many turns it has, whatever its repeat brings.
            size = seen[0]["call_size"] if seen else documents[0]["call_size"]
            known = {document["call_index"] for document in seen}
            missing = [d for d in documents if d["call_index"] not in known and d["call_index"] < size]
            if not missing:
                return seen
            begun = list(map(turn_or_tombstone, await self._with_texts(seen)))
            if said_otherwise(drafts, begun):
                return seen  # it was another call that was cut short, or is at it just now
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

    async def _turns_of_call(self, scope: Scope, key: str, left: Sequence[Document]) -> list[Document]:
        """The call's turns, with what is `left` of those that were forgotten."""
        found = await read_all(self._turns.find({**scope_filter(scope), "idempotency_key": key}))
        by_index = {document["call_index"]: document for document in (*left, *found)}
        return [by_index[index] for index in sorted(by_index)]

    async def _hashed_of_call(self, scope: Scope, key: str) -> list[Document]:
        hasher = await self._hasher() if await self._has_left(scope) else None
        if hasher is None:
            return []
        query = {**scope_filter(hasher.remains(scope)), "idempotency_key": key}
        return await read_all(self._turns.find(query))

    async def _insert_turns(self, scope: Scope, documents: list[Document]) -> None:
        """Insert in order under the next numbers, which the documents then carry.

        The cost is one write. Only when the last number is not known, or another process took the next one,
        is it read first.
        """
        remaining = documents
        async for _ in Tries():
            last = self._sequences.take(scope)
            if last is None:
                places = await self._of_remains(scope)
                # Whether something is left as well, so that a call with a key, too, is one round trip then.
                last, _ = await together(self._highest(places), self._has_left(scope, places))
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
        order = {"_id" if scope.thread_id is None else "seq": -1 if newest else 1}
        held: list[Document] | None = None
        if ids is not None and len(ids) >= _MANY_IDS:
            stages = [{"$match": query}, {"$sort": order}, *([{"$limit": limit}] if limit else [])]
            segments = ({"$match": {"user_id": scope.user_id, "turn_ids": {"$in": list(ids)}}}, PACKED)
            found, held = await united((self._turns, *stages), (self._segments, *segments))
        else:
            found = await read_all(self._turns.find(query, sort=list(order.items()), limit=limit or 0))
        found = await self._with_texts(found, held)
        turns = [TURN.get(document) for document in found if "gone_at" not in document]
        return turns[::-1] if newest else turns

    @bounded
    async def turns_at(self, scope: Scope, places: Sequence[tuple[str, int]]) -> list[Turn]:
        threads = [
            {**scope_filter(scope), "thread_id": thread_id, "seq": {"$in": numbers}}
            for thread_id, numbers in by_thread(places).items()
            if scope.thread_id in (None, thread_id)
        ]
        if not threads:
            return []
        found = await self._with_texts(await read_all(self._turns.find({"$or": threads, "gone_at": None})))
        return [TURN.get(document) for document in found if "gone_at" not in document]

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


# --- who is remembered ---------------------------------------------------------------------------------------
_KEYS_READ: Final = 500
_USERS_AT_ONCE: Final = 50
_THREAD: Final[Document] = {"user": "$user_id", "thread": "$thread_id"}


@dataclass(frozen=True, slots=True)
class _Walk:
    """From which id on, over the ids of what, and which of them are meant. `past`: the lowest text to go on from."""

    field: str
    of: Document
    start: str
    below: str | None
    is_meant: Callable[[str], bool]
    past: Callable[[str], str]

    def query(self, start: str) -> Document:
        return {**self.of, self.field: {"$gte": start} | ({"$lt": self.below} if self.below else {})}


class MongoPeople(MongoConnection):
    """The users and threads of a MongoStore."""

    async def user_ids(self, tenant: str, *, after: str = "", limit: int) -> list[str]:
        first, below = tenants_range(tenant)
        walk = _Walk(
            field="user_id",
            of={},
            start=max(first, f"{after}\0") if after else first,
            below=below,
            is_meant=lambda user_id: split_user_id(user_id)[0] == tenant,
            past=lambda user_id: next_of_tenant(tenant, user_id),
        )
        return await self._first_of(walk, limit)

    async def thread_ids(self, scope: Scope, *, after: str = "", limit: int) -> list[str]:
        walk = _Walk(
            field="thread_id",
            of={"user_id": scope.user_id},
            start=f"{after}\0" if after else "",
            below=None,
            is_meant=lambda _: True,
            past=lambda thread_id: f"{thread_id}\0",
        )
        return await self._first_of(walk, limit)

    async def _first_of(self, walk: _Walk, limit: int) -> list[str]:
        found = await together(*(self._walked(walk, *holder, limit) for holder in self._holders()))
        return sorted(set().union(*found))[: max(limit, 0)]

    def _holders(self) -> list[tuple[Collection, Document, Sequence[str]]]:
        """The collections that hold threads: a filter each, and the index to read it from."""
        return [
            (self._turns, STANDING, STANDING_KEYS),
            (self._sessions, {}, NUMBER_KEYS),
            (self._fact_events, {}, CHANGE_KEYS),
        ]

    @bounded
    async def _walked(
        self, walk: _Walk, collection: Collection, where: Document, keys: Sequence[str], limit: int
    ) -> set[str]:
        """The first `limit` ids that are meant."""
        found: set[str] = set()
        start = walk.start
        order = [(key, 1) for key in keys]
        while len(found) < limit:
            # Small threads lie close together in the index, and a look brings many; a large one is left after one look.
            look = collection.find({**where, **walk.query(start)}, {walk.field: 1, "_id": 0})
            read = await read_all(look.sort(order).hint(order).limit(_KEYS_READ))
            ids = dict.fromkeys(key[walk.field] for key in read)
            found.update(filter(walk.is_meant, ids))
            if len(read) < _KEYS_READ:
                break
            start = walk.past(read[-1][walk.field])
        return set(sorted(found)[: max(limit, 0)])

    async def count_threads(
        self, user_ids: Sequence[str], *, thread_ids: Sequence[str] | None = None
    ) -> dict[str, list[ThreadSummary]]:
        threads: dict[str, list[ThreadSummary]] = {user_id: [] for user_id in user_ids}
        for users in chunks(list(threads), _USERS_AT_ONCE):
            of: Document = {"user_id": {"$in": list(users)}}
            if thread_ids is not None:
                of["thread_id"] = {"$in": list(thread_ids)}
            for user_id, summary in await self._summaries(of):
                threads[user_id].append(summary)
        return {
            user_id: sorted(found, key=lambda thread: thread.thread_id) for user_id, found in threads.items()
        }

    @bounded
    async def _summaries(self, of: Document) -> list[tuple[str, ThreadSummary]]:
        turns, *others = await together(
            *(self._grouped(collection, {**of, **where}, keys) for collection, where, keys in self._holders())
        )
        counts: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        for group in (*turns, *(group for found in others for group in found)):
            counts[group["_id"]["user"], group["_id"]["thread"]] |= {"turns": 0, "last": None}
        for group in turns:
            counts[group["_id"]["user"], group["_id"]["thread"]] = group
        return [
            (user_id, ThreadSummary(thread_id=thread_id, turns=group["turns"], last_activity=group["last"]))
            for (user_id, thread_id), group in counts.items()
        ]

    async def _grouped(
        self, collection: Collection, where: Document, keys: Sequence[str]
    ) -> list[dict[str, Any]]:
        group: Document = {"_id": _THREAD}
        if collection.name == self._turns.name:
            group |= {"turns": {"$sum": 1}, "last": {"$last": "$timestamp"}}
        return await read_all(
            collection.aggregate(
                [{"$match": where}, {"$sort": dict.fromkeys(keys, 1)}, {"$group": group}],
                hint=dict.fromkeys(keys, 1),
            )
        )


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
    async def bring_back(self, *, now: datetime, beyond: datetime) -> int:
        due, lasting = {"due_at": {"$gt": beyond}}, {"until": {"$gt": beyond}}
        results = [
            await self._turns.update_many(due, {"$set": {"due_at": now}}),
            await self._erasures.update_many(due, {"$set": {"due_at": now}}),
            await self._leases.update_many(
                {**lasting, "_id": {"$nin": list(OUTAGE_NAMES)}}, {"$set": {"until": now}}
            ),
        ]
        return sum(result.modified_count for result in results)

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
    """Those of `stages` (a list, or a field that holds one) that fulfil `condition`."""
    return {"$filter": {"input": stages, "as": "this", "cond": condition}}


def _due_threads_pipeline(now: datetime, stage: Stage, read: int) -> list[dict[str, Any]]:
    thread = {"user": "$user_id", "thread": "$thread_id"}
    # As an expression, so that it is not taken for the bounds of the index.
    comes_next = {"$eq": [{"$setIntersection": ["$pending", list(STAGES[: STAGES.index(stage)])]}, []]}
    return [
        {"$match": {"pending": stage, "due_at": {"$lte": now}, "$expr": comes_next}},
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
