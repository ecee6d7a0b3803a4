"""Stores that released versions wrote: opened by this one, beside processes of theirs, and upgraded for good."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sqlite3
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pymongo
import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.domain import Scope
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.stores.sqlite.copying import copy_of
from memory_agent.stores.versions import NEWEST, OLDEST
from tests import profiles
from tests.conformance.values import stored
from tests.faults import steps
from tests.integration.commands import Quick
from tests.released.fixture import DB_NAME, OLD_WRITER, known, old_stores, put_documents, put_file
from tests.released.write import GONE
from tests.released.write import known as known_now
from tests.servers.mongod import Mongod

BESIDE = Scope(user_id="ada", thread_id="beside")


@pytest.fixture(params=["sqlite", "mongodb"])
def old_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A store of version 0.1.0."""
    put_file(tmp_path)
    settings: dict[str, Any] = {"data_dir": tmp_path, "db_name": DB_NAME, "lease_seconds": 1}
    if request.param == "mongodb":
        server: Mongod = request.getfixturevalue("mongod")
        name = request.getfixturevalue("db_name")
        with pymongo.MongoClient[Any](server.uri) as client:
            put_documents(client, name)
        settings |= {"mongo_uri": server.uri, "db_name": name}
    return settings


def store_of(settings: dict[str, Any]) -> Any:
    if "mongo_uri" in settings:
        return MongoStore(settings["mongo_uri"], settings["db_name"], timeout_seconds=20)
    return SqliteStore(settings["data_dir"] / f"{DB_NAME}.sqlite3")


async def test_what_it_knew_is_known(old_settings: dict[str, Any], shared_embedder: LocalEmbedder) -> None:
    """Every turn, every fact, the topics, and the same turns for the same questions, before and after the upgrade is finished."""
    expected = known("mongodb" if "mongo_uri" in old_settings else "sqlite")
    async with MemoryService(MemoryConfig(**old_settings), embedder=shared_embedder) as service:
        state = await service.schema()
        assert (state.version, state.newest, state.finished) == (OLDEST, NEWEST, False)
        assert json.loads(json.dumps(await known_now(service))) == expected
        assert (await service.finish_upgrade()).finished
        assert json.loads(json.dumps(await known_now(service))) == expected
        await service.agent("ada", "home").update_memory("My boat is called Otter.", "Ahoy.")
        await service.settle(timeout=60)
        [found] = await service.search("ada", "What is my boat called?", 1)
        assert "Otter" in found.text
        # The forget call whose last pass the old process left owed.
        assert all(GONE[2] != hit.text for hit in await service.search("gus", "the secret ingredient", 10))
    async with MemoryService(MemoryConfig(**old_settings), embedder=shared_embedder) as service:
        assert (await service.schema()).finished


def place_of(settings: dict[str, Any]) -> list[str]:
    """The arguments of a process of version 0.1.0."""
    if "mongo_uri" in settings:
        return ["mongodb", settings["mongo_uri"], settings["db_name"]]
    return ["sqlite", str(settings["data_dir"] / f"{DB_NAME}.sqlite3")]


class Beside:
    """A process of version 0.1.0 on the same store."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, settings: dict[str, Any], folder: Path) -> Beside:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *OLD_WRITER,
            *place_of(settings),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=old_stores(folder / "old"),
        )
        return cls(process)

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), 60)).decode().strip()

    async def write(self, text: str) -> list[int]:
        """The turn's number, how many turns are there then, how many threads are owed."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n".encode())
        return [int(part) for part in (await self.line()).split()]

    async def end(self) -> tuple[int | None, str]:
        assert self.process.stdin is not None
        self.process.stdin.close()
        _, said = await asyncio.wait_for(self.process.communicate(), 60)
        return self.process.returncode, said.decode()


