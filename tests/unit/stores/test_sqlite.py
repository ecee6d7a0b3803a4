"""What is particular to the SQLite adapter: its errors, its durability settings, its file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.segments import pack_texts, unpack_texts
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.stores.sqlite.errors import driver_errors, translated
from memory_agent.stores.sqlite.schema import VERSION
from tests.conformance.stores import NOW, a_call, a_scope, an_erasure, stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memory_agent.stores.segments import Packed

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


async def test_a_file_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """A file that an earlier version wrote is left alone, with words that name the remedies."""
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE turns (id TEXT)")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(StoreError, match=r"memory\.db .*earlier memory_agent .*another data_dir.*ingest"):
        await SqliteStore(path).open()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("turns",)]
    connection.close()


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


@pytest.mark.parametrize(
    "texts", [("4711", "q7"), ("code 4711 " * 50, "harmless " * 50)], ids=["stored", "packed"]
)
async def test_what_was_forgotten_is_in_no_segment(tmp_path: Path, texts: tuple[str, str]) -> None:
    """A packed text that is forgotten is neither in the file nor in a segment; compressing leaves no copy either."""
    path = tmp_path / "memory.db"
    store = SqliteStore(path)
    await store.open()
    turns = await stored(store, a_scope(), *texts)
    await store.compress_turns(a_scope(), "topic", [turn.id for turn in turns])
    await store.erase_turns(an_erasure(a_scope(), [turns[0].id]), now=NOW, limit=10)
    [left] = await store.list_turns(a_scope())
    assert left.content == texts[1]
    await store.close()
    assert b"4711" not in path.read_bytes()
    assert segments(path) == [([turns[1].id], [texts[1]])]


async def test_a_compressed_text_is_kept_once(tmp_path: Path) -> None:
    """Once packed, a text is in its segment and nowhere else in the file."""
    path = tmp_path / "memory.db"
    store = SqliteStore(path)
    await store.open()
    turns = await stored(store, a_scope(), *(f"the sea at night, number {i}" for i in range(50)))
    await store.compress_turns(a_scope(), "topic", [turn.id for turn in turns])
    await store.close()
    assert b"the sea at night" not in path.read_bytes()
    assert segments(path) == [([turn.id for turn in turns], [turn.content for turn in turns])]


def segments(path: Path) -> list[tuple[list[str], list[str]]]:
    """Turn ids and texts of every segment in the file; each is that of the turns which point at it."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT id, turn_ids, codec, data FROM segments ORDER BY id").fetchall()
    for segment_id, turn_ids, *_ in found:
        pointing = connection.execute("SELECT id FROM turns WHERE segment_id = ?", [segment_id]).fetchall()
        assert sorted(json.loads(turn_ids)) == sorted(turn_id for (turn_id,) in pointing)
    connection.close()
    return [(json.loads(turn_ids), unpack_texts(codec, data)) for _, turn_ids, codec, data in found]


async def test_no_write_waits_for_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While texts are packed others write, forget and read; the segment holds what is left then."""
    path = tmp_path / "memory.db"
    store = SqliteStore(path)
    await store.open()
    turns = await stored(store, a_scope(), "a", "b", "c")
    packing, go_on = threading.Event(), threading.Event()

    def slowly(texts: Sequence[str], **options: int) -> Packed:
        packing.set()
        assert go_on.wait(20)
        return pack_texts(texts, **options)

    monkeypatch.setattr("memory_agent.stores.sqlite.topics.pack_texts", slowly)
    compress = asyncio.create_task(store.compress_turns(a_scope(), "topic", [turn.id for turn in turns]))
    while not packing.is_set():
        await asyncio.sleep(0.01)
    await store.erase_turns(an_erasure(a_scope(), [turns[1].id]), now=NOW, limit=10)
    await stored(store, a_scope(), "d")
    assert [turn.content for turn in await store.list_turns(a_scope())] == ["a", "c", "d"]
    go_on.set()
    assert (await compress).turns == 2
    await store.close()
    assert segments(path) == [([turns[0].id, turns[2].id], ["a", "c"])]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("DELETE FROM segments", "its segment does not hold its text"),
        ("UPDATE segments SET turn_ids = '[\"other\"]'", "its segment does not hold its text"),
        ("UPDATE segments SET turn_ids = json_array(turn_ids ->> 0, 'other')", "2 turns holds 1 texts"),
        ("UPDATE segments SET data = x'01'", "damaged"),
    ],
    ids=["lost", "exchanged", "too-few-texts", "damaged"],
)
async def test_a_compressed_turn_without_its_text_is_an_error(
    tmp_path: Path, damage: str, named: str
) -> None:
    """A turn whose segment was lost or damaged is reported, never given out with another text or none."""
    store = SqliteStore(tmp_path / "memory.db")
    await store.open()
    [turn] = await stored(store, a_scope(), "a")
    await store.compress_turns(a_scope(), "topic", [turn.id])
    await store._write(lambda db: db.execute(damage))
    with pytest.raises(StoreError, match=named):
        await store.list_turns(a_scope())
    await store.close()


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
