"""Search rows in SQLite, with a table of which rows hold which term."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import TermCandidates
from memory_agent.errors import StoreError
from memory_agent.stores.codec import by_thread, chunks, dump_json, milliseconds, pack_vectors
from memory_agent.stores.fields import ROW, search_row_of
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import among, scalar, where_scope

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Scope, SearchRow
    from memory_agent.stores.sqlite.records import Record

_WRITTEN_AT_ONCE: Final = 100
_READ_AT_ONCE: Final = 2_000
_SAMPLED_ROWS: Final = 200
_INSERT_ROW: Final = f"INSERT INTO search_rows ({ROW.columns}) VALUES ({ROW.marks})"
_ROW_COLUMNS: Final = f"{ROW.columns}, erased_at"


class SqliteRows(SqliteConnection):
    """The search rows of a SqliteStore."""

    async def put_search_rows(self, user_id: str, rows: Sequence[SearchRow], *, now: datetime) -> None:
        for row in rows:
            if row.user_id != user_id:
                raise StoreError(
                    f"the search row of turn {row.turn_id} belongs to another user than {user_id!r}"
                )
        latest = list({row.turn_id: row for row in rows}.values())
        # In small transactions: somebody's turn may be waiting to be acknowledged behind each.
        for chunk in chunks(latest, _WRITTEN_AT_ONCE):
            await self._write(partial(_put, user_id=user_id, rows=chunk, now=now))

    async def search_rows(
        self, user_id: str, *, ids: Sequence[str] | None = None, after: int = 0, limit: int | None = None
    ) -> list[SearchRow]:
        where, parameters = "user_id = ? AND index_seq > ?", [user_id, after]
        if ids is not None:
            condition, values = among("turn_id", ids)
            where, parameters = f"{where} AND {condition}", parameters + values
        sql = f"SELECT {_ROW_COLUMNS} FROM search_rows WHERE {where} ORDER BY index_seq LIMIT ?"
        wanted = -1 if limit is None else max(limit, 0)
        return await self._read(
            lambda db: [_search_row(record) for record in db.execute(sql, [*parameters, wanted])]
        )

    async def index_head(self, user_id: str) -> int:
        return await self._read(lambda db: index_head(db, user_id))

    async def term_candidates(self, scope: Scope, terms: Sequence[str], *, limit: int) -> TermCandidates:
        return await self._read(lambda db: _term_candidates(db, scope, terms, max(limit, 0)))

    async def neighbour_rows(self, user_id: str, places: Sequence[tuple[str, int]]) -> list[SearchRow]:
        rows: list[SearchRow] = []
        for chunk in chunks(sorted(set(places)), _READ_AT_ONCE):
            rows += await self._read(partial(_rows_at, user_id=user_id, threads=by_thread(chunk)))
        return rows


def index_head(db: sqlite3.Connection, user_id: str) -> int:
    """The user's highest index number; 0 without rows."""
    return scalar(db, "SELECT max(index_seq) FROM search_rows WHERE user_id = ?", [user_id]) or 0


def _put(db: sqlite3.Connection, user_id: str, rows: Sequence[SearchRow], now: datetime) -> None:
    first = max(index_head(db, user_id) + 1, milliseconds(now))
    records = [_record(row, index_seq) for index_seq, row in enumerate(rows, start=first)]
    drop_rows(db, user_id, [row.turn_id for row in rows])
    db.executemany(_INSERT_ROW, records)
    # In the order of the table's key, which halves the cost of the many small insertions.
    terms = sorted((user_id, term, row.turn_id, row.thread_id) for row in rows for term in row.terms)
    db.executemany("INSERT INTO row_terms (user_id, term, turn_id, thread_id) VALUES (?, ?, ?, ?)", terms)


def _record(row: SearchRow, index_seq: int) -> Record:
    vectors, passages = pack_vectors(row.vectors)
    terms = dump_json(dict(row.terms))
    return ROW.record(row, vectors=vectors, passages=passages, terms=terms, index_seq=index_seq)


def _search_row(record: Record) -> SearchRow:
    values = ROW.of_record(record)
    return search_row_of(values, json.loads(values["terms"]), erased=record[-1] is not None)


def drop_rows(db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str]) -> list[Record]:
    """Delete the user's rows of these turns with their terms; turn, thread and `seq` of those that weren't stubs."""
    condition, values = among("turn_id", turn_ids)
    parameters: list[Any] = [user_id, *values]
    found = db.execute(
        "SELECT turn_id, thread_id, seq, terms, erased_at FROM search_rows"
        f" WHERE user_id = ? AND {condition} ORDER BY index_seq",
        parameters,
    ).fetchall()
    db.executemany(
        "DELETE FROM row_terms WHERE user_id = ? AND term = ? AND turn_id = ?",
        ((user_id, term, turn_id) for turn_id, _, _, terms, _ in found for term in json.loads(terms)),
    )
    db.execute(f"DELETE FROM search_rows WHERE user_id = ? AND {condition}", parameters)
    return [(turn_id, thread_id, seq) for turn_id, thread_id, seq, _, erased_at in found if erased_at is None]


def stub_rows(db: sqlite3.Connection, user_id: str, turn_ids: Sequence[str], now: datetime) -> int:
    """Replace the user's rows of these turns by stubs under fresh numbers; how many."""
    condition, values = among("turn_id", turn_ids)
    live = [
        turn_id
        for (turn_id,) in db.execute(
            f"SELECT turn_id FROM search_rows WHERE user_id = ? AND erased_at IS NULL AND {condition}",
            [user_id, *values],
        )
    ]
    # Before any row goes: the highest number may be among those that do.
    first = max(index_head(db, user_id) + 1, milliseconds(now))
    stubs = drop_rows(db, user_id, live)
    db.executemany(
        f"INSERT INTO search_rows ({_ROW_COLUMNS})"
        " VALUES (?, ?, ?, ?, 'user', ?, NULL, NULL, 0, x'', 0, '{}', 0, '', '', ?, ?)",
        [
            (turn_id, user_id, thread_id, seq, milliseconds(now), index_seq, milliseconds(now))
            for index_seq, (turn_id, thread_id, seq) in enumerate(stubs, start=first)
        ],
    )
    return len(stubs)


def _rows_at(db: sqlite3.Connection, user_id: str, threads: Mapping[str, Sequence[int]]) -> list[SearchRow]:
    """The user's rows, but for stubs, at these numbers of these threads."""
    rows: list[SearchRow] = []
    # By name, so that it fails rather than walk through all of a large user's rows.
    for thread_id, numbers in threads.items():
        condition, values = among("seq", numbers)
        sql = (
            f"SELECT {_ROW_COLUMNS} FROM search_rows INDEXED BY search_rows_place"
            f" WHERE user_id = ? AND thread_id = ? AND {condition} AND erased_at IS NULL"
        )
        rows += map(_search_row, db.execute(sql, [user_id, thread_id, *values]))
    return rows


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
    where, parameters = where_scope(scope)
    frequency: dict[str, int] = {}
    turn_ids: set[str] = set()
    for term in dict.fromkeys(terms):
        frequency[term] = scalar(
            db, "SELECT count(*) FROM row_terms WHERE user_id = ? AND term = ?", [user_id, term]
        )
        newest = f"SELECT turn_id FROM row_terms WHERE {where} AND term = ? ORDER BY turn_id DESC LIMIT ?"
        turn_ids.update(turn_id for (turn_id,) in db.execute(newest, [*parameters, term, limit]))
    return TermCandidates(
        rows=rows, mean_length=mean_length or 0.0, frequency=frequency, turn_ids=tuple(sorted(turn_ids))
    )
