"""Sessions in SQLite, and the compressions of their conversations; what is counted is read from what carries their ids."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Scope, Session, ThreadHead
from memory_agent.errors import StoreError
from memory_agent.stores.codec import (
    completed,
    from_milliseconds,
    lowest_by_thread,
    of_tenant,
    pack_derived,
    thinned,
    thread_of,
)
from memory_agent.stores.fields import COMPRESSION, SESSION
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope, scalar, spend_keys, these_turns
from memory_agent.stores.sqlite.turns import last_given, owe_stage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Compression, Erasure
    from memory_agent.stores.codec import Record

_OF_SESSION: Final = (
    "{0}.user_id = sessions.user_id AND {0}.session_id = sessions.id AND {0}.thread_id = sessions.thread_id"
)
_ITS_TURNS: Final = f"FROM turns WHERE {_OF_SESSION.format('turns')}"
_ITS_COMPRESSIONS: Final = f"FROM compressions WHERE {_OF_SESSION.format('compressions')}"
_COUNTED: Final = (
    f"{SESSION.columns}, (SELECT count(*) {_ITS_TURNS}), (SELECT count(*) {_ITS_COMPRESSIONS}),"
    f" (SELECT timestamp {_ITS_TURNS} ORDER BY seq DESC LIMIT 1)"
)
_UNUSED: Final = f"NOT EXISTS (SELECT 1 {_ITS_TURNS})"
_INSERT: Final = f"INSERT INTO sessions ({SESSION.columns}) VALUES ({SESSION.marks})"
_INSERT_COMPRESSION: Final = f"INSERT INTO compressions ({COMPRESSION.columns}) VALUES ({COMPRESSION.marks})"


class SqliteSessions(SqliteConnection):
    """The sessions of a SqliteStore, and its compressions: checked and stored in one transaction."""

    async def thread_head(self, scope: Scope) -> ThreadHead:
        thread_of(scope)
        return await self._read(lambda db: _thread_head(db, scope))

    async def put_sessions(self, sessions: Sequence[Session]) -> bool:
        if not sessions:
            return True
        records = [SESSION.record(session) for session in sessions]
        return await self._write(lambda db: _put(db, sessions, records))

    async def sessions(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        newest: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[Session]:
        where = in_scope(scope).equal(idempotency_key=idempotency_key).among("id", ids)
        sql = (
            f"SELECT {_COUNTED} FROM sessions WHERE {where}"
            " ORDER BY started_at DESC, number DESC, thread_id DESC LIMIT ?"
        )
        found = await self._fetch(sql, [*where.values, -1 if newest is None else max(newest, 0)])
        return [_counted(record) for record in reversed(found)]

    async def find_session(
        self, session_id: str, *, tenant: str, user_id: str | None = None
    ) -> Session | None:
        sql = f"SELECT {_COUNTED} FROM sessions WHERE id = ? ORDER BY user_id, thread_id"
        found = await self._fetch(sql, [session_id])
        return next(iter(of_tenant(map(_counted, found), tenant, user_id)), None)

    async def delete_session(self, scope: Scope, session_id: str) -> bool:
        where = in_scope(scope).equal(id=session_id).also(_UNUSED)
        return await self._execute(f"DELETE FROM sessions WHERE {where}", where.values) > 0

    async def append_compression(self, compression: Compression) -> bool:
        record = COMPRESSION.record(compression, derived=pack_derived(compression))
        return await self._write(lambda db: _append(db, compression, record))

    async def compressions(
        self, scope: Scope, *, through: int | None = None, newest: int | None = None
    ) -> list[Compression]:
        thread_of(scope)
        where = in_scope(scope)
        wanted = where if through is None else where.also("through <= ?", through)
        numbers = f"SELECT number FROM compressions WHERE {wanted} ORDER BY number DESC LIMIT ?"
        # Later ones, too: each has the moments that those before it share.
        rest = f"FROM compressions WHERE {where} AND number >= (SELECT min(number) FROM ({numbers})) ORDER BY number DESC"
        limit = -1 if newest is None else max(newest, 0)
        found = list(completed(await self._select(COMPRESSION, rest, [*where.values, *wanted.values, limit])))
        return [one for one in found[::-1] if through is None or one.through <= through]


def _put(db: sqlite3.Connection, sessions: Sequence[Session], records: Sequence[Record]) -> bool:
    thread = in_scope(sessions[0].scope)
    keys = [session.idempotency_key for session in sessions if session.idempotency_key]
    for where in (
        thread.also("number BETWEEN ? AND ?", sessions[0].number, sessions[-1].number),
        thread.among("idempotency_key", keys),
    ):
        if scalar(db, f"SELECT 1 FROM sessions WHERE {where} LIMIT 1", where.values):
            return False
    db.executemany(_INSERT, records)
    return True


def _thread_head(db: sqlite3.Connection, scope: Scope) -> ThreadHead:
    where = in_scope(scope)
    newest = f"SELECT {SESSION.columns} FROM sessions WHERE {where} ORDER BY number DESC LIMIT 1"
    session = db.execute(newest, where.values).fetchone()
    last = f"SELECT seq, timestamp, session_id FROM turns WHERE {where} ORDER BY seq DESC LIMIT 1"
    seq, at, session_id = db.execute(last, where.values).fetchone() or (0, None, None)
    return ThreadHead(
        session=None if session is None else SESSION.read(session),
        last_seq=seq,
        last_given=last_given(db, scope),
        last_at=None if at is None else from_milliseconds(at),
        last_session_id=session_id,
    )


def _counted(record: Record) -> Session:
    """The session in a row of _COUNTED."""
    *_, turns, compressions, last_turn_at = record
    session = SESSION.read(record, total_turns=turns, compression_count=compressions)
    last = session.started_at if last_turn_at is None else from_milliseconds(last_turn_at)
    return replace(session, last_activity=max(session.started_at, last))


def _append(db: sqlite3.Connection, compression: Compression, record: Record) -> bool:
    where = in_scope(compression.scope)
    last = next(_newest_first(db, where), None)
    if (compression.number - 1, compression.after_seq) != ((last.number, last.through) if last else (0, 0)):
        return False
    covered = these_turns(compression.scope, list(set(compression.covers)))
    alive = scalar(db, f"SELECT count(*) FROM turns WHERE {covered}", covered.values)
    if alive < len(set(compression.covers)):
        return False
    db.execute(_INSERT_COMPRESSION, record)
    if last is not None:
        _put_derived(db, thinned(last, compression))
    return True


def _newest_first(db: sqlite3.Connection, where: Where) -> Iterator[Compression]:
    sql = f"SELECT {COMPRESSION.columns} FROM compressions WHERE {where} ORDER BY number DESC"
    return map(COMPRESSION.read, db.execute(sql, where.values))


def _put_derived(db: sqlite3.Connection, compression: Compression) -> None:
    where = in_scope(compression.scope).equal(number=compression.number)
    db.execute(
        f"UPDATE compressions SET derived = ? WHERE {where}", [pack_derived(compression), *where.values]
    )


# --- forgetting ----------------------------------------------------------------------------------------------
def forget_sessions(db: sqlite3.Connection, erasure: Erasure) -> int:
    """Delete the sessions that the erasure takes: none, unless it is of a whole scope. How many."""
    if erasure.turn_ids is not None:
        return 0
    where = in_scope(erasure.scope).also("id < ?", erasure.before_id).also(_UNUSED)
    spend_keys(db, "session", where)
    return db.execute(f"DELETE FROM sessions WHERE {where}", where.values).rowcount


def forget_compressions(
    db: sqlite3.Connection,
    user_id: str,
    erased: Iterable[tuple[str, int]],
    erasure: Erasure | None,
    now: datetime,
) -> int:
    """Delete the compressions that go up to these turns (thread, `seq`), which are gone or new, or further. How many.

    The newest turn of each of their threads that the erasure spares owes `compress` again.
    """
    return _drop(db, user_id, "through", lowest_by_thread(erased), erasure, now)


def sweep_compressions(db: sqlite3.Connection, user_id: str, now: datetime) -> int:
    """Delete the user's compressions that cover a turn that is gone or whose predecessor is missing, and all later ones
    of their threads; all of threads that the last one miscounts. How many.

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
    return _drop(db, user_id, "number", dict(broken), None, now) + drop_miscounted(
        db, Scope(user_id=user_id), now
    )


