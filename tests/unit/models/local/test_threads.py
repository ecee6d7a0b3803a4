"""How many cores embedding takes."""

from __future__ import annotations

import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.models.local.threads import MOST_THREADS, default_threads, quota_cores, usable_cores


@pytest.mark.parametrize(
    ("cores", "threads"), [(1, 1), (2, 2), (MOST_THREADS, MOST_THREADS), (64, MOST_THREADS)]
)
def test_there_is_a_thread_for_each_core_up_to_a_bound(cores: int, threads: int) -> None:
    """Small machines are used whole, large ones leave cores to the rest of an ingest."""
    assert default_threads(cores) == threads


@given(st.integers(-5, 10_000))
def test_there_is_always_a_thread(cores: int) -> None:
    """Whatever the machine says of its cores, between one and MOST_THREADS texts are encoded at a time."""
    assert 1 <= default_threads(cores) <= MOST_THREADS


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000\n", None),
        ("200000 100000\n", 2),
        ("250000 100000\n", 3),
        ("50000 100000\n", 1),
        ("", None),
        ("200000", None),
        ("200000 0", None),
        ("-1 100000", None),
        ("nonsense here", None),
    ],
)
def test_a_containers_quota_is_whole_cores(text: str, cores: int | None) -> None:
    """Part of a core counts as one; what is no quota is none."""
    assert quota_cores(text) == cores


@given(st.integers(0, 10**9), st.integers(1, 10**7))
def test_a_quota_is_rounded_up(quota: int, period: int) -> None:
    """The cores are the quota's share of its period, rounded up, and at least one."""
    assert quota_cores(f"{quota} {period}\n") == max(1, math.ceil(quota / period))


def test_this_process_may_use_a_core() -> None:
    """However small the container, there is a core, and no more than the machine has."""
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes to cores")
def test_a_process_bound_to_one_core_uses_one() -> None:
    """Cores that the process may not run on are not counted."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
