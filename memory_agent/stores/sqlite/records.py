"""Conditions of statements, and the one value that many ask for."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.stores.codec import dump_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import Scope

Record = tuple[Any, ...]


def where_scope(scope: Scope) -> tuple[str, list[Any]]:
    """A condition for what is in the scope, with its parameters."""
    if scope.thread_id is None:
        return "user_id = ?", [scope.user_id]
    return "user_id = ? AND thread_id = ?", [scope.user_id, scope.thread_id]


def among(column: str, values: Sequence[str] | Sequence[int]) -> tuple[str, list[Any]]:
    """A condition for `column` being one of any number of values, as one parameter."""
    return f"{column} IN (SELECT value FROM json_each(?))", [dump_json(list(values))]


def where_turns(scope: Scope, turn_ids: Sequence[str]) -> tuple[str, list[Any]]:
    """A condition for these turns of the scope."""
    # The plus keeps the thread from choosing the index: it would read the whole thread to find a few turns.
    where, parameters = where_scope(scope)
    where = where.replace("thread_id", "+thread_id")
    condition, values = among("id", turn_ids)
    return f"{where} AND {condition}", parameters + values


def scalar(connection: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> Any:
    """The first column of the first row; None without one."""
    found = connection.execute(sql, parameters).fetchone()
    return found[0] if found else None
