"""The port of who is remembered, and in which threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import Scope, ThreadSummary


class PeopleStore(Protocol):
    """Users of whom anything is remembered, and their threads."""

    async def user_ids(self, tenant: str, *, after: str = "", limit: int) -> list[str]:
        """The first `limit` of the tenant's users (by their stored ids, rising) that sort above `after`.

        Those that have a thread, as below. By indexes: it costs what it finds, however many users there are.
        """

    async def thread_ids(self, scope: Scope, *, after: str = "", limit: int) -> list[str]:
        """The first `limit` of the user's threads, by rising id, that sort above `after`, whichever thread `scope` names.

        A thread is one that holds turns, or a session, or fact changes; what remains of forgotten turns is none.
        """

    async def count_threads(
        self, user_ids: Sequence[str], *, thread_ids: Sequence[str] | None = None
    ) -> dict[str, list[ThreadSummary]]:
        """The threads of each of these users (stored ids), by rising id; [] for a user that has none.

        `thread_ids`: only these. Counted from indexes: no turn is read.
        """