def drop_miscounted(db: sqlite3.Connection, scope: Scope, now: datetime) -> int:
    """Delete all compressions of those threads of the scope whose last one miscounts the turns up to it. How many."""
    where = in_scope(scope)
    lasts = (
        f"SELECT thread_id, max(number), turns, through FROM compressions WHERE {where} GROUP BY thread_id"
    )
    wrong: dict[str, int] = {}
    for thread_id, _, turns, through in db.execute(lasts, where.values).fetchall():
        there = in_scope(Scope(user_id=scope.user_id, thread_id=thread_id)).also("seq <= ?", through)
        if turns != scalar(db, f"SELECT count(*) FROM turns WHERE {there}", there.values):
            wrong[thread_id] = 0
    return _drop(db, scope.user_id, "number", wrong, None, now)


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
        thread = Scope(user_id=user_id, thread_id=thread_id)
        where = in_scope(thread).also(f"{column} >= ?", value)
        numbers = f"SELECT max(number) FROM compressions WHERE {in_scope(thread)} AND {column} < ?"
        kept = scalar(db, numbers, [*in_scope(thread).values, value])
        if kept is not None:
            try:
                *dropping, last = completed(_newest_first(db, in_scope(thread).also("number >= ?", kept)))
            except StoreError:  # of what is damaged nothing can be had: all are made anew
                where = in_scope(thread)
            else:
                if dropping:
                    _put_derived(db, last)
        gone = db.execute(f"DELETE FROM compressions WHERE {where}", where.values).rowcount
        if gone:
            owe_stage(db, thread, "compress", now=now, turn_ids=_newest_kept(db, thread, erasure))
        dropped += gone
    return dropped


def _newest_kept(db: sqlite3.Connection, thread: Scope, erasure: Erasure | None) -> list[str]:
    """The thread's newest turn that the erasure has not yet to reach, if there is one."""
    where = in_scope(thread)
    if erasure is not None and erasure.turn_ids is not None:
        where = where.among("id", erasure.turn_ids, but=True)
    elif erasure is not None:
        where = in_scope(thread, thread="+thread_id").also("id >= ?", erasure.before_id)
    found = db.execute(f"SELECT id FROM turns WHERE {where} ORDER BY seq DESC LIMIT 1", where.values)
    return [turn_id for (turn_id,) in found]
