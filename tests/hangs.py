"""A test that hangs fails with its stack; one that cannot even be cancelled ends its process, and no other test.

pytest-timeout fails a test that has passed its limit, by an exception where the main thread is. A coroutine that swallows its
cancellation makes asyncio wait for ever all the same. Then every thread's stack goes to stderr and the process ends: with
pytest-xdist that test has failed, and another process goes on with those that follow.
"""

from __future__ import annotations

import faulthandler
import os
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_STDERR: Final = pytest.StashKey[int]()
_PATIENCE: Final = 1.2
_CLEARING_SECONDS: Final = 60
"""For what a test leaves to be taken down, which is where asyncio waits for its tasks."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep stderr as it is before anything captures it."""
    config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process if the test passes its limit by so much. No limit, no end."""
    _end_after(item, _limit(item) * _PATIENCE)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """The same for what follows the test: pytest itself calls the end off as soon as the test has failed."""
    _end_after(item, min(_limit(item), _CLEARING_SECONDS))


def _limit(item: pytest.Item) -> float:
    marked = item.get_closest_marker("timeout")
    return float(marked.args[0] if marked else item.config.getini("timeout"))


def _end_after(item: pytest.Item, seconds: float) -> None:
    if seconds:
        faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[_STDERR])
