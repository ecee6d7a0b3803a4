"""The ports of turns, appended under a rising number and read by scope, and of who is remembered, in which threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import OldTurn, Scope, ThreadSummary, Tombstone, Turn, TurnDraft


class TurnStore(Protocol):
    """Turns: appended under a rising number, read by scope."""

    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        """Store the turns of one call durably, in order, and return them with their `seq`.

        Durable: once this returned, the turns survive the death of this process and of the server's.
        `seq` starts at 1 per thread, is unique, and is greater than that of every append of the thread that
        returned before this one started, whichever process made it. Nothing with a lower `seq` becomes visible
        later: who has seen `seq` n will never see a new turn below n.

        If the drafts carry an idempotency key (all of a call the same) that the thread has seen, nothing is stored and
        the first call's turns are returned as they are now (a Tombstone for each that was forgotten since); a first call
        that a crash cut short is completed from the drafts whose `call_index` is missing of its `call_size`, unless
        what is there of it says otherwise than the drafts (`domain.said_otherwise`). A call that raises Unavailable may have stored all, a first part, or none of its turns.
        Turns with `pending` stages are due at their `due_at`, others at no time. Raises StoreError for a turn id that is
        stored already, whoever's; drafts before it may be stored then. `scope` must name a thread.
        """

    async def list_turns(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        topic_ids: Sequence[str] | None = None,
        compressed: bool | None = None,
        session_id: str | None = None,
        after_seq: int = 0,
        through: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Turn]:
        """Turns of the scope. With a thread: by rising `seq`; of a user: by rising id, threads mixed.

        `ids`: only these (unknown or foreign ones are left out). `topic_ids`: only turns that carry one of these.
        `compressed`: only those that are, or aren't. `session_id`: only that session's. `after_seq`: only above it;
        `through`: only up to and including it. `limit`: the first so many, or
        with `newest` the last so many (still in rising order). Compressed turns come with their text, as every
        turn that a method of this port returns.
        """

    async def turns_at(self, scope: Scope, places: Sequence[tuple[str, int]]) -> list[Turn]:
        """The turns of the scope at these places (thread, `seq`), each once and in any order.

        Places without a turn are passed over. By an index: it costs what it finds, however many turns there are.
        """

    async def turns_before(
        self, time: datetime, *, after: OldTurn | None = None, limit: int
    ) -> list[OldTurn]:
        """Everybody's first `limit` turns with a `timestamp` before `time`, by rising timestamp and id.

        `after`: only those that sort after it.
        """


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
