"""Turns in SQLite, the stages they owe, and whose they are, read from indexes by leaps between ids.

A write transaction sees every earlier one, so the next number is simply the last plus one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import (
    OUTAGE_NAMES,
    STAGES,
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
from memory_agent.stores.codec import by_thread, dump_json, from_milliseconds, milliseconds, thread_of
from memory_agent.stores.fields import COST, DRAFT, LEASE, OLD_TURN, PARKED, STAGE_BITS, TOMBSTONE
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope, of_remains, scalar, these_turns
from memory_agent.stores.sqlite.topics import TURN_COLUMNS, read_turns, with_texts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Lease, OldTurn, Stage, Tenant, Tombstone, Turn, TurnDraft


_INSERT: Final = f"INSERT INTO turns ({DRAFT.columns}) VALUES ({DRAFT.marks})"


class SqliteTurns(SqliteConnection):
    """The turns of a SqliteStore."""

    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        thread_of(scope)
        if not drafts:
            return []
        if drafts[0].idempotency_key is None:
            return await self._write(lambda db: [*_insert(db, scope, drafts, drafts[0].call_size)])
        return await self._write(lambda db: _insert_call(db, scope, drafts))

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
        where = these_turns(scope, ids).among("topic_id", topic_ids).equal(session_id=session_id)
        if compressed is not None:
            where = where.also(f"segment_id IS {'NOT NULL' if compressed else 'NULL'}")
        if after_seq > 0:
            where = where.also("seq > ?", after_seq)
        if through is not None:
            where = where.also("seq <= ?", through)
        order = "id" if scope.thread_id is None else "seq"
        if topic_ids is not None or (session_id is not None and scope.thread_id is None):
            order = f"+{order}"  # the plus leaves the choice of the index to the topics, or to the session
        sql = (
            f"SELECT {TURN_COLUMNS} FROM turns WHERE {where}"
            f" ORDER BY {order} {'DESC' if newest else 'ASC'} LIMIT ?"
        )
        turns = await self._read(
            lambda db: read_turns(db, sql, [*where.values, -1 if limit is None else limit])
        )
        return turns[::-1] if newest else turns

    async def turns_at(self, scope: Scope, places: Sequence[tuple[str, int]]) -> list[Turn]:
        return await self._read(lambda db: _turns_at(db, scope, by_thread(places)))

    async def turns_before(
        self, time: datetime, *, after: OldTurn | None = None, limit: int
    ) -> list[OldTurn]:
        where = Where("timestamp < ?", milliseconds(time))
        if after is not None:
            where = where.also("(timestamp, id) > (?, ?)", milliseconds(after.timestamp), after.id)
        rest = f"FROM turns WHERE {where} ORDER BY timestamp, id LIMIT ?"
        return await self._select(OLD_TURN, rest, [*where.values, max(limit, 0)])


def _turns_at(db: sqlite3.Connection, scope: Scope, threads: Mapping[str, Sequence[int]]) -> list[Turn]:
    found: list[Turn] = []
    for thread_id, numbers in threads.items():
        # By name, so that it fails rather than walk through all of a large user's turns.
        where = in_scope(scope).also("thread_id = ?", thread_id).among("seq", numbers)
        sql = f"SELECT {TURN_COLUMNS} FROM turns INDEXED BY turns_seq WHERE {where}"
        found += read_turns(db, sql, where.values)
    return found


def _insert(db: sqlite3.Connection, scope: Scope, drafts: Sequence[TurnDraft], call_size: int) -> list[Turn]:
    last = last_given(db, scope)
    of_thread = {"user_id": scope.user_id, "thread_id": thread_of(scope), "call_size": call_size}
    records = [
        DRAFT.record(draft, **of_thread, seq=seq, **({} if draft.pending else {"due_at": None}))
        for seq, draft in enumerate(drafts, start=last + 1)
    ]
    db.executemany(_INSERT, records)
    return list(map(DRAFT.read, records))


def last_given(db: sqlite3.Connection, scope: Scope) -> int:
    """The last `seq` of the thread's turns, those that are gone included; 0 without any."""
    where = in_scope(scope)
    stored = scalar(db, f"SELECT max(seq) FROM turns WHERE {where}", where.values)
    remains = of_remains(db, scope)
    erased = scalar(db, f"SELECT max(last_seq) FROM threads WHERE {remains}", remains.values)
    return max(stored or 0, erased or 0)


