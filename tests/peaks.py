"""The largest size that each process of a run had in memory, in a line at its end: a worker stays below 600 MB."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path
from typing import Any, Final

import pytest

_KEY: Final = "peak_mb"
_SIZE: Final = pytest.StashKey[int]()
"""The process's after the last test that returned memory."""
_GROWN_MB: Final = 16
_LARGE_MB: Final = 350
"""Below it nothing is returned: to look through all objects takes a tenth of a second and more."""
_PEAKS: Final = pytest.StashKey[dict[str, int]]()


def size_mb(of: str = "VmRSS") -> int:
    """The memory of this process, in MB; with VmHWM the most it ever had."""
    (kilobytes,) = re.findall(rf"{of}:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    return int(kilobytes) // 1_000


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Return what a test has freed, which glibc keeps, once the process has grown: a worker stays some 60 MB smaller.

    What a worker would report at its end is reported by another process: of 2,000 tests that is 15 MB.
    """
    if hasattr(item.config, "workerinput") and (
        own := item.config.pluginmanager.get_plugin("terminalreporter")
    ):
        own.stats.clear()
    before = max(item.config.stash.get(_SIZE, 0), _LARGE_MB)
    if size_mb() < before + _GROWN_MB:
        return
    gc.collect()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
    item.config.stash[_SIZE] = size_mb()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its size over."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_KEY] = size_mb("VmHWM")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Note what a worker handed over; one that was killed has not."""
    if (peak := getattr(node, "workeroutput", {}).get(_KEY)) is not None:
        node.config.stash.setdefault(_PEAKS, {})[node.gateway.id] = peak


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The line."""
    peaks = config.stash.get(_PEAKS, dict[str, int]()) | {"this process": size_mb("VmHWM")}
    sizes = ", ".join(f"{name} {peak}" for name, peak in sorted(peaks.items()))
    terminalreporter.write_line(f"most memory in MB: {sizes}")
