"""Calls side by side, and writes that are tried again because somebody else was first."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, Any, Final, Self

from memory_agent.errors import NotOpen, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable


TRIES: Final = 300
"""With the pauses between them a quarter of a minute, in which many processes at one thread have all had their turn."""
COSTLY_TRIES: Final = 20
"""Where each one asks a language model."""
_PATIENT_AFTER: Final = 3
_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 0.1


class Home:
    """The process and the event loop in which something was opened, and which it belongs to."""

    def __init__(self) -> None:
        self.process, self.loop = os.getpid(), asyncio.get_running_loop()

    @property
    def is_here(self) -> bool:
        """False in a process that was forked since."""
        return self.process == os.getpid()

    def check(self, what: str) -> None:
        """Raise NotOpen where `what` would wait for ever: in a forked process and on another event loop."""
        if not self.is_here:
            raise NotOpen(f"this {what} was opened before the process forked; open one in each process")
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if here is not self.loop:
            raise NotOpen(
                f"this {what} was opened on another event loop, which it belongs to; ask it there, or open one here"
            )


class Tries:
    """The tries of one write, counted from 0: `async for _ in Tries(): …`, left by whoever is first with it.

    Between them is a growing random pause, once others have been first several times. It ends after `limit` in a row;
    then most raise `overtaken`.
    """

    def __init__(self, limit: int = TRIES) -> None:
        self._limit = limit
        self._lost = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> int:
        attempt = self._lost
        if attempt >= self._limit:
            raise StopAsyncIteration
        if attempt > _PATIENT_AFTER:
            longest = min(_PAUSE_SECONDS * attempt, _LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - spreads tries, guards nothing
        self._lost += 1
        return attempt

    def won(self) -> None:
        """Count anew: this try did a part of the work, and the next one goes on with it."""
        self._lost = 0


def overtaken(what: str) -> StoreUnavailable:
    """The error of a writer that was never first: `what`, such as "the topic t1", is what others kept changing."""
    return StoreUnavailable(f"other writers kept changing {what}; try again")


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
