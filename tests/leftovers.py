"""No process or temporary folder outlives a run of tests, however the run ends: also where pytest is killed with -9.

Whatever a run starts has the run's own variable in its environment, and a folder of the run's own for temporary files. Beside the run
waits a process (this file, run by itself) for the end of a pipe that only pytest holds; it then kills whoever has that variable, and
removes the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil
import pytest

_WATCHER: Final = pytest.StashKey[subprocess.Popen[bytes]]()
_PREFIX: Final = "TEST_RUN_"
_SECONDS: Final = 30
"""For the processes that are left to be gone; those of a worker that is killed may begin others meanwhile."""


def marks() -> dict[str, str]:
    """For processes that get an environment of their own: what belongs to this run."""
    return {name: value for name, value in os.environ.items() if name.startswith((_PREFIX, "TMPDIR"))}


def pytest_configure(config: pytest.Config) -> None:
    """Start the watcher; the processes of pytest-xdist are part of the run and have none of their own."""
    if hasattr(config, "workerinput"):
        return
    variable, usual = f"{_PREFIX}{uuid4().hex}", tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="memory-agent-run-")
    config.stash[_WATCHER] = subprocess.Popen(
        [sys.executable, "-P", __file__, variable, folder], stdin=subprocess.PIPE, start_new_session=True
    )
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", usual)  # where pytest keeps `tmp_path` of the last runs
    os.environ |= {variable: "1", "TMPDIR": folder}
    tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the watcher look, and end."""
    if (watcher := config.stash.get(_WATCHER, None)) is not None:
        watcher.communicate(timeout=2 * _SECONDS)


def left_of(variable: str) -> list[psutil.Process]:
    """Running processes that have this variable in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if variable in process.environ() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # it has ended, or is somebody else's
            continue
    return found


def kill_what_is_left(variable: str) -> None:
    """Kill them, and what they began meanwhile. One line on stderr for each."""
    until = time.monotonic() + _SECONDS
    while (left := left_of(variable)) and time.monotonic() < until:
        for process in left:
            try:
                words = process.cmdline()
                process.kill()
                process.wait(_SECONDS)
            except psutil.Error:
                continue
            command = " ".join(words)[:200]
            with contextlib.suppress(OSError):  # whoever read the run's output may be gone with it
                sys.stderr.write(f"tests left process {process.pid} behind, which is killed: {command}\n")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    kill_what_is_left(sys.argv[1])
    for left in (
        Path(sys.argv[2]),
        *Path("/dev/shm").glob(f"*{sys.argv[1]}*"),
    ):  # a mongod's data may lie in memory
        shutil.rmtree(left, ignore_errors=True)
