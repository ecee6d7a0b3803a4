"""Damaged files as an operator meets them: each is named on one line with what to do, the truth stays as it is, and what is readable is saved."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.domain import Scope, TurnInput
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import HashEmbedder
from tests.conformance.values import a_draft
from tests.integration.commands import Quick, one_line, with_store
from tests.profiles import by_day

FILE = "memory_agent.sqlite3"
PAGE = 4_096
SAID = [
    f"Box {at} holds letters of the year {1_500 + at}, é 「図書館」. " * (1 + at * 7 % 90) for at in range(60)
]


SCOPE = Scope(user_id="me", thread_id="main")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with turns of all lengths, some of them packed, and an API key."""
    folder = tmp_path_factory.mktemp("whole")

    async def fill() -> None:
        async with MemoryService(MemoryConfig(data_dir=folder), embedder=HashEmbedder()) as service:
            turns = [TurnInput(role="user", content=text) for text in SAID]
            await service.agent("me", "main").add_turns(turns)
            await service.settle(timeout=120)
            store = service.core.store
            plain = await store.list_turns(SCOPE, compressed=False, limit=20)
            await store.compress_turns(SCOPE, plain[0].id, [turn.id for turn in plain])

    asyncio.run(fill())
    return folder


@pytest.fixture
def filled(quick: Quick, whole: Path) -> Quick:
    """A copy of it."""
    shutil.copytree(whole, quick.data)
    quick("keys", "create", "--tenant", "default")
    return quick


