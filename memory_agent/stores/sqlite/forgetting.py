"""Forgetting in SQLite: each step is one transaction."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import ErasedCounts, Scope
from memory_agent.stores.codec import milliseconds
from memory_agent.stores.fields import ERASURE, erasure_of
from memory_agent.stores.segments import BROTLI, GZIP, pack_texts
from memory_agent.stores.sqlite.compressions import forget_compressions, sweep_compressions
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.facts import delete_changes, having_in_view, reset_facts
from memory_agent.stores.sqlite.records import among, where_scope
from memory_agent.stores.sqlite.rows import stub_rows
from memory_agent.stores.sqlite.segments import leaving, remaining_texts, take_out
from memory_agent.stores.sqlite.sessions import forget_sessions
from memory_agent.stores.sqlite.spent_keys import drop_spent_keys, spend_keys
from memory_agent.stores.sqlite.topics import reset_forsaken_topics, reset_topics
from memory_agent.stores.sqlite.work import owe_stage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import Erasure
    from memory_agent.stores.sqlite.records import Record
    from memory_agent.stores.sqlite.segments import Leaving, Remainders

_BROTLI_CHARS: Final = 200_000
"""More text than this is packed anew by gzip: brotli needs a second for a megabyte, and a forget call waits for it."""


class SqliteForgetting(SqliteConnection):
    """The forgetting of a SqliteStore."""

    async def put_erasure(self, erasure: Erasure) -> None:
        sql = f"INSERT OR REPLACE INTO erasures ({ERASURE.columns}) VALUES ({ERASURE.marks})"
        scope = erasure.scope
        await self._execute(sql, ERASURE.record(erasure, user_id=scope.user_id, thread_id=scope.thread_id))

    async def due_erasures(self, now: datetime, *, limit: int) -> list[Erasure]:
        sql = f"SELECT {ERASURE.columns} FROM erasures WHERE due_at <= ? ORDER BY due_at, id LIMIT ?"
        parameters = [milliseconds(now), max(limit, 0)]
        found = await self._read(lambda db: db.execute(sql, parameters).fetchall())
        return [erasure_of(ERASURE.of_record(record)) for record in found]

    async def end_erasure(self, erasure: Erasure) -> None:
        sql = "DELETE FROM erasures WHERE id = ? AND user_id = ?"
        await self._execute(sql, [erasure.id, erasure.scope.user_id])

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

    async def erase_user_remains(self, user_id: str, *, before_id: str) -> None:
        await self._write(lambda db: _erase_remains(db, user_id, before_id))


def _turns_of(erasure: Erasure) -> tuple[str, list[Any]]:
    """A condition for the erasure's turns."""
    where, parameters = where_scope(erasure.scope)
    if erasure.turn_ids is None:
        return f"{where} AND id < ?", [*parameters, erasure.before_id]
    condition, values = among("id", erasure.turn_ids)
    return f"{where} AND {condition}", parameters + values


def _found(db: sqlite3.Connection, erasure: Erasure, limit: int) -> list[Record]:
    """The next of the erasure's turns: id, thread, `seq`, topic, segment, place in it."""
    where, parameters = _turns_of(erasure)
    return db.execute(
        f"SELECT id, thread_id, seq, topic_id, segment_id, segment_at FROM turns WHERE {where} ORDER BY id LIMIT ?",
        [*parameters, max(limit, 0)],
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
    changes = _forget_changes(db, user_id, ids, erasure, now) + _forget_edits(db, erasure)
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
    condition, values = among("id", ids)
    parameters: list[Any] = [user_id, *values]
    db.execute(
        "INSERT INTO threads (user_id, thread_id, last_seq)"
        f" SELECT user_id, thread_id, max(seq) FROM turns WHERE user_id = ? AND {condition}"
        " GROUP BY user_id, thread_id"
        " ON CONFLICT (user_id, thread_id) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)",
        parameters,
    )
    db.execute(
        "INSERT OR REPLACE INTO tombstones"
        " (turn_id, user_id, thread_id, seq, idempotency_key, call_index, call_size)"
        " SELECT id, user_id, thread_id, seq, idempotency_key, call_index, call_size FROM turns"
        f" WHERE user_id = ? AND {condition} AND idempotency_key IS NOT NULL",
        parameters,
    )
    db.execute(f"DELETE FROM turns WHERE user_id = ? AND {condition}", parameters)


def _forget_changes(
    db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str], erasure: Erasure | None, now: datetime
) -> int:
    """Delete every change that had one of these turns, which are gone, in view. How many.

    A turn that stays and lost a change by it loses all, and owes `facts` again. Those that the erasure has yet to
    reach don't stay.
    """
    viewing, seen = having_in_view(user_id, turn_ids)
    makers = f"SELECT turn_id FROM fact_events WHERE user_id = ? AND {viewing}"
    where, parameters = f"user_id = ? AND id IN ({makers})", [user_id, user_id, *seen]
    if erasure is not None:
        going, values = _turns_of(erasure)
        where, parameters = f"{where} AND NOT ({going})", parameters + values
    staying = [turn_id for (turn_id,) in db.execute(f"SELECT id FROM turns WHERE {where}", parameters)]
    if staying:
        owe_stage(db, Scope(user_id=user_id), "facts", now=now, turn_ids=staying)
    forgotten = delete_changes(db, user_id, viewing, seen)
    return forgotten + delete_changes(db, user_id, *among("turn_id", staying), by_turn=True)


