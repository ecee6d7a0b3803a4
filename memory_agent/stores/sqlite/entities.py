"""Entities named by the search rows, in SQLite: their terms are a range of the table of terms."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Entity, EntityCount
from memory_agent.stores.codec import from_milliseconds
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import among, where_scope

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from datetime import datetime

    from memory_agent.domain import Scope

_FIRST_MILLISECOND: Final = -62_135_596_800_000  # of the year 1, the first that a datetime can hold
_DIGITS: Final = 15
_MENTION: Final = f"printf('%0{_DIGITS}d', rows.timestamp - {_FIRST_MILLISECOND}) || rows.turn_id"
"""Text that sorts by the turn's timestamp and its id."""


class SqliteEntities(SqliteConnection):
    """The entities of a SqliteStore."""

    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        return await self._read(lambda db: _entity_counts(db, scope))


def _entity_counts(db: sqlite3.Connection, scope: Scope) -> list[EntityCount]:
    where, parameters = where_scope(scope)
    where = where.replace("user_id", "terms.user_id").replace("thread_id", "terms.thread_id")
    found = db.execute(
        # Not the other way round, which would read all of the user's rows.
        f"SELECT term, count(*), min({_MENTION}), max({_MENTION}) FROM row_terms AS terms"
        " CROSS JOIN search_rows AS rows ON rows.turn_id = terms.turn_id"
        f" WHERE {where} AND term >= '@' AND term < 'A' GROUP BY term",
        parameters,
    ).fetchall()
    mentioned = {
        term: (entity, count, first, last)
        for term, count, first, last in found
        if (entity := Entity.from_term(term)) is not None
    }
    places = _places(db, {term: first[_DIGITS:] for term, (_, _, first, _) in mentioned.items()})
    return [
        _entity_count(*mentioned[term])
        for term in sorted(mentioned, key=lambda term: (mentioned[term][2], places.get(term, 0)))
    ]


def _entity_count(entity: Entity, count: int, first: str, last: str) -> EntityCount:
    return EntityCount(
        entity=entity,
        count=count,
        first_turn_id=first[_DIGITS:],
        last_turn_id=last[_DIGITS:],
        first_at=_time(first),
        last_at=_time(last),
    )


def _time(mention: str) -> datetime:
    return from_milliseconds(int(mention[:_DIGITS]) + _FIRST_MILLISECOND)


def _places(db: sqlite3.Connection, turns: Mapping[str, str]) -> dict[str, int]:
    """For terms that begin with the same turn (term -> turn id), where in its row each one is."""
    together = [turn_id for turn_id, terms in Counter(turns.values()).items() if terms > 1]
    condition, parameters = among("turn_id", together)
    rows = db.execute(f"SELECT turn_id, terms FROM search_rows WHERE {condition}", parameters)
    return {
        term: place
        for turn_id, terms in rows
        for place, term in enumerate(json.loads(terms))
        if turns.get(term) == turn_id
    }
