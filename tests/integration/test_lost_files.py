"""Files that were lost, replaced, cut or damaged: it is told, and nothing is written."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.errors import MemoryAgentError, StoreError, StoreUnavailable
from memory_agent.stores.sqlite.connection import mark_of, read_mark
from memory_agent.testing import HashEmbedder
from tests.servers.forks import forks

FILE = "memory_agent.sqlite3"


async def said(folder: Path, *texts: str) -> list[str]:
    """Say these, and give what is remembered."""
    async with MemoryService(MemoryConfig(data_dir=folder, run_worker=False)) as service:
        memory = service.agent("ada", "chat")
        for text in texts:
            await memory.add_user_message(text)
        return [turn.content for turn in await memory.fetch_short_term(limit=1_000)]


def everything(folder: Path) -> dict[str, bytes]:
    """Every file of a memory, but for the lock."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


async def refused(folder: Path, why: str) -> None:
    """Opening is refused with these words, and changes nothing; without the mark one may go on with what is there."""
    before = everything(folder)
    with pytest.raises(StoreError, match=why):
        await said(folder)
    assert everything(folder) == before


async def test_a_missing_and_an_emptied_file_are_noticed(tmp_path: Path) -> None:
    """By name and with the remedies; whoever deletes the mark begins anew."""
    await said(tmp_path, "hello")
    file = tmp_path / FILE
    whole = file.read_bytes()
    file.unlink()
    await refused(
        tmp_path, r"sqlite3 is missing: at .* UTC a memory existed here.*restore a backup.*delete .*\.mark"
    )
    file.write_bytes(b"")
    await refused(tmp_path, r"sqlite3 is empty: at")
    file.write_bytes(whole)
    assert await said(tmp_path) == ["hello"]
    file.unlink()
    mark_of(str(file)).unlink()
    assert await said(tmp_path) == []


async def test_another_file_in_its_place_is_noticed(tmp_path: Path) -> None:
    """One of another memory, and an earlier copy of its own."""
    one, other = tmp_path / "one", tmp_path / "other"
    await said(one, "hello")
    await said(other, "hello", "there")
    early = (one / FILE).read_bytes()
    shutil.copy(other / FILE, one / FILE)
    await refused(one, "is another memory's")
    (one / FILE).write_bytes(early)
    assert await said(one, "and more") == ["hello", "and more"]
    (one / FILE).write_bytes(early)
    await refused(one, "has lost its last 1 changes")


def _replace(folder: Path) -> None:
    shutil.copy(folder / FILE, folder / "copy")
    (folder / "copy").replace(folder / FILE)


@pytest.mark.parametrize(
    "lose",
    [
        shutil.rmtree,
        lambda folder: (folder / FILE).unlink(),
        lambda folder: (folder / f"{FILE}-wal").unlink(),
        lambda folder: folder.rename(folder.with_name("moved")),
        _replace,
    ],
    ids=["folder", "file", "log", "moved", "replaced"],
)
async def test_what_happens_to_the_file_in_use_is_noticed_by_the_next_write(
    lose: Callable[[Path], object], tmp_path: Path
) -> None:
    """Which is refused, for nobody would find it again; a folder that is back where it was is written to as before."""
    folder = tmp_path / "data"
    cfg = MemoryConfig(data_dir=folder, run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message("hello")
        lose(folder)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"is not where it was: .* removed, moved or replaced"):
                await memory.add_user_message("lost")
        assert len(await memory.fetch_short_term()) == 1
        if (moved := tmp_path / "moved").exists():
            moved.rename(folder)
            await memory.add_user_message("after")
            assert len(await memory.fetch_short_term()) == 2


KILLED = """
import asyncio, os, sys
from memory_agent import MemoryConfig, MemoryService
async def main():
    async with MemoryService(MemoryConfig(data_dir=sys.argv[1], run_worker=False)) as service:
        memory = service.agent("ada", "chat")
        for at in range(40):
            await memory.add_user_message(f"said {at}")
        os.kill(os.getpid(), 9)
asyncio.run(main())
"""


@pytest.mark.parametrize("loss", ["removed", "cut", "damaged"])
async def test_a_lost_log_is_noticed(loss: str, tmp_path: Path) -> None:
    """Of a process that was killed with its last commits in the log alone."""
    process = await asyncio.create_subprocess_exec(
        forks().command, "-c", KILLED, str(tmp_path), stderr=subprocess.PIPE
    )
    await process.communicate()
    log = tmp_path / f"{FILE}-wal"
    whole = log.read_bytes()
    mark = read_mark(str(tmp_path / FILE))
    assert mark is not None
    if loss == "removed":
        log.unlink()
        (tmp_path / f"{FILE}-shm").unlink()
    else:
        place = len(whole) // 2
        log.write_bytes(
            whole[:place] if loss == "cut" else whole[:place] + b"\xff" * 4_096 + whole[place + 4_096 :]
        )
    with pytest.raises(StoreError, match=r"is (missing|empty)|has lost its last [\d,]+ changes"):
        await said(tmp_path)


async def test_a_whole_log_is_nothing_to_notice(tmp_path: Path) -> None:
    """After a kill everything acknowledged is there."""
    process = await asyncio.create_subprocess_exec(
        forks().command, "-c", KILLED, str(tmp_path), stderr=subprocess.PIPE
    )
    await process.communicate()
    assert await said(tmp_path) == [f"said {at}" for at in range(40)]


@pytest.mark.parametrize("damage", ["zeroed", "random", "truncated", "text", "a page"])
async def test_a_damaged_file_is_named(damage: str, tmp_path: Path) -> None:
    """The process lives, says which file and what to do, and writes nothing; or the damage is where nothing is."""
    await said(tmp_path, *(f"said {at}" * 20 for at in range(50)))
    file = tmp_path / FILE
    whole = bytearray(file.read_bytes())
    chance = random.Random(7)
    if damage == "zeroed":
        whole[:] = bytes(len(whole))
    elif damage == "random":
        for _ in range(2_000):
            whole[chance.randrange(len(whole))] = chance.randrange(256)
    elif damage == "truncated":
        del whole[len(whole) // 3 :]
    elif damage == "text":
        whole[:] = b"dear diary " * 1_000
    else:
        whole[4_096 : 3 * 4_096] = bytes(2 * 4_096)
    file.write_bytes(whole)
    with pytest.raises(MemoryAgentError, match=FILE):
        await said(tmp_path, "more")
    assert file.read_bytes() == whole
