"""Turns read from a damaged SQLite file, as far as they can be had."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import CopiedTurn
from memory_agent.errors import StoreError
from memory_agent.stores.fields import DRAFT, TURN
from memory_agent.stores.segments import unpack_texts
from memory_agent.stores.sqlite.pages import Pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory_agent.stores.sqlite.pages import Place

_TURN: Final = ("number", *(DRAFT.kinds | TURN.kinds), "segment_at")
_SEGMENT: Final = ("id", "user_id", "thread_id", "topic_id", "live", "raw_bytes", "codec", "data")
_OWED: Final = ("index", "topics", "facts", "compact", "compress")
_UNPACKED_SEGMENTS: Final = 4


class DamagedStore:
    """The turns in a damaged SQLite file, which is only read. `lost`: how many were found whose text is gone."""

    def __init__(self, file: Path) -> None:
        self._pages = Pages(file)
        self.lost = 0
        self._segments: dict[int, Place] = {}
        for place, (_, _, _, _, _, _, codec, data) in self._pages.rows(len(_SEGMENT)):
            if isinstance(data, bytes) and isinstance(codec, int):
                number, _ = self._pages.row(place, len(_SEGMENT))
                self._segments[number] = place
        self._texts = functools.lru_cache(maxsize=_UNPACKED_SEGMENTS)(self._unpacked)

    def close(self) -> None:
        """Let the files go."""
        self._pages.close()

    def turns(self) -> Iterator[CopiedTurn]:
        """Those that can be read, each once, thread by thread in their order, as if all were owed to them."""
        found: dict[tuple[str, str, int], Place] = {}
        for place, values in self._pages.rows(len(_TURN)):
            row = dict(zip(_TURN, values, strict=True))
            where = (row["user_id"], row["thread_id"], row["seq"])
            if all(map(isinstance, where, (str, str, int))):
                found[where] = place
        seen: set[str] = set()
        for where in sorted(found):
            _, values = self._pages.row(found[where], len(_TURN))
            copied = self._copied(dict(zip(_TURN, values, strict=True)))
            if copied is None:
                self.lost += 1
            elif copied.turn.id not in seen:
                seen.add(copied.turn.id)
                yield copied

    def _copied(self, row: dict[str, Any]) -> CopiedTurn | None:
        try:
            if row["segment_id"] is not None:
                row["content"] = self._texts(row["segment_id"])[row["segment_at"]]
            fields = TURN.of_record([row[name] for name in TURN.kinds])
            if fields["importance"] is not None:
                fields["importance"] = float(fields["importance"])  # a whole one is kept as such
            # All is made anew of it, so it owes everything; of sessions nothing is saved.
            anew = {"topic_id": None, "session_id": None, "parked": False, "attempts": 0, "last_error": None}
            turn = TURN.of(**{**fields, **anew, "segment_id": None, "pending": _OWED, "due_at": None})
        except (StoreError, ValueError, TypeError, KeyError, IndexError, OverflowError):
            return None
        call = {name: row[name] for name in ("idempotency_key", "call_index", "call_size")}
        return CopiedTurn(turn=turn, **call)

    def _unpacked(self, segment_id: int) -> list[str]:
        _, (*_, codec, data) = self._pages.row(self._segments[segment_id], len(_SEGMENT))
        return unpack_texts(codec, data)
