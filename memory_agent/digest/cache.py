"""LRU cache of turn analyses for recently active threads.

The turns themselves are read from the store each time, for another process may have added or forgotten some; what the
rules made of them is kept by turn id, so that a forgotten turn's analysis is never looked up again. The least recently
used threads leave when there are too many, from memory only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from memory_agent.digest.fold import analyse
from memory_agent.domain import LiveStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.digest.fold import Analysis
    from memory_agent.domain import Scope, Turn

_IN_PLACE: Final = 8
"""Turns analysed on the event loop; more of them go to a thread, at up to a millisecond each."""
_IN_PLACE_CHARS: Final = 4_000
"""Of these turns together: a single one may be a book."""
MAX_THREADS: Final = 100
MAX_KEPT_TURNS: Final = 400
"""Of one thread: as many as may come between two compressions, and some."""


class AnalysisCache:
    """At most `max_threads` buffers, one a thread, the least recently used out first."""

    def __init__(self, *, max_threads: int = MAX_THREADS) -> None:
        self._max_threads = max_threads
        self._threads: OrderedDict[Scope, OrderedDict[str, Analysis]] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> LiveStats:
        """Counts of the cache now."""
        return LiveStats(
            live_threads=len(self._threads),
            max_live_threads=self._max_threads,
            turns=sum(map(len, self._threads.values())),
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
        )

    async def analysed(self, scope: Scope, turns: Sequence[Turn]) -> list[tuple[Turn, Analysis]]:
        """Each of `turns` (of one thread) with its analysis."""
        known = self._buffer(scope)
        new = [turn for turn in turns if turn.id not in known]
        self._hits += len(turns) - len(new)
        self._misses += len(new)

        def work() -> dict[str, Analysis]:
            return {turn.id: analyse(turn) for turn in new}

        short = len(new) <= _IN_PLACE and sum(len(turn.content) for turn in new) <= _IN_PLACE_CHARS
        fresh = work() if short else await asyncio.to_thread(work)
        found = {turn.id: known.get(turn.id) or fresh[turn.id] for turn in turns}
        known.update(fresh)
        while len(known) > MAX_KEPT_TURNS:
            known.popitem(last=False)
        return [(turn, found[turn.id]) for turn in turns]

    def _buffer(self, scope: Scope) -> OrderedDict[str, Analysis]:
        buffer = self._threads.setdefault(scope, OrderedDict())
        self._threads.move_to_end(scope)
        while len(self._threads) > self._max_threads:
            self._threads.popitem(last=False)
            self._evictions += 1
        return buffer

    def drop(self, user_id: str) -> None:
        """Forget what is kept of this user's threads: something was forgotten."""
        for scope in [scope for scope in self._threads if scope.user_id == user_id]:
            del self._threads[scope]

    def clear(self) -> None:
        """Forget everything kept."""
        self._threads.clear()
