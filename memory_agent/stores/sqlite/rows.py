"""Search rows in SQLite; of large users with a table of which rows hold which term, entities a range of its terms."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Entity, EntityCount, Scope, TermCandidates, VectorFill
from memory_agent.stores.codec import (
    DAMAGED,
    PAGE_ROWS,
    Nearest,
    chunks,
    damaged,
    from_milliseconds,
    latest_rows,
    milliseconds,
    pack_id,
    pack_terms,
    pack_vectors,
    unpack_id,
    unpack_terms,
)
from memory_agent.stores.fields import ROW, TURN
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope, scalar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import SearchRow, Similar
    from memory_agent.domain.base import Tenant
    from memory_agent.stores.codec import Record

_WRITTEN_AT_ONCE: Final = 100
_SAMPLED_ROWS: Final = 200
_INSERT_ROW: Final = f"INSERT INTO search_rows ({ROW.columns}) VALUES ({ROW.marks})"
ROW_COLUMNS: Final = f"{ROW.columns}, erased_at"
_FIRST_MILLISECOND: Final = -62_135_596_800_000  # of the year 1, the first that a datetime can hold
_DIGITS: Final = 15
_MENTION: Final = f"printf('%0{_DIGITS}d', rows.timestamp - {_FIRST_MILLISECOND}) || terms.turn_id"
"""Text that sorts by the turn's timestamp and its id."""