def damaged(file: bytes, damage: str) -> bytes:
    """The file after that damage."""
    changed, chance = bytearray(file), random.Random(3)
    pages = len(file) // PAGE
    if damage == "first page":
        changed[:PAGE] = bytes(PAGE)
    elif damage == "truncated":
        del changed[len(file) // 2 + 100 :]
    elif damage == "zeroed pages":
        for page in chance.sample(range(pages), pages // 5):
            changed[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    elif damage == "random bytes":
        for page in range(0, pages, 9):
            changed[page * PAGE : page * PAGE + 24] = chance.randbytes(24)
    else:
        changed = bytearray(b"dear diary " * 1_000)
    return bytes(changed)


@pytest.mark.parametrize(
    "damage", by_day("first page", "random bytes", "another's", "truncated", "zeroed pages", first=3)
)
def test_a_damaged_truth(damage: str, filled: Quick, tmp_path: Path) -> None:
    """It is named and stays as it is; what its whole pages hold goes byte for byte into another memory, and nothing else does."""
    file = filled.data / FILE
    broken = damaged(file.read_bytes(), damage)
    file.write_bytes(broken)
    for command in (
        ("doctor",),
        ("history", "--all"),
        ("ingest", filled.file({"role": "user", "content": "x"})),
    ):
        one_line(filled(*command, code=1).stderr, FILE, "damaged", "doctor --save-to FILE")
    assert file.read_bytes() == broken
    saved = filled("doctor", "--save-to", "saved.gz", code=3 if damage == "another's" else 0)
    assert file.read_bytes() == broken
    texts = contents(tmp_path / "saved.gz")
    assert f"Saved {len(texts)} turn" in saved.stdout
    assert set(SAID) >= set(texts)
    assert len(texts) == len(set(texts))
    if damage == "another's":
        assert not texts
        return
    assert len(texts) == 60 if damage == "first page" else len(texts) > 10
    filled.data = tmp_path / "other"
    filled("import", "saved.gz")

    async def settle() -> list[str]:
        cfg = MemoryConfig(data_dir=filled.data)
        async with MemoryService(cfg, embedder=HashEmbedder()) as service:
            await service.settle(timeout=120)
            return [turn.content for turn in await service.core.store.list_turns(SCOPE)]

    assert asyncio.run(settle()) == texts
    found = filled.json("doctor")
    assert found["findings"] == []
    assert found["totals"]["turns"] == len(texts)


def contents(file: Path) -> list[str]:
    """The texts in an export."""
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()[1:-1]
    return [json.loads(line)["content"] for line in lines]


def test_what_stands_in_the_log_alone_is_saved(filled: Quick, tmp_path: Path) -> None:
    """Of a file whose last changes were never folded into it, and whose first page is gone."""

    async def say_more(store: SqliteStore) -> None:
        await store.append_turns(Scope(user_id="zoe", thread_id="late"), [a_draft("said at the last moment")])
        for name in (FILE, f"{FILE}-wal"):
            shutil.copy(filled.data / name, tmp_path / name)

    with_store(filled, say_more)
    assert (tmp_path / f"{FILE}-wal").stat().st_size
    for name in (FILE, f"{FILE}-wal"):
        shutil.copy(tmp_path / name, filled.data / name)
    filled("doctor", "--save-to", "saved.gz")
    assert contents(tmp_path / "saved.gz")[-1] == "said at the last moment"
    assert len(contents(tmp_path / "saved.gz")) == 61


@pytest.mark.parametrize("damage", [b"dear diary", b"{" * 5_000, b""])
def test_a_damaged_mark(damage: bytes, filled: Quick, caplog: pytest.LogCaptureFixture) -> None:
    """The memory opens, says that its mark tells nothing, and writes it anew; then it protects again."""
    mark = filled.data / f"{FILE}.mark"
    mark.write_bytes(damage)
    assert "nothing is wrong" in filled("doctor").stdout
    assert "mark is damaged" in caplog.text
    caplog.clear()
    assert "nothing is wrong" in filled("doctor").stdout
    assert "damaged" not in caplog.text
    (filled.data / FILE).unlink()
    one_line(filled("history", code=1).stderr, FILE, "is missing")


def test_damaged_keys(filled: Quick) -> None:
    """The doctor names the file and goes on; the commands on keys say what to do about it, and the memory works."""
    keys = filled.data / "keys.sqlite3"
    keys.write_bytes(b"\xff" * 9_000)
    said = filled("doctor", code=3).stdout
    assert "Wrong: 1 fault in the API keys" in said
    assert "keys.sqlite3 is damaged" in said
    assert "move it away and make new keys: memory-agent keys create" in said
    assert "Examined 60 turns" in said
    one_line(filled("keys", "list", code=1).stderr, "keys.sqlite3", "move it away", "keys create")
    assert keys.read_bytes() == b"\xff" * 9_000
    keys.unlink()
    filled("keys", "create", "--tenant", "default")
    assert "nothing is wrong" in filled("doctor").stdout


@pytest.mark.parametrize("damage", [b"\xff\xfe\x00", b"[memory\n", b"a = = b"])
def test_damaged_settings(damage: bytes, filled: Quick) -> None:
    """They are named before anything is opened."""
    before = (filled.data / FILE).read_bytes()
    (filled.folder / "config").mkdir()
    (filled.folder / "config" / "memory.toml").write_bytes(damage)
    one_line(filled("doctor", code=1).stderr, "memory.toml")
    assert (filled.data / FILE).read_bytes() == before


def test_an_index_of_the_file_that_is_wrong_is_named(filled: Quick) -> None:
    """SQLite's own check finds it; what to do about it is said, and nothing is changed."""

    async def spoil(store: SqliteStore) -> None:
        def work(db: Any) -> None:
            db.execute("PRAGMA writable_schema = ON")
            db.execute(
                "UPDATE sqlite_schema SET sql = 'CREATE INDEX turns_time ON turns (tokens, id)' WHERE name = 'turns_time'"
            )

        await store._write(work)

    with_store(filled, spoil)
    said = filled("doctor", code=3).stdout
    assert "in the SQLite file" in said
    assert "turns_time" in said
    assert "sqlite3 FILE REINDEX" in said
    assert filled("doctor", "--repair", code=3).stdout == said


def test_a_stored_value_that_is_damaged_is_named(filled: Quick) -> None:
    """Without a traceback, by the id of what it is of; only if it is given up can its thread be read."""

    async def spoil(store: SqliteStore) -> None:
        await store._execute("UPDATE turns SET metadata = '{' WHERE seq = 30", [])

    with_store(filled, spoil)
    said = filled("doctor", code=3).stdout
    assert "1 stored record that cannot be read, which keeps its thread from being examined (turns 01" in said
    assert "or give these records up: memory-agent doctor --repair --forget-unreadable" in said
    one_line(filled("history", "--all", code=1).stderr, "is damaged")
    assert "1 more turn" in filled("doctor", "--save-to", "saved.gz").stderr
    assert filled("doctor", "--repair", code=3).stdout == said
    said = filled("doctor", "--repair", "--forget-unreadable").stdout
    assert "Mended: 1 stored record that cannot be read" in said
    assert filled.json("doctor")["totals"]["turns"] == 59
    filled("history", "--all")
