"""Pieces of statements: conditions with their parameters, and what several parts of the store ask or note."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import BETWEEN, Tenant, tenants_range
from memory_agent.stores.codec import dump_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import KeyedKind, Scope

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