class SqliteRows(SqliteConnection):
    """The search rows of a SqliteStore."""

    async def put_search_rows(self, user_id: str, rows: Sequence[SearchRow], *, now: datetime) -> None:
        # In small transactions: somebody's turn may be waiting to be acknowledged behind each.
        for chunk in chunks(latest_rows(user_id, rows), _WRITTEN_AT_ONCE):
            await self._write(partial(_put, user_id=user_id, rows=chunk, now=now))

    async def search_rows(
        self, user_id: str, *, ids: Sequence[str] | None = None, after: int = 0, limit: int | None = None
    ) -> list[SearchRow]:
        where = rows_of(user_id, ids).also("index_seq > ?", after)
        sql = f"SELECT {ROW_COLUMNS} FROM search_rows WHERE {where} ORDER BY index_seq LIMIT ?"
        parameters = [*where.values, -1 if limit is None else max(limit, 0)]
        return await self._read(lambda db: list(map(search_row, db.execute(sql, parameters))))

    async def token_codes(self, user_id: str, ids: Sequence[str], *, embedder: str) -> dict[str, bytes]:
        # The plus leaves the choice to the ids here too: many rows of everybody are of one embedder.
        where = rows_of(user_id, ids).also("+embedder = ?", embedder)
        sql = f"SELECT turn_id, tokens FROM search_rows JOIN row_tokens USING (number) WHERE {where}"
        found = await self._fetch(sql, where.values)
        return {unpack_id(turn_id): tokens for turn_id, tokens in found}

    async def index_head(self, user_id: str) -> int:
        return await self._read(lambda db: index_head(db, user_id))

    async def count_rows(self, user_id: str, *, limit: int) -> int:
        sql = "SELECT count(*) FROM (SELECT 1 FROM search_rows WHERE user_id = ? LIMIT ?)"
        [(count,)] = await self._fetch(sql, [user_id, max(limit, 0)])
        return int(count)

    async def rows_by_others(self, embedder: str) -> int:
        # Stubs of erased rows are nobody's: ''.
        sql = "SELECT coalesce(sum(rows), 0) FROM embedded_rows WHERE embedder NOT IN ('', ?)"
        [(count,)] = await self._fetch(sql, [embedder])
        return int(count)

    async def index_terms(self, user_id: str, turn_ids: Sequence[str]) -> None:
        for chunk in chunks(turn_ids, _WRITTEN_AT_ONCE):
            await self._write(partial(_index_terms, user_id=user_id, turn_ids=chunk))

    async def candidates_through(self, user_id: str) -> int | None:
        return await self._read(lambda db: _candidates_through(db, user_id))

    async def set_candidates_through(self, user_id: str, index_seq: int) -> None:
        await self._write(lambda db: _set_candidates_through(db, user_id, index_seq))

    async def want_vectors(self, user_ids: Sequence[str] | None, *, anew: bool = False) -> None:
        if user_ids is None:
            await self._execute(_WANT_OTHERS, [])
        for chunk in chunks(user_ids or (), _WRITTEN_AT_ONCE):
            await self._write(partial(_want_vectors, user_ids=chunk, anew=anew))

    async def vector_fills(
        self,
        user_ids: Sequence[str] | None = None,
        *,
        pending: bool = False,
        after: str = "",
        limit: int,
    ) -> list[VectorFill]:
        where = Where("user_id > ?", after).among("user_id", user_ids)
        where = where.also("pending") if pending else where
        sql = (
            f"SELECT user_id, place, through, pending, marks FROM vector_fills WHERE {where} ORDER BY user_id"
        )
        return [
            VectorFill(user_id=user_id, place=place, through=through, pending=bool(pending), marks=marks)
            for user_id, place, through, pending, marks in await self._fetch(
                f"{sql} LIMIT ?", [*where.values, max(limit, 0)]
            )
        ]

    async def note_filled(self, before: VectorFill, *, place: str, through: int, pending: bool) -> None:
        await self._execute(
            "UPDATE vector_fills SET place = ?, through = ?, pending = ? OR marks <> ?"
            " WHERE user_id = ? AND place = ? AND through = ?",
            [place, through, pending, before.marks, before.user_id, before.place, before.through],
        )

    async def vectors_missing(self, scope: Scope | Tenant | None) -> int:
        user = in_scope(scope.user if isinstance(scope, Scope) else scope)
        thread = Where().equal(thread_id=scope.thread_id if isinstance(scope, Scope) else None)
        [(count,)] = await self._fetch(
            "SELECT coalesce(sum((SELECT count(*) FROM search_rows WHERE search_rows.user_id = fills.user_id"
            f" AND index_seq > fills.through AND {thread})), 0)"
            f" FROM (SELECT user_id, through FROM vector_fills WHERE pending AND {user}) AS fills",
            [*thread.values, *user.values],
        )
        return int(count)

    async def term_candidates(self, scope: Scope, terms: Sequence[str], *, limit: int) -> TermCandidates:
        return await self._read(lambda db: _term_candidates(db, scope, terms, max(limit, 0)))

    async def name_entities(self, user_id: str, entities: Mapping[str, Sequence[Entity]]) -> None:
        kind = TURN.kinds["entities"]
        records = [(kind.write(named), user_id, turn_id) for turn_id, named in entities.items()]
        sql = (
            "UPDATE turns SET given_entities = coalesce(given_entities, entities, '[]'), entities = ?"
            " WHERE user_id = ? AND id = ?"
        )
        if records:
            await self._write(lambda db: db.executemany(sql, records).rowcount)

    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        return await self._read(lambda db: _entity_counts(db, scope))

    async def nearest_turns(
        self, scope: Scope, vector: NDArray[np.float32], *, embedder: str, limit: int
    ) -> list[Similar]:
        nearest, after = Nearest(vector, limit=max(limit, 0)), 0
        where = in_scope(scope).also("embedder = ? AND passages > 0 AND erased_at IS NULL", embedder)
        # In the order of the index by the user and this number, whatever else the condition names.
        sql = (
            "SELECT turn_id, vectors, passages, index_seq FROM search_rows INDEXED BY search_rows_index_seq"
            f" WHERE {where} AND index_seq > ? ORDER BY index_seq LIMIT {PAGE_ROWS}"
        )

        def take(db: sqlite3.Connection) -> int | None:
            rows = db.execute(sql, [*where.values, after]).fetchall()
            nearest.take([(turn_id, vectors, passages) for turn_id, vectors, passages, _ in rows])
            return rows[-1][-1] if len(rows) == PAGE_ROWS else None

        while limit > 0 and (last := await self._read(take)) is not None:
            after = last
        return nearest.found(unpack_id)


