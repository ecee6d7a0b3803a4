"""Services for long conversations: hashed vectors kept in memory, on SQLite or MongoDB, and what to say in them."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import brotli
import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService, Turn
from memory_agent.testing import BruteForceIndex, HashEmbedder
from tests import profiles
from tests.constants import settings_of
from tests.servers.mongod import Mongod

STORES: Final = ("sqlite", "mongodb")
on_each_store: Final = pytest.mark.parametrize("settings", profiles.by_day(*STORES), indirect=True)
on_each_store_by_day: Final = pytest.mark.parametrize("settings", STORES, indirect=True)
"""For tests of a fixture `settings` in which the store makes a difference, at night or always; others run on SQLite."""
START: Final = datetime(2026, 3, 1, 9, tzinfo=UTC)


def settings_on(store: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """Settings of a fresh database on this store; nothing is extracted or grouped unless a test wants it."""
    quiet = {"enable_topics": False, "enable_fact_extraction": False, "max_attempts": 2}
    if store == "sqlite":
        return {**quiet, "data_dir": folder / "data"}
    server: Mongod = request.getfixturevalue("mongod")
    db_name: str = request.getfixturevalue("db_name")
    return {**quiet, "data_dir": folder / "unused", "mongo_uri": server.uri, "db_name": db_name}


@contextlib.asynccontextmanager
async def opened(settings: Mapping[str, Any], **others: Any) -> AsyncIterator[MemoryService]:
    """A service with these settings, others on top, and the parts that are among them."""
    parts: dict[str, Any] = {"embedder": HashEmbedder(), "vectors": BruteForceIndex()}
    parts |= {
        name: others.pop(name)
        for name in ("clock", "embedder", "vectors", "entity_finder", "store")
        if name in others
    }
    with settings_of({**settings, **others}) as known:
        async with MemoryService(MemoryConfig(**known), **parts) as service:
            yield service


def said(texts: Iterable[str], *, start: datetime = START, **each: Any) -> list[dict[str, Any]]:
    """Turns of user and assistant by turns, a minute apart."""
    return [
        {
            "role": "assistant" if number % 2 else "user",
            "content": text,
            "timestamp": start + timedelta(minutes=number),
            **each,
        }
        for number, text in enumerate(texts)
    ]


def lines(count: int, *, first: int = 1, words: int = 12) -> list[str]:
    """Unremarkable texts, each with a number."""
    return [f"line {number} " + "about clocks " * (words // 2) for number in range(first, first + count)]


def counted(service: MemoryService, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls of the service's document store from now on, by name."""
    calls: Counter[str] = Counter()
    store = service.core.store

    def counting(name: str, call: Any) -> Any:
        def count(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return call(*given, **named)

        return count

    for name, call in inspect.getmembers(store, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            monkeypatch.setattr(store, name, counting(name, call))
    return calls


async def everything(memory: MemoryAgent) -> list[Turn]:
    """All of a thread's turns as the document store gives them."""
    return await memory._service.core.store.list_turns(memory.scope)


def readable(rows: Any) -> str:
    """What rows or documents hold, as text, with what is packed unpacked."""

    def shown(value: Any) -> str:
        if isinstance(value, bytes):
            with contextlib.suppress(brotli.error, UnicodeDecodeError):
                return str(brotli.decompress(value).decode())
        return str(value)

    return json.dumps(rows, default=shown, ensure_ascii=False)


async def remains(service: MemoryService, needle: str) -> list[str]:
    """Tables or collections of the service's database that hold these words somewhere, packed or not."""
    store: Any = service.core.store
    if service.cfg.mongo_uri is None:
        tables = await store._read(
            lambda db: {
                name: readable(db.execute(f'SELECT * FROM "{name}"').fetchall())
                for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            }
        )
        return sorted(name for name, rows in tables.items() if needle in rows)
    database = store._turns.database
    return sorted(
        [
            name
            for name in await database.list_collection_names()
            if needle in readable(await database[name].find().to_list())
        ]
    )
