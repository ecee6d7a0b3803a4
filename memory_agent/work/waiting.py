"""Waiting for owed work: looking when this process's worker did some, and ever less often for what others do."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from memory_agent.checks import checked_timeout

_POLL_SECONDS: Final = 0.05
_POLL_LONGEST_SECONDS: Final = 0.25


class Looks:
    """The time between the looks of somebody who waits.

    The clock is looked at between two of them: cancelling one in the middle of the driver's work, as asyncio.timeout
    does, was seen to be swallowed there.
    """

    def __init__(self, timeout: float | None) -> None:
        """`timeout`: seconds; None for ever. Raises InvalidInput for what is no number."""
        self.seconds = checked_timeout(timeout)
        self._deadline = None if self.seconds is None else time.monotonic() + self.seconds
        self._pause = _POLL_SECONDS
        self.pauses = 0

    @property
    def is_over(self) -> bool:
        """True if the time has run out."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    async def pause(self, moved: asyncio.Event) -> bool:
        """Wait until `moved` is set, the next look is due, or the time has run out; whether it was set."""
        left = self._pause if self._deadline is None else self._deadline - time.monotonic()
        waiting = asyncio.ensure_future(moved.wait())
        await asyncio.wait({waiting}, timeout=max(min(self._pause, left), 0))
        waiting.cancel()
        self._pause = min(self._pause * 1.5, _POLL_LONGEST_SECONDS)
        self.pauses += 1
        return moved.is_set()
