"""Calls side by side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable


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