@pytest.mark.parametrize("old_settings", profiles.by_day("sqlite", "mongodb"), indirect=True)
async def test_both_versions_write_side_by_side(old_settings: dict[str, Any], tmp_path: Path) -> None:
    """The old one is open while this version expands the store, and goes on; numbers are given once; then it is refused."""
    beside = await Beside.start(old_settings, tmp_path)
    assert await beside.line() == "open"
    assert (await beside.write("before"))[:2] == [1, 1]
    new = store_of(old_settings)
    await new.open()
    try:
        for at in range(5):
            seq, count, owed = await beside.write(f"old {at}")
            assert (seq, count, owed) == (2 * at + 2, 2 * at + 2, 1)
            [turn] = await stored(new, BESIDE, f"new {at}")
            assert turn.seq == 2 * at + 3

        async def many() -> None:
            for at in range(20):
                await stored(new, BESIDE, f"many {at}")

        await asyncio.gather(many(), beside.write("at once"))
        turns = await new.list_turns(BESIDE)
        assert [turn.seq for turn in turns] == list(range(1, 33))
        assert await beside.end() == (0, "")
        assert not (await new.schema()).finished
        assert (await new.contract_schema()).finished
        assert (await new.contract_schema()).finished
        assert [turn.content for turn in await new.list_turns(BESIDE)] == [turn.content for turn in turns]
    finally:
        await new.close()
    late = await Beside.start(old_settings, tmp_path / "again")
    if (
        "mongo_uri" not in old_settings
    ):  # 0.1.0 looks for no mark on MongoDB, so its processes have to be ended there
        code, said = await late.end()
        assert code == 1
        assert "was written by a later memory_agent" in said
    else:
        assert await late.line() == "open"
        await late.end()


async def test_a_later_version_is_refused_in_words(old_settings: dict[str, Any]) -> None:
    """Before anything is written; the name of the store, both versions and the remedy are told."""
    if "mongo_uri" in old_settings:
        with pymongo.MongoClient[Any](old_settings["mongo_uri"]) as client:
            meta = client[old_settings["db_name"]]["meta"]
            meta.insert_one({"_id": "schema", "value": {"version": NEWEST + 1}})
            with pytest.raises(
                StoreError, match=rf"database .*later memory_agent \(schema {NEWEST + 1}.*Upgrade"
            ):
                await store_of(old_settings).open()
            assert meta.count_documents({}) == 1
        return
    file = old_settings["data_dir"] / f"{DB_NAME}.sqlite3"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    before = file.read_bytes()
    with pytest.raises(StoreError, match=rf"released.*later memory_agent \(schema {NEWEST + 1}.*Upgrade"):
        await store_of(old_settings).open()
    assert file.read_bytes() == before
    assert not copy_of(str(file)).exists()


def tables(file: Path) -> dict[str, list[Any]]:
    """All rows of all tables."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}


async def test_a_copy_is_made_first(tmp_path: Path) -> None:
    """It has every row, is its owner's alone, is made once, and goes when the upgrade is finished or something is erased."""
    file = put_file(tmp_path)
    before = tables(file)
    kept = copy_of(str(file))
    chroma = tmp_path / "chroma_db"
    chroma.mkdir()
    (chroma / "chroma.sqlite3").write_bytes(b"vectors")
    kept.with_name(f"{kept.name}.part").write_text("of one that was killed")
    store = SqliteStore(file)
    await store.open()
    assert tables(kept) == before
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob(f"{kept.name}*")) == [kept.name]
    await stored(store, BESIDE, "after the copy")
    await store.close()
    await store.open()
    assert tables(kept) == before
    assert (await store.schema()).kept == (str(kept), str(chroma))
    assert await store.rewrite_files()
    assert not kept.exists()
    assert not chroma.exists()
    assert (await store.schema()).version == OLDEST
    await store.close()


async def test_without_room_for_the_copy_nothing_is_changed(tmp_path: Path) -> None:
    """A folder where the copy cannot be written: an error with the remedy, and the file as it was."""
    file = put_file(tmp_path)
    (tmp_path / f"{copy_of(str(file)).name}.part").mkdir()
    before = tables(file)
    with pytest.raises(StoreUnavailable, match=r"copied to released.*failed.*make room for a file of \d+ MB"):
        await SqliteStore(file).open()
    assert tables(file) == before


async def upgrade(path: str) -> None:
    """What is killed: expand the file, store something, and finish."""
    store = SqliteStore(path)
    await store.open()
    await stored(store, BESIDE, "in between", key="once")
    await store.contract_schema()
    await store.close()


async def test_killed_at_each_step(tmp_path: Path) -> None:
    """The next process finds every turn, and goes on to the same end; a copy that is there is whole."""
    whole = put_file(tmp_path / "whole")
    before, place = tables(whole), tmp_path / "place"
    file = place / whole.name

    def prepare() -> list[str]:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copy(whole, file)
        return [str(file)]

    async def check() -> None:
        kept = copy_of(str(file))
        if kept.exists():
            assert tables(kept) == before
        await upgrade(str(file))
        after = tables(file)
        assert len(after["turns"]) == len(before["turns"]) + 1
        assert [row for row in after["turns"] if row in before["turns"]] == before["turns"]
        assert after["facts"] == before["facts"]
        assert {path.name for path in place.iterdir()} == {file.name, f"{file.name}.mark"}

    await steps.kill_at_each("tests.integration.test_released:upgrade", prepare, check, least=15)


