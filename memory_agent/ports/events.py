"""The port of events: told in order to those who watch a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from memory_agent.domain import MemoryEvent, Scope


class EventStore(Protocol):
    """Events: what happens in a scope, told to those who watch it."""

    def watch(
        self, scope: Scope | None = None, *, after: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[MemoryEvent]]:
        """The events of the scope (None: everybody's), as they happen, in order and without end.

            async with store.watch(scope) as events:
                async for event in events: ...

        Entering fixes the place: everything that is stored by a call that started after it was entered is told, and
        nothing of what was stored by one that had returned before. With `after`, the id of an event that any watch of
        this database told, in whatever scope: everything since that event, each once. Turns of one thread are told in
        the order of `seq`, and what happens to one turn in the order in which it happened.

        `turn_stored`: a turn was stored. `indexed`: its stage `index` was struck off; again if it was owed again.
        `topic_assigned`: it got its topic. `parked`: it is parked, and was not before. `facts_changed`: a change was
        appended that counts, which an extraction that states nothing, or of a generation, doesn't (the change by which
        the generation counts does). `compressed`: a compression was appended; it may have been taken back at once. Of what was forgotten
        since, later kinds than `turn_stored` are left out, and a store may leave out all. Forgetting itself is told by
        no event.

        Several may watch at once. A call for the next event that is cancelled loses nothing: ask again. Leaving ends
        the watch within a second (if the store does not answer: within the time limit of its calls), with all that it
        held open; whoever still waits for an event then gets none.

        Raises EventsLost for an `after` that is no event's id or so old that what followed is not kept any more, when
        entered or (for an id of another database, maybe) at the next event; from the iterator too, for a reader that
        is slower than what is kept. Raises EventsUnsupported where the store cannot tell events, and StoreUnavailable
        when it is down: watch again, after the last event. NotOpen, also from the iterator once the store is closed.
        After an error the iterator has ended.
        """
