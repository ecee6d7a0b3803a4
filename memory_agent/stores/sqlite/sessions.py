"""Sessions in SQLite; what is counted of them is read from the turns and compressions that carry their ids."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Session, ThreadHead
from memory_agent.stores.codec import from_milliseconds, of_tenant, thread_of
from memory_agent.stores.fields import SESSION
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import among, where_scope
from memory_agent.stores.sqlite.spent_keys import spend_keys
from memory_agent.stores.sqlite.turns import last_given

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import Erasure, Scope
    from memory_agent.stores.sqlite.records import Record

_OF_SESSION: Final = (
    "{0}.user_id = sessions.user_id AND {0}.session_id = sessions.id AND {0}.thread_id = sessions.thread_id"
)
_ITS_TURNS: Final = f"FROM turns WHERE {_OF_SESSION.format('turns')}"
_ITS_COMPRESSIONS: Final = f"FROM compressions WHERE {_OF_SESSION.format('compressions')}"
_COUNTED: Final = (
    f"(SELECT count(*) {_ITS_TURNS}), (SELECT count(*) {_ITS_COMPRESSIONS}),"
    f" (SELECT timestamp {_ITS_TURNS} ORDER BY seq DESC LIMIT 1)"
)
_UNUSED: Final = f"NOT EXISTS (SELECT 1 {_ITS_TURNS})"


class SqliteSessions(SqliteConnection):
    """The sessions of a SqliteStore."""

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
        where, parameters = where_scope(scope)
        if idempotency_key is not None:
            where, parameters = f"{where} AND idempotency_key = ?", [*parameters, idempotency_key]
        if ids is not None:
            condition, values = among("id", ids)
            where, parameters = f"{where} AND {condition}", parameters + values
        sql = (
            f"SELECT {SESSION.columns}, {_COUNTED} FROM sessions WHERE {where}"
            " ORDER BY started_at DESC, number DESC, thread_id DESC LIMIT ?"
        )
        parameters.append(-1 if newest is None else max(newest, 0))
        found = await self._read(lambda db: db.execute(sql, parameters).fetchall())
        return [_counted(record) for record in reversed(found)]

    async def find_session(
        self, session_id: str, *, tenant: str, user_id: str | None = None
    ) -> Session | None:
        sql = f"SELECT {SESSION.columns}, {_COUNTED} FROM sessions WHERE id = ? ORDER BY user_id, thread_id"
        found = await self._read(lambda db: db.execute(sql, [session_id]).fetchall())
        return next(iter(of_tenant(map(_counted, found), tenant, user_id)), None)

    async def delete_session(self, scope: Scope, session_id: str) -> bool:
        where, parameters = where_scope(scope)
        sql = f"DELETE FROM sessions WHERE {where} AND id = ? AND {_UNUSED}"
        return await self._execute(sql, [*parameters, session_id]) > 0


def _put(db: sqlite3.Connection, sessions: Sequence[Session], records: Sequence[Record]) -> bool:
    where, parameters = where_scope(sessions[0].scope)
    taken = f"SELECT 1 FROM sessions WHERE {where} AND number BETWEEN ? AND ? LIMIT 1"
    if db.execute(taken, [*parameters, sessions[0].number, sessions[-1].number]).fetchone():
        return False
    condition, keys = among("idempotency_key", [s.idempotency_key for s in sessions if s.idempotency_key])
    known = f"SELECT 1 FROM sessions WHERE {where} AND {condition} LIMIT 1"
    if keys and db.execute(known, [*parameters, *keys]).fetchone():
        return False
    db.executemany(
        f"INSERT INTO sessions ({SESSION.columns}) VALUES ({SESSION.marks})",
        records,
    )
    return True


def forget_sessions(db: sqlite3.Connection, erasure: Erasure) -> int:
    """Delete the sessions that the erasure takes: none, unless it is of a whole scope. How many."""
    if erasure.turn_ids is not None:
        return 0
    where, parameters = where_scope(erasure.scope)
    condition = f"{where} AND id < ? AND {_UNUSED}"
    parameters = [*parameters, erasure.before_id]
    spend_keys(db, "session", condition, parameters)
    return db.execute(f"DELETE FROM sessions WHERE {condition}", parameters).rowcount


def _thread_head(db: sqlite3.Connection, scope: Scope) -> ThreadHead:
    where, parameters = where_scope(scope)
    newest = f"SELECT {SESSION.columns} FROM sessions WHERE {where} ORDER BY number DESC LIMIT 1"
    session = db.execute(newest, parameters).fetchone()
    last = db.execute(
        f"SELECT seq, timestamp, session_id FROM turns WHERE {where} ORDER BY seq DESC LIMIT 1", parameters
    ).fetchone()
    seq, at, session_id = last or (0, None, None)
    return ThreadHead(
        session=None if session is None else Session(**SESSION.of_record(session)),
        last_seq=seq,
        last_given=last_given(db, scope),
        last_at=None if at is None else from_milliseconds(at),
        last_session_id=session_id,
    )


def _counted(record: Record) -> Session:
    """The session in a row of its columns and _COUNTED."""
    *_, turns, compressions, last_turn_at = record
    session = Session(**SESSION.of_record(record), total_turns=turns, compression_count=compressions)
    last = session.started_at if last_turn_at is None else from_milliseconds(last_turn_at)
    return replace(session, last_activity=max(session.started_at, last))
