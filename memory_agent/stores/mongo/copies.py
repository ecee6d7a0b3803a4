"""Copies of threads in MongoDB, without a transaction: parts can be repeated. And documents that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from memory_agent.domain import (
    CopiedTurn,
    DamagedRecord,
    ExtractionCost,
    ForgottenTurn,
    SpentKey,
    ThreadRemains,
    new_id,
)
from memory_agent.errors import StoreError
from memory_agent.stores.codec import DAMAGED, pack_derived, thread_of
from memory_agent.stores.fields import CHANGE, COMPRESSION, COST, SESSION, TOPIC, TURN
from memory_agent.stores.mongo.connection import bounded, read_all
from memory_agent.stores.mongo.documents import (
    change_document,
    facts_document,
    one_of,
    scope_filter,
    search_row,
)
from memory_agent.stores.mongo.facts import MongoFacts
from memory_agent.stores.mongo.sessions import MongoSessions
from memory_agent.stores.mongo.turns import MongoTurns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_agent.domain import FactChange, Scope, ThreadCopy
    from memory_agent.stores.mongo.connection import Collection, Document


class MongoCopies(MongoTurns, MongoSessions, MongoFacts):
    """The copies of a MongoStore."""

    @bounded
    async def stored_threads(self, user_id: str) -> list[str]:
        found: set[str] = set()
        for each in self._keeping():
            groups: list[Document] = [{"$match": {"user_id": user_id}}, {"$group": {"_id": "$thread_id"}}]
            found.update(group["_id"] for group in await read_all(each.aggregate(groups)))
        return sorted(found)

    @bounded
    async def copied_turns(
        self, scope: Scope, *, after_seq: int = 0, limit: int, texts: bool = True
    ) -> list[CopiedTurn]:
        thread_of(scope)
        if limit <= 0:
            return []
        query = {**scope_filter(scope), "seq": {"$gt": after_seq}, "gone_at": None}
        found = await read_all(self._turns.find(query).sort("seq", 1).limit(limit))
        lost = set() if texts else await self._without_text(found)
        return [
            CopiedTurn(
                turn=TURN.get(document),
                idempotency_key=document.get("idempotency_key"),
                call_index=document["call_index"],
                call_size=document["call_size"],
                readable=document["_id"] not in lost,
            )
            for document in (
                await self._with_texts(found) if texts else [{**each, "content": ""} for each in found]
            )
            if "gone_at" not in document
        ]

    @bounded
    async def thread_remains(self, scope: Scope) -> ThreadRemains:
        thread_of(scope)
        keyed = {"gone_at": {"$exists": True}, "idempotency_key": {"$type": "string"}}
        gone: list[Document] = []
        spent: list[Document] = []
        for where in await self._of_remains(scope):
            gone += await read_all(self._turns.find({**where, **keyed}))
            spent += await read_all(self._spent_keys.find(where))
        cost = await self._costs.find_one(scope_filter(scope))
        return ThreadRemains(
            last_seq=await self._last_seq(scope),
            last_change=await self._last_change(scope),
            cost=COST.get(cost) if cost else ExtractionCost(),
            turns=tuple(
                ForgottenTurn(
                    turn_id=turn["_id"],
                    **{name: turn[name] for name in ("seq", "idempotency_key", "call_index", "call_size")},
                )
                for turn in sorted(gone, key=lambda turn: turn["seq"])
            ),
            keys=tuple(
                SpentKey(kind=one["kind"], key=one["key"], id=one["id"])
                for one in sorted(spent, key=lambda one: (one["kind"], one["key"]))
            ),
        )

    @bounded
    async def put_copies(self, scope: Scope, copies: ThreadCopy) -> Sequence[str]:
        thread_of(scope)
        now = datetime.now(UTC)
        # Where a turn is, none comes in: it is this one, or refuses it.
        numbers = {one.turn.seq for one in copies.turns}
        known = {**scope_filter(scope), "seq": {"$in": sorted(numbers)}}
        numbers -= {turn["seq"] for turn in await read_all(self._turns.find(known, {"seq": 1, "_id": 0}))}
        places = [{"thread_id": scope.thread_id, "seq": seq} for seq in numbers]
        # What was made of the turns around them was made without them: before, for a repeat after a crash would not see
        # that they are new; and again, for a worker may make one meanwhile.
        await self._forget_compressions(scope.user_id, places, None, now=now)
        async with self._sequences.lock(scope):
            self._sequences.take(scope)  # whoever counts next asks what the last number is
            new = await self._put_turns(scope, copies.turns)
        await self._forget_compressions(scope.user_id, places, None, now=now)
        await self._insert_missing(
            self._sessions, [{"_id": str(uuid4()), **SESSION.document(one)} for one in copies.sessions]
        )
        await self._insert_missing(
            self._compressions,
            [
                {"_id": str(uuid4()), **COMPRESSION.document(one, derived=pack_derived(one))}
                for one in copies.compressions
            ],
        )
        if copies.compressions:  # which may not know all turns that are here
            await self._drop_miscounted(scope, now=now)
        await self._put_changes(scope, copies.changes)
        await self._put_remains(scope, copies.remains)
        return new

    async def _put_turns(self, scope: Scope, copied: Sequence[CopiedTurn]) -> list[str]:
        documents = [_turn_document(one) for one in copied]
        there = await self._insert_missing(self._turns, documents)
        numbers = {"seq": {"$in": [documents[at]["seq"] for at in there]}}
        known = await read_all(self._turns.find({**scope_filter(scope), **numbers}, {"seq": 1}))
        places = {turn["_id"]: turn["seq"] for turn in known}
        for at in sorted(there):
            turn = copied[at].turn
            if places.get(turn.id) != turn.seq:
                raise StoreError(
                    f"turn {turn.id!r:.80} cannot be stored as number {turn.seq} of thread {scope.thread_id!r:.80}:"
                    " another turn has that number, its id or its idempotency key"
                )
        return [one.turn.id for at, one in enumerate(copied) if at not in there]

    async def _put_changes(self, scope: Scope, changes: Sequence[FactChange]) -> None:
        documents = [
            {"_id": str(uuid4()), **change_document(scope, change), "seq": change.seq} for change in changes
        ]
        there = await self._insert_missing(self._fact_events, documents)
        numbers = {"seq": {"$in": [changes[at].seq for at in there]}}
        known = await read_all(
            self._fact_events.find({**scope_filter(scope), **numbers}, {"seq": 1, "key": 1})
        )
        keys = {change["seq"]: change["key"] for change in known}
        for at in sorted(there):
            change = changes[at]
            if keys.get(change.seq) != change.key:
                raise StoreError(
                    f"change {change.key!r:.80} cannot be stored as number {change.seq} of the facts of thread"
                    f" {scope.thread_id!r:.80}: another change has that number or its key"
                )
        if len(there) < len(changes):
            await self._reset_facts(scope.user_id, [thread_of(scope)])

    async def _put_remains(self, scope: Scope, remains: ThreadRemains) -> None:
        place = {"user_id": scope.user_id, "thread_id": thread_of(scope)}
        now = datetime.now(UTC)
        await self._insert_missing(
            self._turns,
            [
                {
                    **place,
                    "_id": gone.turn_id,
                    "seq": gone.seq,
                    "idempotency_key": gone.idempotency_key,
                    "call_index": gone.call_index,
                    "call_size": gone.call_size,
                    "gone_at": now,
                }
                for gone in remains.turns
            ],
        )
        if remains.last_seq > await self._last_seq(scope):
            await self._insert_missing(
                self._turns, [{**place, "_id": new_id(), "seq": remains.last_seq, "gone_at": now}]
            )
        await self._insert_missing(
            self._spent_keys,
            [
                {**place, "_id": str(uuid4()), "kind": one.kind, "key": one.key, "id": one.id}
                for one in remains.keys
            ],
        )
        if remains.cost != ExtractionCost():
            cost: dict[str, Any] = {**place, "_id": str(uuid4()), **COST.document(remains.cost)}
            await self._insert_missing(self._costs, [cost])
        if remains.last_change > await self._last_change(scope):
            floor = {"$max": {"floor": remains.last_change}}
            await self._update_facts(scope.user_id, {thread_of(scope): floor})

    def _readers(self) -> list[tuple[Collection, str, Callable[[Document], object]]]:
        """Of each collection the field of its id, and how its documents are read."""
        return [
            (self._turns, "_id", lambda turn: TURN.get({"content": "", **turn})),
            (self._rows, "_id", search_row),
            (self._topics, "topic_id", TOPIC.get),
            (self._sessions, "session_id", SESSION.get),
            (self._compressions, "id", COMPRESSION.get),
            (self._fact_events, "key", CHANGE.get),
            (self._facts, "thread_id", facts_document),
        ]

    async def damaged_records(self, scope: Scope) -> list[DamagedRecord]:
        thread_of(scope)
        found: list[DamagedRecord] = []
        for collection, of, read in self._readers():
            cursor = collection.find({**scope_filter(scope), "gone_at": None}).batch_size(_READ_AT_ONCE)
            while page := await self._bounded(cursor.to_list(_READ_AT_ONCE)):
                for document in page:
                    try:
                        read(document)
                    except (StoreError, *DAMAGED) as exc:
                        turn_of = {self._rows.name: "_id", self._fact_events.name: "turn_id"}
                        found.append(
                            DamagedRecord(
                                table=collection.name,
                                key=document["_id"],
                                of=str(document.get(of)),
                                error=str(exc.__cause__ or exc),
                                turn_id=document.get(turn_of.get(collection.name, "")),
                            )
                        )
        return found

    async def drop_damaged(self, scope: Scope, records: Sequence[DamagedRecord]) -> None:
        thread_id = thread_of(scope)
        for collection, _, _ in self._readers():
            keys = [record.key for record in records if record.table == collection.name]
            if not keys or collection.name == self._turns.name:
                continue
            if collection.name == self._facts.name:
                await self._reset_facts(scope.user_id, [thread_id])
            elif collection.name == self._fact_events.name:
                await self._delete_changes(scope.user_id, {"thread_id": thread_id, **one_of(keys)})
            else:
                await self._bounded(collection.delete_many({**scope_filter(scope), **one_of(keys)}))


def _turn_document(copied: CopiedTurn) -> Document:
    turn = copied.turn
    document = TURN.document(turn, segment_id=None, **({} if turn.pending else {"due_at": None}))
    for name in ("attempts", "parked"):  # which a turn that never failed doesn't have
        if not document[name]:
            del document[name]
    call = {"call_index": copied.call_index, "call_size": copied.call_size}
    if copied.idempotency_key is not None:
        document["idempotency_key"] = copied.idempotency_key
    return {**document, **call, **({"owes": True} if turn.pending else {})}


_READ_AT_ONCE: Final = 1_000
