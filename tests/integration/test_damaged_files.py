"""Damaged files as an operator meets them: each is named on one line with what to do, the truth stays as it is, and what is readable is saved."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.integration.commands import Quick, one_line, with_store

if TYPE_CHECKING:
    from pathlib import Path

    from memory_agent.stores.sqlite import SqliteStore

FILE = "memory_agent.sqlite3"
PAGE = 4_096
SAID = [
    f"Box {at} holds letters of the year {1_500 + at}, é 「図書館」. " * (1 + at * 7 % 120)
    for at in range(60)
]


@pytest.fixture
def filled(quick: Quick) -> Quick:
    """A memory with turns of all lengths, some of them packed, and an API key."""
    quick("ingest", quick.file(*({"role": "user", "content": text} for text in SAID)))

    async def pack(store: SqliteStore) -> None:
        [user] = await store.stored_users(limit=9)
        turns = [turn for scope in await threads(store, user) for turn in await store.list_turns(scope)]
        ids = [turn.id for turn in turns[:20]]
        assert (await store.compress_turns(turns[0].scope, ids[0], ids)).turns == 20

    with_store(quick, pack)
    quick("keys", "create", "--tenant", "default")
    return quick


async def threads(store: SqliteStore, user: str) -> list[object]:
    from memory_agent.domain import Scope

    return [Scope(user_id=user, thread_id=each) for each in await store.stored_threads(user)]  # type: ignore[return-value]


def damaged(whole: bytes, damage: str) -> bytes:
    """The file after that damage."""
    changed, chance = bytearray(whole), random.Random(3)
    pages = len(whole) // PAGE
    if damage == "first page":
        changed[:PAGE] = bytes(PAGE)
    elif damage == "truncated":
        del changed[len(whole) // 2 + 100 :]
    elif damage == "zeroed pages":
        for page in chance.sample(range(pages), pages // 5):
            changed[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    elif damage == "random bytes":
        for page in range(0, pages, 2):
            changed[page * PAGE : page * PAGE + 24] = chance.randbytes(24)
    else:
        changed = bytearray(b"dear diary " * 1_000)
    return bytes(changed)


@pytest.mark.parametrize("damage", ["first page", "truncated", "zeroed pages", "random bytes", "another's"])
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
    filled("worker", "--until-idle")
    found = filled.json("doctor")
    assert found["findings"] == []
    assert found["totals"]["turns"] == len(texts)
    history = filled.json("history", "--all", "--thread", thread_of(tmp_path / "saved.gz"))
    assert [turn["content"] for turn in history["turns"]] == texts


def lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()[1:-1]]


def contents(file: Path) -> list[str]:
    """The texts in an export."""
    return [line["content"] for line in lines(file)]


def thread_of(file: Path) -> str:
    return lines(file)[0]["thread_id"]


def test_what_stands_in_the_log_alone_is_saved(filled: Quick, tmp_path: Path) -> None:
    """Of a file whose last changes were never folded into it, and whose first page is gone."""

    async def say_more(store: SqliteStore) -> None:
        from memory_agent.conformance.values import a_draft
        from memory_agent.domain import Scope

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


def test_an_index_of_the_file_that_is_wrong_is_made_anew(filled: Quick) -> None:
    """SQLite's own check finds it, `--repair` mends it, and a damaged page it names with what else there is to do."""

    async def spoil(store: SqliteStore) -> None:
        def work(db: object) -> None:
            db.execute("PRAGMA writable_schema = ON")  # type: ignore[attr-defined]
            db.execute(  # type: ignore[attr-defined]
                "UPDATE sqlite_schema SET sql = 'CREATE INDEX turns_time ON turns (tokens, id)' WHERE name = 'turns_time'"
            )

        await store._write(work)

    with_store(filled, spoil)
    said = filled("doctor", code=3).stdout
    assert "in the SQLite file" in said
    assert "turns_time" in said
    assert "Mended:" in filled("doctor", "--repair").stdout
    assert "nothing is wrong" in filled("doctor").stdout


def test_a_stored_value_that_is_damaged_is_named(filled: Quick) -> None:
    """Without a traceback, by the id of what it is of, and the thread alone is told as unreadable."""

    async def spoil(store: SqliteStore) -> None:
        await store._execute("UPDATE turns SET metadata = '{' WHERE seq = 30", [])

    with_store(filled, spoil)
    said = filled("doctor", code=3).stdout
    assert "1 thread with something that cannot be read" in said
    assert "is damaged (JSONDecodeError" in said
    assert "doctor --save-to FILE" in said
    one_line(filled("history", "--all", code=1).stderr, "is damaged")
    assert "1 more turn" in filled("doctor", "--save-to", "saved.gz").stderr
