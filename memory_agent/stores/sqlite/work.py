"""Owed work in SQLite: stages owed to turns, and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import OUTAGE_NAMES, STAGES, MemoryStatus, Scope, outages_of, stored_at
from memory_agent.stores.codec import dump_json, milliseconds
from memory_agent.stores.fields import COST, LEASE, PARKED, STAGE_BITS
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope, scalar, these_turns
from memory_agent.stores.sqlite.segments import TURN_COLUMNS, read_turns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import Lease, Stage, Tenant, Turn

_PARKED_LISTED: Final = 100
_TAKE_LEASE: Final = (
    "INSERT INTO leases (name, holder, since, until, note) VALUES (?, ?, ?3, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until, note = excluded.note,"
    " since = CASE WHEN leases.until > ?3 THEN leases.since ELSE excluded.since END"
    " WHERE leases.holder = excluded.holder OR leases.until <= ?3"
)


class SqliteWork(SqliteConnection):
    """The owed work of a SqliteStore."""

    async def due_threads(self, now: datetime, stage: Stage, *, limit: int) -> list[Scope]:
        bit = STAGE_BITS[stage]
        threads = (
            "SELECT user_id, thread_id, min(due_at) AS due FROM turns"
            # For the grouping's sake SQLite would read all turns.
            " INDEXED BY turns_due_stage"
            # The bits below are the stages that run before this one.
            " WHERE due_at <= ? AND pending & ? AND NOT pending & ? GROUP BY user_id, thread_id"
        )
        nth = "row_number() OVER (PARTITION BY user_id ORDER BY due, thread_id)"
        sql = f"SELECT user_id, thread_id FROM ({threads}) ORDER BY {nth}, due, user_id, thread_id LIMIT ?"
        found = await self._fetch(sql, [milliseconds(now), bit, bit - 1, max(limit, 0)])
        return [Scope(user_id=user_id, thread_id=thread_id) for user_id, thread_id in found]

    async def owed_turns(
        self, scope: Scope, stage: Stage | None, *, limit: int, parked: bool = True, newest: bool = False
    ) -> list[Turn]:
        where = in_scope(scope).also("pending <> 0")
        if stage is not None:
            where = where.also("pending & ?", STAGE_BITS[stage])
        where = where.equal(parked=None if parked else 0)
        order = f"{'id' if scope.thread_id is None else 'seq'} {'DESC' if newest else 'ASC'}"
        sql = f"SELECT {TURN_COLUMNS} FROM turns WHERE {where} ORDER BY {order} LIMIT ?"
        return await self._read(lambda db: read_turns(db, sql, [*where.values, max(limit, 0)]))

    async def owes_more_than(self, turns: int) -> bool:
        sql = "SELECT 1 FROM turns INDEXED BY turns_due_stage WHERE due_at IS NOT NULL LIMIT 1 OFFSET ?"
        return bool(await self._fetch(sql, [turns]))

    async def strike_off(self, scope: Scope, turn_ids: Sequence[str], *stages: Stage) -> None:
        bits = sum(STAGE_BITS[stage] for stage in set(stages))
        where = these_turns(scope, turn_ids).also("pending & ?", bits)
        await self._execute(
            "UPDATE turns SET pending = pending & ~?, attempts = 0, last_error = NULL,"
            " due_at = CASE WHEN pending & ~? = 0 THEN NULL ELSE due_at END,"
            f" parked = CASE WHEN pending & ~? = 0 THEN 0 ELSE parked END WHERE {where}",
            [bits, bits, bits, *where.values],
        )

    async def postpone(
        self, scope: Scope, turn_ids: Sequence[str], *, error: str, due_at: datetime | None, counted: bool
    ) -> None:
        where = these_turns(scope, turn_ids).also("pending <> 0")
        due = None if due_at is None else milliseconds(due_at)
        await self._execute(
            f"UPDATE turns SET last_error = ?, due_at = ?, parked = ?, attempts = attempts + ? WHERE {where}",
            [error, due, int(due is None), int(counted), *where.values],
        )

    async def owe(
        self, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None = None
    ) -> int:
        return await self._write(lambda db: owe_stage(db, scope, stage, now=now, turn_ids=turn_ids))

    async def retry_parked(self, scope: Scope | Tenant | None, *, now: datetime) -> int:
        where = in_scope(scope).also("parked = 1")
        sql = f"UPDATE turns SET due_at = ?, parked = 0, attempts = 0 WHERE {where}"
        return await self._execute(sql, [milliseconds(now), *where.values])

    async def status(self, scope: Scope | Tenant | None, *, now: datetime) -> MemoryStatus:
        return await self._read(lambda db: _status(db, scope, now))

    async def acquire_leases(
        self, names: Sequence[str], holder: str, *, now: datetime, until: datetime, note: str | None = None
    ) -> set[str]:
        rest = [holder, milliseconds(now), milliseconds(until), note]
        return await self._write(
            lambda db: {name for name in names if db.execute(_TAKE_LEASE, [name, *rest]).rowcount > 0}
        )

    async def load_lease(self, name: str) -> Lease | None:
        return next(iter(await self._select(LEASE, "FROM leases WHERE name = ?", [name])), None)

    async def held_leases(self, now: datetime, *, limit: int) -> list[Lease]:
        rest = "FROM leases WHERE until > ? AND name NOT IN (SELECT value FROM json_each(?)) ORDER BY name LIMIT ?"
        return await self._select(LEASE, rest, [milliseconds(now), dump_json(OUTAGE_NAMES), max(limit, 0)])

    async def release_leases(self, names: Sequence[str], holder: str) -> None:
        where = Where("holder = ?", holder).among("name", names)
        await self._execute(f"DELETE FROM leases WHERE {where}", where.values)


def owe_stage(
    db: sqlite3.Connection, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None
) -> int:
    """`stage` is owed (again) to all turns of the scope, or to these, due at `now`. How many."""
    where = these_turns(scope, turn_ids)
    return db.execute(
        "UPDATE turns SET pending = pending | ?, due_at = ?, parked = 0, attempts = 0, last_error = NULL"
        f" WHERE {where}",
        [STAGE_BITS[stage], milliseconds(now), *where.values],
    ).rowcount


def _status(db: sqlite3.Connection, scope: Scope | Tenant | None, now: datetime) -> MemoryStatus:
    where = concerning = in_scope(scope)
    if isinstance(scope, Scope) and scope.thread_id is not None:
        # A forget call for the whole user concerns each of the threads.
        concerning = Where("user_id = ? AND (thread_id = ? OR thread_id IS NULL)", *where.values)

    def one(expression: str, table: str, where: Where) -> Any:
        return scalar(db, f"SELECT {expression} FROM {table} WHERE {where}", where.values)

    counted, since = 0, where
    if isinstance(scope, Scope) and scope.thread_id is not None:
        # A compression says how many turns there were up to its own, and goes with any of these that is forgotten.
        last = f"SELECT turns, through FROM compressions WHERE {where} ORDER BY number DESC LIMIT 1"
        counted, through = db.execute(last, where.values).fetchone() or (0, 0)
        since = where.also("seq > ?", through)
    by_stages = f"SELECT pending, count(*) FROM turns WHERE {where} AND pending <> 0 GROUP BY pending"
    owed = dict(db.execute(by_stages, where.values).fetchall())
    parked = db.execute(
        f"SELECT {PARKED.columns} FROM turns WHERE {where} AND parked = 1 ORDER BY id LIMIT ?",
        [*where.values, _PARKED_LISTED],
    )
    oldest = one("min(id)", "turns", where.also("pending <> 0 AND parked = 0"))
    pending = {
        stage: sum(count for bits, count in owed.items() if bits & STAGE_BITS[stage]) for stage in STAGES
    }
    names = Where().among("name", OUTAGE_NAMES)
    outages = db.execute(f"SELECT {LEASE.columns} FROM leases WHERE {names}", names.values)
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in COST.kinds)
    costs = db.execute(f"SELECT {sums} FROM costs WHERE {where}", where.values).fetchone()
    return MemoryStatus(
        turns=counted + one("count(*)", "turns", since),
        pending=pending,
        owed_count=sum(owed.values()),
        parked_count=one("count(*)", "turns", where.also("parked = 1")),
        parked=tuple(map(PARKED.read, parked)),
        lag_seconds=max(0.0, (now - stored_at(oldest)).total_seconds()) if oldest else 0.0,
        erasures=one("count(*)", "erasures", concerning),
        extraction=COST.read(costs),
        outages=outages_of(map(LEASE.read, outages), pending),
    )
