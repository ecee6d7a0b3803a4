"""Events handed out: one watch of the store for a whole process, and a bounded queue for each reader.

A reader that stays too far behind is dropped with a reason; nobody ever waits for one. Readers that come back name the
last event they saw. What followed is among the newest events kept here, or, if they were away longer, a watch of their
own tells it until it meets what is kept here. Such watches are few, for each holds a connection to the store: one that
has told nothing for a while gives its place to a reader that waits for one, and is opened anew, after its last event, as
soon as something happens in its scope.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_agent.errors import EventsLost, EventsUnsupported, MemoryAgentError, StoreUnavailable, Unavailable
from memory_agent.server.logs import origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from memory_agent.domain import MemoryEvent, Scope
    from memory_agent.ports import DocumentStore

log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

MOST_READERS: Final = 1_000
QUEUE: Final = 1_000
"""Events that a reader may be behind before it is sent away; it comes back with the last one it saw and misses none."""
_KEPT: Final = 10_000
_OWN_WATCHES: Final = 16
"""Of the 100 connections that MongoDB's driver holds, each watch has one nearly all the time."""
_IDLE_SECONDS: Final = 2.0
_ENTERING_SECONDS: Final = 20.0
_RETRY_SECONDS: Final = 0.5
_LEAVING_SECONDS: Final = 2.0

_CLOSING: Final = "the service is closing; come back in a moment, with the last id you saw"
_MISSED: Final = "events may have been missed; read the state anew"
_NO_PLACE: Final = "events were not watched for a while; come back with the last id you saw, and without one read the state anew"


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


