"""The hub of events over a store whose every step is scripted: nothing twice, nothing missed, nobody waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import MemoryEvent, Scope
from memory_agent.errors import EventsLost, EventsUnsupported, StoreUnavailable, Unavailable
from memory_agent.ports import DocumentStore
from memory_agent.server import events as hub_module
from memory_agent.server.events import EventHub, ReaderDropped

ADA = Scope(user_id="ada", thread_id="t")
ADAS = Scope(user_id="ada")
BOB = Scope(user_id="bob", thread_id="t")
SCOPES = (ADA, Scope(user_id="ada", thread_id="u"), ADAS, BOB)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECONDS = 60.0


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """An outage is over as soon as the store is back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_module, "_RETRY_SECONDS", 0.001)
        patch.setattr(hub_module, "_LEAVING_SECONDS", 0.1)
        yield


class ScriptedStore:
    """A log of events, and watches of it that tell as far as they are let."""

    def __init__(self) -> None:
        self.log: list[MemoryEvent] = []
        self.told = 0
        """Watches have come so far."""
        self.pruned = 0
        self.failure: Exception | None = None
        """What every watch raises, opened or being opened."""
        self.opening = asyncio.Event()
        """Watches are opened while this is set."""
        self.opening.set()
        self.watches = 0
        self.most_watches = 0
        self._changed = asyncio.Event()

    def add(self, scope: Scope = ADA) -> MemoryEvent:
        event = MemoryEvent(
            id=str(len(self.log) + 1),
            kind="turn_stored",
            user_id=scope.user_id,
            thread_id=scope.thread_id or "t",
            at=NOW,
        )
        self.log.append(event)
        return event

    def happens(self, *scopes: Scope) -> None:
        """Events of these scopes (default: one of Ada's), told at once."""
        for scope in scopes or (ADA,):
            self.add(scope)
        self.tell()

    def tell(self, count: int | None = None) -> None:
        """Let the watches see that many more events; all by default."""
        self.told = len(self.log) if count is None else min(len(self.log), self.told + count)
        self.wake()

    def fail(self, failure: Exception | None) -> None:
        self.failure = failure
        self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def watch(
        self, scope: Scope | None = None, *, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[MemoryEvent]]:
        await self.opening.wait()
        if self.failure is not None:
            raise self.failure
        if after is not None and (not after.isdigit() or not self.pruned <= int(after) <= len(self.log)):
            raise EventsLost("no event's id here")
        self.watches += 1
        self.most_watches = max(self.most_watches, self.watches)
        try:
            yield _Watch(self, scope, len(self.log) if after is None else int(after))
        finally:
            self.watches -= 1


class _Watch:
    """Can be asked again when a call was cancelled, as the port says."""

    def __init__(self, store: ScriptedStore, scope: Scope | None, position: int) -> None:
        self._store = store
        self._scope = scope
        self._position = position

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> MemoryEvent:
        store = self._store
        while True:
            if store.failure is not None:
                raise store.failure
            if self._position < store.pruned:
                raise EventsLost("pruned")
            while self._position < store.told:
                event = store.log[self._position]
                self._position += 1
                if self._scope is None or within(event, self._scope):
                    return event
            await store._changed.wait()


def within(event: MemoryEvent, scope: Scope) -> bool:
    return event.user_id == scope.user_id and scope.thread_id in (None, event.thread_id)


@contextlib.asynccontextmanager
async def hubs(**options: Any) -> AsyncIterator[tuple[ScriptedStore, EventHub]]:
    """A hub over a scripted store; afterwards it has neither readers nor watches left."""
    store = ScriptedStore()
    hub = EventHub(cast("DocumentStore", store), **{"queue": 1_000, "most_readers": 100, **options})
    try:
        yield store, hub
    finally:
        await hub.close()
    assert hub.readers == 0
    assert store.watches == 0


async def take(events: AsyncIterator[MemoryEvent], count: int) -> list[str]:
    async with asyncio.timeout(SECONDS):
        return [(await anext(events)).id for _ in range(count)]


