"""The port of facts: an append-only log of changes per thread, and its fold as one document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import ExtractionCost, FactChange, FactsDocument, Scope


class FactStore(Protocol):
    """Facts: an append-only log of changes per thread, and its fold as one document.

    `scope` must name a thread in every call but `fact_changes` and `fact_heads`.
    """

    async def append_fact_change(self, scope: Scope, change: FactChange) -> bool:
        """Append one change to the thread's facts; False (and nothing stored) if its key is there already, or its
        idempotency key.

        Atomic: all of it or nothing. `seq` is assigned as for turns; the change's own `seq` and `thread_id` are ignored.
        """

    async def fact_changes(
        self, scope: Scope, *, after_seq: int = 0, keys: Sequence[str] | None = None
    ) -> list[FactChange]:
        """With a thread: its changes by rising `seq`, above `after_seq`. Of a user: all threads' by `recorded_at`.

        Of equal `recorded_at` by thread and `seq`. `keys`: only the changes with these keys. All kinds and generations.
        """

    async def fact_heads(self, scope: Scope) -> dict[str, tuple[int, int]]:
        """Of each thread in the scope that has changes, how many and the highest `seq` of them.

        Numbers are given again only after `erase_remains` of a thread of which nothing is left, minutes after its changes went. So
        where both are what they were within these, the changes are the same.
        """

    async def drop_generation(self, scope: Scope, generation: str) -> int:
        """Delete the thread's changes of this generation, of every kind. How many.

        Their numbers stay taken, and the document is reset as by `erase_turns`: empty, `through=0`, under a new revision,
        also where there was none, so that no fold from before can be saved. If there is nothing to delete it may be
        left as it is. For a generation that never counted.
        Raises InvalidInput for the empty generation.
        """

    async def add_extraction_cost(self, scope: Scope, cost: ExtractionCost) -> None:
        """Add to what the thread's facts have cost; `WorkStore.status` tells the sum."""

    async def load_facts(self, scope: Scope) -> FactsDocument:
        """The thread's merged document as last saved; an empty one without a revision if there is none."""

    async def save_facts(self, scope: Scope, document: FactsDocument, *, expected: str | None) -> bool:
        """Replace the thread's document if its revision is still `expected` (None: there is none); else False.

        The stored document gets a fresh random revision (the document's own is ignored).
        """
