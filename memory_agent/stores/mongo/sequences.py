"""Rising numbers without a counter: try the next one, and let a unique index settle who gets it.

A counter would hand out numbers in one order and let the writes become visible in another. Here a number is
taken by the write itself, so nothing can appear below a number that somebody has already seen.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from memory_agent.stores.codec import SEQ_TRUST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from memory_agent.domain import Scope

_REMEMBERED_THREADS: Final = 20_000


class Sequences:
    """The last sequence numbers that this process knows, with a lock for each thread that takes one."""

    def __init__(self) -> None:
        self._last: OrderedDict[Scope, tuple[int, float]] = OrderedDict()
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: Hashable) -> asyncio.Lock:
        """The lock of one sequence: writers of one process queue instead of colliding."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    def take(self, scope: Scope) -> int | None:
        """The thread's last number if it is known, which it then is no more until `put`.

        So whatever ends the write, an error or a cancellation, the next one asks the store.
        """
        last, known_at = self._last.pop(scope, (None, 0.0))
        return last if time.monotonic() - known_at < SEQ_TRUST_SECONDS else None

    def put(self, scope: Scope, last: int) -> None:
        """The thread's last number, as just written by us."""
        self._last[scope] = (last, time.monotonic())
        while len(self._last) > _REMEMBERED_THREADS:
            self._last.popitem(last=False)

    def forget_all(self) -> None:
        self._last.clear()
