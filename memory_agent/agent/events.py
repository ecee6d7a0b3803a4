"""The part of MemoryAgent that tells what happens to its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.agent.thread import ThreadCalls

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from memory_agent.domain import MemoryEvent


class EventCalls(ThreadCalls):
    """Events of a thread's memory, as they happen."""

    async def events(self, after: str | None = None) -> AsyncGenerator[MemoryEvent, None]:
        """The events of this thread's memory from now on, or (`after`: an event's `id`) since that event; without end.

        Whoever stops before closes it: `async with contextlib.aclosing(memory.events()) as events:`. Raises EventsLost if
        what followed `after` is not kept any more, EventsUnsupported where the document store tells no events.
        """
        async with self._core.store.watch(self.scope, after=after) as events:
            async for event in events:
                yield event
