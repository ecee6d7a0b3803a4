"""Next vectors in SQLite: a table beside `search_rows` by its numbers, from which a trigger deletes with the row."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from memory_agent.stores.codec import chunks, milliseconds, unpack_id
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, scalar
from memory_agent.stores.sqlite.rows import index_head, put_next, rows_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import NextVectors

_WRITTEN_AT_ONCE: Final = 100
_POINTER: Final = "SELECT embedder FROM vector_pointers WHERE user_id = ?"
_OF_USER: Final = "number IN (SELECT number FROM search_rows WHERE user_id = ?)"


class SqliteMigration(SqliteConnection):
    """The next vectors of a SqliteStore."""

    async def vector_pointer(self, user_id: str) -> str:
        return await self._read(lambda db: scalar(db, _POINTER, [user_id])) or ""

    async def set_vector_pointer(self, user_id: str, embedder: str, *, now: datetime) -> None:
        await self._write(partial(_point, user_id=user_id, embedder=embedder, now=now))

    async def turns_without(self, user_id: str, embedder: str, *, limit: int) -> list[str]:
        where = Where("user_id = ? AND erased_at IS NULL AND embedder <> ?", user_id, embedder)
        where = where.also("next_embedder IS NOT ?", embedder)
        sql = f"SELECT turn_id FROM search_rows LEFT JOIN row_next USING (number) WHERE {where}"
        found = await self._fetch(
            f"{sql} ORDER BY unpack_id(turn_id) LIMIT ?", [*where.values, max(limit, 0)]
        )
        return [unpack_id(turn_id) for (turn_id,) in found]

    async def put_next_vectors(self, user_id: str, vectors: Mapping[str, NextVectors]) -> None:
        for chunk in chunks(list(vectors), _WRITTEN_AT_ONCE):
            await self._write(partial(_put, user_id=user_id, vectors={each: vectors[each] for each in chunk}))

    async def adopt_next_vectors(self, user_id: str, embedder: str) -> int:
        where = Where("user_id = ? AND next_embedder = ?", user_id, embedder)
        sql = f"SELECT number FROM search_rows JOIN row_next USING (number) WHERE {where}"
        numbers = [number for (number,) in await self._fetch(sql, where.values)]
        for chunk in chunks(numbers, _WRITTEN_AT_ONCE):
            await self._write(partial(_adopt, numbers=chunk, embedder=embedder))
        return len(numbers)

    async def drop_next_vectors(self, user_id: str) -> int:
        return await self._execute(f"DELETE FROM row_next WHERE {_OF_USER}", [user_id])


def _point(db: sqlite3.Connection, *, user_id: str, embedder: str, now: datetime) -> None:
    if (scalar(db, _POINTER, [user_id]) or "") == embedder:
        return
    db.execute("DELETE FROM vector_pointers WHERE user_id = ?", [user_id])
    if embedder:
        db.execute("INSERT INTO vector_pointers (user_id, embedder) VALUES (?, ?)", [user_id, embedder])
    newest = scalar(
        db,
        "SELECT number FROM search_rows WHERE user_id = ? AND erased_at IS NULL ORDER BY index_seq DESC LIMIT 1",
        [user_id],
    )
    index_seq = max(index_head(db, user_id) + 1, milliseconds(now))
    db.execute("UPDATE search_rows SET index_seq = ? WHERE number = ?", [index_seq, newest])


def _put(db: sqlite3.Connection, *, user_id: str, vectors: Mapping[str, NextVectors]) -> None:
    where = rows_of(user_id, list(vectors)).also("erased_at IS NULL")
    found = db.execute(f"SELECT number, turn_id FROM search_rows WHERE {where}", where.values).fetchall()
    for number, turn_id in found:
        put_next(db, number, vectors[unpack_id(turn_id)])


def _adopt(db: sqlite3.Connection, *, numbers: Sequence[int], embedder: str) -> None:
    # In one transaction, in which a row may have been replaced since its number was read.
    for number in numbers:
        found = db.execute(
            "SELECT next_vectors, next_passages, next_tokens FROM row_next WHERE number = ? AND next_embedder = ?",
            [number, embedder],
        ).fetchone()
        if found is None:
            continue
        vectors, passages, tokens = found
        db.execute(
            "UPDATE search_rows SET vectors = ?, passages = ?, embedder = ? WHERE number = ?",
            [vectors, passages, embedder, number],
        )
        db.execute("DELETE FROM row_tokens WHERE number = ?", [number])
        if tokens:
            db.execute("INSERT INTO row_tokens (number, tokens) VALUES (?, ?)", [number, tokens])
        db.execute("DELETE FROM row_next WHERE number = ?", [number])
