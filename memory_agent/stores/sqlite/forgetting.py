"""Forgetting in SQLite: each step is one transaction."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from memory_agent.domain import ErasedCounts, ErasedTier, Scope
from memory_agent.stores.codec import BROTLI, GZIP, milliseconds, pack_texts, thread_of
from memory_agent.stores.fields import ERASURE, RECEIPT
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.facts import delete_changes, having_in_view, reset_facts, strip_changes
from memory_agent.stores.sqlite.records import (
    Where,
    delete_remains,
    hash_remains,
    in_scope,
    of_remains,
    scalar,
    spend_keys,
)
from memory_agent.stores.sqlite.rows import stub_rows
from memory_agent.stores.sqlite.schema import remove_left_over
from memory_agent.stores.sqlite.sessions import forget_compressions, forget_sessions, sweep_compressions
from memory_agent.stores.sqlite.topics import (
    leaving,
    remaining_texts,
    reset_forsaken_topics,
    reset_topics,
    take_out,
)
from memory_agent.stores.sqlite.turns import owe_stage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import Erasure, ErasureReceipt, KeyedKind
    from memory_agent.stores.codec import Record
    from memory_agent.stores.sqlite.topics import Leaving, Remainders

_BROTLI_CHARS: Final = 200_000
"""More text than this is packed anew by gzip: brotli needs a second for a megabyte, and a forget call waits for it."""


class SqliteForgetting(SqliteConnection):
    """The forgetting of a SqliteStore."""

    async def key_spent(self, scope: Scope, kind: KeyedKind, key: str) -> bool:
        thread_of(scope)

        def spent(db: sqlite3.Connection) -> bool:
            where = of_remains(db, scope).equal(kind=kind, key=key)
            return scalar(db, f"SELECT 1 FROM spent_keys WHERE {where}", where.values) is not None

        return await self._read(spent)

    async def put_erasure(self, erasure: Erasure) -> None:
        sql = f"INSERT OR REPLACE INTO erasures ({ERASURE.columns}) VALUES ({ERASURE.marks})"
        scope = erasure.scope
        await self._execute(sql, ERASURE.record(erasure, user_id=scope.user_id, thread_id=scope.thread_id))

    async def due_erasures(self, now: datetime, *, limit: int) -> list[Erasure]:
        rest = "FROM erasures WHERE due_at <= ? ORDER BY due_at, id LIMIT ?"
        return await self._select(ERASURE, rest, [milliseconds(now), max(limit, 0)])

    async def end_erasure(self, erasure: Erasure) -> None:
        sql = "DELETE FROM erasures WHERE id = ? AND user_id = ?"
        await self._execute(sql, [erasure.id, erasure.scope.user_id])

    async def put_receipt(self, receipt: ErasureReceipt) -> None:
        sql = f"INSERT OR REPLACE INTO erasure_receipts ({RECEIPT.columns}) VALUES ({RECEIPT.marks})"
        await self._execute(sql, RECEIPT.record(receipt))

    async def receipts(
        self, *, state: str | None = None, after: str = "", limit: int | None = None
    ) -> list[ErasureReceipt]:
        where = Where("id > ?", after).equal(state=state)
        rest = f"FROM erasure_receipts WHERE {where} ORDER BY id LIMIT ?"
        return await self._select(RECEIPT, rest, [*where.values, -1 if limit is None else max(limit, 0)])

    async def rewrite_files(self) -> bool:
        # In a copy of before an upgrade stands what is forgotten since.
        await asyncio.to_thread(remove_left_over, self._path)
        await self._vacuum()
        return True

    async def file_tiers(self) -> tuple[ErasedTier, ...]:
        note = "a worker writes the SQLite file anew after the last pass"
        return (ErasedTier(tier="files", state="owed", note=note),)

    async def erase_turns(self, erasure: Erasure, *, now: datetime, limit: int) -> ErasedCounts:
        remainders: Remainders = {}
        while True:
            counts = await self._write(
                partial(_erase_turns, erasure=erasure, now=now, limit=limit, remainders=remainders)
            )
            if counts is not None:
                return counts
            remainders = await self._remainders(erasure, limit)

    async def _remainders(self, erasure: Erasure, limit: int) -> Remainders:
        """The segments of the next turns packed again without them."""
        user_id = erasure.scope.user_id
        remainders: Remainders = {}
        for gone in await self._read(lambda db: _leaving(db, user_id, _found(db, erasure, limit))):
            texts = await self._read(partial(remaining_texts, user_id=user_id, gone=gone))
            if texts:
                # Where a whole scope goes, batch by batch, what is left of a segment will not be kept for long.
                small = erasure.turn_ids is not None and sum(map(len, texts)) <= _BROTLI_CHARS
                remainders[gone] = await asyncio.to_thread(pack_texts, texts, codec=BROTLI if small else GZIP)
        return remainders

    async def sweep_orphans(self, scope: Scope, *, stubs_before: datetime, now: datetime) -> ErasedCounts:
        return await self._write(lambda db: _sweep(db, scope.user_id, stubs_before, now))

    async def erase_remains(self, scope: Scope, *, before_id: str) -> None:
        await self._write(lambda db: _erase_remains(db, scope, before_id))


def _turns_of(erasure: Erasure) -> Where:
    """A condition for the erasure's turns."""
    where = in_scope(erasure.scope)
    if erasure.turn_ids is None:
        return where.also("id < ?", erasure.before_id)
    return where.among("id", erasure.turn_ids)


