"""Processor cores for embedding."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MOST_THREADS: Final = 8
"""By default no more cores than this: what else an ingest does (writing rows and vectors) is then the slower part."""

_QUOTA_FILE: Final = Path("/sys/fs/cgroup/cpu.max")


def default_threads(cores: int) -> int:
    """Texts encoded at the same time, each on one core: one per core, at most MOST_THREADS."""
    return max(1, min(cores, MOST_THREADS))


def usable_cores() -> int:
    """Cores that this process may use: of its affinity, and of its container's quota (Linux)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota = quota_cores(_QUOTA_FILE.read_text(encoding="ascii"))
    except OSError:  # not in a container of this kind
        quota = None
    return cores if quota is None else max(1, min(cores, quota))


def quota_cores(text: str) -> int | None:
    """Whole cores, rounded up, that a cgroup's `cpu.max` ("microseconds period", or "max period") allows; None: all."""
    quota, _, period = text.strip().partition(" ")
    if not (quota.isdigit() and period.isdigit()) or not int(period):
        return None
    return max(1, -(-int(quota) // int(period)))
