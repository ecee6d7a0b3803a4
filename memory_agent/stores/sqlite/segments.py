"""Texts of compressed turns in SQLite: packed outside the write lock, then put in place where nothing changed since.

Brotli needs a second for a megabyte. So what is packed is checked again in the transaction that stores it; if a
turn was forgotten or packed meanwhile, the caller packs anew. A turn's text never changes, so equal ids are equal
texts.
"""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import StoreError
from memory_agent.stores.codec import dump_json
from memory_agent.stores.segments import unpack_texts
from memory_agent.stores.sqlite.records import scalar, turn, where_turns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Container, Iterable, Iterator, Sequence

    from memory_agent.domain import Scope, Turn
    from memory_agent.stores.segments import Packed
    from memory_agent.stores.sqlite.records import Record

Remainders = dict[tuple[str, ...], "Packed"]
"""Packed texts of the turns with these ids, in their order."""

_CONTENT: Final = 5
_SEGMENT: Final = 17
"""Places in TURN_COLUMNS."""


def read_turns(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[Turn]:
    """The turns that a statement on TURN_COLUMNS finds, each with its text wherever that is kept."""
    return with_texts(db, db.execute(sql, parameters).fetchall())


def with_texts(db: sqlite3.Connection, records: Sequence[Record]) -> list[Turn]:
    """The turns in rows that begin with TURN_COLUMNS; one query for all texts that are in segments."""
    packed = {record[0] for record in records if record[_SEGMENT] is not None}
    if not packed:
        return [turn(record, record[_CONTENT]) for record in records]
    texts = _texts(db, {record[_SEGMENT] for record in records} - {None}, packed)
    try:
        return [
            turn(record, record[_CONTENT] if record[_SEGMENT] is None else texts[record[0]])
            for record in records
        ]
    except KeyError as exc:
        raise StoreError(f"turn {exc} is compressed, but its segment does not hold its text") from exc


def _texts(db: sqlite3.Connection, segment_ids: Iterable[int], wanted: Container[str]) -> dict[str, str]:
    return {
        turn_id: text
        for texts in _segments(db, segment_ids)
        for turn_id, text in texts.items()
        if turn_id in wanted
    }


def _segments(db: sqlite3.Connection, segment_ids: Iterable[int]) -> Iterator[dict[str, str]]:
    """Each segment's texts by turn id, one segment after the other: unpacked, they may be large."""
    found = db.execute(
        "SELECT turn_ids, codec, data FROM segments WHERE id IN (SELECT value FROM json_each(?))",
        [dump_json(list(segment_ids))],
    )
    for turn_ids, codec, data in found:
        ids, texts = json.loads(turn_ids), unpack_texts(codec, data)
        if len(ids) != len(texts):
            raise StoreError(
                f"a segment of {len(ids)} turns holds {len(texts)} texts; the first is of turn {ids[0]}"
            )
        yield dict(zip(ids, texts, strict=True))


def plain_sizes(db: sqlite3.Connection, scope: Scope, turn_ids: Sequence[str]) -> list[tuple[str, int]]:
    """Those of the turns that are not compressed, by `seq`, with the UTF-8 bytes of their texts."""
    sql, parameters = _plain(scope, turn_ids)
    return db.execute(f"SELECT id, length(CAST(content AS BLOB)) {sql}", parameters).fetchall()


def plain_texts(db: sqlite3.Connection, scope: Scope, turn_ids: Sequence[str]) -> dict[str, str]:
    """The texts of those of the turns that are not compressed, by `seq`."""
    sql, parameters = _plain(scope, turn_ids)
    return dict(db.execute(f"SELECT id, content {sql}", parameters).fetchall())


def _plain(scope: Scope, turn_ids: Sequence[str]) -> tuple[str, list[Any]]:
    where, parameters = where_turns(scope, turn_ids)
    return f"FROM turns WHERE {where} AND segment_id IS NULL ORDER BY seq", parameters


def put_segment(
    db: sqlite3.Connection, scope: Scope, topic_id: str, turn_ids: Sequence[str], packed: Packed
) -> bool:
    """Move the texts of these turns into a segment; False if some are forgotten or compressed by now."""
    where, parameters = where_turns(scope, turn_ids)
    plain = scalar(db, f"SELECT count(*) FROM turns WHERE {where} AND segment_id IS NULL", parameters)
    if plain < len(turn_ids):
        return False
    segment_id = db.execute(
        "INSERT INTO segments (user_id, thread_id, topic_id, raw_bytes, codec, turn_ids, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            scope.user_id,
            scope.thread_id,
            topic_id,
            packed.raw_bytes,
            packed.codec,
            dump_json(turn_ids),
            packed.data,
        ],
    ).lastrowid
    db.execute(f"UPDATE turns SET segment_id = ?, content = '' WHERE {where}", [segment_id, *parameters])
    return True


def remaining_texts(db: sqlite3.Connection, segment_id: int, without: Container[str]) -> dict[str, str]:
    """What the segment holds but for these turns, by turn id; nothing if it is gone."""
    return {
        turn_id: text
        for texts in _segments(db, [segment_id])
        for turn_id, text in texts.items()
        if turn_id not in without
    }


def take_out(
    db: sqlite3.Connection, segment_ids: Iterable[int], turn_ids: Container[str], remainders: Remainders
) -> bool:
    """Take the texts of these turns out of their segments; False, and nothing done, if a remainder is missing."""
    found = db.execute(
        "SELECT id, turn_ids FROM segments WHERE id IN (SELECT value FROM json_each(?))",
        [dump_json(list(segment_ids))],
    ).fetchall()
    left = {
        segment_id: tuple(turn_id for turn_id in json.loads(held) if turn_id not in turn_ids)
        for segment_id, held in found
    }
    if any(kept and kept not in remainders for kept in left.values()):
        return False
    db.executemany(
        "DELETE FROM segments WHERE id = ?", [(segment,) for segment, kept in left.items() if not kept]
    )
    db.executemany(
        "UPDATE segments SET raw_bytes = ?, codec = ?, turn_ids = ?, data = ? WHERE id = ?",
        [
            (packed.raw_bytes, packed.codec, dump_json(kept), packed.data, segment_id)
            for segment_id, kept in left.items()
            if kept
            for packed in [remainders[kept]]
        ],
    )
    return True
