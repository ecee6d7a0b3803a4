"""Jobs about topics for the nursery: each process kills itself at one of its own writes to the document store.

A job names the write by its number and says whether to die right before or right after it. Writes are counted where
the drivers report them, by PyMongo's command events and by SQLite's trace, so nothing of the package is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import re
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pymongo import AsyncMongoClient, MongoClient
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from memory_agent import MemoryConfig, MemoryService, Scope
from memory_agent.clock import SystemClock
from memory_agent.domain import PassageVector, Topic
from memory_agent.stores.codec import unpack_texts
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import BruteForceIndex, HashEmbedder
from tests.constants import settings_of
from tests.servers.mongod import Mongod

SETTINGS: dict[str, Any] = {
    "enable_fact_extraction": False,
    "max_messages_per_topic": 6,
    "recent_message_keep": 2,
    "max_topics": 1,
    "similarity_threshold": 0.5,  # hashed words of different texts fall together now and then
    "worker_poll_seconds": 0.05,
    "retry_max_seconds": 0.05,
}
WORDS = {
    "garden": "compost tomatoes seedlings watering greenhouse",
    "music": "violin concerto rehearsal orchestra sonata",
    "car": "gearbox clutch mechanic brakes workshop",
    "boat": "harbour sailing anchor mast tide",
    "stars": "telescope lens eyepiece tripod comet",
    "code": "compiler linker debugger parser syntax",
    "food": "lasagne oven mushrooms parmesan recipe",
}
THREADS = 20
"""With three topics each, more than one page of a sweep that takes PAGE at once."""
PAGE = 40
FADING = range(0, THREADS, 7)
"""The numbers of the threads of which two topics have faded."""
FADING_THREADS = len(FADING)
_MONGO_WRITES: Final = ("insert", "update", "delete", "findAndModify")
_SQLITE_WRITE: Final = re.compile(r"\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+(\w+)")


def said(*subjects: str, at: datetime, first: int = 0) -> list[dict[str, Any]]:
    """An exchange about each of these, numbered from `first`, so that each turn has a text of its own."""
    turns = []
    for number, subject in enumerate(subjects, start=first):
        for role, text in (("user", "{} {}?\n"), ("assistant", "漢字, {} – {} ✓\t")):
            content = text.format(WORDS[subject], number)
            turns.append({"role": role, "content": content, "timestamp": at + timedelta(minutes=number)})
    return turns


# --- how a process kills itself ------------------------------------------------------------------------------


class Fuse:
    """Kills this process at the job's write, having logged which one that is; `at=0`: never."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.before = job["when"] == "before"
        self.watched: Collection[str] = job["watched"]
        self._left: int = job["at"]
        self._log = os.open(job["log"], os.O_WRONLY | os.O_TRUNC | os.O_CREAT)

    def burn(self, write: str) -> None:
        """One write less to live."""
        self._left -= 1
        if self._left == 0:
            os.write(self._log, write.encode())
            os.kill(os.getpid(), signal.SIGKILL)


