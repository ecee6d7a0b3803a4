"""The mark beside a SQLite file: which store it is and how far it went, so that a lost, emptied or shortened file is noticed.

It is written after each commit, and not flushed: a process that is killed leaves it as far as the commit, and after a power cut it may be behind
the file, which is on disk first. So it never is ahead of a file that is whole.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from memory_agent.errors import StoreError

log = logging.getLogger(__name__)

_BYTES: Final = 256
_LAST: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
_STORE: Final = "SELECT json_extract(value, '$.id') FROM meta WHERE name = 'store'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The store's id, the number of its last event, and when that was marked, in seconds since 1970."""

    store: str
    last: int
    at: float


def mark_of(path: str) -> Path:
    """Where the mark of a file is kept."""
    return Path(f"{path}.mark")


def read_mark(path: str) -> Mark | None:
    """The mark beside the file; None without one that can be read."""
    try:
        return Mark(**json.loads(mark_of(path).read_text(encoding="ascii")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as exc:
        log.warning(
            "%s is damaged (%s), so that nobody can tell whether %s has lost something; it is written anew",
            mark_of(path),
            type(exc).__name__,
            Path(path).name,
        )
        return None


def check_file(path: str) -> None:
    """Raise StoreError if there is a mark, and the file is missing or empty. Before SQLite makes a new one."""
    mark, file = read_mark(path), Path(path)
    if mark is None:
        return
    if not file.exists():
        raise _lost(path, mark, "is missing")
    if not file.stat().st_size:
        raise _lost(path, mark, "is empty")


def check_mark(connection: sqlite3.Connection, path: str) -> None:
    """Raise StoreError if the file is another store than the mark says, or has lost its last commits."""
    mark = read_mark(path)
    if mark is None:
        return
    store, last = state_of(connection)
    if store is not None and store != mark.store:
        raise _lost(path, mark, "is another memory's")
    if last < mark.last:
        raise _lost(
            path,
            mark,
            f"has lost its last {mark.last - last:,} changes, with its log ({Path(path).name}-wal) perhaps",
        )


def state_of(connection: sqlite3.Connection) -> tuple[str | None, int]:
    """The store's id and the number of its last event."""
    store, last = _one(connection, _STORE), _one(connection, _LAST)
    return store, last or 0


def _one(connection: sqlite3.Connection, sql: str) -> Any:
    try:
        found = connection.execute(sql).fetchone()
    except sqlite3.OperationalError:  # the table isn't there: the file is new, or of version 0.1.0
        return None
    return found[0] if found else None


class Marker:
    """Writes the mark of one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None
        self._store = ""
        self._last = -1

    def put(self, connection: sqlite3.Connection) -> None:
        """Mark how far the file is, if that has changed. An OSError changes nothing: then the mark stays behind."""
        found = connection.execute(_LAST).fetchone()
        last = 0 if found is None else found[0]
        if last == self._last:
            return
        try:
            if self._handle is None:
                self._store = connection.execute(_STORE).fetchone()[0]
                self._handle = os.open(mark_of(self._path), os.O_CREAT | os.O_RDWR, 0o600)
                os.ftruncate(self._handle, _BYTES)  # of a damaged one more may be there
            mark = json.dumps(asdict(Mark(store=self._store, last=last, at=time.time())))
            os.pwrite(self._handle, mark.ljust(_BYTES).encode("ascii"), 0)
        except OSError:
            return
        self._last = last

    def close(self) -> None:
        """Let the file go."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            self._last = -1


def _lost(path: str, mark: Mark, what: str) -> StoreError:
    at = datetime.fromtimestamp(mark.at, UTC)
    return StoreError(
        f"{path} {what}: at {at:%Y-%m-%d %H:%M:%S} UTC it was a memory that others had been told of ({mark_of(path).name} says"
        f" so). Nothing was written. Put the file back, or restore a backup into another folder; to go on with what is there now, delete {mark_of(path)}"
    )
