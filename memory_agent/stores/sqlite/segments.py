"""Texts of compressed turns in SQLite: packed outside the write lock, then put in place where nothing changed since.

Brotli needs a second for a megabyte. So what is packed is checked again in the transaction that stores it; if a
turn was forgotten or packed meanwhile, the caller packs anew. A turn's text never changes, so equal ids are equal
texts.

Which text is whose only the turns say, by its place: a few bytes where ids in the segment would take as many as the
packed text. So places stay when others go, and a text that went is left empty.
"""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import StoreError
from memory_agent.stores.codec import dump_json
from memory_agent.stores.fields import TURN, turn_of
from memory_agent.stores.segments import unpack_texts
from memory_agent.stores.sqlite.records import scalar, where_turns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from memory_agent.domain import Scope, Turn
    from memory_agent.stores.segments import Packed
    from memory_agent.stores.sqlite.records import Record

TURN_COLUMNS: Final = f"segment_id, segment_at, {TURN.columns}"
_PLAIN: Final = (None, None)


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
    found = [((segment_id, at), TURN.of_record(rest)) for segment_id, at, *rest in records]
    places = {place for place, _ in found} - {_PLAIN}
    texts = _texts(db, found[0][1]["user_id"], places) if places else {}
    return [turn_of(values, _text(values, place, texts)) for place, values in found]


def _text(values: Mapping[str, Any], place: Record, texts: Mapping[Record, str]) -> str:
    if place == _PLAIN:
        content: str = values["content"]
        return content
    try:
        return texts[place]
    except KeyError as exc:
        raise StoreError(
            f"turn {values['id']} is compressed, but its segment does not hold its text"
        ) from exc


def _texts(db: sqlite3.Connection, user_id: str, places: Iterable[Record]) -> dict[Record, str]:
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
    return db.execute(
        f"SELECT {columns} FROM segments WHERE +user_id = ? AND id IN (SELECT value FROM json_each(?))",
        [user_id, dump_json(list(segment_ids))],
    )


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
        "INSERT INTO segments (user_id, thread_id, topic_id, live, raw_bytes, codec, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            scope.user_id,
            scope.thread_id,
            topic_id,
            len(turn_ids),
            packed.raw_bytes,
            packed.codec,
            packed.data,
        ],
    ).lastrowid
    db.execute(
        "UPDATE turns SET segment_id = ?, segment_at = texts.key, content = '' FROM json_each(?) AS texts"
        " WHERE turns.id = texts.value AND +user_id = ? AND +thread_id = ?",  # the pluses: as in where_turns
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