class Busy:
    """A process of version 0.1.0 that stores one turn after the other; what it was told, with the numbers."""

    def __init__(self, settings: dict[str, Any], environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*OLD_WRITER, *place_of(settings)], stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "open\n"
        self.stored: list[tuple[int, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        self._thread.start()

    def _go_on(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while not self._ended.is_set():
            text = f"old {len(self.stored)}"
            self._process.stdin.write(f"{text}\n")
            answer = self._process.stdout.readline().split()
            if not answer:
                return
            self.stored.append((int(answer[0]), text))

    async def store_more(self) -> None:
        """Wait until more was stored, so that it still can."""
        before = len(self.stored)
        async with asyncio.timeout(60):
            while len(self.stored) < before + 2:
                assert self._process.poll() is None
                await asyncio.sleep(0.01)

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        self._process.communicate()
        return self._process.returncode


async def expand(*place: str) -> None:
    """What is killed beside it: the store is opened, which expands it, and something is stored."""
    store = SqliteStore(*place) if len(place) == 1 else MongoStore(*place, timeout_seconds=20)
    await store.open()
    await stored(store, BESIDE, "in between", key="once")
    await store.close()


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
async def test_old_processes_go_on_while_the_upgrade_is_killed_at_each_step(
    old_settings: dict[str, Any], tmp_path: Path
) -> None:
    """Whatever they were told is stored they and this version find afterwards, under numbers that were given once."""
    environment, beside = old_stores(tmp_path / "code"), list[Busy]()
    *_, place = place_of(old_settings)

    def prepare() -> list[str]:
        if "mongo_uri" in old_settings:
            with pymongo.MongoClient[Any](old_settings["mongo_uri"]) as client:
                client.drop_database(place)
                put_documents(client, place)
        else:
            for file in Path(place).parent.glob(f"{DB_NAME}*"):
                file.unlink()
            put_file(Path(place).parent)
        beside[:] = [Busy(old_settings, environment)]
        return place_of(old_settings)[1:]

    async def check() -> None:
        try:
            await beside[0].store_more()
        finally:
            assert beside[0].end() == 0
        await expand(*place_of(old_settings)[1:])
        store = store_of(old_settings)
        await store.open()
        found = [(turn.seq, turn.content) for turn in await store.list_turns(BESIDE)]
        assert [seq for seq, _ in found] == list(range(1, len(found) + 1))
        assert [turn for turn in found if turn[1] != "in between"] == beside[0].stored
        assert len(found) == len(beside[0].stored) + 1
        assert (await store.contract_schema()).finished
        await store.close()

    await steps.kill_at_each("tests.integration.test_released:expand", prepare, check, least=12)


def test_the_command_says_how_far_it_is_and_finishes(quick: Quick) -> None:
    """It names what is kept and leaves with 3; then it is finished, and stays so. A new memory has nothing to finish."""
    file = put_file(quick.data)
    said = quick("upgrade", code=3, MEMORY_AGENT_DB_NAME=DB_NAME)
    assert f"Schema {NEWEST}, which processes of schema {OLDEST} still can work on." in said.stdout
    assert f"kept: {copy_of(str(file))}" in said.stdout
    assert "memory-agent upgrade --finish" in said.stderr
    done = f"Schema {NEWEST}: nothing of an earlier one is left.\n"
    assert quick("upgrade", "--finish", MEMORY_AGENT_DB_NAME=DB_NAME).stdout == done
    assert quick("upgrade", MEMORY_AGENT_DB_NAME=DB_NAME).stdout == done
    expected = {"version": NEWEST, "newest": NEWEST, "kept": []}
    assert quick.json("upgrade", MEMORY_AGENT_DB_NAME=DB_NAME) == expected
    quick("upgrade", code=1, MEMORY_AGENT_DB_NAME="nobody")
    quick("ingest", quick.file({"role": "user", "content": "hello"}), MEMORY_AGENT_DB_NAME="fresh")
    assert quick("upgrade", MEMORY_AGENT_DB_NAME="fresh").stdout == done
