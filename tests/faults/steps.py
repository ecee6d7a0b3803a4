"""A process that is killed right before one of its steps to disk: each statement of SQLite, and each call that changes files.

`python -m tests.faults.steps MODULE:FUNCTION` imports that coroutine function once and forks a process for each line that it reads:
a JSON list of the number of the step and the function's arguments. Steps are counted from the function's start. It prints how
each process ended.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sqlite3
import sys
import threading
import traceback
from asyncio.subprocess import PIPE
from typing import TYPE_CHECKING, Any, Final

from memory_agent.models.tokens import best_token_counter
from tests import profiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_EVERY: Final = 24
"""Of so many steps the default profile kills at one."""
_LOADED_LATE: Final = (
    *("filelock", "snowballstemmer", "yaml", "memory_agent.adapters", "memory_agent.wiring"),
    *("memory_agent.conversations.compress", "memory_agent.text.extractive_summary"),
)
"""What a service imports once it needs it."""
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

    `prepare` makes a fresh place and gives the function's arguments. By day before every 24th step, each day others.
    """
    killed = 0
    forks = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "tests.faults.steps", function], stdin=PIPE, stdout=PIPE
    )
    assert forks.stdin is not None
    assert forks.stdout is not None
    try:
        for number in profiles.kills(dear=True, least=least, every=_EVERY):
            forks.stdin.write(json.dumps([number, *prepare()]).encode() + b"\n")
            code = int(await forks.stdout.readline())
            assert code in (0, -signal.SIGKILL)
            try:
                await check()
            except BaseException as exc:
                exc.add_note(f"killed before step {number}")
                raise
            if code == 0:
                break
            killed += 1
    finally:
        forks.stdin.close()
        await forks.wait()
    assert killed >= profiles.least(least, dear=True, every=_EVERY)
    return killed


def fork_each(function: Callable[..., Awaitable[object]]) -> None:
    """Run it to the step of each line, in a process of its own."""
    for line in sys.stdin:
        number, *arguments = json.loads(line)
        if (pid := os.fork()) == 0:
            try:
                run(number, function, *arguments)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    for late in _LOADED_LATE:
        importlib.import_module(late)
    best_token_counter().count("Its table is read once.")
    module, _, name = sys.argv[1].partition(":")
    fork_each(getattr(importlib.import_module(module), name))
