"""Facts in SQLite: a log of changes per thread, and its fold as one document per thread."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from memory_agent.domain import FactsDocument
from memory_agent.errors import InvalidInput
from memory_agent.stores.codec import dump_json, pack_stated, thread_of
from memory_agent.stores.fields import CHANGE, COST, fact_change_of
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import among, scalar, where_scope

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import ExtractionCost, FactChange, Scope


class SqliteFacts(SqliteConnection):
    """The facts of a SqliteStore."""

    async def append_fact_change(self, scope: Scope, change: FactChange) -> bool:
        thread_of(scope)
        return await self._write(lambda db: _append(db, scope, change))

    async def fact_changes(
        self, scope: Scope, *, after_seq: int = 0, keys: Sequence[str] | None = None
    ) -> list[FactChange]:
        where, parameters = where_scope(scope)
        table = "fact_events"
        if after_seq > 0:
            where, parameters = f"{where} AND seq > ?", [*parameters, after_seq]
        if keys is not None:
            condition, values = among("key", keys)
            where, parameters = f"{where} AND {condition}", parameters + values
            if scope.thread_id is not None:
                # SQLite would read the whole thread in order instead.
                table = "fact_events INDEXED BY fact_events_key"
        order = "recorded_at, thread_id, seq" if scope.thread_id is None else "seq"
        sql = f"SELECT {CHANGE.columns} FROM {table} WHERE {where} ORDER BY {order}"
        found = await self._read(lambda db: db.execute(sql, parameters).fetchall())
        return [fact_change_of(CHANGE.of_record(record)) for record in found]

    async def drop_generation(self, scope: Scope, generation: str) -> int:
        user_id, thread_id = scope.user_id, thread_of(scope)
        if not generation:
            raise InvalidInput("generation is empty; name the replay whose changes are to go")
        condition = "thread_id = ? AND generation = ?"
        return await self._write(lambda db: delete_changes(db, user_id, condition, [thread_id, generation]))

    async def add_extraction_cost(self, scope: Scope, cost: ExtractionCost) -> None:
        added = ", ".join(f"{name} = {name} + excluded.{name}" for name in COST.columns.split(", "))
        await self._execute(
            f"INSERT INTO costs (user_id, thread_id, {COST.columns}) VALUES (?, ?, {COST.marks})"
            f" ON CONFLICT (user_id, thread_id) DO UPDATE SET {added}",
            [scope.user_id, thread_of(scope), *COST.record(cost)],
        )

    async def load_facts(self, scope: Scope) -> FactsDocument:
        parameters = [scope.user_id, thread_of(scope)]
        sql = "SELECT facts, through, at, revision FROM facts WHERE user_id = ? AND thread_id = ?"
        found = await self._read(lambda db: db.execute(sql, parameters).fetchone())
        if found is None:
            return FactsDocument()
        facts, through, at, revision = found
        return FactsDocument(facts=json.loads(facts), through=through, at=at, revision=revision)

    async def save_facts(self, scope: Scope, document: FactsDocument, *, expected: str | None) -> bool:
        identity = [scope.user_id, thread_of(scope)]
        values = [dump_json(document.facts), document.through, document.at, uuid4().hex]
        if expected is None:
            sql = (
                "INSERT INTO facts (facts, through, at, revision, user_id, thread_id) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (user_id, thread_id) DO NOTHING"
            )
            parameters: list[Any] = [*values, *identity]
        else:
            sql = (
                "UPDATE facts SET facts = ?, through = ?, at = ?, revision = ?"
                " WHERE user_id = ? AND thread_id = ? AND revision = ?"
            )
            parameters = [*values, *identity, expected]
        return await self._write(lambda db: db.execute(sql, parameters).rowcount > 0)


def _append(db: sqlite3.Connection, scope: Scope, change: FactChange) -> bool:
    where, parameters = where_scope(scope)
    if change.idempotency_key is not None:
        known = f"SELECT 1 FROM fact_events WHERE {where} AND idempotency_key = ?"
        if scalar(db, known, [*parameters, change.idempotency_key]):
            return False
    stored = scalar(db, f"SELECT max(seq) FROM fact_events WHERE {where}", parameters)
    erased = scalar(db, f"SELECT floor FROM facts WHERE {where}", parameters)
    seq = max(stored or 0, erased or 0) + 1
    inserted = db.execute(
        f"INSERT INTO fact_events (user_id, {CHANGE.columns}) VALUES (?, {CHANGE.marks})"
        " ON CONFLICT (user_id, thread_id, key) DO NOTHING",
        [
            scope.user_id,
            *CHANGE.record(change, thread_id=scope.thread_id, seq=seq, stated=pack_stated(change)),
        ],
    )
    if inserted.rowcount <= 0:
        return False
    db.executemany(
        "INSERT INTO fact_change_turns (user_id, turn_id, thread_id, seq) VALUES (?, ?, ?, ?)",
        _views(scope.user_id, thread_of(scope), seq, change.turn_id, change.turns),
    )
    return True


def _views(
    user_id: str, thread_id: str, seq: int, turn_id: str | None, turns: Sequence[str]
) -> list[tuple[str, str, str, int]]:
    """A change's rows of fact_change_turns; its own turn is one of them, whatever its maker listed."""
    return [(user_id, seen, thread_id, seq) for seen in {*turns, turn_id} if seen is not None]


