"""The port of the index of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import PassageVector, Scope, Similar


LOST_INDEX: Final = "vector index lost"
"""Name of the metadata that an adapter leaves before it makes what should have been there: see `work.heal`."""


class VectorIndex(Protocol):
    """An index of passage vectors by user; no text goes in. Losing it costs a rebuild, never a memory.

    One instance serves one embedding model: its fingerprint is part of where vectors are kept, so a query never
    meets those of another model. Erasing does.
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
        """Store vectors, replacing those of the same turn and passage number. Repeats change nothing."""

    async def query(self, scope: Scope, vector: NDArray[np.float32], *, limit: int) -> list[Similar]:
        """The scope's at most `limit` nearest turns by cosine, nearest first, each turn once (nearest passage).

        Approximate: a true neighbour may be missing, but every similarity given is right. `vector`: float32,
        shape (dimension,), unit length.
        """

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        """Delete all passages of these turns of this user, those of former models too. How many passages.

        Unknown turns are passed over.
        """

    async def turn_ids(self, user_id: str, *, searched: bool = False) -> set[str]:
        """The turns of which the user has passages here, from whichever model; `searched`: those alone that `query` can find."""
