"""The port of sessions of a thread, and the compressions of its conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import Compression, Scope, Session, ThreadHead


class SessionStore(Protocol):
    """Sessions of a thread, and the compressions of its conversation."""

    async def thread_head(self, scope: Scope) -> ThreadHead:
        """The thread's newest session (its counted fields at their defaults), its last turn, and the last `seq` given.

        That number outlives the turn that had it, until `erase_remains` lets the thread begin anew.

        Small indexed reads: every `update_memory` makes them. `scope` must name a thread.
        """

    async def put_sessions(self, sessions: Sequence[Session]) -> bool:
        """Store new sessions of one thread, numbered in a row, durably; False if the thread has one of the numbers, or
        one of their idempotency keys.

        All of them or none. Without transactions, and if another caller is quick enough to take one of the later
        numbers, those before it were there for a moment: they are deleted again, but for one that a turn came to
        belong to meanwhile. Counted fields are ignored.
        """

    async def sessions(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        newest: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[Session]:
        """The scope's sessions by `started_at` and number, with `total_turns`, `last_activity` and
        `compression_count` counted. `ids`: only these. `newest`: only the last so many of that order.
        `idempotency_key`: only the one that was stored with it.
        """

    async def find_session(
        self, session_id: str, *, tenant: str, user_id: str | None = None
    ) -> Session | None:
        """The tenant's session of that id, counted as by `sessions`; None if there is none. By an index.

        `user_id`: only that user's, by the id that the tenant knows the user by. Should several have the id, which only
        callers of this port can bring about, it is the first by user and thread.
        """

    async def delete_session(self, scope: Scope, session_id: str) -> bool:
        """Delete a session that no turn belongs to; else (or if it is unknown) False."""

    async def append_compression(self, compression: Compression) -> bool:
        """Store a compression durably; False (and nothing stored) if it cannot stand.

        That is if its number is not one above the thread's newest (1 without any), its `after_seq` is not that one's
        `through` (0 without any), or one of the turns it covers is gone: what it was made of changed under its maker's
        hands. After a crash in between a compression of forgotten turns may be left, which `sweep_orphans` takes away.
        """

    async def compressions(
        self, scope: Scope, *, through: int | None = None, newest: int | None = None
    ) -> list[Compression]:
        """The thread's compressions by rising number. `through`: only those whose own is not above it; `newest`: only
        the last so many. `scope` must name a thread.
        """
