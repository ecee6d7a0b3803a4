"""A process that is killed right before one of its steps to disk: each statement of SQLite, and each call that changes files.

`python -m tests.faults.steps NUMBER MODULE:FUNCTION ARGUMENT…` runs the coroutine function, and counts from its start.
NUMBER 0 only counts, and prints how many steps there are.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from tests import profiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_OF_SQLITE: Final = {"execute", "executemany", "backup", "close"}
_OF_FILES: Final = {"replace", "rename", "unlink", "rmdir", "fsync", "open", "write"}


def is_step(called: Any) -> bool:
    """True for a built-in function that may change what is on disk."""
    name = called.__name__
    if isinstance(getattr(called, "__self__", None), sqlite3.Connection):
        return name in _OF_SQLITE
    return getattr(called, "__module__", None) == "posix" and name in _OF_FILES


def run(number: int, function: Callable[..., Awaitable[object]], *arguments: str) -> int:
    """Run it to its end, or to the step of that number; how many there were."""
    lock, steps = threading.Lock(), 0

    def count(frame: object, event: str, called: Any) -> None:
        nonlocal steps
        if event == "c_call" and is_step(called):
            with lock:
                steps += 1
                if steps == number:
                    os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)
    asyncio.run(function(*arguments))  # type: ignore[arg-type]
    sys.setprofile(None)
    return steps


async def kill_at_each(
    function: str,
    prepare: Callable[[], list[str]],
    check: Callable[[], Awaitable[object]],
    *,
    least: int,
) -> int:
    """Kill the function (MODULE:FUNCTION) before each of its steps, and check after each; how many kills.

    `prepare` makes a fresh place and gives the function's arguments. By day before every eighth step, each day others.
    """
    killed, by_night = 0, profiles.chosen() == "nightly"
    for number in profiles.kills(dear=True, step=1 if by_night else 2):
        arguments = prepare()
        command = [sys.executable, "-m", "tests.faults.steps", str(number), function, *arguments]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        _, said = await process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), said.decode()
        try:
            await check()
        except BaseException as exc:
            exc.add_note(f"killed before step {number}")
            raise
        if process.returncode == 0:
            break
        killed += 1
    assert killed >= (least if by_night else least // 9 - 1)
    return killed


if __name__ == "__main__":
    module, _, name = sys.argv[2].partition(":")
    wanted = getattr(importlib.import_module(module), name)
    print(run(int(sys.argv[1]), wanted, *sys.argv[3:]))