_WANT: Final = (
    "INSERT INTO vector_fills (user_id, place, through, pending, marks) VALUES (?, '', 0, 1, 1)"
    " ON CONFLICT (user_id) DO UPDATE SET pending = 1, marks = marks + 1"
)
_WANT_OTHERS: Final = (
    "INSERT OR IGNORE INTO vector_fills (user_id, place, through, pending, marks)"
    " SELECT DISTINCT user_id, '', 0, 1, 1 FROM search_rows"
)
_WANT_ANEW: Final = f"{_WANT}, place = '', through = 0"


def _want_vectors(db: sqlite3.Connection, user_ids: Sequence[str], anew: bool) -> None:
    db.executemany(_WANT_ANEW if anew else _WANT, [[user_id] for user_id in user_ids])


def index_head(db: sqlite3.Connection, user_id: str) -> int:
    """The user's highest index number; 0 without rows."""
    return scalar(db, "SELECT max(index_seq) FROM search_rows WHERE user_id = ?", [user_id]) or 0


def _put(db: sqlite3.Connection, user_id: str, rows: Sequence[SearchRow], now: datetime) -> None:
    first = max(index_head(db, user_id) + 1, milliseconds(now))
    drop_rows(db, user_id, [row.turn_id for row in rows])
    for index_seq, row in enumerate(rows, start=first):
        number = db.execute(_INSERT_ROW, _record(row, index_seq)).lastrowid
        if row.tokens:
            db.execute(
                "INSERT OR REPLACE INTO row_tokens (number, tokens) VALUES (?, ?)", [number, row.tokens]
            )


def _record(row: SearchRow, index_seq: int) -> Record:
    vectors, passages = pack_vectors(row.vectors)
    terms = pack_terms(row.terms)
    return ROW.record(row, vectors=vectors, passages=passages, terms=terms, index_seq=index_seq)


def search_row(record: Record) -> SearchRow:
    try:
        return ROW.of(**ROW.of_record(record), erased=record[-1] is not None)
    except DAMAGED as exc:
        raise damaged(unpack_id(record[0]), exc) from exc


def rows_of(user_id: str, turn_ids: Sequence[str] | None) -> Where:
    """A condition for the user's rows of these turns (None: all of the user's)."""
    # The plus leaves the choice to the ids: by the user all of their rows would be looked at.
    where = Where("user_id = ?" if turn_ids is None else "+user_id = ?", user_id)
    return where.among("turn_id", turn_ids, each="pack_id(value)")


def _index_terms(db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str]) -> None:
    _set_candidates_through(db, user_id, 0)  # from now on, what erases a row looks for its terms here
    where = rows_of(user_id, turn_ids)
    rows = db.execute(f"SELECT turn_id, thread_id, terms FROM search_rows WHERE {where}", where.values)
    # In the order of the table's key, which halves the cost of the many small insertions.
    terms = sorted(
        (user_id, term, unpack_id(turn_id), thread_id)
        for turn_id, thread_id, packed in rows
        for term in unpack_terms(packed)
    )
    db.executemany(
        "INSERT OR IGNORE INTO row_terms (user_id, term, turn_id, thread_id) VALUES (?, ?, ?, ?)", terms
    )


def _candidates_through(db: sqlite3.Connection, user_id: str) -> int | None:
    through: int | None = scalar(db, "SELECT through FROM large_users WHERE user_id = ?", [user_id])
    return through


def _set_candidates_through(db: sqlite3.Connection, user_id: str, index_seq: int) -> None:
    db.execute(
        "INSERT INTO large_users (user_id, through) VALUES (?, ?)"
        " ON CONFLICT (user_id) DO UPDATE SET through = max(through, excluded.through)",
        [user_id, index_seq],
    )


def drop_rows(db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str]) -> list[Record]:
    """Delete the user's rows of these turns with their terms; turn, thread and `seq` of those that weren't stubs."""
    where = rows_of(user_id, turn_ids)
    found = [
        (number, unpack_id(turn_id), *rest)
        for number, turn_id, *rest in db.execute(
            f"SELECT number, turn_id, thread_id, seq, terms, erased_at FROM search_rows WHERE {where} ORDER BY index_seq",
            where.values,
        )
    ]
    if found and _candidates_through(db, user_id) is not None:
        db.executemany(
            "DELETE FROM row_terms WHERE user_id = ? AND term = ? AND turn_id = ?",
            (
                (user_id, term, turn_id)
                for _, turn_id, _, _, terms, _ in found
                for term in unpack_terms(terms)
            ),
        )
    numbers = [(number,) for number, *_ in found]
    db.executemany("DELETE FROM row_tokens WHERE number = ?", numbers)
    db.executemany("DELETE FROM search_rows WHERE number = ?", numbers)
    return [
        (turn_id, thread_id, seq) for _, turn_id, thread_id, seq, _, erased_at in found if erased_at is None
    ]