async def ticks(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(holds: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.001)


# --- any interleaving --------------------------------------------------------------------------------------------
class Visit:
    """One stay of a reader: from where, and what it got."""

    def __init__(self, after: str | None, known: int) -> None:
        self.after = after
        self.known = known
        """Events in the log once it was in; all later ones are its own."""
        self.got: list[str] = []


class Returning:
    """A reader that comes back with the last id it saw whenever it is sent away."""

    def __init__(self, store: ScriptedStore, hub: EventHub, scope: Scope, after: str | None) -> None:
        self.scope = scope
        self.visits: list[Visit] = []
        self.pace = asyncio.Event()
        self.pace.set()
        self._store = store
        self._hub = hub
        self._last = after
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            with contextlib.suppress(ReaderDropped, StoreUnavailable, Unavailable):
                async with self._hub.reading(self.scope, after=self._last) as events:
                    self.visits.append(Visit(self._last, len(self._store.log)))
                    async for event in events:
                        self._last = event.id
                        self.visits[-1].got.append(event.id)
                        await self.pace.wait()
            await asyncio.sleep(0.001)

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def come_back(self) -> None:
        await self.leave()
        self._task = asyncio.create_task(self._read())

    def has(self, id_: str) -> bool:
        return bool(self.visits) and id_ in self.visits[-1].got[-1:]

    def check(self) -> None:
        """Each visit got what follows its place without a gap or a double, the last one up to the end."""
        own = [event.id for event in self._store.log if within(event, self.scope)]
        for number, visit in enumerate(self.visits):
            if visit.after is not None:
                begins = sum(int(id_) <= int(visit.after) for id_ in own)
            elif visit.got:
                begins = own.index(visit.got[0])
                assert begins <= sum(int(id_) <= visit.known for id_ in own)
            else:
                continue
            assert visit.got == own[begins : begins + len(visit.got)]
            if number == len(self.visits) - 1:
                assert begins + len(visit.got) == len(own)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(SCOPES)),
        st.tuples(st.just("add"), st.sampled_from(SCOPES)),
        st.tuples(st.just("tell"), st.integers(1, 4)),
        st.tuples(st.just("tell"), st.just(None)),
        st.tuples(st.just("enter"), st.sampled_from(SCOPES), st.none() | st.integers(0, 30)),
        st.tuples(st.just("back"), st.integers(0, 5)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("pace"), st.integers(0, 5)),
        st.tuples(st.just("down")),
        st.tuples(st.just("up")),
        st.tuples(st.just("run"), st.integers(1, 60)),
        st.tuples(st.just("wait")),
    ),
    max_size=40,
)


@given(steps=STEPS, kept=st.integers(1, 6), own_watches=st.integers(1, 2))
def test_each_reader_gets_all_of_its_scope_after_its_place_once_and_in_order(
    steps: list[tuple[Any, ...]], kept: int, own_watches: int
) -> None:
    asyncio.run(_play(steps, kept, own_watches))


async def _play(steps: list[tuple[Any, ...]], kept: int, own_watches: int) -> None:
    async with hubs(kept=kept, own_watches=own_watches, idle_seconds=0.001) as (store, hub):
        readers: list[Returning] = []
        for name, *details in steps:
            await _step(name, details, store, hub, readers)
        store.fail(None)
        for reader in readers:
            reader.pace.set()
        store.tell()
        try:
            # Told again and again: who is still on its way in without an id is not told what was there before.
            async with asyncio.timeout(SECONDS):
                done = False
                while not done:
                    for scope in SCOPES:
                        store.add(scope)
                    store.tell()
                    for _ in range(30):
                        await asyncio.sleep(0.001)
                        if done := all(_is_done(reader, store) for reader in readers):
                            break
        finally:
            for reader in readers:
                await reader.leave()
        for reader in readers:
            reader.check()
        assert store.most_watches <= 1 + own_watches


def _is_done(reader: Returning, store: ScriptedStore) -> bool:
    return reader.has([event.id for event in store.log if within(event, reader.scope)][-1])


async def _step(
    name: str, details: list[Any], store: ScriptedStore, hub: EventHub, readers: list[Returning]
) -> None:
    if name == "add":
        store.add(details[0])
    elif name == "tell":
        store.tell(details[0])
    elif name == "enter":
        scope, after = details
        known = after is not None and store.log
        readers.append(Returning(store, hub, scope, str(1 + after % len(store.log)) if known else None))
    elif name == "down":
        store.fail(StoreUnavailable("down"))
    elif name == "up":
        store.fail(None)
    elif name == "run":
        await ticks(details[0])
    elif name == "wait":
        await asyncio.sleep(0.004)
    elif readers:
        reader = readers[details[0] % len(readers)]
        if name == "back":
            await reader.come_back()
        elif name == "leave":
            await reader.leave()
            readers.remove(reader)
        else:
            (reader.pace.clear if reader.pace.is_set() else reader.pace.set)()


# --- entering ----------------------------------------------------------------------------------------------------
async def test_a_first_reader_that_fails_says_why_and_the_next_one_tries_again() -> None:
    """A store that cannot be watched is told by its own error, to all who wait; nothing goes on in the background."""
    async with hubs() as (store, hub):
        for failure in (EventsUnsupported("no"), StoreUnavailable("down")):
            store.fail(failure)
            tries = await asyncio.gather(*(_enter(hub) for _ in range(3)), return_exceptions=True)
            assert tries == [failure] * 3
            assert hub.readers == 0
            assert hub._watching is not None
            assert hub._watching.done()
        store.fail(None)
        async with hub.reading(ADA) as events:
            store.happens()
            assert await take(events, 1) == ["1"]


async def _enter(hub: EventHub, after: str | None = None) -> None:
    async with hub.reading(ADA, after=after):
        pass


