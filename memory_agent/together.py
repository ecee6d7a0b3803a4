"""Calls side by side, and long work beside them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator

_V = TypeVar("_V")
_HELD_SECONDS: Final = 0.002
_PAUSE_SECONDS: Final = 0.000_05


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """The results of calls side by side. All have ended when the error of one is raised.

    `asyncio.gather` alone would leave the others under way, to be cancelled with the event loop, or at work without the
    lease that was given back. One after the other, each would wait for its turn behind all that is asked of the same
    store and event loop meanwhile: under load that made seconds of work take a minute.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def pausing(items: Iterable[_V]) -> Iterator[_V]:
    """`items`, for a thread that computes for long: between two of them it lets others have the interpreter's lock every other millisecond.

    Python takes the lock from it after five only, and somebody's call asks for it ten times: each time that its store, its thread
    or the event loop has waited for something. On the event loop itself, which works through a few items at once, nothing pauses.
    """
    most = _HELD_SECONDS
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        most = math.inf
    since = time.perf_counter()
    for item in items:
        yield item
        if time.perf_counter() - since > most:
            time.sleep(_PAUSE_SECONDS)
            since = time.perf_counter()