def _insert_call(db: sqlite3.Connection, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
    """Insert what the thread has not seen of this call; everything it then has of it, in order."""
    where = in_scope(scope).equal(idempotency_key=drafts[0].idempotency_key)
    call: dict[int, Turn | Tombstone] = {}
    # The first call decides how many turns it has, whatever its repeat brings.
    size = drafts[0].call_size
    known = f"SELECT {TURN_COLUMNS}, call_index, call_size FROM turns WHERE {where}"
    stored = db.execute(known, where.values).fetchall()
    for record, found in zip(stored, with_texts(db, stored), strict=True):
        *_, index, size = record
        call[index] = found
    remains = of_remains(db, scope).equal(idempotency_key=drafts[0].idempotency_key)
    erased = f"SELECT {TOMBSTONE.columns} FROM tombstones WHERE {remains}"
    for left in map(TOMBSTONE.read, db.execute(erased, remains.values)):
        call[left.call_index], size = left, left.call_size
    missing = [draft for draft in drafts if draft.call_index not in call and draft.call_index < size]
    if missing and said_otherwise(drafts, [call[index] for index in sorted(call)]):
        missing = []  # it was another call that was cut short
    inserted = _insert(db, scope, missing, size) if missing else []
    call |= {draft.call_index: turn for draft, turn in zip(missing, inserted, strict=True)}
    return [call[index] for index in sorted(call)]


# --- who is remembered ---------------------------------------------------------------------------------------
_HOLDERS: Final = ("turns", "sessions", "fact_events")
"""What makes a thread one; rows of forgotten turns are deleted."""


class SqlitePeople(SqliteConnection):
    """The users and threads of a SqliteStore."""

    async def user_ids(self, tenant: str, *, after: str = "", limit: int) -> list[str]:
        first, below = tenants_range(tenant)
        start = max(first, f"{after}\0") if after else first
        return await self._read(lambda db: _user_ids(db, tenant, start, below, limit))

    async def thread_ids(self, scope: Scope, *, after: str = "", limit: int) -> list[str]:
        return await self._read(lambda db: _thread_ids(db, scope.user_id, after, limit))

    async def count_threads(
        self, user_ids: Sequence[str], *, thread_ids: Sequence[str] | None = None
    ) -> dict[str, list[ThreadSummary]]:
        return await self._read(lambda db: _count_threads(db, list(user_ids), thread_ids))


def _user_ids(db: sqlite3.Connection, tenant: str, start: str, below: str | None, limit: int) -> list[str]:
    # A minimum is one step into an index, where SELECT DISTINCT would walk through all of it.
    least = " UNION ALL ".join(
        f"SELECT min(user_id) AS id FROM {each} WHERE user_id >= ?1" for each in _HOLDERS
    )
    found: list[str] = []
    while len(found) < limit:
        (user_id,) = db.execute(f"SELECT min(id) FROM ({least})", [start]).fetchone()
        if user_id is None or (below is not None and user_id >= below):
            break
        if split_user_id(user_id)[0] == tenant:
            found.append(user_id)
        start = next_of_tenant(tenant, user_id)
    return found


def _thread_ids(db: sqlite3.Connection, user_id: str, after: str, limit: int) -> list[str]:
    least = " UNION ALL ".join(
        f"SELECT min(thread_id) AS id FROM {each} WHERE user_id = ?1 AND thread_id > ?2" for each in _HOLDERS
    )
    found: list[str] = []
    while len(found) < limit:
        (thread_id,) = db.execute(f"SELECT min(id) FROM ({least})", [user_id, after]).fetchone()
        if thread_id is None:
            break
        found.append(thread_id)
        after = thread_id
    return found


def _count_threads(
    db: sqlite3.Connection, user_ids: list[str], thread_ids: Sequence[str] | None
) -> dict[str, list[ThreadSummary]]:
    where = Where().among("user_id", user_ids).among("thread_id", thread_ids)
    counted: dict[tuple[str, str], tuple[int, int | None]] = {}
    for each in _HOLDERS[1:]:
        for key in db.execute(f"SELECT DISTINCT user_id, thread_id FROM {each} WHERE {where}", where.values):
            counted[key] = (0, None)
    for user_id, thread_id, turns, last in db.execute(
        "SELECT user_id, thread_id, turns, (SELECT timestamp FROM turns AS t WHERE t.user_id = counted.user_id"
        " AND t.thread_id = counted.thread_id AND t.seq = last_seq)"
        " FROM (SELECT user_id, thread_id, count(*) AS turns, max(seq) AS last_seq FROM turns"
        f" WHERE {where} GROUP BY user_id, thread_id) AS counted",
        where.values,
    ).fetchall():
        counted[user_id, thread_id] = (turns, last)
    threads: dict[str, list[ThreadSummary]] = {user_id: [] for user_id in user_ids}
    for (user_id, thread_id), (turns, last) in sorted(counted.items()):
        threads[user_id].append(
            ThreadSummary(
                thread_id=thread_id,
                turns=turns,
                last_activity=None if last is None else from_milliseconds(last),
            )
        )
    return threads


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
        before = sum(STAGE_BITS[each] for each in STAGES[: STAGES.index(stage)])
        threads = (
            "SELECT user_id, thread_id, min(due_at) AS due FROM turns"
            # For the grouping's sake SQLite would read all turns.
            " INDEXED BY turns_due_stage"
            " WHERE due_at <= ? AND pending & ? AND NOT pending & ? GROUP BY user_id, thread_id"
        )
        nth = "row_number() OVER (PARTITION BY user_id ORDER BY due, thread_id)"
        sql = f"SELECT user_id, thread_id FROM ({threads}) ORDER BY {nth}, due, user_id, thread_id LIMIT ?"
        found = await self._fetch(sql, [milliseconds(now), STAGE_BITS[stage], before, max(limit, 0)])
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

    async def bring_back(self, *, now: datetime, beyond: datetime) -> int:
        times = [milliseconds(now), milliseconds(beyond)]

        def brought(db: sqlite3.Connection) -> int:
            outages = [*times, dump_json(OUTAGE_NAMES)]
            leases = (
                "UPDATE leases SET until = ? WHERE until > ? AND name NOT IN (SELECT value FROM json_each(?))"
            )
            return sum(
                db.execute(sql, values).rowcount
                for sql, values in (
                    ("UPDATE turns INDEXED BY turns_due_stage SET due_at = ? WHERE due_at > ?", times),
                    ("UPDATE erasures SET due_at = ? WHERE due_at > ?", times),
                    (leases, outages),
                )
            )

        return await self._write(brought)

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
    sums = ", ".join(f"coalesce(sum({name}), {0.0 if name == 'seconds' else 0})" for name in COST.kinds)
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