async def test_who_comes_during_an_outage_waits_for_the_next_attempt() -> None:
    """It is told that the store is down while it is; once it is let in, nothing is missed."""
    async with hubs() as (store, hub), hub.reading(BOB):
        store.happens()
        await ticks()
        store.fail(StoreUnavailable("down"))
        await ticks()
        with pytest.raises(StoreUnavailable):
            await _enter(hub)
        store.opening.clear()
        store.fail(None)
        entering = asyncio.create_task(_first_of(hub, ADA))
        await ticks()
        assert not entering.done()
        store.opening.set()
        await until(lambda: store.watches == 1)
        await ticks()
        store.happens()
        async with asyncio.timeout(SECONDS):
            assert await entering == "2"


async def _first_of(hub: EventHub, scope: Scope, after: str | None = None) -> str:
    async with hub.reading(scope, after=after) as events:
        return (await anext(events)).id


# --- resuming ----------------------------------------------------------------------------------------------------


async def test_a_place_is_given_back_whatever_happens() -> None:
    """Cancelled before, while and after its own watch is opened, a reader leaves no place taken."""
    async with hubs(own_watches=1, kept=1) as (store, hub), hub.reading(BOB):
        store.happens(ADA, BOB)
        await ticks()
        for count in range(12):
            entering = asyncio.create_task(_first_of(hub, ADA, "1"))
            await ticks(count)
            entering.cancel()
            await asyncio.wait({entering})
            assert hub.readers == 1
        store.opening.clear()
        waiting = [asyncio.create_task(_first_of(hub, ADA, "1")) for _ in range(3)]
        await ticks()
        for entering in waiting:
            entering.cancel()
        await asyncio.wait(waiting)
        store.opening.set()
        async with hub.reading(ADA, after="1") as events:
            store.happens()
            assert await take(events, 1) == ["3"]


# --- dropping ----------------------------------------------------------------------------------------------------
async def test_a_slow_reader_is_dropped_and_nobody_waits_for_it() -> None:
    async with hubs(queue=5) as (store, hub), hub.reading(ADA) as slow:
        async with hub.reading(ADA) as quick:
            for number in range(1, 21):
                store.happens()
                assert await take(quick, 1) == [str(number)]
        assert hub.dropped == 1
        with pytest.raises(ReaderDropped, match="too slow: more than 5 events behind"):
            await anext(slow)
        async with hub.reading(ADA, after="1") as again:
            assert await take(again, 19) == [str(number) for number in range(2, 21)]


# --- outages -----------------------------------------------------------------------------------------------------


async def test_events_that_were_lost_send_readers_away_for_good() -> None:
    """Behind what is kept by the store nothing can be gone on with; whoever comes then is told what happens from now on."""
    async with hubs() as (store, hub):
        async with hub.reading(ADA) as events:
            store.happens()
            assert await take(events, 1) == ["1"]
            store.fail(StoreUnavailable("down"))
            await ticks()
            store.happens(*[ADA] * 5)
            store.pruned = 4
            store.fail(None)
            with pytest.raises(EventsLost, match="read the state anew"):
                async with asyncio.timeout(SECONDS):
                    await anext(events)
        with pytest.raises(EventsLost):
            await _enter(hub, "1")
        async with hub.reading(ADA, after="5") as late, hub.reading(ADA) as new:
            store.happens()
            assert await take(late, 2) == ["6", "7"]
            assert await take(new, 1) == ["7"]


# --- closing -----------------------------------------------------------------------------------------------------
async def test_closing_ends_every_kind_of_reader_at_once() -> None:
    """Live ones, those with a watch of their own, those that wait for a place, and those that are just coming."""
    async with hubs(own_watches=1, kept=1) as (store, hub):
        async with hub.reading(BOB):
            store.happens(ADA, BOB)
            await ticks()
            live = [asyncio.create_task(_first_of(hub, ADA)) for _ in range(2)]
            catching_up = [asyncio.create_task(_first_of(hub, ADA, "1")) for _ in range(3)]
            await ticks()
            store.opening.clear()
            closing = asyncio.create_task(hub.close())
            ended = await asyncio.gather(*live, *catching_up, return_exceptions=True)
        async with asyncio.timeout(SECONDS):
            await closing
        assert [type(end) for end in ended] == [ReaderDropped] * 3 + [Unavailable] * 2
        assert all("closing" in str(end) for end in ended)
        with pytest.raises(Unavailable, match="closing"):
            await _enter(hub)


async def test_closing_waits_for_those_who_still_tell_their_client_why() -> None:
    """Until they have left; closing twice does no harm."""
    async with hubs() as (_, hub):
        left: list[str] = []

        async def reads() -> None:
            async with hub.reading(ADA) as events:
                with contextlib.suppress(ReaderDropped):
                    await anext(events)
                await asyncio.sleep(0.03)
                left.append("told")

        reading = asyncio.create_task(reads())
        await ticks()
        await hub.close()
        assert left == ["told"]
        await hub.close()
        await reading
