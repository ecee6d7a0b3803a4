"""Owed work in SQLite: stages owed to turns, and leases."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from memory_agent.stores.codec import milliseconds
from memory_agent.stores.fields import COST, LEASE, PARKED, STAGE_BITS, parked_turn
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import among, scalar, where_scope, where_turns
from memory_agent.stores.sqlite.segments import TURN_COLUMNS, read_turns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import Stage, Turn

_PARKED_LISTED: Final = 100


class SqliteWork(SqliteConnection):
    """The owed work of a SqliteStore."""

    async def due_threads(self, now: datetime, stage: Stage, *, limit: int) -> list[Scope]:
        bit = STAGE_BITS[stage]
        sql = (
            "SELECT user_id, thread_id, min(due_at) AS due FROM turns"
            # For the grouping's sake SQLite would read all turns.
            " INDEXED BY turns_due"
            # The bits below are the stages that run before this one.
            " WHERE due_at <= ? AND pending & ? AND NOT pending & ?"
            " GROUP BY user_id, thread_id ORDER BY due, user_id, thread_id LIMIT ?"
        )
        parameters = [milliseconds(now), bit, bit - 1, max(limit, 0)]
        found = await self._read(lambda db: db.execute(sql, parameters).fetchall())
        return [Scope(user_id=user_id, thread_id=thread_id) for user_id, thread_id, _ in found]

    async def owed_turns(
        self, scope: Scope, stage: Stage, *, limit: int, parked: bool = True, newest: bool = False
    ) -> list[Turn]:
        where, parameters = where_scope(scope)
        order = f"{'id' if scope.thread_id is None else 'seq'} {'DESC' if newest else 'ASC'}"
        sql = (
            f"SELECT {TURN_COLUMNS} FROM turns WHERE {where} AND pending <> 0 AND pending & ?"
            f" {'' if parked else 'AND parked = 0'} ORDER BY {order} LIMIT ?"
        )
        parameters += [STAGE_BITS[stage], max(limit, 0)]
        return await self._read(lambda db: read_turns(db, sql, parameters))

    async def strike_off(self, scope: Scope, turn_ids: Sequence[str], stage: Stage) -> None:
        bit = STAGE_BITS[stage]
        where, parameters = where_turns(scope, turn_ids)
        await self._execute(
            "UPDATE turns SET pending = pending & ~?, attempts = 0, last_error = NULL,"
            " due_at = CASE WHEN pending = ? THEN NULL ELSE due_at END,"
            f" parked = CASE WHEN pending = ? THEN 0 ELSE parked END WHERE {where} AND pending & ?",
            [bit, bit, bit, *parameters, bit],
        )

    async def postpone(
        self, scope: Scope, turn_ids: Sequence[str], *, error: str, due_at: datetime | None, counted: bool
    ) -> None:
        where, parameters = where_turns(scope, turn_ids)
        due = None if due_at is None else milliseconds(due_at)
        await self._execute(
            "UPDATE turns SET last_error = ?, due_at = ?, parked = ?, attempts = attempts + ?"
            f" WHERE {where} AND pending <> 0",
            [error, due, int(due is None), int(counted), *parameters],
        )

    async def owe(
        self, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None = None
    ) -> int:
        return await self._write(lambda db: owe_stage(db, scope, stage, now=now, turn_ids=turn_ids))

    async def retry_parked(self, scope: Scope | None, *, now: datetime) -> int:
        where, parameters = ("1", []) if scope is None else where_scope(scope)
        return await self._execute(
            f"UPDATE turns SET due_at = ?, parked = 0, attempts = 0 WHERE {where} AND parked = 1",
            [milliseconds(now), *parameters],
        )

    async def status(self, scope: Scope | None, *, now: datetime) -> MemoryStatus:
        return await self._read(lambda db: _status(db, scope, now))

    async def acquire_lease(
        self, name: str, holder: str, *, now: datetime, until: datetime, note: str | None = None
    ) -> bool:
        taken = await self._execute(
            "INSERT INTO leases (name, holder, since, until, note) VALUES (?, ?, ?3, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until, note = excluded.note,"
            " since = CASE WHEN leases.until > ?3 THEN leases.since ELSE excluded.since END"
            " WHERE leases.holder = excluded.holder OR leases.until <= ?3",
            [name, holder, milliseconds(now), milliseconds(until), note],
        )
        return taken > 0

    async def load_lease(self, name: str) -> Lease | None:
        sql = f"SELECT {LEASE.columns} FROM leases WHERE name = ?"
        found = await self._read(lambda db: db.execute(sql, [name]).fetchone())
        return None if found is None else Lease(**LEASE.of_record(found))

    async def release_lease(self, name: str, holder: str) -> None:
        await self._execute("DELETE FROM leases WHERE name = ? AND holder = ?", [name, holder])


def owe_stage(
    db: sqlite3.Connection, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None
) -> int:
    """`stage` is owed (again) to all turns of the scope, or to these, due at `now`. How many."""
    where, parameters = where_scope(scope) if turn_ids is None else where_turns(scope, turn_ids)
    return db.execute(
        "UPDATE turns SET pending = pending | ?, due_at = ?, parked = 0, attempts = 0, last_error = NULL"
        f" WHERE {where}",
        [STAGE_BITS[stage], milliseconds(now), *parameters],
    ).rowcount


def _status(db: sqlite3.Connection, scope: Scope | None, now: datetime) -> MemoryStatus:
    where, parameters = ("1", []) if scope is None else where_scope(scope)
    owed = dict(
        db.execute(
            f"SELECT pending, count(*) FROM turns WHERE {where} AND pending <> 0 GROUP BY pending",
            parameters,
        ).fetchall()
    )
    parked = db.execute(
        f"SELECT {PARKED.columns} FROM turns WHERE {where} AND parked = 1 ORDER BY id LIMIT ?",
        [*parameters, _PARKED_LISTED],
    ).fetchall()
    oldest = scalar(
        db,
        f"SELECT min(id) FROM turns WHERE {where} AND pending <> 0 AND parked = 0",
        parameters,
    )
    erasures, erasure_parameters = where, parameters
    if scope is not None and scope.thread_id is not None:
        # A forget call for the whole user concerns each of the threads.
        erasures = "user_id = ? AND (thread_id = ? OR thread_id IS NULL)"
    pending = {
        stage: sum(count for bits, count in owed.items() if bits & STAGE_BITS[stage]) for stage in STAGES
    }
    return MemoryStatus(
        turns=scalar(db, f"SELECT count(*) FROM turns WHERE {where}", parameters),
        pending=pending,
        owed_count=sum(owed.values()),
        parked_count=scalar(
            db,
            f"SELECT count(*) FROM turns WHERE {where} AND parked = 1",
            parameters,
        ),
        parked=tuple(parked_turn(PARKED.of_record(record)) for record in parked),
        lag_seconds=max(0.0, (now - stored_at(oldest)).total_seconds()) if oldest else 0.0,
        erasures=scalar(db, f"SELECT count(*) FROM erasures WHERE {erasures}", erasure_parameters),
        extraction=_extraction(db, where, parameters),
        outages=outages_of(_outage_leases(db), pending),
    )


def _outage_leases(db: sqlite3.Connection) -> list[Lease]:
    where, names = among("name", OUTAGE_NAMES)
    found = db.execute(f"SELECT {LEASE.columns} FROM leases WHERE {where}", names)
    return [Lease(**LEASE.of_record(record)) for record in found]


def _extraction(db: sqlite3.Connection, where: str, parameters: Sequence[Any]) -> ExtractionCost:
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in COST.columns.split(", "))
    found = db.execute(f"SELECT {sums} FROM costs WHERE {where}", parameters).fetchone()
    return ExtractionCost(**COST.of_record(found))
