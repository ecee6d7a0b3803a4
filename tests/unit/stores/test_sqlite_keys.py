"""What is particular to the file of API keys: whose it is, its version, and several processes at once."""

import asyncio
import os
import sqlite3
import stat
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import pytest

from memory_agent.domain import ApiKey, new_id
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.sqlite.meta import VERSION, SqliteKeys

NOW = datetime(2027, 1, 31, tzinfo=UTC)
PROCESSES = 3
ROUNDS = 2


def a_key() -> ApiKey:
    return ApiKey(id=new_id(), tenant="acme", secret_hash="0" * 64, created_at=NOW)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_file_and_its_logs_are_the_owner_s_alone(tmp_path: Path) -> None:
    """Whatever the process's umask lets others do with what it makes."""
    before = os.umask(0o000)
    try:
        keys = SqliteKeys(tmp_path / "deep" / "keys.sqlite3")
        await keys.open()
        await keys.put(a_key())
        files = {file.name: mode(file) for file in (tmp_path / "deep").iterdir()}
        await keys.close()
    finally:
        os.umask(before)
    assert set(files) == {"keys.sqlite3", "keys.sqlite3-wal", "keys.sqlite3-shm"}
    assert set(files.values()) == {0o600}
    # A mode that somebody chose is left, such as one that lets a group of operators manage the keys.
    path = tmp_path / "deep" / "keys.sqlite3"
    path.chmod(0o660)
    await keys.open()
    await keys.close()
    assert mode(path) == 0o660


async def test_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    """The refusal says what to do, and the file stays as it is."""
    path = tmp_path / "keys.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    keys = SqliteKeys(path)
    with pytest.raises(StoreError, match=r"keys\.sqlite3 was written by a later memory_agent"):
        await keys.open()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()


async def test_file_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "keys.sqlite3").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "keys.sqlite3", tmp_path / "file" / "keys.sqlite3"):
        with pytest.raises(StoreUnavailable, match=r"keys\.sqlite3"):
            await SqliteKeys(path).open()


def put_one(path: str) -> str:
    """In a process of its own: open, put a key, find it, close."""

    async def run() -> str:
        keys = SqliteKeys(path)
        await keys.open()
        key = a_key()
        await keys.put(key)
        found = await keys.find(key.id)
        await keys.close()
        assert found == key
        return key.id

    return asyncio.run(run())


def put_at_once(path: str) -> list[str]:
    """In a process that has imported everything and forks, which the tests' own, with its threads, may not."""
    with get_context("fork").Pool(PROCESSES) as pool:
        return pool.map(put_one, [path] * 2 * PROCESSES, chunksize=1)


async def test_processes_make_new_files_at_once(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as forking:
        for number in range(ROUNDS):
            path = tmp_path / f"{number}" / "keys.sqlite3"
            ids = await loop.run_in_executor(forking, put_at_once, str(path))
            keys = SqliteKeys(path)
            await keys.open()
            assert {key.id for key in await keys.list()} == set(ids)
            await keys.close()
