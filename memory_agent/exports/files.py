"""Files of exports: a first line that says what follows, the records, and a last line with their number and checksum.

Packed by gzip or not; a reader sees which. A file is written under another name, and gets its own once it is whole and on disk.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import zlib
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Final

from memory_agent.errors import ConfigError, InvalidInput
from memory_agent.exports.records import read_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory_agent.domain import ErasureReceipt
    from memory_agent.exports.records import Record

VERSION: Final = 1
_GZIP: Final = b"\x1f\x8b"
_LONGEST_LINE: Final = 64_000_000
"""Longer than a turn of a million characters with all that a record may have besides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """Header of an export: of whom it is. `tenant`, `user_id`, `thread_id`: only theirs; None: everybody's."""

    content: str
    """"export" (what users' threads hold) or "backup" (besides, what the memory as a whole needs to go on)."""
    started_at: str
    """ISO 8601, UTC: what was forgotten after it may be in the export."""
    vectors: bool
    tenant: str | None = None
    user_id: str | None = None
    thread_id: str | None = None
    version: int = VERSION

    @property
    def started(self) -> datetime:
        """`started_at` as a time."""
        return datetime.fromisoformat(self.started_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """An export that was written: how many records of each kind, and the SHA-256 of its lines."""

    records: dict[str, int]
    sha256: str


class ExportWriter:
    """Writes an export to a stream of bytes."""

    def __init__(self, stream: IO[bytes], header: Header) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self._counts: dict[str, int] = {}
        self._put(json.dumps({"memory_agent": asdict(header)}, ensure_ascii=False))

    def put(self, record: Record) -> None:
        """Write a record."""
        self._counts[record.kind] = self._counts.get(record.kind, 0) + 1
        self._put(record.line())

    def end(self) -> Written:
        """Write the last line."""
        written = Written(records=self._counts, sha256=self._hash.hexdigest())
        self._stream.write(f"{json.dumps({'end': asdict(written)})}\n".encode())
        return written

    def _put(self, line: str) -> None:
        data = f"{line}\n".encode()
        self._hash.update(data)
        self._stream.write(data)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A stream into a file that is there once the block ends without an error, whole and on disk; packed if its name ends in .gz.

    For its owner's eyes alone. Raises ConfigError where it cannot be written, or is there already.
    """
    check_new(path)
    half = path.with_name(f"{path.name}.part")
    try:
        half.unlink(missing_ok=True)
        raw = os.fdopen(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc}") from exc
    try:
        with raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                    yield packed  # type: ignore[misc]  # a stream of bytes
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        half.replace(path)
    except OSError as exc:
        half.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {exc}") from exc
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def check_new(path: Path) -> None:
    """Raises ConfigError for a file that is there already, or whose folder takes none."""
    if path.exists():
        raise ConfigError(f"{path} is there already; name another file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{path} cannot be written: {path.parent} is no folder that may be written to")


class ExportFile:
    """An export to read, as often as one likes. `check` comes first; then `receipts` and `secret` are those of a backup."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.receipts: list[ErasureReceipt] = []
        self.secret: str | None = None

    def check(self) -> tuple[Header, Written]:
        """Read all of it. Raises InvalidInput, which names the line, for a file that is damaged, cut off or no export."""
        records: dict[str, int] = {}
        header, end = None, None
        digest = hashlib.sha256()
        for number, line in self._lines():
            if end is not None:
                raise self._wrong(number, "it comes after the end")
            if header is None:
                header = self._header(line)
            elif line.startswith(b'{"end"'):
                end = self._end(number, line)
                continue
            else:
                record = self._record(number, line)
                records[record.kind] = records.get(record.kind, 0) + 1
                self._note(record)
            digest.update(line)
        if header is None or end is None:
            raise InvalidInput(
                f"{self.path} is cut off: its last line is missing; nothing of it was taken in"
            )
        found = Written(records=records, sha256=digest.hexdigest())
        if found != end:
            raise InvalidInput(
                f"{self.path} is damaged: its checksum is {found.sha256[:12]}…, and its last line says {end.sha256[:12]}…;"
                " nothing of it was taken in"
            )
        return header, found

    def _note(self, record: Record) -> None:
        if record.kind == "receipt":
            self.receipts.append(record.value)
        elif record.kind == "secret":
            self.secret = record.value.key

    def records(self) -> Iterator[Record]:
        """The records, in their order."""
        for number, line in self._lines():
            if number > 1 and not line.startswith(b'{"end"'):
                yield self._record(number, line)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as raw:
                packed = raw.read(2) == _GZIP
                raw.seek(0)
                stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
                reader = io.BufferedReader(stream) if packed else stream
                number = 0
                while line := reader.readline(_LONGEST_LINE):
                    number += 1
                    yield number, line
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise InvalidInput(
                f"{self.path} is damaged or cut off ({exc}); nothing of it was taken in"
            ) from exc
        except OSError as exc:
            raise InvalidInput(f"{self.path} cannot be read: {exc}") from exc

    def _header(self, line: bytes) -> Header:
        try:
            header = Header(**json.loads(line)["memory_agent"])
            _ = header.started
        except (ValueError, TypeError, KeyError) as exc:
            raise InvalidInput(
                f"{self.path} is no export of memory_agent: its first line says so of none"
            ) from exc
        if header.version > VERSION:
            raise InvalidInput(
                f"{self.path} is of a later memory_agent (version {header.version} of exports, this one knows {VERSION});"
                " upgrade memory_agent"
            )
        return replace(header)

    def _end(self, number: int, line: bytes) -> Written:
        try:
            return Written(**json.loads(line)["end"])
        except (ValueError, TypeError, KeyError) as exc:
            raise self._wrong(number, "it is no last line of an export") from exc

    def _record(self, number: int, line: bytes) -> Record:
        try:
            return read_record(line.decode())
        except (InvalidInput, UnicodeDecodeError) as exc:
            raise self._wrong(number, str(exc)) from exc

    def _wrong(self, number: int, why: str) -> InvalidInput:
        return InvalidInput(f"line {number} of {self.path} is wrong: {why}; nothing of the file was taken in")
