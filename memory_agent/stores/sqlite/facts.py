"""Facts in SQLite: a log of changes per thread, and its fold as one document per thread."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from memory_agent.domain import FactsDocument
from memory_agent.stores.codec import dump_json, milliseconds, pack_events, thread_of
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import CHANGE_COLUMNS, among, fact_change, scalar, where_scope

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import FactChange, Scope


class SqliteFacts(SqliteConnection):
    """The facts of a SqliteStore."""

    async def append_fact_change(self, scope: Scope, change: FactChange) -> bool:
        thread_of(scope)
        return await self._write(lambda db: _append(db, scope, change))

    async def fact_changes(
        self, scope: Scope, *, after_seq: int = 0, keys: Sequence[str] | None = None
    ) -> list[FactChange]:
        where, parameters = where_scope(scope)
        where, parameters = f"{where} AND seq > ?", [*parameters, after_seq]
        if keys is not None:
            condition, values = among("key", keys)
            where, parameters = f"{where} AND {condition}", parameters + values
        order = "recorded_at, thread_id, seq" if scope.thread_id is None else "seq"
        sql = f"SELECT {CHANGE_COLUMNS} FROM fact_events WHERE {where} ORDER BY {order}"
        return await self._read(lambda db: [fact_change(record) for record in db.execute(sql, parameters)])

    async def load_facts(self, scope: Scope) -> FactsDocument:
        parameters = [scope.user_id, thread_of(scope)]
        sql = "SELECT facts, through, revision FROM facts WHERE user_id = ? AND thread_id = ?"
        found = await self._read(lambda db: db.execute(sql, parameters).fetchone())
        if found is None:
            return FactsDocument()
        return FactsDocument(facts=json.loads(found[0]), through=found[1], revision=found[2])

    async def save_facts(self, scope: Scope, document: FactsDocument, *, expected: str | None) -> bool:
        identity = [scope.user_id, thread_of(scope)]
        values = [dump_json(document.facts), document.through, uuid4().hex]
        if expected is None:
            sql = (
                "INSERT INTO facts (facts, through, revision, user_id, thread_id) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (user_id, thread_id) DO NOTHING"
            )
            parameters: list[Any] = [*values, *identity]
        else:
            sql = (
                "UPDATE facts SET facts = ?, through = ?, revision = ?"
                " WHERE user_id = ? AND thread_id = ? AND revision = ?"
            )
            parameters = [*values, *identity, expected]
        return await self._write(lambda db: db.execute(sql, parameters).rowcount > 0)


def _append(db: sqlite3.Connection, scope: Scope, change: FactChange) -> bool:
    where, parameters = where_scope(scope)
    stored = scalar(db, f"SELECT max(seq) FROM fact_events WHERE {where}", parameters)
    erased = scalar(db, f"SELECT floor FROM facts WHERE {where}", parameters)
    inserted = db.execute(
        f"INSERT INTO fact_events (user_id, thread_id, {CHANGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (user_id, thread_id, key) DO NOTHING",
        [
            *parameters,
            max(stored or 0, erased or 0) + 1,
            change.key,
            change.turn_id,
            change.extractor,
            milliseconds(change.recorded_at),
            pack_events(change.events),
        ],
    )
    return inserted.rowcount > 0


def delete_changes(db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str]) -> int:
    """Delete the fact changes of these turns, having noted that their numbers stay taken; how many."""
    condition, values = among("turn_id", turn_ids)
    parameters = [user_id, *values]
    db.execute(
        "INSERT INTO facts (user_id, thread_id, facts, through, revision, floor)"
        " SELECT user_id, thread_id, '{}', 0, ?, max(seq) FROM fact_events"
        f" WHERE user_id = ? AND {condition} GROUP BY user_id, thread_id"
        " ON CONFLICT (user_id, thread_id) DO UPDATE SET floor = max(floor, excluded.floor)",
        [uuid4().hex, *parameters],
    )
    return db.execute(f"DELETE FROM fact_events WHERE user_id = ? AND {condition}", parameters).rowcount


def reset_facts(db: sqlite3.Connection, user_id: str, threads: Iterable[str]) -> None:
    """Empty these threads' documents under a new revision, so that a fold of erased changes cannot be saved."""
    db.executemany(
        "INSERT INTO facts (user_id, thread_id, facts, through, revision) VALUES (?, ?, '{}', 0, ?)"
        " ON CONFLICT (user_id, thread_id) DO UPDATE"
        " SET facts = excluded.facts, through = 0, revision = excluded.revision",
        [(user_id, thread_id, uuid4().hex) for thread_id in threads],
    )
