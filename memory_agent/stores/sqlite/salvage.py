"""Reading of a damaged SQLite file: its turns, as far as they can be had."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import CopiedTurn
from memory_agent.errors import MemoryAgentError
from memory_agent.stores.fields import TURN
from memory_agent.stores.segments import unpack_texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_AT_ONCE: Final = 512
_COLUMNS: Final = f"segment_id, segment_at, idempotency_key, call_index, call_size, {TURN.columns}"
_RANGE: Final = f"SELECT {_COLUMNS} FROM turns WHERE number BETWEEN ? AND ? ORDER BY number LIMIT ?"
_CONTENT: Final = list(TURN.kinds).index("content")
_OWED: Final = ("index", "topics", "facts")
_HIGHEST: Final = 2**40


def readable_turns(file: Path) -> Iterator[CopiedTurn]:
    """The turns that can be read, each once, as if all were owed to them; the file is only read."""
    with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as db:
        texts: dict[int, list[str]] = {}
        seen: set[str] = set()
        for record in _records(db):
            with contextlib.suppress(
                sqlite3.Error, MemoryAgentError, ValueError, TypeError, KeyError, IndexError
            ):
                copied = _copied(db, record, texts)
                if copied.turn.id not in seen:
                    seen.add(copied.turn.id)
                    yield copied


def _copied(db: sqlite3.Connection, record: tuple[Any, ...], texts: dict[int, list[str]]) -> CopiedTurn:
    segment_id, at, key, index, size, *stored = record
    if segment_id is not None:
        if segment_id not in texts:
            packed = db.execute("SELECT codec, data FROM segments WHERE id = ?", [segment_id]).fetchone()
            texts[segment_id] = unpack_texts(*packed)
        stored[_CONTENT] = texts[segment_id][at]
    fields = TURN.of_record(stored)
    fields.pop("segment_id")
    # All is made anew of it, so it owes everything; of sessions nothing is saved.
    anew = {"topic_id": None, "session_id": None, "parked": False, "attempts": 0, "last_error": None}
    turn = TURN.of(segment_id=None, **{**fields, **anew, "pending": _OWED})
    return CopiedTurn(turn=turn, idempotency_key=key, call_index=index, call_size=size)


def _records(db: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """The rows of `turns`, range by range of their numbers; of a range that cannot be read, what can be of its halves."""
    try:
        last = db.execute("SELECT max(number) FROM turns").fetchone()[0] or 0
    except sqlite3.Error:
        last = _HIGHEST
    ranges = [(1, min(last, _HIGHEST))] if last else []
    while ranges:
        first, through = ranges.pop()
        try:
            found = db.execute(_RANGE, [first, through, _AT_ONCE + 1]).fetchall()
        except sqlite3.Error:
            if first < through:
                middle = (first + through) // 2
                ranges += [(middle + 1, through), (first, middle)]
            continue
        yield from found[:_AT_ONCE]
        if len(found) > _AT_ONCE:
            number = db.execute("SELECT number FROM turns WHERE id = ?", [found[_AT_ONCE][5]]).fetchone()
            ranges.append((number[0] if number else first + _AT_ONCE, through))
