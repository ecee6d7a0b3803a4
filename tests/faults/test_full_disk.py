"""A disk that gets full: what was acknowledged is safe, the error says so, and room brings everything back without a restart."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SMALL_DISK = 'mount -t tmpfs -o size={} none "$0" && exec "$@"'


async def job(*command: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, said = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, said.decode()[-2_000:]
    found: dict[str, Any] = json.loads(out)
    return found


async def test_files_that_cannot_grow_refuse_what_is_new_and_lose_nothing(tmp_path: Path) -> None:
    """The kernel refuses (RLIMIT_FSIZE), twice, under three writers and the worker."""
    found = await job(sys.executable, "-m", "tests.faults.full_disk", str(tmp_path), "limit")
    assert found["acknowledged"] == 60
    assert found["refused"] >= 24
    assert "SQLITE_IOERR_WRITE" in found["said"][0]


@pytest.mark.nightly
@pytest.mark.parametrize("size", ["3m", "32m"])
async def test_a_full_disk_refuses_what_is_new_and_loses_nothing(size: str, tmp_path: Path) -> None:
    """A file system of its own, filled to the last byte; it wants user namespaces. Thrice, for it used to come to no end.

    On the smaller one there is no room for as long a log as SQLite lets grow before it folds it into the file, nor for one that stays as long as it was.
    """
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        inside = [sys.executable, "-m", "tests.faults.full_disk", str(folder), "filler"]
        found = await job(
            "unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK.format(size), str(folder), *inside
        )
        assert found["acknowledged"] >= 105  # more where the log could be begun anew
        assert "SQLITE_FULL): database or disk is full" in found["said"][0]


READ_ONLY = """
import asyncio, subprocess, sys
from memory_agent import ConfigError, MemoryConfig, MemoryService
from memory_agent.testing import HashEmbedder
folder = sys.argv[1]
async def said():
    async with MemoryService(MemoryConfig(data_dir=folder), embedder=HashEmbedder()) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message("hello")
        return len(await memory.fetch_short_term())
async def main():
    assert await said() == 1
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    try:
        await said()
    except ConfigError as exc:
        error = str(exc)
    subprocess.run(["mount", "-o", "remount,bind,rw", folder], check=True)
    assert await said() == 2
    return error
import json
print(json.dumps({"said": asyncio.run(main())}))
"""


@pytest.mark.nightly
async def test_a_read_only_folder_is_named_and_opens_once_it_is_not(tmp_path: Path) -> None:
    """Mounted so, for permissions are nothing to root; by the same process."""
    command = [sys.executable, "-c", READ_ONLY, str(tmp_path)]
    found = await job("unshare", "--map-root-user", "--mount", *command)
    assert f"data_dir {tmp_path} cannot be used" in found["said"]
    assert "Read-only file system" in found["said"]
    assert "Set it to a writable folder" in found["said"]
