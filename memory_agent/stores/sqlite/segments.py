"""Texts of compressed turns in SQLite: packed outside the write lock, then put in place where nothing changed since.

Brotli needs a second for a megabyte. So what is packed is checked again in the transaction that stores it; if a
turn was forgotten or packed meanwhile, the caller packs anew. A turn's text never changes, so equal ids are equal
texts.

Which text is whose only the turns say, by its place: a few bytes where ids in the segment would take as many as the
packed text. So places stay when others go, and a text that went is left empty.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import StoreError
from memory_agent.stores.codec import dump_json
from memory_agent.stores.fields import TURN
from memory_agent.stores.segments import unpack_texts
from memory_agent.stores.sqlite.records import Where, these_turns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import Scope, Turn
    from memory_agent.stores.codec import Record
    from memory_agent.stores.segments import Packed

TURN_COLUMNS: Final = f"segment_id, segment_at, {TURN.columns}"
_PLAIN: Final = (None, None)
_CONTENT: Final = list(TURN.kinds).index("content")
_USER: Final = 2 + list(TURN.kinds).index("user_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaving:
    """Turns whose texts go out of a segment, each with its place there, and of how many.

    Equal ones leave equal texts: a segment never gets a turn again, so each state of it has another `live`. An id may
    be given to another segment after its own went, but not while one of the turns is there.
    """

    segment_id: int
    live: int
    turns: frozenset[tuple[str, int]]

    @property
    def whole(self) -> bool:
        """True if no turn has its text there any more."""
        return len(self.turns) >= self.live


Remainders = dict[Leaving, "Packed"]
"""What stays of segments, packed."""


def read_turns(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[Turn]:
    """The turns that a statement on TURN_COLUMNS finds, each with its text wherever that is kept."""
    return with_texts(db, db.execute(sql, parameters).fetchall())


def with_texts(db: sqlite3.Connection, records: Sequence[Record]) -> list[Turn]:
    """The turns in rows that begin with TURN_COLUMNS, all of one user; one query for all texts in segments."""
    places = {(record[0], record[1]) for record in records} - {_PLAIN}
    texts = texts_at(db, records[0][_USER], places) if places else {}
    found = []
    for segment_id, at, *stored in records:
        if segment_id is not None:
            if (segment_id, at) not in texts:
                raise StoreError(f"turn {stored[0]} is compressed, but its segment does not hold its text")
            stored[_CONTENT] = texts[segment_id, at]
        found.append(TURN.read(stored))
    return found


def without_text(db: sqlite3.Connection, records: Sequence[Record]) -> list[str]:
    """Of the turns in such rows, the ids of those that are compressed and whose text is lost or damaged."""
    wanted: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for segment_id, at, turn_id, *_ in records:
        if segment_id is not None:
            wanted[segment_id].append((at, turn_id))
    counts: dict[int, int] = {}
    if wanted:
        for segment_id, codec, data in _segments(db, "id, codec, data", records[0][_USER], wanted):
            with suppress(StoreError):
                counts[segment_id] = len(unpack_texts(codec, data))
    return [
        turn_id
        for segment_id, turns in wanted.items()
        for at, turn_id in turns
        if at >= counts.get(segment_id, 0)
    ]


def texts_at(db: sqlite3.Connection, user_id: str, places: Iterable[Record]) -> dict[Record, str]:
    """The texts at these places (segment, place in it), where there are such."""
    wanted: dict[int, list[int]] = defaultdict(list)
    for segment_id, at in places:
        wanted[segment_id].append(at)
    texts: dict[Record, str] = {}
    # One segment after the other: unpacked, they may be large.
    for segment_id, codec, data in _segments(db, "id, codec, data", user_id, wanted):
        unpacked = unpack_texts(codec, data)
        texts |= {(segment_id, at): unpacked[at] for at in wanted[segment_id] if at < len(unpacked)}
    return texts


def _segments(
    db: sqlite3.Connection, columns: str, user_id: str, segment_ids: Iterable[int]
) -> sqlite3.Cursor:
    # The plus leaves the choice to the ids: by the user all of their segments would be looked at.
    where = Where("+user_id = ?", user_id).among("id", list(segment_ids))
    return db.execute(f"SELECT {columns} FROM segments WHERE {where}", where.values)


def plain_sizes(db: sqlite3.Connection, scope: Scope, turn_ids: Sequence[str]) -> list[tuple[str, int]]:
    """Those of the turns that are not compressed, by `seq`, with the UTF-8 bytes of their texts."""
    return _plain(db, "id, length(CAST(content AS BLOB))", scope, turn_ids)


def plain_texts(db: sqlite3.Connection, scope: Scope, turn_ids: Sequence[str]) -> dict[str, str]:
    """The texts of those of the turns that are not compressed, by `seq`."""
    return dict(_plain(db, "id, content", scope, turn_ids))


def _plain(db: sqlite3.Connection, columns: str, scope: Scope, turn_ids: Sequence[str]) -> list[Any]:
    where = these_turns(scope, turn_ids).also("segment_id IS NULL")
    return db.execute(f"SELECT {columns} FROM turns WHERE {where} ORDER BY seq", where.values).fetchall()


def put_segment(
    db: sqlite3.Connection, scope: Scope, topic_id: str, turn_ids: Sequence[str], packed: Packed
) -> bool:
    """Move the texts of these turns into a segment; False if some are forgotten or compressed by now."""
    if len(_plain(db, "id", scope, turn_ids)) < len(turn_ids):
        return False
    place = (scope.user_id, scope.thread_id, topic_id)
    segment_id = db.execute(
        "INSERT INTO segments (user_id, thread_id, topic_id, live, raw_bytes, codec, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [*place, len(turn_ids), packed.raw_bytes, packed.codec, packed.data],
    ).lastrowid
    db.execute(
        "UPDATE turns SET segment_id = ?, segment_at = texts.key, content = '' FROM json_each(?) AS texts"
        " WHERE turns.id = texts.value AND +user_id = ? AND +thread_id = ?",  # the pluses: as in in_scope
        [segment_id, dump_json(turn_ids), scope.user_id, scope.thread_id],
    )
    return True


def leaving(
    db: sqlite3.Connection, user_id: str, places: Iterable[tuple[str, int | None, int | None]]
) -> list[Leaving]:
    """By segment, what goes with these turns (turn, segment, place in it), those that aren't compressed aside."""
    turns: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for turn_id, segment_id, at in places:
        if segment_id is not None and at is not None:
            turns[segment_id].add((turn_id, at))
    return [
        Leaving(segment_id=segment_id, live=live, turns=frozenset(turns[segment_id]))
        for segment_id, live in _segments(db, "id, live", user_id, turns)
    ]


