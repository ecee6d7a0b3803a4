"""The port of copies: everything that a store holds of a thread, to be stored as it is in another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import CopiedTurn, DamagedRecord, Scope, ThreadCopy, ThreadRemains


class CopyStore(Protocol):
    """Copies of threads: what other ports don't tell of them, and a way to store it under the same ids and numbers.

    `scope` must name a thread.
    """

    async def stored_users(self, *, after: str = "", limit: int) -> list[str]:
        """The first `limit` stored ids above `after` of users, of all tenants, of whom anything is kept: remains as well."""

    async def stored_threads(self, user_id: str) -> list[str]:
        """The user's threads, by rising id, of which anything is kept: remains of forgotten turns as well."""

    async def copied_turns(
        self, scope: Scope, *, after_seq: int = 0, limit: int, texts: bool = True
    ) -> list[CopiedTurn]:
        """The thread's first `limit` turns above `after_seq`, by rising `seq`.

        `texts=False`: with empty ones, those too whose packed text is lost or damaged; `CopiedTurn.readable` tells them.
        """

    async def thread_remains(self, scope: Scope) -> ThreadRemains:
        """Numbers that the thread must not give again, and what is left of what was forgotten in it, by key."""

    async def put_copies(self, scope: Scope, copies: ThreadCopy) -> Sequence[str]:
        """Store what of it is not there yet, durably; the ids of turns that are new. Repeating it changes nothing.

        Turns are stored plain, whatever `compressed` says, and what they are said to owe is owed. The thread's facts are folded anew.
        Compressions go that a new turn comes in among, and all of the thread where its last one then miscounts the turns that are there.
        Raises StoreError if something else has the id, the number or the key of a turn or a change; what came before it in
        `copies` may be stored.
        """

    async def damaged_records(self, scope: Scope) -> list[DamagedRecord]:
        """The thread's records that other calls would raise StoreError about, looked for one by one."""

    async def drop_damaged(self, scope: Scope, records: Sequence[DamagedRecord]) -> None:
        """Delete those of these records that are derived of turns, or stand beside them; numbers of fact changes stay taken.

        Turns are left: they are erased like others.
        """
