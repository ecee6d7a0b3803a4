"""Turns read from a damaged SQLite file, straight from its pages (https://www.sqlite.org/fileformat2.html)."""

from __future__ import annotations

import functools
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import CopiedTurn
from memory_agent.errors import StoreError
from memory_agent.stores.codec import unpack_texts
from memory_agent.stores.fields import DRAFT, TURN
from memory_agent.stores.sqlite.schema import LATER

if TYPE_CHECKING:
    from collections.abc import Iterator


Place = tuple[int, int]
"""Where a row is: number of the page, from 1, and of its cell there."""

_MAGIC: Final = b"SQLite format 3\0"
_DEFAULT_PAGE: Final = 4_096
_HEADER: Final = 100
_LEAF: Final = 0x0D
_LOG_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_LOG_MAGIC: Final = (0x377F0682, 0x377F0683)
_BYTES: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
"""Bytes of a value by its serial type: NULL, whole numbers, a float (7), and 0 and 1 themselves (8, 9)."""
_FLOAT: Final = 7
_BLOB: Final = 12
_KEPT_PAGES: Final = 256
_BAD: Final = (ValueError, IndexError, struct.error)


class Pages:
    """The pages of a SQLite file as last committed, from the file and the log beside it. Both are only read."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("rb")
        header = self._file.read(_HEADER)
        whole = header.startswith(_MAGIC)
        size = int.from_bytes(header[16:18], "big") if whole else _DEFAULT_PAGE
        self.size = 65_536 if size == 1 else size
        if self.size < 512 or self.size & (self.size - 1):
            self.size = _DEFAULT_PAGE
        self._usable = self.size - (header[20] if whole else 0)
        log = Path(f"{file}-wal")
        self._log = log.open("rb") if log.is_file() else None
        self._newer = dict(self._committed())
        self.count = max([file.stat().st_size // self.size, *self._newer])
        self._page = functools.lru_cache(maxsize=_KEPT_PAGES)(self._read)

    def close(self) -> None:
        """Let the files go."""
        self._file.close()
        if self._log is not None:
            self._log.close()

    def rows(self, columns: int, least: int | None = None) -> Iterator[tuple[Place, list[Any]]]:
        """The rows of so many columns that can be read, of whichever table that has row numbers; a row's number is not in it.

        `least`: so many were enough when the first of them were stored; what they lack is None.
        """
        for number in range(1, self.count + 1):
            page, start = self._page(number), _HEADER if number == 1 else 0
            if page[start : start + 1] != bytes([_LEAF]):
                continue
            for cell in range(int.from_bytes(page[start + 3 : start + 5], "big")):
                try:
                    _, values = self.row((number, cell), columns, least)
                except _BAD:
                    continue
                yield (number, cell), values

    def row(self, place: Place, columns: int, least: int | None = None) -> tuple[int, list[Any]]:
        """The number and the values of the row there. Raises ValueError, IndexError or struct.error where there is none of so many columns."""
        number, cell = place
        page, start = self._page(number), _HEADER if number == 1 else 0
        (at,) = struct.unpack_from(">H", page, start + 8 + 2 * cell)
        length, at = _varint(page, at)
        row_number, at = _varint(page, at)
        head, _ = _varint(page, at)
        if not (least or columns) < head <= 9 * columns + 9:
            raise ValueError("a row of another table")
        values = _values(self._payload(page, at, length), least or columns, columns)
        return row_number, values + [None] * (columns - len(values))

    def _payload(self, page: bytes, at: int, length: int) -> bytes:
        """The bytes of a row, of which a long one has the rest on pages of its own."""
        most = self._usable - 35
        if length <= most:
            return page[at : at + length]
        least = (self._usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (self._usable - 4)
        here = here if here <= most else least
        if length > self.count * self.size:
            raise ValueError("longer than the file")
        parts, left = [page[at : at + here]], length - here
        (following,) = struct.unpack_from(">I", page, at + here)
        while left > 0:
            if not 1 < following <= self.count:
                raise ValueError("its rest is lost")
            more = self._page(following)
            (following,) = struct.unpack_from(">I", more)
            part = more[4 : 4 + min(left, self._usable - 4)]
            left -= self._usable - 4
            if not any(part) or (left <= 0 and following):
                raise ValueError("its rest is another page's, or was zeroed")
            parts.append(part)
        return b"".join(parts)

    def _read(self, number: int) -> bytes:
        file, at = self._file, (number - 1) * self.size
        if (place := self._newer.get(number)) is not None and self._log is not None:
            file, at = self._log, place
        file.seek(at)
        return file.read(self.size)

    def _committed(self) -> Iterator[tuple[int, int]]:
        """Page -> where in the log its newest committed state is. A damaged frame is as good as a damaged page."""
        if self._log is None:
            return
        header = self._log.read(_LOG_HEADER)
        if len(header) < _LOG_HEADER or int.from_bytes(header[:4], "big") not in _LOG_MAGIC:
            return
        salts, at, waiting = header[16:24], _LOG_HEADER, {}
        while len(frame := self._log.read(_FRAME_HEADER)) == _FRAME_HEADER and frame[8:16] == salts:
            waiting[int.from_bytes(frame[:4], "big")] = at + _FRAME_HEADER
            at += _FRAME_HEADER + self.size
            self._log.seek(at)
            if int.from_bytes(frame[4:8], "big"):
                yield from waiting.items()
                waiting = {}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where it ends."""
    value = 0
    for step in range(8):
        byte = data[at + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    return value << 8 | data[at + 8], at + 9


def _values(payload: bytes, least: int, most: int) -> list[Any]:
    head, at = _varint(payload, 0)
    kinds = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if not least <= len(kinds) <= most:
        raise ValueError(f"{len(kinds)} columns instead of {most}")
    values: list[Any] = []
    for kind in kinds:
        length = (kind - _BLOB) // 2 if kind >= _BLOB else _BYTES[kind]
        data = payload[at : at + length]
        if len(data) < length:
            raise ValueError("cut off")
        at += length
        values.append(_value(kind, data))
    return values


def _value(kind: int, data: bytes) -> Any:
    if kind >= _BLOB:
        return data.decode() if kind % 2 else data
    if kind == _FLOAT:
        return struct.unpack(">d", data)[0]
    if not kind:
        return None
    return kind - 8 if kind >= 8 else int.from_bytes(data, "big", signed=True)


_TURN: Final = (
    "number",
    *(name for name in DRAFT.kinds | TURN.kinds if name not in LATER),
    "segment_at",
    *LATER,
)
_SEGMENT: Final = ("id", "user_id", "thread_id", "topic_id", "live", "raw_bytes", "codec", "data")
_OWED: Final = ("index", "topics", "compact", "compress", "facts")
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
        for place, values in self._pages.rows(len(_TURN), len(_TURN) - len(LATER)):
            row = dict(zip(_TURN, values, strict=True))
            where = (row["user_id"], row["thread_id"], row["seq"])
            if all(map(isinstance, where, (str, str, int))):
                found[where] = place
        seen: set[str] = set()
        for where in sorted(found):
            _, values = self._pages.row(found[where], len(_TURN), len(_TURN) - len(LATER))
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