class EventHub:
    """Hands a store's events to readers, each under its own scope."""

    def __init__(
        self,
        store: DocumentStore,
        *,
        queue: int | None = None,
        most_readers: int,
        kept: int = _KEPT,
        own_watches: int = _OWN_WATCHES,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        """`queue`: how many events a reader may be behind (default: QUEUE); `kept`: newest events kept for those who come back.

        `own_watches`: readers that get what is not kept here at a time, each for as long as something comes within
        `idle_seconds` or nobody else waits.
        """
        self._store = store
        self._queue = QUEUE if queue is None else queue
        self._most_readers = most_readers
        self._kept: OrderedDict[str, MemoryEvent] = OrderedDict()
        self._most_kept = kept
        self._own_places = Places(own_watches)
        self._idle_seconds = idle_seconds
        self._here: set[Reader] = set()
        self._all_left = asyncio.Event()
        self._live: dict[str, set[Reader]] = {}
        """Those that are handed what the hub's watch tells, by user."""
        self._last: str | None = None
        self._watching: asyncio.Task[None] | None = None
        self._attempt: asyncio.Future[Exception | None] | None = None
        """Of watching the store: None once it is watched, else why not. Never cancelled, so that many can await it."""
        self._closed = False
        self.dropped = 0
        """Readers that were sent away since the start."""

    @property
    def readers(self) -> int:
        """The number of readers now."""
        return len(self._here)

    @contextlib.asynccontextmanager
    async def reading(
        self, scope: Scope, *, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[MemoryEvent]]:
        """The scope's events since the event `after`, each once and in order; or from now on: then all that is stored by
        calls that start after this was entered, and maybe something of what was stored just before.

        Iterating raises ReaderDropped, EventsLost and StoreUnavailable, and ends when cancelled. Entering raises
        EventsLost, EventsUnsupported, StoreUnavailable, and Unavailable when there are too many readers.
        """
        if self._closed:
            raise Unavailable(_CLOSING)
        if len(self._here) >= self._most_readers:
            raise Unavailable(f"{len(self._here):,} readers of events are served already; come back later")
        reader = Reader(scope, self._queue)
        own = OwnWatch(self._store, scope, self._own_places)
        self._here.add(reader)
        try:
            async with contextlib.aclosing(await self._enter(reader, own, after)) as events:
                yield events
        finally:
            self._quit(reader)
            try:
                await own.close()
            finally:
                self._here.discard(reader)
                if not self._here:
                    self._all_left.set()

    async def close(self) -> None:
        """Send every reader away, stop watching, and wait until the readers have left, for 2 seconds at most."""
        self._closed = True
        self._send_away(self._here, ReaderDropped, _CLOSING)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        if self._attempt is not None and not self._attempt.done():
            self._attempt.set_result(Unavailable(_CLOSING))
        if self._here:
            self._all_left.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVING_SECONDS):
                    await self._all_left.wait()

    # --- one reader ------------------------------------------------------------------------------------------
    async def _enter(self, reader: Reader, own: OwnWatch, after: str | None) -> Any:
        """The reader's events, its place among them fixed."""
        try:
            await reader.unless_gone(self._watched())
            if after is None or after in self._kept:
                self._join(reader, after)
                return reader.events()
            await reader.unless_gone(own.open(after), seconds=_ENTERING_SECONDS)
        except ReaderDropped as exc:
            raise Unavailable(str(exc)) from exc
        except TimeoutError:
            raise Unavailable("too many readers catch up on events; come back in a moment") from None
        return self._caught_up(reader, own, after)

    async def _caught_up(self, reader: Reader, own: OwnWatch, last: str) -> AsyncIterator[MemoryEvent]:
        """Events of its own watch until that meets the kept ones; from there on those handed out."""
        while last not in self._kept:
            try:
                event = await reader.unless_gone(own.next(), seconds=self._idle_seconds)
            except TimeoutError:
                if self._own_places.wanted and not any(map(reader.wants, self._kept.values())):
                    await self._make_room(reader, own, last)
                continue
            last = event.id
            yield event
        self._join(reader, last)
        await own.close()
        async for event in reader.events():
            yield event

    async def _make_room(self, reader: Reader, own: OwnWatch, last: str) -> None:
        """Let another have the place until something happens in the reader's scope.

        It is known neither that its own watch had come to the end nor that the hub's had come that far. So what is handed
        out is only a sign: the watch that is opened then tells all that there is in between.
        """
        self._join(reader, None)
        await own.close()
        await reader.something()
        self._quit(reader)
        await reader.unless_gone(own.open(last))

    def _join(self, reader: Reader, after: str | None) -> None:
        """Have the reader be handed what follows; `after`: an event that is kept, or None for now."""
        # Nothing is awaited between looking at what is kept and joining: no event falls in between.
        missed: list[MemoryEvent] = []
        if after is not None:
            newer = takewhile(lambda event: event.id != after, reversed(self._kept.values()))
            missed = [event for event in newer if reader.wants(event)]
        reader.check_stays()
        reader.begin(missed[::-1])
        self._live.setdefault(reader.scope.user_id, set()).add(reader)

    def _quit(self, reader: Reader) -> None:
        readers = self._live.get(reader.scope.user_id, set())
        readers.discard(reader)
        if not readers:
            self._live.pop(reader.scope.user_id, None)

    # --- the watch that is everybody's -----------------------------------------------------------------------
    async def _watched(self) -> None:
        """Wait until the store is watched, which the first reader starts. Raises why it can't be at the moment."""
        if self._attempt is None or self._watching is None or self._watching.done():
            self._attempt = asyncio.get_running_loop().create_future()
            self._watching = asyncio.create_task(self._watch(), name="memory-agent events")
        attempt = self._attempt
        await asyncio.wait({attempt})
        if (failure := attempt.result()) is not None:
            raise failure

    async def _watch(self) -> None:
        """Watch until closed. An outage is waited out and continued from the last event; a gap sends readers away."""
        has_begun = is_down = False
        while True:
            try:
                async with self._store.watch(after=self._last) as events:
                    self._settle(None)
                    has_begun, is_down = True, False
                    async for event in events:
                        self._hand_out(event)
                        await asyncio.sleep(0)  # readers take theirs before the next, however many are ready
                failure: Exception = StoreUnavailable("the watch of the store ended")
            except Exception as exc:
                failure = exc
            self._settle(failure)
            if not has_begun:
                return  # nobody reads yet; who asks next tries again
            if not is_down:
                known = isinstance(failure, MemoryAgentError)  # else it should never happen
                log.warning("events are held up: %s", type(failure).__name__ if known else origin(failure))
                is_down = True
            self._interrupt(failure)
            await asyncio.sleep(_RETRY_SECONDS)

    def _settle(self, failure: Exception | None) -> None:
        """Tell those who wait for the attempt how it ended; who comes after a failure waits for the next."""
        assert self._attempt is not None  # noqa: S101 - made before the task
        if failure is not None and self._attempt.done():  # the watch had begun
            self._attempt = asyncio.get_running_loop().create_future()
            return
        # A place that is lost is not theirs: they wait for the next one, which is from now on.
        if self._attempt.done() or (isinstance(failure, EventsLost) and self._last is not None):
            return
        self._attempt.set_result(failure)
        if failure is not None:
            self._attempt = asyncio.get_running_loop().create_future()

    def _interrupt(self, failure: Exception) -> None:
        live = [reader for readers in self._live.values() for reader in readers]
        if not isinstance(failure, StoreUnavailable):
            self._last = None  # going on from there might fail for ever
            self._kept.clear()
            unsupported = isinstance(failure, EventsUnsupported)
            self._send_away(live, EventsLost, str(failure) if unsupported else _MISSED)
        elif self._last is None:
            self._send_away(live, ReaderDropped, _NO_PLACE)

    def _hand_out(self, event: MemoryEvent) -> None:
        self._last = event.id
        self._kept[event.id] = event
        while len(self._kept) > self._most_kept:
            self._kept.popitem(last=False)
        for reader in [reader for reader in self._live.get(event.user_id, ()) if reader.wants(event)]:
            if not reader.put(event):
                self.dropped += 1
                self._quit(reader)

    def _send_away(
        self, readers: list[Reader] | set[Reader], kind: type[ReaderDropped | EventsLost], reason: str
    ) -> None:
        for reader in list(readers):
            reader.send_away(kind(reason))
            self.dropped += 1
            self._quit(reader)
