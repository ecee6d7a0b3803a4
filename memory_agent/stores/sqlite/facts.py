"""Facts in SQLite: a log of changes per thread, and its fold as one document per thread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from memory_agent.domain import FactsDocument
from memory_agent.errors import InvalidInput
from memory_agent.stores.codec import pack_stated, thread_of
from memory_agent.stores.fields import CHANGE, COST, FACTS
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope, scalar

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
        where = in_scope(scope).among("key", keys)
        if after_seq > 0:
            where = where.also("seq > ?", after_seq)
        # SQLite would read the whole thread in order instead.
        index = "" if keys is None or scope.thread_id is None else "INDEXED BY fact_events_key"
        order = "recorded_at, thread_id, seq" if scope.thread_id is None else "seq"
        return await self._select(
            CHANGE, f"FROM fact_events {index} WHERE {where} ORDER BY {order}", where.values
        )

    async def fact_heads(self, scope: Scope) -> dict[str, tuple[int, int, int]]:
        where = in_scope(scope)
        # Else SQLite would read the changes themselves.
        sql = (
            "SELECT thread_id, count(*), max(seq), ifnull((SELECT stripped FROM facts"
            " WHERE user_id = each.user_id AND thread_id = each.thread_id), 0)"
            f" FROM fact_events each INDEXED BY fact_events_key WHERE {where} GROUP BY thread_id"
        )
        return {thread: (*heads,) for thread, *heads in await self._fetch(sql, where.values)}

    async def drop_generation(self, scope: Scope, generation: str) -> int:
        thread_of(scope)
        if not generation:
            raise InvalidInput("generation is empty; name the one whose changes are to go")
        where = in_scope(scope).equal(generation=generation)
        return await self._write(lambda db: delete_changes(db, scope.user_id, where))

    async def add_extraction_cost(self, scope: Scope, cost: ExtractionCost) -> None:
        added = ", ".join(f"{name} = {name} + excluded.{name}" for name in COST.kinds)
        await self._execute(
            f"INSERT INTO costs (user_id, thread_id, {COST.columns}) VALUES (?, ?, {COST.marks})"
            f" ON CONFLICT (user_id, thread_id) DO UPDATE SET {added}",
            [scope.user_id, thread_of(scope), *COST.record(cost)],
        )

    async def load_facts(self, scope: Scope) -> FactsDocument:
        where = in_scope(scope).equal(thread_id=thread_of(scope))
        found = await self._select(FACTS, f"FROM facts WHERE {where}", where.values)
        return found[0] if found else FactsDocument()

    async def save_facts(self, scope: Scope, document: FactsDocument, *, expected: str | None) -> bool:
        identity = [scope.user_id, thread_of(scope)]
        values = FACTS.record(document, revision=uuid4().hex)
        if expected is None:
            sql = (
                f"INSERT INTO facts ({FACTS.columns}, user_id, thread_id) VALUES ({FACTS.marks}, ?, ?)"
                " ON CONFLICT (user_id, thread_id) DO NOTHING"
            )
            return await self._execute(sql, [*values, *identity]) > 0
        fields = f"({FACTS.columns}) = ({FACTS.marks})"
        sql = f"UPDATE facts SET {fields} WHERE user_id = ? AND thread_id = ? AND revision = ?"
        return await self._execute(sql, [*values, *identity, expected]) > 0


def _append(db: sqlite3.Connection, scope: Scope, change: FactChange) -> bool:
    where = in_scope(scope)
    if change.idempotency_key is not None:
        known = where.equal(idempotency_key=change.idempotency_key)
        if scalar(db, f"SELECT 1 FROM fact_events WHERE {known}", known.values):
            return False
    stored = scalar(db, f"SELECT max(seq) FROM fact_events WHERE {where}", where.values)
    erased = scalar(db, f"SELECT floor FROM facts WHERE {where}", where.values)
    seq = max(stored or 0, erased or 0) + 1
    record = CHANGE.record(change, thread_id=scope.thread_id, seq=seq, stated=pack_stated(change))
    inserted = db.execute(
        f"INSERT INTO fact_events (user_id, {CHANGE.columns}) VALUES (?, {CHANGE.marks})"
        " ON CONFLICT (user_id, thread_id, key) DO NOTHING",
        [scope.user_id, *record],
    )
    if inserted.rowcount <= 0:
        return False
    put_views(db, scope, change, seq)
    return True


def put_views(db: sqlite3.Connection, scope: Scope, change: FactChange, seq: int) -> None:
    """Note which turns the change of that number had in view."""
    db.executemany(
        "INSERT INTO fact_change_turns (user_id, turn_id, thread_id, seq) VALUES (?, ?, ?, ?)",
        _views(scope.user_id, thread_of(scope), seq, change.turn_id, change.turns),
    )


def _views(
    user_id: str, thread_id: str, seq: int, turn_id: str | None, turns: Sequence[str]
) -> list[tuple[str, str, str, int]]:
    """A change's rows of fact_change_turns; its own turn is one of them, whatever its maker listed."""
    return [(user_id, seen, thread_id, seq) for seen in {*turns, turn_id} if seen is not None]


