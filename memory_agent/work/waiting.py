"""Waiting for owed work: looking when this process's worker did some, and ever less often for what others do."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from memory_agent.checks import checked_timeout

_POLL_SECONDS: Final = 0.05
_POLL_LONGEST_SECONDS: Final = 0.25
_WAKE_SECONDS: Final = 0.125
"""After which the worker is woken: turns that were stored here have woken it, those of others not."""


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
        # Who waits for less has but this look to wake it at.
        in_time = self.seconds is None or self.seconds > 2 * _WAKE_SECONDS
        self._wake_at: float | None = time.monotonic() + (_WAKE_SECONDS if in_time else 0)

    @property
    def is_over(self) -> bool:
        """True if the time has run out."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def may_wake(self) -> bool:
        """True once, when it is time to wake the worker, however much of others' work moves meanwhile."""
        if self._wake_at is None or time.monotonic() < self._wake_at:
            return False
        self._wake_at = None
        return True

    async def pause(self, moved: asyncio.Event, *, seldom: bool = False) -> None:
        """Wait until `moved` is set, the next look is due, or the time has run out. `seldom`: whoever sets it is at work."""
        pause = _POLL_LONGEST_SECONDS if seldom else self._pause
        left = pause if self._deadline is None else self._deadline - time.monotonic()
        waiting = asyncio.ensure_future(moved.wait())
        try:
            await asyncio.wait({waiting}, timeout=max(min(pause, left), 0))
        finally:  # also for who is cancelled
            waiting.cancel()
        self._pause = min(self._pause * 1.5, _POLL_LONGEST_SECONDS)
