"""The port of the index of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import PassageVector, Scope, Similar


class VectorIndex(Protocol):
    """An index of passage vectors by user.

    Losing it costs a refill from the search rows, never a memory.
    One instance serves one embedding model: its fingerprint is part of where vectors are kept, so a query never
    meets those of another model. Erasing does.
    """

    @property
    def losses(self) -> int:
        """How often by now something was found to be gone: whoever fills it compares every `place` then."""

    async def place(self, user_id: str) -> str:
        """Name the place that holds the user's vectors, made if missing.

        It never has the name of one that was lost, or of another model's.
        """

    async def open(self) -> None:
        """Get ready; the first call connects, which may take a second. Idempotent.

        Raises VectorIndexUnavailable if it is known already that no call can work.
        """

    async def close(self) -> None:
        """Release what `open` made. Idempotent."""

    async def ping(self) -> None:
        """Raises VectorIndexUnavailable if the index cannot be reached now. Cheap."""

    async def upsert(self, user_id: str, passages: Sequence[PassageVector]) -> None:
        """Store vectors, replacing those of the same turn and passage number.

        Repeats change nothing. No two users have turns of the same id.
        """

    async def query(self, scope: Scope, vector: NDArray[np.float32], *, limit: int) -> list[Similar]:
        """The scope's at most `limit` nearest turns by cosine, nearest first, each turn once (nearest passage).

        Approximate: a true neighbour may be missing, but every similarity given is right. `vector`: float32,
        shape (dimension,), unit length.
        """

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        """Delete all passages of these turns of this user, those of former models too. How many passages.

        Unknown turns are passed over.
        """

    async def clear(self, user_id: str) -> None:
        """Delete whatever `query` could find of the user."""

    async def turn_ids(self, user_id: str, *, searched: bool = False) -> set[str]:
        """The turns of which the user has passages here, from whichever model; `searched`: those alone that `query` can find."""