def having_in_view(user_id: str, turn_ids: Sequence[str]) -> tuple[str, list[Any]]:
    """A condition for the user's changes that had one of these turns in view."""
    condition, values = among("turn_id", turn_ids)
    seen = f"SELECT thread_id, seq FROM fact_change_turns WHERE user_id = ? AND {condition}"
    return f"(thread_id, seq) IN ({seen})", [user_id, *values]


def delete_changes(
    db: sqlite3.Connection,
    user_id: str,
    condition: str,
    parameters: Sequence[Any],
    *,
    by_turn: bool = False,
) -> int:
    """Delete these changes of the user, whose numbers stay taken, and empty their threads' documents. How many.

    `by_turn`: the condition is on `turn_id`.
    """
    # Left to itself, SQLite would read all that the user has.
    table = "fact_events INDEXED BY fact_events_turn" if by_turn else "fact_events"
    found = db.execute(
        f"SELECT thread_id, seq, turn_id, turns FROM {table} WHERE user_id = ? AND {condition}",
        [user_id, *parameters],
    ).fetchall()
    highest: dict[str, int] = {}
    for thread_id, seq, turn_id, turns in found:
        highest[thread_id] = max(seq, highest.get(thread_id, 0))
        db.executemany(
            "DELETE FROM fact_change_turns WHERE user_id = ? AND turn_id = ? AND thread_id = ? AND seq = ?",
            _views(user_id, thread_id, seq, turn_id, json.loads(turns)),
        )
    db.executemany(
        "DELETE FROM fact_events WHERE user_id = ? AND thread_id = ? AND seq = ?",
        [(user_id, thread_id, seq) for thread_id, seq, *_ in found],
    )
    reset_facts(db, user_id, highest)
    return len(found)


def reset_facts(db: sqlite3.Connection, user_id: str, threads: Mapping[str, int]) -> None:
    """Empty these threads' documents under a new revision, so that a fold of erased changes cannot be saved.

    `threads`: with the highest number that was erased, or 0.
    """
    db.executemany(
        "INSERT INTO facts (user_id, thread_id, facts, through, revision, floor) VALUES (?, ?, '{}', 0, ?, ?)"
        " ON CONFLICT (user_id, thread_id) DO UPDATE SET facts = excluded.facts, through = 0, at = '',"
        " revision = excluded.revision, floor = max(floor, excluded.floor)",
        [(user_id, thread_id, uuid4().hex, floor) for thread_id, floor in threads.items()],
    )
