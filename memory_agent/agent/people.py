"""The part of MemoryAgent that is about the user's threads as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.agent.thread import ThreadCalls
from memory_agent.checks import checked_id
from memory_agent.conversations.people import checked_limit, find_thread, list_threads

if TYPE_CHECKING:
    from memory_agent.domain import ThreadsPage, ThreadSummary


class PeopleCalls(ThreadCalls):
    """Calls about the threads of a user."""

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
