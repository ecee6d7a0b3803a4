"""Services that nobody closed: their event loop and their process end, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService, ServiceClient
from memory_agent.testing import HashEmbedder
from tests.servers.forks import forks

TEXTS = [f"I have {n} plums." for n in range(60)]


async def open_and_remember(folder: Path, *, then: BaseException | None = None) -> MemoryService:
    service = MemoryService(MemoryConfig(data_dir=folder), embedder=HashEmbedder())
    await service.__aenter__()
    for text in TEXTS:
        await service.agent("ann", "chat").update_memory(text, "Noted.")
    if then is not None:
        raise then
    return service


async def remembered(folder: Path) -> int:
    async with MemoryService(MemoryConfig(data_dir=folder), embedder=HashEmbedder()) as service:
        return (await service.status()).turns


def test_service_left_open_ends_with_its_loop_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of its work, also where the caller's own error ended the loop; that one shows."""
    asyncio.run(open_and_remember(tmp_path))
    assert f"the MemoryService of {tmp_path} was left open. Nothing acknowledged is lost" in caplog.text
    with pytest.raises(ZeroDivisionError):
        asyncio.run(open_and_remember(tmp_path, then=ZeroDivisionError()))
    with pytest.raises(SystemExit):
        asyncio.run(open_and_remember(tmp_path, then=SystemExit(3)))
    caplog.clear()
    assert asyncio.run(remembered(tmp_path)) == 6 * len(TEXTS)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


CLOSED_LOOP = """
import asyncio, sys
from memory_agent import MemoryConfig, MemoryService
from memory_agent.errors import NotOpen
from memory_agent.testing import HashEmbedder

async def remember():
    service = await MemoryService(MemoryConfig(data_dir=sys.argv[1]), embedder=HashEmbedder()).__aenter__()
    await service.agent("ann", "chat").update_memory("I have plums.", None)
    return service

loop = asyncio.new_event_loop()
service = loop.run_until_complete(remember())
try:
    asyncio.run(service.agent("ann", "chat").status())
except NotOpen as exc:
    print(exc)
loop.close()
asyncio.run(remember())
"""


def test_folder_of_a_service_whose_loop_was_closed_without_it_is_free_again(tmp_path: Path) -> None:
    ended = forks().run(
        ["-c", CLOSED_LOOP, str(tmp_path)], stdin="", cwd=tmp_path, env=os.environ, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert "this service was opened on another event loop" in ended.stdout
    assert ended.stderr.count("was left open") == 2
    assert asyncio.run(remembered(tmp_path)) == 2


IN_A_THREAD = """
import asyncio, os, sys, threading
from memory_agent import MemoryConfig, MemoryService
from memory_agent.testing import HashEmbedder

opened, stays = threading.Event(), asyncio.Event()

async def main():
    service = await MemoryService(MemoryConfig(data_dir=sys.argv[1]), embedder=HashEmbedder()).__aenter__()
    for n in range(60):
        await service.agent("ann", "chat").update_memory(f"I have {n} plums.", None)
    opened.set()
    await stays.wait()

threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
opened.wait()
raise ValueError("of the caller")
"""
MEM0 = """
import sys
from memory_agent import MemoryConfig
from memory_agent.integrations.mem0 import Memory

memory = Memory(MemoryConfig(data_dir=sys.argv[1]))
for n in range(60):
    memory.add([{"role": "user", "content": f"I have {n} plums."}], user_id="ann")
"""


@pytest.mark.parametrize(
    ("program", "told"),
    [(IN_A_THREAD, ["was left open", "ValueError: of the caller"]), (MEM0, [])],
    ids=["thread", "mem0"],
)
def test_process_with_a_service_left_open_in_a_thread_ends(
    tmp_path: Path, program: str, told: list[str]
) -> None:
    """What mem0's quickstart leaves open ends without a word."""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert all(words in ended.stderr for words in told)
    assert bool(told) == bool(ended.stderr), ended.stderr
    assert "Error" not in ended.stderr.replace("ValueError: of the caller", "")
    assert asyncio.run(remembered(tmp_path)) == 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_forked_process_is_told_to_open_its_own(tmp_path: Path) -> None:
    """It has none of the threads by which its parent's would answer."""
    client = ServiceClient("http://127.0.0.1:9", max_retries=0)
    async with MemoryService(MemoryConfig(data_dir=tmp_path), embedder=HashEmbedder()) as service, client:
        reads, writes = os.pipe()
        if (child := os.fork()) == 0:
            for call in (service.status(), client.agent("ann", "chat").status()):
                os.write(writes, outcome_of(call).encode())
            os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        told = os.read(reads, 1_000).decode()
        assert told == (
            "NotOpen: this service was opened before the process forked; open one in each process\n"
            "NotOpen: this client was opened before the process forked; open one in each process\n"
        )
        os.close(reads)
        os.close(writes)


def outcome_of(call: Any) -> str:
    """How a call ends that must not wait for anything."""
    try:
        call.send(None)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}\n"
    finally:
        call.close()
    return "it waits\n"
