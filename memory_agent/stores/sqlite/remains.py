"""Remains of forgotten turns in SQLite: their threads' highest numbers, tombstones, spent keys. Under ids at first, then under hashes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memory_agent.domain import Scope
from memory_agent.domain.work import HASHING, Hasher, is_of_remains, new_secret
from memory_agent.stores.codec import dump_json, thread_of
from memory_agent.stores.sqlite.records import Where, scalar

if TYPE_CHECKING:
    import sqlite3

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
