"""Readers of events: a queue for each, and watches of the store that one has alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from memory_agent.errors import EventsLost, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from memory_agent.domain import MemoryEvent, Scope
    from memory_agent.ports import DocumentStore

_Result = TypeVar("_Result")


class ReaderDropped(Exception):
    """The reader was sent away; the text says why. It may come back with the last event it saw."""


class Reader:
    """Events on their way to one reader."""

    def __init__(self, scope: Scope, most: int) -> None:
        self.scope = scope
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once it is sent away."""
        self._most = most
        self._missed: deque[MemoryEvent] = deque()
        self._waiting: deque[MemoryEvent] = deque()
        self._woken = asyncio.Event()
        self._away: ReaderDropped | EventsLost | None = None

    def wants(self, event: MemoryEvent) -> bool:
        return event.user_id == self.scope.user_id and self.scope.thread_id in (None, event.thread_id)

    def put(self, event: MemoryEvent) -> bool:
        """Queue an event; False, and the reader is sent away, if there is no room."""
        if len(self._waiting) >= self._most:
            slow = f"too slow: more than {self._most:,} events behind; come back with the last id you saw"
            self.send_away(ReaderDropped(slow))
            return False
        self._waiting.append(event)
        self._woken.set()
        return True

    def begin(self, missed: list[MemoryEvent]) -> None:
        """Start anew with these; they don't count as being behind."""
        self._missed = deque(missed)
        self._waiting.clear()

    def send_away(self, error: ReaderDropped | EventsLost) -> None:
        if self._away is None:
            self._away = error
            self.gone.set_result(None)
        self.begin([])
        self._woken.set()

    def check_stays(self) -> None:
        if self._away is not None:
            raise self._away

    async def something(self) -> None:
        """Wait until there is an event. Raises what the reader was sent away with."""
        self.check_stays()
        while not self._missed and not self._waiting:
            self._woken.clear()
            await self._woken.wait()
            self.check_stays()

    async def events(self) -> AsyncIterator[MemoryEvent]:
        while True:
            await self.something()
            yield (self._missed or self._waiting).popleft()

    async def unless_gone(
        self, step: Coroutine[Any, Any, _Result], *, seconds: float | None = None
    ) -> _Result:
        """Await `step`. Raises the reader's reason for being sent away, TimeoutError after `seconds`."""
        task = asyncio.ensure_future(step)
        try:
            steps: set[asyncio.Future[Any]] = {task, self.gone}
            await asyncio.wait(steps, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():  # it may have been done just then, and what it got must not be lost
                return task.result()
            self.check_stays()
            raise TimeoutError
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # whoever is cancelled does not hear of it


class Places(asyncio.Semaphore):
    """So many of something at a time."""

    wanted = 0
    """How many wait for one."""

    async def take(self) -> None:
        self.wanted += 1
        try:
            await self.acquire()
        finally:
            self.wanted -= 1


class OwnWatch:
    """A watch of the store for one reader alone, opened and closed several times; one of few at a time."""

    def __init__(self, store: DocumentStore, scope: Scope, places: Places) -> None:
        self._store = store
        self._scope = scope
        self._places = places
        self._held = contextlib.AsyncExitStack()
        self._events: AsyncIterator[MemoryEvent]

    async def open(self, after: str) -> None:
        """Whatever was got is held from then on, so that `close` gives it back even if this is cancelled."""
        await self._places.take()
        self._held.callback(self._places.release)
        self._events = await self._held.enter_async_context(self._store.watch(self._scope, after=after))

    async def next(self) -> MemoryEvent:
        """The next event; cancelled, it loses none. Raises StoreUnavailable if there is no watch any more."""
        try:
            return await anext(self._events)
        except StopAsyncIteration:
            raise StoreUnavailable(
                "the watch of the store ended; watch again, after the last event"
            ) from None

    async def close(self) -> None:
        """Give everything back; harmless if there is nothing."""
        await self._held.aclose()
