"""What is particular to the SQLite adapter: its errors, its durability settings, its file."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.stores.sqlite.errors import driver_errors, translated
from memory_agent.stores.sqlite.schema import VERSION
from tests.conformance.stores import a_call, a_scope, an_erasure, stored

if TYPE_CHECKING:
    from pathlib import Path

ERRORS = {
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
}


def test_every_error_of_the_driver_is_known() -> None:
    """A new exception class of sqlite3 makes this test ask what to do with it."""
    names = {
        name
        for name, value in vars(sqlite3).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert names == ERRORS


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_every_error_of_the_driver_is_translated(name: str) -> None:
    """Each comes out as one of ours that names the file, with the driver's as its cause."""
    error = getattr(sqlite3, name)("x")
    with pytest.raises(StoreError, match=r"memory\.db") as caught, driver_errors("memory.db"):
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, StoreUnavailable),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreUnavailable),
        (sqlite3.SQLITE_LOCKED, StoreUnavailable),
        (sqlite3.SQLITE_FULL, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreUnavailable),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailable),
        (sqlite3.SQLITE_CORRUPT, StoreError),
        (sqlite3.SQLITE_NOTADB, StoreError),
        (sqlite3.SQLITE_READONLY, StoreError),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, StoreError),
    ],
)
def test_result_codes_decide(code: int, expected: type[Exception]) -> None:
    """An error is temporary if its result code, extended or not, says so."""
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_X"
    assert type(translated(error, "memory.db")) is expected


async def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """A file that a later version wrote is left alone, with words that say what to do."""
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match="upgrade memory_agent"):
        await SqliteStore(path).open()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Another kind of file is an error that waiting will not mend, and is not overwritten."""
    path = tmp_path / "memory.db"
    path.write_text("dear diary " * 100)
    with pytest.raises(StoreError):
        await SqliteStore(path).open()
    assert path.read_text().startswith("dear diary")


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    """A file where the folder should be is reported as an outage that names the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"memory\.db"):
        await SqliteStore(tmp_path / "file" / "memory.db").open()


async def test_commits_reach_the_disk(tmp_path: Path) -> None:
    """The writer runs in WAL with synchronous=FULL."""
    store = SqliteStore(tmp_path / "memory.db")
    await store.open()
    assert await store._write(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (2,)
    assert await store._write(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
    await store.close()


async def test_a_write_lock_held_elsewhere_blocks_no_read(tmp_path: Path) -> None:
    """While another process writes, reads go on, the event loop too, and writes fail as an outage in time."""
    store = SqliteStore(tmp_path / "memory.db", timeout_seconds=0.3)
    await store.open()
    [turn] = await stored(store, a_scope(), "before")
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    write = asyncio.create_task(store.append_turns(a_scope(), a_call("blocked")))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    assert await store.list_turns(a_scope()) == [turn]
    assert time.monotonic() - started < 0.2
    with pytest.raises(StoreUnavailable):
        await write
    other.execute("ROLLBACK")
    other.close()
    await stored(store, a_scope(), "after")
    await store.close()


async def test_what_was_forgotten_is_not_left_in_the_file(tmp_path: Path) -> None:
    """After forgetting and closing, the erased words are nowhere in the file."""
    path = tmp_path / "memory.db"
    store = SqliteStore(path)
    await store.open()
    await stored(store, a_scope(), "the launch code is 4711", "harmless")
    await store.erase_turns(an_erasure(a_scope()), now=an_erasure(a_scope()).due_at, limit=10)
    await store.close()
    assert b"4711" not in path.read_bytes()


def open_once(path: str) -> bool:
    """In a process of its own: open a new file, write, close."""

    async def run() -> bool:
        store = SqliteStore(path)
        await store.open()
        await stored(store, a_scope(), "hello")
        await store.close()
        return True

    return asyncio.run(run())


async def test_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Several processes that create the same file at the same time all succeed."""
    path = str(tmp_path / "memory.db")
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        assert all(await asyncio.gather(*(loop.run_in_executor(pool, open_once, path) for _ in range(6))))