def _found(db: sqlite3.Connection, erasure: Erasure, limit: int) -> list[Record]:
    """The next of the erasure's turns: id, thread, `seq`, topic, segment, place in it."""
    where = _turns_of(erasure)
    return db.execute(
        f"SELECT id, thread_id, seq, topic_id, segment_id, segment_at FROM turns WHERE {where} ORDER BY id LIMIT ?",
        [*where.values, max(limit, 0)],
    ).fetchall()


def _leaving(db: sqlite3.Connection, user_id: str, found: Sequence[Record]) -> list[Leaving]:
    return leaving(db, user_id, [(turn_id, *place) for turn_id, _, _, _, *place in found])


def _erase_turns(
    db: sqlite3.Connection, *, erasure: Erasure, now: datetime, limit: int, remainders: Remainders
) -> ErasedCounts | None:
    """Erase the next turns; None, and nothing done, if `remainders` lacks what stays of one of their segments."""
    if limit <= 0:
        return ErasedCounts()
    found = _found(db, erasure, limit)
    if not found:
        return ErasedCounts(fact_changes=_forget_edits(db, erasure), sessions=forget_sessions(db, erasure))
    user_id, ids = erasure.scope.user_id, [turn_id for turn_id, *_ in found]
    if not take_out(db, user_id, _leaving(db, user_id, found), remainders):
        return None
    _delete_turns(db, user_id, ids)
    rows = stub_rows(db, user_id, ids, now)
    changes = _forget_edits(db, erasure)
    if erasure.keeps_facts:
        strip_changes(db, user_id, ids)
    else:
        changes += _forget_changes(db, user_id, ids, erasure, now)
        reset_facts(db, user_id, {thread_id: 0 for _, thread_id, *_ in found})
    carried = {(thread_id, topic_id) for _, thread_id, _, topic_id, *_ in found if topic_id is not None}
    return ErasedCounts(
        turns=len(ids),
        search_rows=rows,
        fact_changes=changes,
        packed_texts=sum(segment_id is not None for *_, segment_id, _ in found),
        topics=reset_topics(db, user_id, carried, now),
        compressions=forget_compressions(
            db, user_id, [(thread_id, seq) for _, thread_id, seq, *_ in found], erasure, now
        ),
        # The last batch takes them all.
        sessions=forget_sessions(db, erasure) if len(found) < limit else 0,
    )


def _delete_turns(db: sqlite3.Connection, user_id: str, ids: Sequence[str]) -> None:
    """Delete the turns; what is left of them is the thread's last number and their calls' tombstones."""
    where = in_scope(Scope(user_id=user_id)).among("id", ids)
    left = "user_id, thread_id, seq, idempotency_key, call_index, call_size"
    for sql in (
        "INSERT INTO threads (user_id, thread_id, last_seq)"
        f" SELECT user_id, thread_id, max(seq) FROM turns WHERE {where} GROUP BY user_id, thread_id"
        " ON CONFLICT (user_id, thread_id) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)",
        f"INSERT OR REPLACE INTO tombstones (turn_id, {left})"
        f" SELECT id, {left} FROM turns WHERE {where} AND idempotency_key IS NOT NULL",
        # Without an index: there are a hundred thousand events at most, and turns are seldom forgotten.
        f"DELETE FROM events WHERE turn IN (SELECT number FROM turns WHERE {where})",
        f"DELETE FROM turns WHERE {where}",
    ):
        db.execute(sql, where.values)


