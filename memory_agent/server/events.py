"""Events handed out: one watch of the store for a whole process, and a bounded queue for each reader.

A reader that stays too far behind is dropped with a reason; nobody ever waits for one. Readers that come back name the
last event they saw: what followed is taken from the newest events kept here, or, if they were away longer, read from the
store by a watch of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from memory_agent.errors import EventsLost, StoreUnavailable, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from memory_agent.domain import MemoryEvent, Scope
    from memory_agent.ports import DocumentStore

log = logging.getLogger(__name__)

_KEPT: Final = 10_000
_RETRY_SECONDS: Final = 0.5


class ReaderDropped(Exception):
    """The reader was sent away; the text says why. It may come back with the last event it saw."""


class _Reader:
    """Events on their way to one reader."""

    def __init__(self, scope: Scope, most: int) -> None:
        self.scope = scope
        self._most = most
        self._waiting: deque[MemoryEvent] = deque()
        self._woken = asyncio.Event()
        self._dropped: str | None = None

    def wants(self, event: MemoryEvent) -> bool:
        return event.user_id == self.scope.user_id and self.scope.thread_id in (None, event.thread_id)

    def put(self, event: MemoryEvent) -> bool:
        """Whether there was room; if not, the reader is dropped."""
        if len(self._waiting) >= self._most:
            self.drop(f"too slow: more than {self._most:,} events behind; come back with the last id you saw")
            return False
        self._waiting.append(event)
        self._woken.set()
        return True

    def drop(self, reason: str) -> None:
        self._dropped = self._dropped or reason
        self._waiting.clear()
        self._woken.set()

    async def events(self) -> AsyncIterator[MemoryEvent]:
        while True:
            if self._dropped is not None:
                raise ReaderDropped(self._dropped)
            while self._waiting:
                yield self._waiting.popleft()
            self._woken.clear()
            if self._dropped is None and not self._waiting:
                await self._woken.wait()


class EventHub:
    """Hands a store's events to readers, each under its own scope."""

    def __init__(self, store: DocumentStore, *, queue: int, most_readers: int, kept: int = _KEPT) -> None:
        """`queue`: how many events a reader may be behind; `kept`: newest events kept for those who come back."""
        self._store = store
        self._queue = queue
        self._most_readers = most_readers
        self._kept: OrderedDict[str, MemoryEvent] = OrderedDict()
        self._most_kept = kept
        self._readers: set[_Reader] = set()
        self._open = 0
        self._watching: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None] | None = None
        self._closed = False
        self.dropped = 0
        """Readers that were sent away since the start."""

    @property
    def readers(self) -> int:
        """How many there are now."""
        return self._open

    @contextlib.asynccontextmanager
    async def reading(
        self, scope: Scope, *, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[MemoryEvent]]:
        """The scope's events from now on, or since the event `after`.

        Iterating raises ReaderDropped. Entering raises EventsLost, EventsUnsupported, StoreUnavailable, and
        Unavailable when there are too many readers.
        """
        if self._closed:
            raise Unavailable("this service is closing; come back in a moment")
        if self._open >= self._most_readers:
            raise Unavailable(f"{self._open:,} readers of events are served already; come back later")
        self._open += 1
        try:
            await self._begin()
            if after is None or after in self._kept:
                async with self._live(scope, after) as events:
                    yield events
            else:
                async with self._store.watch(scope, after=after) as events:
                    yield events
        finally:
            self._open -= 1

    async def close(self) -> None:
        """Send every reader away and stop watching."""
        self._closed = True
        self._drop_all("the service is closing; come back with the last id you saw")
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})

    @contextlib.asynccontextmanager
    async def _live(self, scope: Scope, after: str | None) -> AsyncIterator[AsyncIterator[MemoryEvent]]:
        reader = _Reader(scope, self._queue)
        # Nothing is awaited between looking at what is kept and joining the readers: no event falls in between.
        missed: list[MemoryEvent] = []
        if after is not None:
            for event in reversed(self._kept.values()):
                if event.id == after:
                    break
                if reader.wants(event):
                    missed.append(event)
        self._readers.add(reader)

        async def all_events() -> AsyncIterator[MemoryEvent]:
            for event in reversed(missed):
                yield event
            async for event in reader.events():
                yield event

        events = all_events()
        try:
            yield events
        finally:
            self._readers.discard(reader)
            await events.aclose()  # type: ignore[attr-defined]

    async def _begin(self) -> None:
        """Wait until the store is watched; the first reader starts that."""
        if self._watching is None or self._watching.done():
            self._begun = asyncio.get_running_loop().create_future()
            self._watching = asyncio.create_task(self._watch(self._begun), name="memory-agent events")
        if self._begun is not None:
            await asyncio.shield(self._begun)

    async def _watch(self, begun: asyncio.Future[None]) -> None:
        """Watch until closed. An outage is waited out and continued from the last event; a gap sends all readers away."""
        last: str | None = None
        while True:
            try:
                async with self._store.watch(after=last) as events:
                    if not begun.done():
                        begun.set_result(None)
                    async for event in events:
                        last = event.id
                        self._hand_out(event)
            except StoreUnavailable as exc:
                if not begun.done():
                    begun.set_exception(exc)
                    return
                log.warning("events are held up: %s", type(exc).__name__)
                if last is None:  # where to go on is unknown
                    self._drop_all(
                        "events may have been missed while the store was down; read the state anew"
                    )
            except EventsLost:
                last = None
                self._kept.clear()
                self._drop_all("events were missed; read the state anew")
            except Exception as exc:
                if not begun.done():
                    begun.set_exception(exc)
                    return
                log.error("watching the store failed: %s", type(exc).__name__)
                last = None
                self._kept.clear()
                self._drop_all("events may have been missed; read the state anew")
            await asyncio.sleep(_RETRY_SECONDS)

    def _hand_out(self, event: MemoryEvent) -> None:
        self._kept[event.id] = event
        while len(self._kept) > self._most_kept:
            self._kept.popitem(last=False)
        for reader in [reader for reader in self._readers if reader.wants(event)]:
            if not reader.put(event):
                self.dropped += 1
                self._readers.discard(reader)

    def _drop_all(self, reason: str) -> None:
        for reader in self._readers:
            reader.drop(reason)
        self.dropped += len(self._readers)
        self._readers.clear()
