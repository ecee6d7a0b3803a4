"""Errors of sqlite3, translated into ours in one place.

Temporary are a locked or busy file, a full disk and failing reads or writes of the file system.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from memory_agent.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNAVAILABLE_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_DAMAGED_CODES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
OF_A_MEMORY: Final = (
    "Restore a backup (`memory-agent restore FILE --data-dir OTHER`), or save what is readable of it:"
    " `memory-agent doctor --save-to FILE`"
)
PRIMARY_CODE: Final = 0xFF  # the low byte of an extended result code (https://www.sqlite.org/rescode.html)


@contextmanager
def driver_errors(path: str, remedy: str = OF_A_MEMORY) -> Iterator[None]:
    """Only our errors come out of what runs inside. `remedy`: what to do about a damaged file."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, OverflowError) as exc:
        raise translated(exc, path, remedy) from exc


def translated(exc: Exception, path: str, remedy: str = OF_A_MEMORY) -> StoreUnavailable | StoreError:
    """Our error for one of the driver's; it names the file."""
    code = getattr(exc, "sqlite_errorcode", None)
    if code is not None and code & PRIMARY_CODE in _UNAVAILABLE_CODES:
        return StoreUnavailable(f"{path} is unavailable for now ({exc.sqlite_errorname}): {exc}")  # type: ignore[attr-defined]
    if code is not None and code & PRIMARY_CODE in _DAMAGED_CODES:
        return StoreError(
            f"{path} is damaged, or no file of SQLite's ({exc}). Nothing in it was changed. {remedy}"
        )
    return StoreError(f"{path}: SQLite refused an operation ({type(exc).__name__}): {exc}")
