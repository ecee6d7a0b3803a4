"""Idempotency keys of edits and sessions that were erased: enough to recognise a late repeat, no content."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.stores.codec import thread_of
from memory_agent.stores.sqlite.connection import SqliteConnection

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import KeyedKind, Scope

_KEPT_IN: Final[dict[KeyedKind, tuple[str, str]]] = {
    "edit": ("fact_events", "key"),
    "session": ("sessions", "id"),
}
"""The table of each kind, and the column of what its erasures are bounded by."""


class SqliteSpentKeys(SqliteConnection):
    """The spent keys of a SqliteStore."""

    async def key_spent(self, scope: Scope, kind: KeyedKind, key: str) -> bool:
        sql = "SELECT 1 FROM spent_keys WHERE user_id = ? AND thread_id = ? AND kind = ? AND key = ?"
        parameters = [scope.user_id, thread_of(scope), kind, key]
        return await self._read(lambda db: db.execute(sql, parameters).fetchone()) is not None


def spend_keys(db: sqlite3.Connection, kind: KeyedKind, condition: str, parameters: Sequence[Any]) -> None:
    """Note the keys of those edits or sessions, before they go."""
    table, id_column = _KEPT_IN[kind]
    db.execute(
        "INSERT OR REPLACE INTO spent_keys (user_id, thread_id, kind, key, id)"
        f" SELECT user_id, thread_id, ?, idempotency_key, {id_column} FROM {table}"
        f" WHERE {condition} AND idempotency_key IS NOT NULL",
        [kind, *parameters],
    )


def drop_spent_keys(db: sqlite3.Connection, user_id: str, before_id: str) -> None:
    """Forget the user's keys of what had an id that sorts before `before_id`."""
    db.execute("DELETE FROM spent_keys WHERE user_id = ? AND id < ?", [user_id, before_id])
