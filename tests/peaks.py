"""The largest size that each process of a run had in memory, in a line at its end: a worker stays below 600 MB."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

_KEY: Final = "peak_mb"
_PEAKS: Final = pytest.StashKey[dict[str, int]]()


def peak_mb() -> int:
    """The most memory this process ever had, in MB."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    return int(kilobytes) // 1_000


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its size over."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_KEY] = peak_mb()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Note what a worker handed over; one that was killed has not."""
    if (peak := getattr(node, "workeroutput", {}).get(_KEY)) is not None:
        node.config.stash.setdefault(_PEAKS, {})[node.gateway.id] = peak


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The line."""
    peaks = config.stash.get(_PEAKS, dict[str, int]()) | {"this process": peak_mb()}
    sizes = ", ".join(f"{name} {peak}" for name, peak in sorted(peaks.items()))
    terminalreporter.write_line(f"most memory in MB: {sizes}")
