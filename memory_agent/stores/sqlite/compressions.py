"""Compressions in SQLite: checked and stored in one transaction, so none ever covers a turn that is gone."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.domain import Scope
from memory_agent.stores.codec import thread_of
from memory_agent.stores.compressions import COMPRESSION, compression_of, pack_derived
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import among, scalar, where_scope
from memory_agent.stores.sqlite.work import owe_stage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from memory_agent.domain import Compression, Erasure
    from memory_agent.stores.sqlite.records import Record

_INSERT: Final = f"INSERT INTO compressions ({COMPRESSION.columns}) VALUES ({COMPRESSION.marks})"


class SqliteCompressions(SqliteConnection):
    """The compressions of a SqliteStore."""

    async def append_compression(self, compression: Compression) -> bool:
        record = COMPRESSION.record(compression, derived=pack_derived(compression))
        return await self._write(lambda db: _append(db, compression, record))

    async def compressions(
        self, scope: Scope, *, through: int | None = None, newest: int | None = None
    ) -> list[Compression]:
        thread_of(scope)
        where, parameters = where_scope(scope)
        if through is not None:
            where, parameters = f"{where} AND through <= ?", [*parameters, through]
        sql = f"SELECT {COMPRESSION.columns} FROM compressions WHERE {where} ORDER BY number DESC LIMIT ?"
        parameters.append(-1 if newest is None else max(newest, 0))
        found = await self._read(lambda db: db.execute(sql, parameters).fetchall())
        return [compression_of(COMPRESSION.of_record(record)) for record in reversed(found)]


def _append(db: sqlite3.Connection, compression: Compression, record: Record) -> bool:
    where, parameters = where_scope(compression.scope)
    last = db.execute(
        f"SELECT number, through FROM compressions WHERE {where} ORDER BY number DESC LIMIT 1", parameters
    ).fetchone()
    if (compression.number - 1, compression.after_seq) != (last or (0, 0)):
        return False
    condition, values = among("id", list(set(compression.covers)))
    # The plus: as in where_turns.
    alive = f"SELECT count(*) FROM turns WHERE user_id = ? AND +thread_id = ? AND {condition}"
    if scalar(db, alive, [*parameters, *values]) < len(set(compression.covers)):
        return False
    db.execute(_INSERT, record)
    return True


def forget_compressions(
    db: sqlite3.Connection,
    user_id: str,
    erased: Iterable[tuple[str, int]],
    erasure: Erasure,
    now: datetime,
) -> int:
    """Delete the compressions that go up to these turns (thread, `seq`), which are gone, or further. How many.

    The newest turn of each of their threads that the erasure spares owes `compress` again.
    """
    lowest: dict[str, int] = {}
    for thread_id, seq in erased:
        lowest[thread_id] = min(seq, lowest.get(thread_id, seq))
    return _drop(db, user_id, "through", lowest, erasure, now)


def sweep_compressions(db: sqlite3.Connection, user_id: str, now: datetime) -> int:
    """Delete the user's compressions that cover a turn that is gone or whose predecessor is missing, and all later ones
    of their threads. How many.

    `append_compression` and `forget_compressions` leave none; a file that was mended by hand may hold some.
    """
    broken = db.execute(
        "SELECT thread_id, min(number) FROM compressions AS made WHERE user_id = ?1 AND (EXISTS"
        " (SELECT 1 FROM json_each(covers) WHERE NOT EXISTS"
        " (SELECT 1 FROM turns WHERE turns.id = value AND turns.user_id = ?1))"
        " OR number > 1 AND NOT EXISTS (SELECT 1 FROM compressions WHERE user_id = ?1"
        " AND thread_id = made.thread_id AND number = made.number - 1)) GROUP BY thread_id",
        [user_id],
    ).fetchall()
    return _drop(db, user_id, "number", dict(broken), None, now)


def _drop(
    db: sqlite3.Connection,
    user_id: str,
    column: str,
    lowest: Mapping[str, int],
    erasure: Erasure | None,
    now: datetime,
) -> int:
    dropped = 0
    for thread_id, value in lowest.items():
        sql = f"DELETE FROM compressions WHERE user_id = ? AND thread_id = ? AND {column} >= ?"
        gone = db.execute(sql, [user_id, thread_id, value]).rowcount
        if gone:
            thread = Scope(user_id=user_id, thread_id=thread_id)
            owe_stage(db, thread, "compress", now=now, turn_ids=_newest_kept(db, thread, erasure))
        dropped += gone
    return dropped


def _newest_kept(db: sqlite3.Connection, thread: Scope, erasure: Erasure | None) -> list[str]:
    """The thread's newest turn that the erasure has not yet to reach, if there is one."""
    where, parameters = where_scope(thread)
    if erasure is not None and erasure.turn_ids is not None:
        condition, values = among("id", erasure.turn_ids)
        where, parameters = f"{where} AND NOT {condition}", parameters + values
    elif erasure is not None:
        # The plus keeps the thread from choosing the index: it would read all the turns that are to go.
        where = f"{where.replace('thread_id', '+thread_id')} AND id >= ?"
        parameters.append(erasure.before_id)
    found = db.execute(f"SELECT id FROM turns WHERE {where} ORDER BY seq DESC LIMIT 1", parameters)
    return [turn_id for (turn_id,) in found]
