"""Records of a SQLite file that cannot be read: found one by one, and taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memory_agent.domain import DamagedRecord
from memory_agent.errors import StoreError
from memory_agent.stores.codec import thread_of, unpack_id
from memory_agent.stores.damage import DAMAGED
from memory_agent.stores.fields import CHANGE, COMPRESSION, SESSION, TOPIC, TURN
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.facts import facts_document, reset_facts
from memory_agent.stores.sqlite.records import in_scope
from memory_agent.stores.sqlite.rows import ROW_COLUMNS, search_row

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from memory_agent.domain import Scope


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
    "facts": _Table("thread_id", "thread_id", "facts, through, at, revision", facts_document),
}


class SqliteDamaged(SqliteConnection):
    """The damaged records of a SqliteStore."""

    async def damaged_records(self, scope: Scope) -> list[DamagedRecord]:
        thread_of(scope)
        return await self._read(lambda db: _found(db, scope))

    async def drop_damaged(self, scope: Scope, records: Sequence[DamagedRecord]) -> None:
        thread_of(scope)
        await self._write(lambda db: _drop(db, scope, records))


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
