"""Pieces of statements: conditions with their parameters, and what is left of forgotten turns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import BETWEEN, Scope, Tenant, tenants_range
from memory_agent.domain.work import HASHING, Hasher, is_of_remains, new_secret
from memory_agent.stores.codec import dump_json, thread_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import KeyedKind


_KEYED: Final[dict[KeyedKind, tuple[str, str]]] = {
    "edit": ("fact_events", "key"),
    "session": ("sessions", "id"),
}
"""The table of each kind that has idempotency keys, and the column of what its erasures are bounded by."""


class Where:
    """A condition with its parameters, narrowed clause by clause."""

    def __init__(self, condition: str = "1", *values: Any) -> None:
        self._condition = condition
        self.values: list[Any] = list(values)

    def __str__(self) -> str:
        return self._condition

    def also(self, condition: str, *values: Any) -> Where:
        """The same, and this as well."""
        return Where(f"{self} AND {condition}", *self.values, *values)

    def equal(self, **wanted: Any) -> Where:
        """The same, and these columns hold these values; None: whatever they hold."""
        found = self
        for column, value in wanted.items():
            found = found if value is None else found.also(f"{column} = ?", value)
        return found

    def among(
        self,
        column: str,
        values: Sequence[str] | Sequence[int] | None,
        *,
        but: bool = False,
        each: str = "value",
    ) -> Where:
        """The same, and the column is one (`but`: none) of any number of values, as one parameter; None: whatever it is.

        `each`: what the column holds of a `value`.
        """
        if values is None:
            return self
        return self.also(
            f"{'NOT ' * but}{column} IN (SELECT {each} FROM json_each(?))", dump_json(list(values))
        )


def in_scope(scope: Scope | Tenant | None, *, thread: str = "thread_id") -> Where:
    """A condition for what is in the scope (None: everything).

    `thread="+thread_id"` keeps the thread from choosing the index: it would read the whole thread to find a few turns.
    """
    if scope is None:
        return Where()
    if isinstance(scope, Tenant):
        first, below = tenants_range(scope.name)
        users = Where("user_id >= ? AND user_id < ?", first, below)
        return Where("instr(user_id, ?) = 0", BETWEEN) if below is None else users
    return Where("user_id = ?", scope.user_id).equal(**{thread: scope.thread_id})


def these_turns(scope: Scope, turn_ids: Sequence[str] | None) -> Where:
    """A condition for these turns of the scope (None: all of its)."""
    return in_scope(scope, thread="thread_id" if turn_ids is None else "+thread_id").among("id", turn_ids)


def scalar(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> Any:
    """The first column of the first row; None without one."""
    found = db.execute(sql, parameters).fetchone()
    return found[0] if found else None


def spend_keys(db: sqlite3.Connection, kind: KeyedKind, where: Where) -> None:
    """Note the idempotency keys of those edits or sessions, before they go: enough to recognise a late repeat."""
    table, id_column = _KEYED[kind]
    db.execute(
        "INSERT OR REPLACE INTO spent_keys (user_id, thread_id, kind, key, id)"
        f" SELECT user_id, thread_id, ?, idempotency_key, {id_column} FROM {table}"
        f" WHERE {where} AND idempotency_key IS NOT NULL",
        [kind, *where.values],
    )


_TOMBSTONE = "idempotency_key, seq, call_index, call_size"


def of_remains(db: sqlite3.Connection, scope: Scope) -> Where:
    """A condition for the thread's remains, under its ids or under hashes."""
    kept = scope if (known := _hasher(db)) is None else known.remains(scope)
    values = (scope.user_id, kept.user_id, thread_of(scope), thread_of(kept))
    return Where("user_id IN (?, ?) AND thread_id IN (?, ?)", *values)


def _hasher(db: sqlite3.Connection) -> Hasher | None:
    """The store's; None if it has no secret, and so nothing under hashes."""
    found = scalar(db, "SELECT value FROM meta WHERE name = ?", [HASHING])
    return None if found is None else Hasher.of(json.loads(found))


def _new_hasher(db: sqlite3.Connection) -> Hasher:
    secret = new_secret()
    db.execute("INSERT INTO meta (name, value) VALUES (?, ?)", [HASHING, dump_json(secret)])
    return Hasher.of(secret)


def hash_remains(db: sqlite3.Connection, user_id: str) -> None:
    """Put the user's remains under hashes."""
    hasher = _hasher(db) or _new_hasher(db)

    def taken(columns: str, table: str) -> list[tuple[str, str, list[object]]]:
        rows = db.execute(f"SELECT thread_id, {columns} FROM {table} WHERE user_id = ?", [user_id]).fetchall()
        db.execute(f"DELETE FROM {table} WHERE user_id = ?", [user_id])
        kept = [(hasher.remains(Scope(user_id=user_id, thread_id=thread)), more) for thread, *more in rows]
        return [(scope.user_id, thread_of(scope), more) for scope, more in kept]

    for user, thread, (last_seq,) in taken("last_seq", "threads"):
        db.execute(
            "INSERT INTO threads (user_id, thread_id, last_seq) VALUES (?, ?, ?)"
            " ON CONFLICT (user_id, thread_id) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)",
            [user, thread, last_seq],
        )
    for user, thread, (turn_id, *call) in taken(f"turn_id, {_TOMBSTONE}", "tombstones"):
        db.execute(
            f"INSERT OR REPLACE INTO tombstones (user_id, thread_id, turn_id, {_TOMBSTONE}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [user, thread, hasher.gone(str(turn_id)), *call],
        )
    for user, thread, (kind, key, made_id) in taken("kind, key, id", "spent_keys"):
        db.execute(
            "INSERT OR REPLACE INTO spent_keys (user_id, thread_id, kind, key, id) VALUES (?, ?, ?, ?, ?)",
            [user, thread, kind, key, hasher.gone(str(made_id))],
        )


def hash_all_remains(db: sqlite3.Connection) -> None:
    """Put everybody's remains under hashes, which version 0.1.0 kept under ids."""
    tables = " UNION ".join(
        f"SELECT user_id FROM {table}" for table in ("threads", "tombstones", "spent_keys")
    )
    for (user_id,) in db.execute(tables).fetchall():
        if not is_of_remains(user_id):
            hash_remains(db, user_id)


def delete_remains(db: sqlite3.Connection, user_id: str, before_id: str) -> None:
    """Delete the user's remains of what has an id that sorts before `before_id`, and the numbers of threads that ended."""
    hasher = _hasher(db)
    user = Scope(user_id=user_id)
    users = [user_id, user_id if hasher is None else hasher.remains(user).user_id]
    for old in (
        "tombstones WHERE user_id IN (?, ?) AND turn_id < ?",
        "spent_keys WHERE user_id IN (?, ?) AND id < ?",
    ):
        db.execute(f"DELETE FROM {old}", [*users, before_id])
    # A session that was started since has yet to see its first turn, and counts from the thread's last number.
    living = db.execute(
        "SELECT thread_id FROM turns WHERE user_id = ?1 UNION SELECT thread_id FROM sessions WHERE user_id = ?1",
        [user_id],
    ).fetchall()
    kept = [thread for (thread,) in living]
    if hasher is not None:
        kept += [thread_of(hasher.remains(Scope(user_id=user_id, thread_id=thread))) for thread in kept]
    ended = Where("user_id IN (?, ?)", *users).among("thread_id", kept, but=True)
    db.execute(f"DELETE FROM threads WHERE {ended}", ended.values)
