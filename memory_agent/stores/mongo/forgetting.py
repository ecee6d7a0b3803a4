"""Forgetting in MongoDB, without a transaction: each step can be repeated, and the turns themselves go last.

So a crash in between leaves turns that the next call finds again. What a worker derives from a turn while it is
being forgotten is found afterwards by `sweep_orphans`.

Two things can only be done once a turn was emptied: to take its text out of its segment, for until then it is
read, and to reset its topic, for until then a worker could fold it in anew. Until they are done the emptied
document is marked `erasing` and keeps its `topic_id`, and the next call and `sweep_orphans` go on with it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pymongo.errors import OperationFailure

from memory_agent.domain import ErasedCounts, ErasedTier
from memory_agent.stores.codec import SEQ_HELD, chunks, milliseconds, thread_of
from memory_agent.stores.fields import ERASURE, RECEIPT
from memory_agent.stores.mongo.connection import bounded, read_all
from memory_agent.stores.mongo.documents import one_of, scope_filter, stub_document
from memory_agent.stores.mongo.facts import MongoFacts
from memory_agent.stores.mongo.rows import MongoRows
from memory_agent.stores.mongo.sessions import MongoSessions
from memory_agent.stores.mongo.topics import MongoTopics
from memory_agent.stores.mongo.turns import owing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import Erasure, ErasureReceipt, KeyedKind, Scope
    from memory_agent.stores.mongo.connection import Document

_AT_ONCE: Final = 1_000
_LEFT_OF_A_TURN: Final = (
    *("_id", "user_id", "thread_id", "seq", "topic_id", "idempotency_key", "call_index", "call_size"),
)


class MongoForgetting(MongoRows, MongoTopics, MongoSessions, MongoFacts):
    """The forgetting of a MongoStore."""

    @bounded
    async def key_spent(self, scope: Scope, kind: KeyedKind, key: str) -> bool:
        thread_of(scope)
        for where in await self._of_remains(scope):
            if await self._spent_keys.find_one({**where, "kind": kind, "key": key}, {"_id": 1}) is not None:
                return True
        return False

    @bounded
    async def put_erasure(self, erasure: Erasure) -> None:
        scope = erasure.scope
        document = ERASURE.document(erasure, user_id=scope.user_id, thread_id=scope.thread_id)
        # Not replaced: what lost facts by it stays noted.
        await self._erasures.update_one({"_id": erasure.id}, {"$set": document}, upsert=True)

    @bounded
    async def due_erasures(self, now: datetime, *, limit: int) -> list[Erasure]:
        if limit <= 0:
            return []
        due = self._erasures.find({"due_at": {"$lte": now}}).sort("due_at", 1).limit(limit)
        return list(map(ERASURE.get, await read_all(due)))

    @bounded
    async def end_erasure(self, erasure: Erasure) -> None:
        user_id = erasure.scope.user_id
        this: Document = {"_id": erasure.id, "user_id": user_id}
        lost = ((await self._erasures.find_one(this, {"lost_facts": 1})) or {}).get("lost_facts", [])
        if lost:
            # A worker that had its change in view may have struck a turn off once more, and died with the eraser.
            of_these = {"user_id": user_id, "turn_id": {"$in": lost}}
            stated = set(await self._fact_events.distinct("turn_id", of_these))
            await self._owe_facts(user_id, [each for each in lost if each not in stated], now=erasure.due_at)
        await self._erasures.delete_one(this)

    async def put_receipt(self, receipt: ErasureReceipt) -> None:
        await self._bounded(
            self._receipts.replace_one({"_id": receipt.id}, RECEIPT.document(receipt), upsert=True)
        )

    @bounded
    async def receipts(
        self, *, state: str | None = None, after: str = "", limit: int | None = None
    ) -> list[ErasureReceipt]:
        if limit is not None and limit <= 0:
            return []
        query = {"_id": {"$gt": after}} | ({} if state is None else {"state": state})
        found = self._receipts.find(query).sort("_id", 1).limit(limit or 0)
        return list(map(RECEIPT.get, await read_all(found)))

    async def rewrite_files(self) -> bool:
        return False

    @bounded
    async def file_tiers(self) -> tuple[ErasedTier, ...]:
        return (
            ErasedTier(
                tier="mongodb_files",
                state="operator",
                note="free pages of collections and the journal keep bytes until they are used again: `compact` the"
                " collections, or keep the volume encrypted",
            ),
            ErasedTier(tier="oplog", state="operator", note=await self._oplog_note()),
        )

    async def _oplog_note(self) -> str:
        keeps = (
            "the oplog keeps what was written until it is full, and as long as oplogMinRetentionHours says"
        )
        try:
            oplog = self._turns.database.client["local"]["oplog.rs"]
            first = await oplog.find_one({}, {"ts": 1}, sort=[("$natural", 1)])
        except OperationFailure:  # whoever may not read `local`
            return f"{keeps}; rs.printReplicationInfo() says how far it reaches back"
        if first is None:
            return "the server has none"
        return f"{keeps}: now it reaches back to {first['ts'].as_datetime():%Y-%m-%d %H:%M} UTC"

    async def erase_turns(self, erasure: Erasure, *, now: datetime, limit: int) -> ErasedCounts:
        if limit <= 0:
            return ErasedCounts()
        next_ones = self._turns.find({**_turns_of(erasure), "gone_at": None}, {"thread_id": 1, "seq": 1})
        turns = await self._bounded(read_all(next_ones.sort("_id", 1).limit(limit)))
        user_id, ids = erasure.scope.user_id, [turn["_id"] for turn in turns]
        done = ErasedCounts(turns=len(turns))
        for chunk in chunks(ids, _AT_ONCE):
            done += ErasedCounts(search_rows=await self._stub_rows(user_id, chunk, now=now))
            done += ErasedCounts(fact_changes=await self._forget_changes(user_id, chunk, erasure, now=now))
        done += ErasedCounts(fact_changes=await self._forget_edits(erasure))
        compressions = await self._forget_compressions(user_id, turns, erasure, now=now)
        threads = {turn["thread_id"] for turn in turns}
        if erasure.turn_ids is None and not turns:
            # A crash may have come between the deletion of edits and the reset that follows it.
            threads.update(await self._threads_with_facts(erasure.scope))
        if erasure.keeps_facts:
            await self._count_stripped(
                user_id, threads
            )  # a crash may have come between the two steps of the first time
        else:
            await self._reset_facts(user_id, threads)
        for chunk in chunks(ids, _AT_ONCE):
            await self._empty_turns(user_id, chunk, now=now)
        done += await self._finish_emptied(user_id, erasure, now=now)
        # The last batch takes them all.
        sessions = await self._forget_sessions(erasure) if len(turns) < limit else 0
        return done + ErasedCounts(compressions=compressions, sessions=sessions)

    async def _empty_turns(self, user_id: str, ids: Sequence[str], *, now: datetime) -> None:
        left: Document = {name: f"${name}" for name in _LEFT_OF_A_TURN}
        empty: list[Document] = [{"$replaceWith": {**left, "gone_at": now, "erasing": True}}]
        await self._bounded(self._turns.update_many(_live(user_id, ids), empty))

    async def _finish_emptied(self, user_id: str, erasure: Erasure | None, *, now: datetime) -> ErasedCounts:
        """Finish turns that were emptied, by this call or by one that a crash cut short."""
        where = {"user_id": user_id} if erasure is None else _turns_of(erasure)
        fields = {"thread_id": 1, "seq": 1, "topic_id": 1}
        emptied = self._turns.find({**where, "erasing": True}, fields).sort("_id", 1)
        done = ErasedCounts()
        for turns in chunks(await self._bounded(read_all(emptied)), _AT_ONCE):
            ids = [turn["_id"] for turn in turns]
            texts = await self._trim_all(user_id, await self._segments_holding(user_id, ids))
            done += ErasedCounts(packed_texts=texts)
            carried = {(turn["thread_id"], turn["topic_id"]) for turn in turns if "topic_id" in turn}
            for thread_id in {thread for thread, _ in carried}:
                topic_ids = {topic_id for thread, topic_id in carried if thread == thread_id}
                done += ErasedCounts(topics=await self._reset_topics(user_id, thread_id, topic_ids, now=now))
            # Once more: until the turns were emptied, who does again what is owed could have them in view.
            done += ErasedCounts(
                fact_changes=await self._forget_changes(user_id, ids, erasure, now=now),
                compressions=await self._forget_compressions(user_id, turns, erasure, now=now),
            )
            ended = {**one_of(ids), "user_id": user_id, "erasing": True}
            unset = {"$unset": {"erasing": "", "topic_id": ""}}
            await self._bounded(self._turns.update_many(ended, unset))
        return done

    async def _stub_rows(self, user_id: str, ids: Iterable[str], *, now: datetime) -> int:
        """Replace the rows of these turns by stubs; how many."""
        query = {**one_of(ids), "user_id": user_id, "erased": None}
        rows = await self._bounded(read_all(self._rows.find(query, {"thread_id": 1, "seq": 1})))
        await self._write_rows(user_id, [stub_document(user_id, row, now=now) for row in rows], now=now)
        if rows:
            noted = {"$set": {"pending": True}, "$inc": {"marks": 1}}
            await self._bounded(self._vector_fills.update_one({"user_id": user_id}, noted))
        return len(rows)

    async def _forget_changes(
        self, user_id: str, turn_ids: Sequence[str], erasure: Erasure | None, *, now: datetime
    ) -> int:
        """Delete every change that had one of these turns in view, unless the erasure keeps facts. How many.

        A turn that stays and lost a change by it loses all. It owes `facts` again, and so does a user's turn that was
        in view of what went and has no change of its own: it may say the same. Those that the erasure has yet to
        reach don't stay.
        """
        ids = list(turn_ids)
        if erasure is not None and erasure.keeps_facts:
            await self._strip_changes(user_id, ids)
            return 0
        viewing = {"$or": [{"turns": {"$in": ids}}, {"turn_id": {"$in": ids}}]}
        fields = {"turn_id": 1, "turns": 1}
        going = await self._bounded(read_all(self._fact_events.find({"user_id": user_id, **viewing}, fields)))
        seen = {each for change in going for each in (change.get("turn_id"), *change.get("turns", ()))}
        there = await self._staying(user_id, list(seen), erasure)
        made = {change.get("turn_id") for change in going}
        staying = [each for each in there if each in made]
        kept = {"user_id": user_id, "turn_id": {"$in": there}, "$nor": [viewing]}
        stating = await self._bounded(self._fact_events.distinct("turn_id", kept)) if there else []
        again = [*staying, *{*there}.difference(staying, stating)]
        if staying:
            of_call: Document = {"user_id": user_id} | ({} if erasure is None else {"_id": erasure.id})
            noted = {"$addToSet": {"lost_facts": {"$each": staying}}}
            await self._bounded(self._erasures.update_many(of_call, noted))
        await self._owe_facts(user_id, again, now=now)
        # Their other changes first: by those that had the turns in view a repeat finds what else has to go.
        others = {"turn_id": {"$in": staying}, "turns": {"$nin": ids}}
        changes = await self._delete_changes(user_id, others) if staying else 0
        changes += await self._delete_changes(user_id, viewing)
        # Again, for a worker may have been quick, and struck it off since its change was still there.
        await self._owe_facts(user_id, again, now=now)
        return changes

    async def _staying(self, user_id: str, ids: Sequence[str], erasure: Erasure | None = None) -> list[str]:
        """Those of these turns that are there, and that the erasure does not take."""
        if not ids:
            return []
        query = _live(user_id, ids) | ({} if erasure is None else {"$nor": [_turns_of(erasure)]})
        return [turn["_id"] for turn in await self._bounded(read_all(self._turns.find(query, {"_id": 1})))]

    async def _owe_facts(self, user_id: str, ids: Sequence[str], *, now: datetime) -> None:
        if ids:
            users = _live(user_id, ids) | {"role": "user"}
            await self._bounded(self._turns.update_many(users, owing("facts", now)))

    async def _forget_edits(self, erasure: Erasure) -> int:
        """Delete the changes without a turn that the erasure takes: none, unless it is of a whole scope. How many."""
        if erasure.turn_ids is not None or erasure.keeps_facts:
            return 0
        where = {**scope_filter(erasure.scope), "turn_id": None, "key": {"$lt": erasure.before_id}}
        keyed = {**where, "idempotency_key": {"$type": "string"}}
        edits = self._fact_events.find(keyed, {"thread_id": 1, "key": 1, "idempotency_key": 1})
        found = await self._bounded(read_all(edits))
        await self._spend_keys(erasure.scope.user_id, "edit", found, "key")
        return await self._delete_changes(erasure.scope.user_id, where)

    async def _threads_with_facts(self, scope: Scope) -> list[str]:
        return list(await self._bounded(self._facts.distinct("thread_id", scope_filter(scope))))

    async def sweep_orphans(self, scope: Scope, *, stubs_before: datetime, now: datetime) -> ErasedCounts:
        user_id = scope.user_id
        done = ErasedCounts()
        unerased = self._rows.find({"user_id": user_id, "erased": None}, {"_id": 1})
        for chunk in chunks([row["_id"] for row in await self._bounded(read_all(unerased))], _AT_ONCE):
            gone = await self._without_turn(user_id, chunk)
            done += ErasedCounts(search_rows=await self._stub_rows(user_id, gone, now=now))
        for chunk in chunks(await self._turns_in_view(user_id), _AT_ONCE):
            if gone := await self._without_turn(user_id, chunk):
                done += ErasedCounts(fact_changes=await self._forget_changes(user_id, gone, None, now=now))
        done += await self._finish_emptied(user_id, None, now=now)
        covering = await self._covering(user_id)
        covered = sorted({turn_id for document in covering for turn_id in document["covers"]})
        missing: set[str] = set()
        for chunk in chunks(covered, _AT_ONCE):
            missing.update(await self._without_turn(user_id, chunk))
        done += ErasedCounts(
            compressions=await self._sweep_compressions(user_id, covering, missing, now=now),
            # Of all segments, for a compressor may have packed a turn that was emptied under its hands.
            packed_texts=await self._trim_all(user_id, await self._segments_of_user(user_id)),
            topics=await self._reset_forsaken_topics(user_id),
        )
        # All of them, for a crash may have come between the deletion of changes and the reset that follows it.
        await self._reset_facts(user_id, await self._threads_with_facts(scope.user))
        await self._delete_stubs(user_id, stubs_before=stubs_before, now=now)
        return done

    async def _turns_in_view(self, user_id: str) -> list[str]:
        """All turns that the user's changes are of or had in view."""
        by_turn: list[Document] = [
            {"$match": {"user_id": user_id}},
            {"$project": {"seen": {"$setUnion": [{"$ifNull": ["$turns", []]}, ["$turn_id"]]}}},
            {"$unwind": "$seen"},
            {"$group": {"_id": "$seen"}},
        ]
        found = await self._bounded(read_all(self._fact_events.aggregate(by_turn)))
        return [group["_id"] for group in found if group["_id"] is not None]

    async def _without_turn(self, user_id: str, ids: Sequence[str]) -> list[str]:
        alive = set(await self._staying(user_id, ids))
        return [turn_id for turn_id in ids if turn_id not in alive]

    @bounded
    async def _delete_stubs(self, user_id: str, *, stubs_before: datetime, now: datetime) -> None:
        """Delete the stubs whose numbers cannot come back: rows' below `now`, turns' below their thread's last."""
        stubs: Document = {"user_id": user_id, "erased": True, "erased_at": {"$lt": stubs_before}}
        await self._rows.delete_many({**stubs, "index_seq": {"$lt": milliseconds(now)}})
        gone_before = min(stubs_before, now - SEQ_HELD)
        await self._hash_remains(user_id, gone_before=gone_before)

    @bounded
    async def erase_remains(self, scope: Scope, *, before_id: str) -> None:
        user_id = scope.user_id
        live = await self._turns.distinct("thread_id", {**scope_filter(scope), "gone_at": None})
        ended = {**scope_filter(scope), "$nor": [{"thread_id": {"$in": live}}]}
        for derived in (self._facts, self._costs, self._topics, self._topic_marks, self._compressions):
            await derived.delete_many(ended)
        # One that was started since the call has yet to see its first turn.
        await self._sessions.delete_many({**ended, "session_id": {"$lt": before_id}})
        if scope.thread_id is None:
            for where in await self._of_remains(scope):
                await self._erase_tombstones(scope, where["user_id"], before_id)
                await self._spent_keys.delete_many({**where, "id": {"$lt": before_id}})
        await self._trim_all(user_id, await self._segments_of_user(user_id))
        await self._rows.delete_many({**scope_filter(scope), "erased": True, "_id": {"$lt": before_id}})
        if await self._rows.find_one(scope_filter(scope.user), {"_id": 1}) is None:
            await self._large_users.delete_one({"user_id": user_id})
            await self._vector_fills.delete_one({"user_id": user_id})
        # Of leases the store knows only the names. One that ran out means nothing any more, whoever held it.
        await self._leases.delete_many({"until": {"$lt": datetime.now(UTC)}})

    async def _erase_tombstones(self, user: Scope, kept_under: str, before_id: str) -> None:
        """Delete the tombstones that are kept under the user's id, or (`kept_under`) under its hash."""
        living = set(await self._turns.distinct("thread_id", {**scope_filter(user), "gone_at": None}))
        living |= set(await self._sessions.distinct("thread_id", scope_filter(user)))
        if (hasher := await self._hasher()) is not None:
            living |= {hasher.remains(replace(user, thread_id=thread)).thread_id for thread in living}
        for thread_id in await self._threads_with_gone_turns(kept_under):
            where = {"user_id": kept_under, "thread_id": thread_id}
            # One that is still being erased by another call is that call's to find.
            gone = {**where, "gone_at": {"$exists": True}, "erasing": None, "_id": {"$lt": before_id}}
            if thread_id not in living:
                await self._turns.delete_many(gone)
                continue
            # The thread lives on, or a session counts from its number: the document of that stays, without the call's key.
            last = await self._turns.find_one(where, {"seq": 1}, sort=[("seq", -1)])
            await self._turns.delete_many({**gone, "seq": {"$lt": last["seq"] if last else 0}})
            await self._turns.update_many(gone, {"$unset": {"idempotency_key": ""}})


def _live(user_id: str, ids: Iterable[str]) -> Document:
    """Matches those of the user's turns that were not forgotten."""
    return {**one_of(ids), "user_id": user_id, "gone_at": None}


def _turns_of(erasure: Erasure) -> Document:
    """Matches the erasure's turns, emptied or not."""
    ids = {"$lt": erasure.before_id} if erasure.turn_ids is None else {"$in": list(erasure.turn_ids)}
    return {**scope_filter(erasure.scope), "_id": ids}