class MongoFuse(CommandListener):
    """A fuse at the commands that write to the watched collections: before they are sent, or once answered."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse
        self._under_way: dict[int, str] = {}

    def started(self, event: CommandStartedEvent) -> None:
        """A command is about to be sent."""
        name = event.command_name
        if name not in _MONGO_WRITES or event.command[name] not in self._fuse.watched:
            return
        write = f"{name} {event.command[name]}"
        if self._fuse.before:
            self._fuse.burn(write)
        else:
            self._under_way[event.request_id] = write

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """A command took effect."""
        if write := self._under_way.pop(event.request_id, None):
            self._fuse.burn(write)

    def failed(self, event: CommandFailedEvent) -> None:
        """A command was refused."""
        self._under_way.pop(event.request_id, None)


class SqliteFuse:
    """A fuse before the statements that write to the watched tables, and before the COMMITs of such.

    A statement that runs for one row after the other counts once: within one transaction that is one step.
    """

    def __init__(self, fuse: Fuse, connection: sqlite3.Connection) -> None:
        self._fuse = fuse
        self._last = ""
        connection.set_trace_callback(self._traced)

    def _traced(self, statement: str) -> None:
        found = _SQLITE_WRITE.match(statement)
        if found and found[1] in self._fuse.watched:
            if found[0] != self._last:
                self._fuse.burn(found[0])
            self._last = found[0]
        elif statement == "COMMIT" and self._last:
            self._fuse.burn("COMMIT")
        if statement in ("COMMIT", "ROLLBACK"):
            self._last = ""


# --- services and jobs ---------------------------------------------------------------------------------------


class KeptIndex(BruteForceIndex):
    """A vector index in a file: what a process did to it outlives the process."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        if file.exists():
            self._users = pickle.loads(file.read_bytes())

    async def upsert(self, user_id: str, passages: Sequence[PassageVector]) -> None:
        """See `VectorIndex.upsert`."""
        await super().upsert(user_id, passages)
        self._keep()

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`."""
        deleted = await super().delete(user_id, turn_ids)
        self._keep()
        return deleted

    def _keep(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(".part")
        part.write_bytes(pickle.dumps(self._users))
        part.replace(self._file)


class AheadClock(SystemClock):
    """The real clock, set ahead by so much: past the leases of the dead and to last passes without waiting."""

    def __init__(self, ahead: timedelta = timedelta()) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        """See `Clock.now`."""
        return super().now() + self.ahead


@contextlib.asynccontextmanager
async def opened(settings: dict[str, Any], **parts: Any) -> AsyncIterator[MemoryService]:
    """A service that needs no model, with its vectors in a file of `data_dir`."""
    vectors = KeptIndex(Path(settings["data_dir"]) / "vectors")
    parts = {"embedder": HashEmbedder(), "vectors": vectors, **parts}
    with settings_of(settings) as known:
        cfg = MemoryConfig(**known)
        async with MemoryService(cfg, **parts) as service:
            yield service


@contextlib.asynccontextmanager
async def with_fuse(job: dict[str, Any], **parts: Any) -> AsyncIterator[MemoryService]:
    """The job's service with these parts, which dies at the job's write."""
    fuse, settings = Fuse(job), job["settings"]
    async with contextlib.AsyncExitStack() as stack:
        if "mongo_uri" in settings:
            client: AsyncMongoClient[Any] = AsyncMongoClient(
                settings["mongo_uri"], event_listeners=[MongoFuse(fuse)]
            )
            parts["mongo_client"] = await stack.enter_async_context(client)
        else:
            store = parts["store"] = SqliteStore(Path(settings["data_dir"]) / "memory_agent.sqlite3")
            stack.push_async_callback(store.close)
            await store.open()
            assert store._writer is not None
            assert store._writer.connection is not None
            SqliteFuse(fuse, store._writer.connection)
        yield await stack.enter_async_context(opened(settings, **parts))


async def settle(job: dict[str, Any]) -> None:
    """Work off what is owed in the job's database."""
    async with with_fuse(job) as service:
        await service.settle(200)


async def rebuild(job: dict[str, Any]) -> None:
    """Embed everybody anew by the job's model."""
    async with with_fuse(job, embedder=HashEmbedder(seed=job["model"])) as service:
        await rebuild_all(service)


async def rebuild_all(service: MemoryService) -> None:
    """What `memory-agent rebuild --all` does."""
    while (step := await service.rebuild_next()).done < step.users:
        await service.settle(120)
    await service.settle(120)


async def sweep(job: dict[str, Any]) -> None:
    """Sweep the job's database once."""
    async with with_fuse(job) as service:
        await service.sweep()


# --- databases that can be put back --------------------------------------------------------------------------


class Raw(NamedTuple):
    """What lies in a database: each turn's segment and text, each segment's texts by turn, and all of it as text."""

    turns: dict[str, tuple[Any, str]]
    segments: dict[Any, dict[str, str]]
    everything: str


class Database(Protocol):
    """A document store with the vectors of its turns, in a state that can be kept and put back."""

    settings: dict[str, Any]

    def keep(self) -> None:
        """Keep the state as it is now. Nobody may have it open."""

    def put_back(self) -> None:
        """Return to the state that was kept last."""

    def raw(self) -> Raw:
        """What lies in it."""


class Folder:
    """Keeps `data_dir`: for SQLite, that is all there is."""

    def __init__(self, folder: Path) -> None:
        self._data, self._kept = folder / "data", folder / "kept"
        self._data.mkdir()
        self.settings = {**SETTINGS, "data_dir": str(self._data)}

    def keep(self) -> None:
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self._data, self._kept)

    def put_back(self) -> None:
        shutil.rmtree(self._data)
        shutil.copytree(self._kept, self._data)

    def raw(self) -> Raw:
        with contextlib.closing(sqlite3.connect(self._data / "memory_agent.sqlite3")) as db:
            turns = {i: (s, c) for i, s, c in db.execute("SELECT id, segment_id, content FROM turns")}
            segments = {
                row[0]: _segment(db, *row) for row in db.execute("SELECT id, live, codec, data FROM segments")
            }
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [db.execute(f"SELECT * FROM {name}").fetchall() for name in tables]
        return Raw(turns, segments, f"{rows} {segments}")


def _segment(db: sqlite3.Connection, segment_id: int, live: int, codec: int, data: bytes) -> dict[str, str]:
    """The texts by turn; those that no turn points at by their place."""
    found = db.execute("SELECT segment_at, id FROM turns WHERE segment_id = ?", [segment_id])
    places = dict(found.fetchall())
    assert live == len(places)
    texts = unpack_texts(codec, data)
    return {places.get(at, f"at {at}"): text for at, text in enumerate(texts) if text or at in places}


class Mongo(Folder):
    """Keeps a database's documents; the indexes stay."""

    def __init__(self, folder: Path, server: Mongod, name: str, client: MongoClient[Any]) -> None:
        super().__init__(folder)
        self._database = client[name]
        self._documents: dict[str, list[Any]] = {}
        self.settings |= {"mongo_uri": server.uri, "db_name": name}

    def keep(self) -> None:
        super().keep()
        self._documents = self._read()

    def put_back(self) -> None:
        super().put_back()
        for name in self._database.list_collection_names():
            self._database[name].delete_many({})
            if self._documents.get(name):
                self._database[name].insert_many(self._documents[name])

    def raw(self) -> Raw:
        documents = self._read()
        turns = {
            turn["_id"]: (turn.get("segment_id"), turn.get("content", ""))
            for turn in documents["turns"]
            if "gone_at" not in turn
        }
        segments = {
            s["_id"]: dict(zip(s["turn_ids"], unpack_texts(s["codec"], s["data"]), strict=True))
            for s in documents["segments"]
        }
        return Raw(turns, segments, f"{documents} {segments}")

    def _read(self) -> dict[str, list[Any]]:
        names = self._database.list_collection_names()
        return {name: list(self._database[name].find()) for name in names}


async def fill_threads(database: Database) -> None:
    """Threads with three topics of one turn; two of them have faded in some."""
    now = datetime.now(UTC)
    async with opened({**database.settings, "run_worker": False}) as service:
        store = service.core.store

        async def fill_thread(number: int) -> None:
            scope = Scope(user_id=f"user {number % 7}", thread_id=f"thread {number:03}")
            at = now - timedelta(days=100) if number in FADING else now
            turns = await service.agent(scope.user_id, f"thread {number:03}").add_turns(
                [{"role": "user", "content": f"{scope} {word}", "timestamp": at} for word in WORDS][:3]
            )
            await store.assign_topics(scope, {turn.id: turn.id for turn in turns})
            for turn in turns:
                topic = Topic(
                    id=turn.id,
                    user_id=scope.user_id,
                    thread_id=str(scope.thread_id),
                    title=turn.content,
                    created_at=at,
                    last_access=at,
                    through=turn.seq,
                )
                await store.save_topics([topic])

        await asyncio.gather(*map(fill_thread, range(THREADS)))
    database.keep()
