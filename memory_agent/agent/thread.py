"""The base of MemoryAgent's parts: the thread that they are about, and the core that they call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from memory_agent.agent.arguments import checked_reach
from memory_agent.checks import checked_id
from memory_agent.conversations.people import checked_limit, find_thread, list_threads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import TracebackType

    from memory_agent.domain import MemoryEvent, Reach, Scope, ThreadsPage, ThreadSummary
    from memory_agent.service import MemoryService
    from memory_agent.wiring import Core


class OnService:
    """A thread of a service that it opens and closes with itself, if it was made alone."""

    scope: Scope
    _service: Any
    _owns_service: bool

    async def __aenter__(self) -> Self:
        if self._owns_service:
            await self._service.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_service:
            await self._service.__aexit__(kind, error, trace)


class ThreadCalls(OnService):
    """One thread of an open service: itself among its user's threads, and what happens to it."""

    _service: MemoryService

    @property
    def _core(self) -> Core:
        """Every part of the service. Raises NotOpen outside `async with`."""
        return self._service.core

    def _reach(self, scope: Reach | None) -> Scope:
        """The thread, or all of its user's; None: as the setting `memory_scope` says. Raises InvalidInput."""
        reach = self._service.cfg.memory_scope if scope is None else checked_reach(scope)
        return self.scope if reach == "thread" else self.scope.user

    async def threads(self, *, after: str | None = None, limit: int = 100) -> ThreadsPage:
        """The threads of this user, by rising id, at most `limit`; none if nothing is remembered of the user yet.

        `after`: only those above it, such as the `next` of the page before.
        """
        above = None if after is None else checked_id("after", after)
        return await list_threads(self._core.store, self.scope, after=above, limit=checked_limit(limit))

    async def thread_summary(self) -> ThreadSummary:
        """The number of this thread's turns, and when the last one was said.

        Raises NotFound with the nearest names if nothing is remembered of the thread, or of the user: a look at
        whether a name was misspelt. Nothing else raises for that, since every memory begins empty.
        """
        return await find_thread(self._core.store, self.scope)

    async def events(self, after: str | None = None) -> AsyncGenerator[MemoryEvent, None]:
        """The events of this thread's memory from now on, or (`after`: an event's `id`) since that event; without end.

        Whoever stops before closes it: `async with contextlib.aclosing(memory.events()) as events:`. Raises EventsLost if
        what followed `after` is not kept any more, EventsUnsupported where the document store tells no events.
        """
        async with self._core.store.watch(self.scope, after=after) as events:
            async for event in events:
                yield event