def remaining_texts(db: sqlite3.Connection, user_id: str, gone: Leaving) -> list[str]:
    """The segment's texts, empty where they are to go; nothing if none is left, or if they aren't as they were."""
    if gone.whole:
        return []
    places = {at for _, at in gone.turns}
    return [
        "" if at in places else text
        for live, codec, data in _segments(db, "live, codec, data", user_id, [gone.segment_id])
        if live == gone.live
        for at, text in enumerate(unpack_texts(codec, data))
    ]


def take_out(
    db: sqlite3.Connection, user_id: str, leaving: Sequence[Leaving], remainders: Remainders
) -> bool:
    """Take these texts out of their segments; False, and nothing done, if a remainder is missing."""
    if any(not gone.whole and gone not in remainders for gone in leaving):
        return False
    db.executemany(
        "DELETE FROM segments WHERE user_id = ? AND id = ?",
        [(user_id, gone.segment_id) for gone in leaving if gone.whole],
    )
    db.executemany(
        "UPDATE segments SET live = live - ?, raw_bytes = ?, codec = ?, data = ? WHERE user_id = ? AND id = ?",
        [
            (len(gone.turns), packed.raw_bytes, packed.codec, packed.data, user_id, gone.segment_id)
            for gone in leaving
            if not gone.whole
            for packed in [remainders[gone]]
        ],
    )
    return True