def _forget_edits(db: sqlite3.Connection, erasure: Erasure) -> int:
    """Delete the changes without a turn that the erasure takes: none, unless it is of a whole scope. How many."""
    if erasure.turn_ids is not None:
        return 0
    condition, parameters = "turn_id IS NULL AND key < ?", [erasure.before_id]
    if erasure.scope.thread_id is not None:
        condition, parameters = f"{condition} AND thread_id = ?", [*parameters, erasure.scope.thread_id]
    spend_keys(db, "edit", f"user_id = ? AND {condition}", [erasure.scope.user_id, *parameters])
    return delete_changes(db, erasure.scope.user_id, condition, parameters, by_turn=True)


def _sweep(db: sqlite3.Connection, user_id: str, stubs_before: datetime, now: datetime) -> ErasedCounts:
    gone = "NOT EXISTS (SELECT 1 FROM turns WHERE turns.id = turn_id AND turns.user_id = ?1)"
    rows = db.execute(
        f"SELECT turn_id FROM search_rows WHERE user_id = ?1 AND erased_at IS NULL AND {gone}",
        [user_id],
    ).fetchall()
    unseen = db.execute(
        f"SELECT DISTINCT turn_id FROM fact_change_turns WHERE user_id = ?1 AND {gone}",
        [user_id],
    ).fetchall()
    counts = ErasedCounts(
        search_rows=stub_rows(db, user_id, [turn_id for (turn_id,) in rows], now),
        fact_changes=_forget_changes(db, user_id, [turn_id for (turn_id,) in unseen], None, now),
        # No packed texts: a turn and its text in a segment go in one transaction.
        topics=reset_forsaken_topics(db, user_id),
        compressions=sweep_compressions(db, user_id, now),
    )
    documents = db.execute("SELECT thread_id FROM facts WHERE user_id = ?", [user_id]).fetchall()
    reset_facts(db, user_id, {thread_id: 0 for (thread_id,) in documents})
    # A stub numbered below `now` cannot be the one that keeps the next number from being given twice.
    db.execute(
        "DELETE FROM search_rows WHERE user_id = ? AND erased_at < ? AND index_seq < ?",
        [user_id, milliseconds(stubs_before), milliseconds(now)],
    )
    return counts


def _erase_remains(db: sqlite3.Connection, user_id: str, before_id: str) -> None:
    db.execute("DELETE FROM tombstones WHERE user_id = ? AND turn_id < ?", [user_id, before_id])
    drop_spent_keys(db, user_id, before_id)
    db.execute(
        "DELETE FROM search_rows WHERE user_id = ? AND erased_at IS NOT NULL AND turn_id < ?",
        [user_id, before_id],
    )
    for table in ("facts", "costs", "topics", "compressions", "sessions", "threads"):
        where, parameters = "user_id = ?", [user_id]
        if table == "sessions":
            # One that was started since the call has yet to see its first turn.
            where, parameters = f"{where} AND id < ?", [*parameters, before_id]
        if table == "threads":
            # And counts its turns from the thread's last number.
            where += (
                " AND NOT EXISTS (SELECT 1 FROM sessions"
                " WHERE sessions.user_id = threads.user_id AND sessions.thread_id = threads.thread_id)"
            )
        db.execute(
            f"DELETE FROM {table} WHERE {where} AND NOT EXISTS (SELECT 1 FROM turns"
            f" WHERE turns.user_id = {table}.user_id AND turns.thread_id = {table}.thread_id)",
            parameters,
        )
    # Of leases the store knows only the names. One that ran out means nothing any more, whoever held it.
    db.execute("DELETE FROM leases WHERE until < ?", [milliseconds(datetime.now(UTC))])
