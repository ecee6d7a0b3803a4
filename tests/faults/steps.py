"""A process that is killed right before one of its steps to disk: each statement of SQLite, each command to MongoDB, and each call that changes files.

`-m tests.faults.steps MODULE:FUNCTION`, forked from the server of commands, imports the coroutine function once, and forks a process for each line that it reads,
a JSON list of the step's number and the function's arguments. The process counts from the function's start.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests import profiles
from tests.servers.forks import forks

ROOT: Final = Path(__file__).parents[2]
_EVERY: Final = 48
"""Of the first so many steps the default profile kills at one."""
_OF_SQLITE: Final = {"execute", "executemany", "backup", "close"}
_OF_FILES: Final = {"replace", "rename", "unlink", "rmdir", "fsync", "open", "write"}

_TO_MONGODB: Final = "async_sendall"
"""PyMongo's function that every command goes through, and again after each time that it has to wait."""


def is_step(called: Any) -> bool:
    """True for a built-in function that may change what is on disk."""
    name = called.__name__
    if isinstance(getattr(called, "__self__", None), sqlite3.Connection):
        return name in _OF_SQLITE
    return getattr(called, "__module__", None) == "posix" and name in _OF_FILES


def run(number: int, function: Callable[..., Awaitable[object]], *arguments: str) -> None:
    """Run it to its end, or to the step of that number."""
    lock, steps = threading.Lock(), 0

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal steps
        if (event == "c_call" and is_step(called)) or (
            event == "call" and frame.f_code.co_name == _TO_MONGODB
        ):
            with lock:
                steps += 1
                if steps == number:
                    os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)
    asyncio.run(function(*arguments))  # type: ignore[arg-type]


async def kill_at_each(
    function: str,
    prepare: Callable[[], list[str]],
    check: Callable[[], Awaitable[object]],
    *,
    least: int,
) -> int:
    """Kill the function (MODULE:FUNCTION) before each of its steps, and check after each; how many kills.

    `prepare` makes a fresh place and gives the function's arguments. By day before a few steps, each day others.
    """
    killed = 0
    command = [forks().command, "-m", "tests.faults.steps", function]
    with tempfile.TemporaryFile() as said:
        parent = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, cwd=ROOT
        )
        assert parent.stdin is not None
        assert parent.stdout is not None
        try:
            for number in profiles.kills(dear=True, least=least, every=_EVERY):
                parent.stdin.write(json.dumps([number, *prepare()]).encode() + b"\n")
                told = await parent.stdout.readline()
                said.seek(0)
                assert told.strip() in (b"0", b"%d" % -signal.SIGKILL), said.read().decode()[-4_000:]
                try:
                    await check()
                except BaseException as exc:
                    exc.add_note(f"killed before step {number}")
                    raise
                if told.strip() == b"0":
                    break
                killed += 1
        finally:
            parent.stdin.close()
            await parent.wait()
    assert killed >= profiles.least(least, dear=True)
    return killed


def main() -> None:
    """Fork a process for each line that comes in, and print how it ended."""
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    assert threading.active_count() == 1, "a thread would not be there in what is forked"
    for line in sys.stdin:
        number, *arguments = json.loads(line)
        pid = os.fork()
        if not pid:
            try:
                run(number, function, *arguments)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