def having_in_view(user_id: str, turn_ids: Sequence[str]) -> Where:
    """A condition for the user's changes that had one of these turns in view."""
    user = Where("user_id = ?", user_id)
    seen = user.among("turn_id", turn_ids)
    return user.also(
        f"(thread_id, seq) IN (SELECT thread_id, seq FROM fact_change_turns WHERE {seen})", *seen.values
    )


def delete_changes(db: sqlite3.Connection, user_id: str, where: Where, *, by_turn: bool = False) -> int:
    """Delete these changes of the user, whose numbers stay taken, and empty their threads' documents. How many.

    `by_turn`: the condition is on `turn_id`.
    """
    # Left to itself, SQLite would read all that the user has.
    table = "fact_events INDEXED BY fact_events_turn" if by_turn else "fact_events"
    found = db.execute(
        f"SELECT thread_id, seq, turn_id, turns FROM {table} WHERE {where}", where.values
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


def strip_changes(db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str]) -> None:
    """Take these turns and their words out of the changes with them in view. What is known stays."""
    seen, threads = having_in_view(user_id, turn_ids), set()
    found = db.execute(f"SELECT {CHANGE.columns} FROM fact_events WHERE {seen}", seen.values).fetchall()
    for change in map(CHANGE.read, found):
        left = change.without(turn_ids)
        place = (user_id, change.thread_id, change.seq)
        db.execute(
            "UPDATE fact_events SET turn_id = ?, turns = ?, stated = ? WHERE user_id = ? AND thread_id = ? AND seq = ?",
            [left.turn_id, CHANGE.kinds["turns"].write(left.turns), pack_stated(left), *place],
        )
        threads.add(change.thread_id)
    gone = Where("user_id = ?", user_id).among("turn_id", turn_ids)
    db.execute(f"DELETE FROM fact_change_turns WHERE {gone}", gone.values)
    empty = FACTS.record(FactsDocument(), revision=uuid4().hex)
    db.executemany(
        f"INSERT INTO facts ({FACTS.columns}, user_id, thread_id, stripped) VALUES ({FACTS.marks}, ?, ?, 1)"
        " ON CONFLICT (user_id, thread_id) DO UPDATE SET stripped = stripped + 1",
        [(*empty, user_id, thread_id) for thread_id in threads],
    )


def reset_facts(db: sqlite3.Connection, user_id: str, threads: Mapping[str, int]) -> None:
    """Empty these threads' documents under a new revision, so that a fold of erased changes cannot be saved.

    `threads`: with the highest number that was erased, or 0.
    """
    emptied = ", ".join(f"{name} = excluded.{name}" for name in FACTS.kinds)
    db.executemany(
        f"INSERT INTO facts ({FACTS.columns}, user_id, thread_id, floor) VALUES ({FACTS.marks}, ?, ?, ?)"
        f" ON CONFLICT (user_id, thread_id) DO UPDATE SET floor = max(floor, excluded.floor), {emptied}",
        [
            (*FACTS.record(FactsDocument(), revision=uuid4().hex), user_id, thread_id, floor)
            for thread_id, floor in threads.items()
        ],
    )
