"""The part of MemoryAgent that tells what happens to its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from memory_agent.domain import MemoryEvent, Scope
    from memory_agent.service import MemoryService


class EventCalls:
    """What MemoryAgent tells as it happens."""

    scope: Scope
    _service: MemoryService

    async def events(self, after: str | None = None) -> AsyncGenerator[MemoryEvent, None]:
        """What happens to this thread's memory from now on, or (`after`: an event's `id`) since that event; without end.

        Whoever stops before closes it: `async with contextlib.aclosing(memory.events()) as events:`. Raises EventsLost if
        what followed `after` is not kept any more, EventsUnsupported where the document store tells no events.
        """
        async with self._service.parts.store.watch(self.scope, after=after) as events:
            async for event in events:
                yield event
