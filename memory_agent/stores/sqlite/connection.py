"""One SQLite file, off the event loop, and the mark beside it by which a lost or shortened file shows.

It is written after each commit, and not flushed: a process that is killed leaves it as far as the commit, and after a power cut it may be behind
the file, which is on disk first. So it never is ahead of a file that is whole.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from memory_agent.errors import NotOpen, StoreError, StoreUnavailable
from memory_agent.stores.codec import pack_id, unpack_id
from memory_agent.stores.sqlite.schema import create_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memory_agent.stores.codec import Fields, Record


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
        f"{path} {what}: at {at:%Y-%m-%d %H:%M:%S} UTC a memory existed here ({mark_of(path).name} says"
        f" so). Nothing was written. Put the file back, or restore a backup into another folder; to go on with what is there now, delete {mark_of(path)}"
    )


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


_V = TypeVar("_V")
_R = TypeVar("_R")
_CACHED_STATEMENTS: Final = 256
_PAGE_CACHE_KIB: Final = 16_384
_WAL_PAUSE_SECONDS: Final = 0.005
_SHORT_LOG_PAGES: Final = 64
_SHORT_LOG_BYTES: Final = 4_096 * _SHORT_LOG_PAGES


class _Lane:
    """A connection and the one thread that uses it."""

    def __init__(self, name: str) -> None:
        self.executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"memory-agent-sqlite-{name}")
        self.connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[], _R]) -> _R:
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class SqliteConnection:
    """The base of a SqliteStore's parts. Reads have a lane of their own, so none waits for a write's fsync."""

    _remedy: ClassVar = OF_A_MEMORY
    """What to do about a damaged file."""

    def __init__(self, path: str | Path, *, timeout_seconds: float = 10.0) -> None:
        self._path = str(path)
        self._timeout_seconds = timeout_seconds
        self._writer: _Lane | None = None
        self._reader: _Lane | None = None
        self._opening = asyncio.Lock()
        self._marker = Marker(self._path)
        self._files: list[tuple[int, int] | None] = []
        """Device and number of the file and of its log, by which they are known from others of the same name."""

    async def open(self) -> None:
        async with self._opening:
            if self._reader is not None:
                return
            writer, reader = _Lane("write"), _Lane("read")
            try:
                await writer.run(lambda: self._connect(writer, create=True))
                await reader.run(lambda: self._connect(reader, create=False))
            except BaseException:
                await _close(writer, reader)
                self._marker.close()
                raise
            self._files = self._found_files()
            self._writer, self._reader = writer, reader

    async def close(self) -> None:
        async with self._opening:
            lanes = [lane for lane in (self._reader, self._writer) if lane is not None]
            self._reader = self._writer = None
            await _close(*lanes)
            self._marker.close()

    def _connect(self, lane: _Lane, *, create: bool) -> None:
        with driver_errors(self._path, self._remedy):
            if create:
                self._before_opening()
                self._make_place()
            connection = lane.connection = sqlite3.connect(
                self._path,
                timeout=self._timeout_seconds,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_CACHED_STATEMENTS,
            )
            self._enter_wal(connection)
            # FULL: a commit is on disk when it returns; WAL's usual NORMAL would lose the last ones in a power cut.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
            connection.execute("PRAGMA secure_delete = ON")
            connection.create_function("pack_id", 1, pack_id, deterministic=True)
            connection.create_function("unpack_id", 1, unpack_id, deterministic=True)
            if create:
                with _transaction(connection, "IMMEDIATE"):
                    self._create_schema(connection)
                self._committed(connection)
            else:
                connection.execute("PRAGMA query_only = ON")

    def _enter_wal(self, connection: sqlite3.Connection) -> None:
        """Switch the file to its write-ahead log. While another does so SQLite refuses at once, without waiting."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as exc:
                busy = exc.sqlite_errorcode & PRIMARY_CODE == sqlite3.SQLITE_BUSY  # of whichever kind
                if not busy or time.monotonic() >= deadline:
                    raise
                time.sleep(_WAL_PAUSE_SECONDS)
            else:
                return

    def _create_schema(self, connection: sqlite3.Connection) -> None:
        check_mark(connection, self._path)
        create_schema(connection, self._path)

    def _before_opening(self) -> None:
        """Raise StoreError where SQLite must not make a new file."""
        check_file(self._path)

    def _committed(self, connection: sqlite3.Connection) -> None:
        """A write has been committed."""
        self._marker.put(connection)

    def _found_files(self) -> list[tuple[int, int] | None]:
        return [_identity(self._path), _identity(f"{self._path}-wal")]

    def _check_place(self) -> None:
        """Raise StoreUnavailable once the file or its log is gone or another: what is written would be lost."""
        if self._files != self._found_files():
            raise StoreUnavailable(
                f"{self._path} is not where it was: it or its log ({Path(self._path).name}-wal) was removed, moved or"
                " replaced while in use. Nothing is stored until it is back; else end this process, restore a backup, and"
                " start again"
            )

    def _make_place(self) -> None:
        """Make the folder and the file, both the owner's alone; SQLite gives its log the file's mode.

        So are those become that everybody could read, as earlier versions made them; who lets a group read has chosen that.
        """
        folder = Path(self._path).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise StoreUnavailable(f"the folder of {self._path} cannot be made: {exc}") from exc
        with suppress(
            OSError, RuntimeError
        ):  # somebody else's, or on a disk without modes: SQLite says what it can't do
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            places = [Path(f"{self._path}{end}") for end in ("", "-wal", "-shm")]
            if folder.resolve() not in (Path.cwd(), Path.home()):  # where other things than a memory are
                places.append(folder)
            for path in places:
                if path.exists() and path.stat().st_mode & 0o007:
                    path.chmod(path.stat().st_mode & 0o700)

    async def _write(self, work: Callable[[sqlite3.Connection], _R]) -> _R:
        """Run `work` in a transaction that takes the file's write lock at once."""
        return await self._run(self._writer, "IMMEDIATE", work)

    async def _execute(self, sql: str, parameters: Sequence[Any]) -> int:
        """One write; how many rows it changed.

        The count, not the cursor: freed in another thread, that one would reset the statement while it runs there again.
        """
        return await self._write(lambda db: db.execute(sql, parameters).rowcount)

    async def _vacuum(self) -> None:
        """Write the file anew, and empty its log.

        `secure_delete` leaves bytes in the gaps of pages, and nothing else ever shortens the log.
        """

        def vacuum(db: sqlite3.Connection) -> None:
            db.execute("VACUUM")
            deadline = time.monotonic() + self._timeout_seconds
            while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(f"the log of {self._path} is being read; it is emptied later")
                time.sleep(_WAL_PAUSE_SECONDS)

        await self._run(self._writer, None, vacuum)

    async def _read(self, work: Callable[[sqlite3.Connection], _R]) -> _R:
        """Run `work` on one snapshot of the file."""
        return await self._run(self._reader, "DEFERRED", work)

    async def _fetch(self, sql: str, parameters: Sequence[Any]) -> list[Record]:
        """All rows of one statement."""
        return await self._read(lambda db: db.execute(sql, parameters).fetchall())

    async def _select(self, fields: Fields[_V], rest: str, parameters: Sequence[Any]) -> list[_V]:
        """The values of those fields in all rows of `SELECT … {rest}`."""
        sql = f"SELECT {fields.columns} {rest}"
        # In the lane's thread: thousands of topics take so long to be made that nobody on the event loop should wait for them.
        return await self._read(lambda db: list(map(fields.read, db.execute(sql, parameters).fetchall())))

    async def _run(
        self, lane: _Lane | None, mode: str | None, work: Callable[[sqlite3.Connection], _R]
    ) -> _R:
        if lane is None:
            raise NotOpen(f"the {type(self).__name__} is not open; call open() first")

        def in_transaction() -> _R:
            if lane.connection is None:
                raise NotOpen(f"the {type(self).__name__} was closed")
            with driver_errors(self._path, self._remedy), _folding_when_full(lane.connection):
                if mode is None:
                    return work(lane.connection)
                with _transaction(lane.connection, mode):
                    result = work(lane.connection)
                    if mode == "IMMEDIATE":
                        self._check_place()
                if mode == "IMMEDIATE":
                    self._committed(lane.connection)
                return result

        return await lane.run(in_transaction)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _folding_when_full(connection: sqlite3.Connection) -> Iterator[None]:
    """Where the disk got full, fold the log into the file as far as it goes, and early from now on.

    SQLite folds after a commit that made the log 4 MB long, and keeps a log as long as it ever was. On a disk that has no room for that,
    no commit would ever come, or the file could not grow beside a log that is hardly used.
    """
    try:
        yield
    except sqlite3.OperationalError as exc:
        if getattr(exc, "sqlite_errorcode", 0) & PRIMARY_CODE == sqlite3.SQLITE_FULL:
            with suppress(sqlite3.Error):
                connection.execute(f"PRAGMA wal_autocheckpoint = {_SHORT_LOG_PAGES}")
                connection.execute(f"PRAGMA journal_size_limit = {_SHORT_LOG_BYTES}")
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        raise


@contextmanager
def _transaction(connection: sqlite3.Connection, mode: str) -> Iterator[None]:
    connection.execute(f"BEGIN {mode}")
    try:
        yield
    except BaseException:
        # Some errors (a full disk) have rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    try:
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


async def _close(*lanes: _Lane) -> None:
    """Finish what is in hand; the writer goes last, since the last one to leave folds the log into the file."""
    for lane in lanes:
        await lane.run(lane.close)
        lane.executor.shutdown(wait=False)
