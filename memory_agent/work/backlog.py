"""The bound of the backlog: above it updates are told to wait, so that what is owed does not grow for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from memory_agent.errors import Busy

if TYPE_CHECKING:
    from memory_agent.ports import WorkStore

_MOST_TURNS: Final = 1_000_000
"""A turn a second comes to it in eleven days, so an outage meets it only where nobody looks for that long."""
_LOOK_SECONDS: Final = 10.0
"""Between two looks at the store: a bound that is passed for so long does no harm."""


class Backlog:
    """The backlog of everybody's turns, as far as it decides whether more are taken."""

    def __init__(self, store: WorkStore) -> None:
        self._store = store
        self._is_full, self._look_at = False, float("-inf")

    def forget(self) -> None:
        """Look at the store again at the next call."""
        self._look_at = float("-inf")

    async def check_room(self) -> None:
        """Raises Busy while more turns owe work than may."""
        if (now := time.monotonic()) >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            self._is_full = await self._store.owes_more_than(_MOST_TURNS)
        if self._is_full:
            raise Busy(
                f"more than {_MOST_TURNS:,} turns owe work, so no more are taken for now; nothing"
                " was stored. Workers that run and keep up bring it down: `memory-agent status` says what it waits for",
                retry_after=_LOOK_SECONDS,
            )
