"""Copies of threads in SQLite: each call is one transaction. And records that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from memory_agent.domain import (
    CopiedTurn,
    DamagedRecord,
    ExtractionCost,
    FactsDocument,
    ForgottenTurn,
    SpentKey,
    ThreadRemains,
)
from memory_agent.errors import StoreError
from memory_agent.stores.codec import DAMAGED, pack_derived, pack_stated, thread_of, unpack_id
from memory_agent.stores.fields import CHANGE, COMPRESSION, COST, DRAFT, FACTS, SESSION, TOPIC, TURN
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.facts import put_views, reset_facts
from memory_agent.stores.sqlite.records import Where, in_scope, of_remains, scalar
from memory_agent.stores.sqlite.rows import ROW_COLUMNS, search_row
from memory_agent.stores.sqlite.sessions import drop_miscounted, forget_compressions
from memory_agent.stores.sqlite.topics import TURN_COLUMNS, with_texts, without_text
from memory_agent.stores.sqlite.turns import last_given

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from memory_agent.domain import FactChange, Scope, ThreadCopy


_KEEPING: Final = ("turns", "sessions", "fact_events", "threads", "spent_keys", "facts")
_CALL: Final = "idempotency_key, call_index, call_size"
_BESIDE: Final = ("topic_id", "attempts", "last_error", "parked")
"""What a turn may have that no draft has."""
_PUT_TURN: Final = (
    f"INSERT OR IGNORE INTO turns ({DRAFT.columns}, {', '.join(_BESIDE)})"
    f" VALUES ({DRAFT.marks}{', ?' * len(_BESIDE)})"
)


class SqliteCopies(SqliteConnection):
    """The copies of a SqliteStore."""

    async def stored_users(self, *, after: str = "", limit: int) -> list[str]:
        return await self._read(lambda db: _users(db, after, limit))

    async def stored_threads(self, user_id: str) -> list[str]:
        each = " UNION ".join(f"SELECT thread_id FROM {table} WHERE user_id = ?1" for table in _KEEPING)
        return [thread_id for (thread_id,) in await self._fetch(f"{each} ORDER BY thread_id", [user_id])]

    async def copied_turns(
        self, scope: Scope, *, after_seq: int = 0, limit: int, texts: bool = True
    ) -> list[CopiedTurn]:
        where = in_scope(scope).equal(thread_id=thread_of(scope)).also("seq > ?", after_seq)
        sql = f"SELECT {TURN_COLUMNS}, {_CALL} FROM turns WHERE {where} ORDER BY seq LIMIT ?"
        copied = _copied if texts else _looked_at
        return await self._read(lambda db: copied(db, sql, [*where.values, max(limit, 0)]))

    async def thread_remains(self, scope: Scope) -> ThreadRemains:
        thread_of(scope)
        return await self._read(lambda db: _remains(db, scope))

    async def put_copies(self, scope: Scope, copies: ThreadCopy) -> Sequence[str]:
        thread_of(scope)
        return await self._write(lambda db: _put(db, scope, copies))

    async def damaged_records(self, scope: Scope) -> list[DamagedRecord]:
        thread_of(scope)
        return await self._read(lambda db: _found(db, scope))

    async def drop_damaged(self, scope: Scope, records: Sequence[DamagedRecord]) -> None:
        thread_of(scope)
        await self._write(lambda db: _drop(db, scope, records))


def _users(db: sqlite3.Connection, after: str, limit: int) -> list[str]:
    least = " UNION ALL ".join(
        f"SELECT min(user_id) AS id FROM {table} WHERE user_id > ?1" for table in _KEEPING
    )
    found: list[str] = []
    while len(found) < limit:
        (user_id,) = db.execute(f"SELECT min(id) FROM ({least})", [after]).fetchone()
        if user_id is None:
            break
        found.append(user_id)
        after = user_id
    return found


def _copied(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[CopiedTurn]:
    records = db.execute(sql, parameters).fetchall()
    return [
        CopiedTurn(turn=turn, idempotency_key=key, call_index=index, call_size=size)
        for turn, (*_, key, index, size) in zip(with_texts(db, records), records, strict=True)
    ]


def _looked_at(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[CopiedTurn]:
    """The same without texts."""
    records = db.execute(sql, parameters).fetchall()
    lost = set(without_text(db, records))
    return [
        CopiedTurn(
            turn=replace(TURN.read(stored), content=""),
            **dict(zip(_CALL.split(", "), stored[-3:], strict=True)),
            readable=stored[0] not in lost,
        )
        for _, _, *stored in records
    ]


def _remains(db: sqlite3.Connection, scope: Scope) -> ThreadRemains:
    where = in_scope(scope)

    def found(columns: str, table: str, order: str, of: Where) -> list[Any]:
        sql = f"SELECT {columns} FROM {table} WHERE {of} ORDER BY {order}"
        return db.execute(sql, of.values).fetchall()

    remains = of_remains(db, scope)
    gone = found(f"turn_id, seq, {_CALL}", "tombstones", "seq", remains)
    spent = found("kind, key, id", "spent_keys", "kind, key", remains)
    costs = found(COST.columns, "costs", "1", where)
    return ThreadRemains(
        last_seq=last_given(db, scope),
        last_change=_last_change(db, scope),
        cost=COST.read(costs[0]) if costs else ExtractionCost(),
        turns=tuple(
            ForgottenTurn(turn_id=turn_id, seq=seq, idempotency_key=key, call_index=index, call_size=size)
            for turn_id, seq, key, index, size in gone
        ),
        keys=tuple(SpentKey(kind=kind, key=key, id=id_) for kind, key, id_ in spent),
    )


def _last_change(db: sqlite3.Connection, scope: Scope) -> int:
    where = in_scope(scope)
    stored = scalar(db, f"SELECT max(seq) FROM fact_events WHERE {where}", where.values)
    erased = scalar(db, f"SELECT floor FROM facts WHERE {where}", where.values)
    return max(stored or 0, erased or 0)


def _put(db: sqlite3.Connection, scope: Scope, copies: ThreadCopy) -> list[str]:
    now = datetime.now(UTC)
    new = [copied.turn for copied in copies.turns if _put_turn(db, scope, copied)]
    # What was made of the turns around them was made without them.
    forget_compressions(db, scope.user_id, [(turn.thread_id, turn.seq) for turn in new], None, now)
    for session in copies.sessions:
        _insert(db, "sessions", SESSION.columns, SESSION.record(session))
    for compression in copies.compressions:
        record = COMPRESSION.record(compression, derived=pack_derived(compression))
        _insert(db, "compressions", COMPRESSION.columns, record)
    if copies.compressions:  # which may not know all turns that are here
        drop_miscounted(db, scope, now)
    if sum([_put_change(db, scope, change) for change in copies.changes]):
        reset_facts(db, scope.user_id, {thread_of(scope): 0})
    _put_remains(db, scope, copies.remains)
    return [turn.id for turn in new]


def _insert(db: sqlite3.Connection, table: str, columns: str, values: Sequence[Any]) -> bool:
    marks = ", ".join("?" * len(values))
    return db.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", values).rowcount > 0


def _put_turn(db: sqlite3.Connection, scope: Scope, copied: CopiedTurn) -> bool:
    turn = copied.turn
    given = {
        "idempotency_key": copied.idempotency_key,
        "call_index": copied.call_index,
        "call_size": copied.call_size,
        **({} if turn.pending else {"due_at": None}),
    }
    record = DRAFT.record(turn, **given)
    beside = [TURN.kinds[name].write(getattr(turn, name)) for name in _BESIDE]
    if db.execute(_PUT_TURN, [*record, *beside]).rowcount > 0:
        return True
    where = in_scope(scope).equal(seq=turn.seq)
    if scalar(db, f"SELECT id FROM turns WHERE {where}", where.values) == turn.id:
        return False
    raise StoreError(
        f"turn {turn.id!r:.80} cannot be stored as number {turn.seq} of thread {scope.thread_id!r:.80}: another turn has"
        " that number, its id or its idempotency key"
    )


def _put_change(db: sqlite3.Connection, scope: Scope, change: FactChange) -> bool:
    record = CHANGE.record(change, thread_id=scope.thread_id, stated=pack_stated(change))
    if _insert(db, "fact_events", f"user_id, {CHANGE.columns}", [scope.user_id, *record]):
        put_views(db, scope, change, change.seq)
        return True
    where = in_scope(scope).equal(seq=change.seq)
    if scalar(db, f"SELECT key FROM fact_events WHERE {where}", where.values) == change.key:
        return False
    raise StoreError(
        f"change {change.key!r:.80} cannot be stored as number {change.seq} of the facts of thread"
        f" {scope.thread_id!r:.80}: another change has that number or its key"
    )


def _put_remains(db: sqlite3.Connection, scope: Scope, remains: ThreadRemains) -> None:
    place = [scope.user_id, thread_of(scope)]
    for gone in remains.turns:
        values = [gone.turn_id, gone.seq, gone.idempotency_key, gone.call_index, gone.call_size]
        _insert(db, "tombstones", f"user_id, thread_id, turn_id, seq, {_CALL}", [*place, *values])
    for spent in remains.keys:
        _insert(
            db, "spent_keys", "user_id, thread_id, kind, key, id", [*place, spent.kind, spent.key, spent.id]
        )
    if remains.cost != ExtractionCost():
        _insert(db, "costs", f"user_id, thread_id, {COST.columns}", [*place, *COST.record(remains.cost)])
    if remains.last_seq > last_given(db, scope):
        db.execute(
            "INSERT INTO threads (user_id, thread_id, last_seq) VALUES (?, ?, ?)"
            " ON CONFLICT (user_id, thread_id) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)",
            [*place, remains.last_seq],
        )
    if remains.last_change > _last_change(db, scope):
        db.execute(
            f"INSERT INTO facts ({FACTS.columns}, user_id, thread_id, floor) VALUES ({FACTS.marks}, ?, ?, ?)"
            " ON CONFLICT (user_id, thread_id) DO UPDATE SET floor = excluded.floor",
            [*FACTS.record(FactsDocument(), revision=uuid4().hex), *place, remains.last_change],
        )


class _Table(NamedTuple):
    """How a table's records are read. `key`: what tells one within its thread; `of`: the column of its id; `turn`: of its turn's."""

    key: str
    of: str
    columns: str
    read: Callable[[Any], object]
    turn: str = "NULL"


_TABLES: Final = {
    "turns": _Table("number", "id", TURN.columns, TURN.read),
    "search_rows": _Table("number", "turn_id", ROW_COLUMNS, search_row, turn="turn_id"),
    "topics": _Table("rowid", "id", TOPIC.columns, TOPIC.read),
    "sessions": _Table("number", "id", SESSION.columns, SESSION.read),
    "compressions": _Table("number", "id", COMPRESSION.columns, COMPRESSION.read),
    "fact_events": _Table("seq", "key", CHANGE.columns, CHANGE.read, turn="turn_id"),
    "facts": _Table("thread_id", "thread_id", FACTS.columns, FACTS.read),
}


def _found(db: sqlite3.Connection, scope: Scope) -> list[DamagedRecord]:
    usual = db.text_factory
    # A text of other bytes than UTF-8's would end the statement, and with it what follows.
    db.text_factory = lambda text: text.decode(errors="surrogateescape")
    try:
        return [found for name, table in _TABLES.items() for found in _of_table(db, scope, name, table)]
    finally:
        db.text_factory = usual


def _of_table(db: sqlite3.Connection, scope: Scope, name: str, table: _Table) -> Iterator[DamagedRecord]:
    where = in_scope(scope)
    sql = f"SELECT {table.key}, {table.of}, {table.turn}, {table.columns} FROM {name} WHERE {where}"
    for key, of, turn_id, *record in db.execute(sql, where.values):
        try:
            for value in record:
                if isinstance(value, str):
                    value.encode()
            table.read(record)
        except (StoreError, *DAMAGED) as exc:
            why = str(exc.__cause__ or exc)
            turn = None if turn_id is None else unpack_id(turn_id)
            yield DamagedRecord(table=name, key=key, of=unpack_id(of), error=why, turn_id=turn)


def _drop(db: sqlite3.Connection, scope: Scope, records: Sequence[DamagedRecord]) -> None:
    for record in records:
        if record.table == "turns":
            continue
        if record.table == "facts":
            reset_facts(db, scope.user_id, {thread_of(scope): 0})
            continue
        if record.table == "fact_events":
            reset_facts(db, scope.user_id, {thread_of(scope): record.key})
        where = in_scope(scope).equal(**{_TABLES[record.table].key: record.key})
        db.execute(f"DELETE FROM {record.table} WHERE {where}", where.values)
        if record.table == "search_rows":
            db.execute("DELETE FROM row_tokens WHERE number = ?", [record.key])
        elif record.table == "fact_events":
            db.execute(f"DELETE FROM fact_change_turns WHERE {where}", where.values)
