"""The port of erasures: the records of forget calls, and the erasing of what they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import ErasedCounts, ErasedTier, Erasure, ErasureReceipt, KeyedKind, Scope


class ErasureStore(Protocol):
    """Erasures: the records of forget calls, and the erasing of what they name."""

    async def key_spent(self, scope: Scope, kind: KeyedKind, key: str) -> bool:
        """True if an edit, or a session, that was stored in the thread with this idempotency key was erased since.

        `scope` must name a thread.
        """

    async def put_erasure(self, erasure: Erasure) -> None:
        """Record a forget call as owed work, durably; replaces a record of the same id."""

    async def due_erasures(self, now: datetime, *, limit: int) -> list[Erasure]:
        """Erasures due at `now`, longest due first."""

    async def end_erasure(self, erasure: Erasure) -> None:
        """The erasure is finished: its record goes. Idempotent."""

    async def put_receipt(self, receipt: ErasureReceipt) -> None:
        """Keep the receipt of a forget call, durably; replaces one of the same id. It holds hashes alone, and is nobody's."""

    async def receipts(
        self, *, state: str | None = None, after: str = "", limit: int | None = None
    ) -> list[ErasureReceipt]:
        """The receipts of all forget calls, by rising id. `state`: those in that state; `after`, `limit`: at most so many above that id."""

    async def rewrite_files(self) -> bool:
        """Write the store's files anew without a byte of what was deleted; False where they are a server's, out of reach.

        It takes seconds for each GB, in which writes wait. Raises StoreUnavailable where there is no room for it.
        """

    async def file_tiers(self) -> tuple[ErasedTier, ...]:
        """The state of an erasure in files at its first pass, and what of them only an operator can reach."""

    async def erase_turns(self, erasure: Erasure, *, now: datetime, limit: int) -> ErasedCounts:
        """Erase up to `limit` of the erasure's turns with all that this store derived from them.

        A turn with an idempotency key leaves a Tombstone. Its search row becomes a stub with a fresh `index_seq`.
        Every fact change that had one of the turns in view (`FactChange.turns`) goes, and the affected threads'
        documents are reset (empty, `through=0`, new revision). If that was the change of a turn that stays, all of
        that turn's changes go, and it owes `facts` again, due at `now` with no attempts and no last error. An erasure of
        a whole scope also takes the scope's changes without a turn whose `key` sorts before `before_id`, and its
        sessions whose id does and that no turn belongs to any more; the idempotency keys of both are spent from then on.
        The thread's compressions whose `through` is not below the erased turn's `seq` go, and its newest turn (if one is
        left) owes `compress` again, due at `now`.
        Its text goes out of its segment. The topic whose id it carries is reset, and so is the one that absorbed
        that: derived fields emptied (title "", no summary, no embedding, `access_count=0`, `through=0`,
        no `given_importance`), `stale`, new revision; what people set stays. Where there is no such topic, one is
        made in that state (with `created_at` and `last_access` of `now`), so that nothing folded from the turn can
        be saved any more. Zero counts mean that nothing is left to erase. Safe to repeat after a crash at any point.
        """

    async def sweep_orphans(self, scope: Scope, *, stubs_before: datetime, now: datetime) -> ErasedCounts:
        """Erase the user's search rows, packed texts and fact changes of turns that are gone, and reset documents as above.

        Fact changes with a turn in view that is gone go as above, with what their own turns owe then, and so do
        compressions that cover a turn that is gone, or whose predecessor is missing, with all later ones of their
        threads, and all of threads whose last one miscounts the turns up to it.
        Topics of turns that are gone are reset if a crash kept `erase_turns` from it, and so is a topic that says
        something though no turn belongs to it. Stubs erased before `stubs_before` are deleted. Tombstones, spent keys and the highest
        number of each thread with forgotten turns are kept under hashes from then on (`domain.hashing`): a repeat of such a call
        gets a Tombstone whose `turn_id` is one. Not while processes of before schema 10 may be at work, which would not find them. What a worker wrote for a turn that was forgotten
        meanwhile ends here. Works on the whole user, whichever thread `scope` names.
        """

    async def erase_remains(self, scope: Scope, *, before_id: str) -> None:
        """Delete of the scope's threads without turns and fact changes the facts documents, costs, sessions, topics and
        compressions; of a user also tombstones and spent keys; and expired leases.

        Tombstones of turns, sessions, and spent keys of what had an id that does not sort before `before_id` stay: a
        session that was started since has yet to see its first turn, and the numbers of its thread go on. The last step
        of forgetting a thread or a user.
        """