def _forget_changes(
    db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str], erasure: Erasure | None, now: datetime
) -> int:
    """Delete every change that had one of these turns, which are gone, in view. How many.

    A turn that stays and lost a change by it loses all. It owes `facts` again, and so does a user's turn that was in
    view of what went and has no change of its own: it may say the same. Those that the erasure has yet to reach don't stay.
    """
    viewing, user = having_in_view(user_id, turn_ids), Scope(user_id=user_id)
    where = in_scope(user).equal(role="user")
    if erasure is not None:
        going = _turns_of(erasure)
        where = where.also(f"NOT ({going})", *going.values)

    def staying(of_changes: str) -> set[str]:
        found = where.also(f"id IN (SELECT {of_changes} WHERE {viewing})", *viewing.values)
        return {turn_id for (turn_id,) in db.execute(f"SELECT id FROM turns WHERE {found}", found.values)}

    makers, seen = staying("turn_id FROM fact_events"), staying("value FROM fact_events, json_each(turns)")
    forgotten = delete_changes(db, user_id, viewing)
    forgotten += delete_changes(db, user_id, in_scope(user).among("turn_id", list(makers)), by_turn=True)
    kept = in_scope(user).among("turn_id", list(seen))
    for (stating,) in db.execute(
        f"SELECT turn_id FROM fact_events INDEXED BY fact_events_turn WHERE {kept}", kept.values
    ):
        seen.discard(stating)
    if again := makers | seen:
        owe_stage(db, user, "facts", now=now, turn_ids=sorted(again))
    return forgotten


def _forget_edits(db: sqlite3.Connection, erasure: Erasure) -> int:
    """Delete the changes without a turn that the erasure takes: none, unless it is of a whole scope. How many."""
    if erasure.turn_ids is not None or erasure.keeps_facts:
        return 0
    where = in_scope(erasure.scope).also("turn_id IS NULL AND key < ?", erasure.before_id)
    spend_keys(db, "edit", where)
    return delete_changes(db, erasure.scope.user_id, where, by_turn=True)


def _sweep(db: sqlite3.Connection, user_id: str, stubs_before: datetime, now: datetime) -> ErasedCounts:
    def lost(table: str, turn_id: str) -> list[str]:
        gone = f"NOT EXISTS (SELECT 1 FROM turns WHERE turns.id = {turn_id} AND turns.user_id = ?1)"
        found = db.execute(f"SELECT DISTINCT {turn_id} FROM {table} WHERE user_id = ?1 AND {gone}", [user_id])
        return [lost_id for (lost_id,) in found]

    counts = ErasedCounts(
        # Of those that are stubs already, none is made anew.
        search_rows=stub_rows(db, user_id, lost("search_rows", "unpack_id(turn_id)"), now),
        fact_changes=_forget_changes(db, user_id, lost("fact_change_turns", "turn_id"), None, now),
        # No packed texts: a turn and its text in a segment go in one transaction.
        topics=reset_forsaken_topics(db, user_id),
        compressions=sweep_compressions(db, user_id, now),
    )
    documents = db.execute("SELECT thread_id FROM facts WHERE user_id = ?", [user_id]).fetchall()
    reset_facts(db, user_id, {thread_id: 0 for (thread_id,) in documents})
    # One numbered below `now`, or not the last, cannot be what keeps the next number from being given twice.
    last = "(SELECT max(index_seq) FROM search_rows WHERE user_id = ?1)"
    stubs = "FROM search_rows WHERE user_id = ?1 AND erased_at < ?2"
    seen = [user_id, milliseconds(stubs_before)]
    db.execute(f"DELETE {stubs} AND index_seq < max(?3, {last})", [*seen, milliseconds(now)])
    hash_remains(db, user_id)
    # What has to stay takes another pass.
    return counts + ErasedCounts(search_rows=scalar(db, f"SELECT count(*) {stubs}", seen))


def _erase_remains(db: sqlite3.Connection, scope: Scope, before_id: str) -> None:
    user_id = scope.user_id
    stubs = in_scope(scope).also("erased_at IS NOT NULL AND unpack_id(turn_id) < ?", before_id)
    db.execute(f"DELETE FROM search_rows WHERE {stubs}", stubs.values)
    for table in ("facts", "costs", "topics", "topic_marks", "compressions", "sessions"):
        where = in_scope(scope).also(
            f"NOT EXISTS (SELECT 1 FROM turns WHERE turns.user_id = {table}.user_id"
            f" AND turns.thread_id = {table}.thread_id)"
        )
        if table == "sessions":
            # One that was started since the call has yet to see its first turn.
            where = where.also("id < ?", before_id)
        db.execute(f"DELETE FROM {table} WHERE {where}", where.values)
    if scope.thread_id is None:
        delete_remains(db, user_id, before_id)
    rowless = "NOT EXISTS (SELECT 1 FROM search_rows WHERE search_rows.user_id = ?1)"
    for table in ("large_users", "vector_fills"):
        db.execute(f"DELETE FROM {table} WHERE user_id = ?1 AND {rowless}", [user_id])
    # Of leases the store knows only the names. One that ran out means nothing any more, whoever held it.
    db.execute("DELETE FROM leases WHERE until < ?", [milliseconds(datetime.now(UTC))])