def stub_rows(db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str], now: datetime) -> int:
    """Replace the user's rows of these turns by stubs under fresh numbers; how many."""
    where = rows_of(user_id, turn_ids).also("erased_at IS NULL")
    found = db.execute(f"SELECT turn_id FROM search_rows WHERE {where}", where.values)
    live = [unpack_id(turn_id) for (turn_id,) in found]
    # Before any row goes: the highest number may be among those that do.
    first = max(index_head(db, user_id) + 1, milliseconds(now))
    stubs = drop_rows(db, user_id, live)
    db.execute("UPDATE vector_fills SET pending = 1, marks = marks + 1 WHERE user_id = ?", [user_id])
    db.executemany(
        f"INSERT INTO search_rows ({ROW_COLUMNS})"
        " VALUES (?, ?, ?, ?, 'user', ?, NULL, NULL, NULL, 0, '[]', x'', 0, '', 0, '', '', ?, ?)",
        [
            (pack_id(turn_id), user_id, thread_id, seq, milliseconds(now), index_seq, milliseconds(now))
            for index_seq, (turn_id, thread_id, seq) in enumerate(stubs, start=first)
        ],
    )
    return len(stubs)


def _term_candidates(
    db: sqlite3.Connection, scope: Scope, terms: Sequence[str], limit: int
) -> TermCandidates:
    user_id = scope.user_id
    rows = scalar(
        db,
        "SELECT (SELECT count(*) FROM search_rows WHERE user_id = ?1)"
        " - (SELECT count(*) FROM search_rows WHERE user_id = ?1 AND erased_at IS NOT NULL)",
        [user_id],
    )
    mean_length = scalar(
        db,
        "SELECT avg(length) FROM (SELECT length FROM search_rows WHERE user_id = ? AND erased_at IS NULL"
        " ORDER BY index_seq DESC LIMIT ?)",
        [user_id, _SAMPLED_ROWS],
    )
    frequency: dict[str, int] = {}
    turn_ids: set[str] = set()
    for term in dict.fromkeys(terms):
        frequency[term] = scalar(
            db, "SELECT count(*) FROM row_terms WHERE user_id = ? AND term = ?", [user_id, term]
        )
        where = in_scope(scope).equal(term=term)
        newest = f"SELECT turn_id FROM row_terms WHERE {where} ORDER BY turn_id DESC LIMIT ?"
        turn_ids.update(turn_id for (turn_id,) in db.execute(newest, [*where.values, limit]))
    return TermCandidates(
        rows=rows, mean_length=mean_length or 0.0, frequency=frequency, turn_ids=tuple(sorted(turn_ids))
    )


# --- entities ------------------------------------------------------------------------------------------------
def _entity_counts(db: sqlite3.Connection, scope: Scope) -> list[EntityCount]:
    where = Where("terms.user_id = ?", scope.user_id).equal(**{"terms.thread_id": scope.thread_id})
    found = db.execute(
        # Not the other way round, which would read all of the user's rows.
        f"SELECT term, count(*), min({_MENTION}), max({_MENTION}) FROM row_terms AS terms"
        " CROSS JOIN search_rows AS rows ON rows.turn_id = pack_id(terms.turn_id)"
        f" WHERE {where} AND term >= '@' AND term < 'A' GROUP BY term",
        where.values,
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
    where = Where().among("turn_id", together, each="pack_id(value)")
    rows = db.execute(f"SELECT turn_id, terms FROM search_rows WHERE {where}", where.values)
    return {
        term: place
        for turn_id, terms in rows
        for place, term in enumerate(unpack_terms(terms))
        if turns.get(term) == unpack_id(turn_id)
    }
