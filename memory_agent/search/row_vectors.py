"""The vector index where no Chroma server is: the search rows themselves, looked through by the document store.

A user searched in memory needs no index at all. One too large for that is asked here rarely enough that a look at every vector
costs less than a second copy of them: which has to be filled, takes room, and has to be erased, backed up and mended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import PassageVector, Scope, Similar
    from memory_agent.ports import RowStore


class RowVectors:
    """`VectorIndex` over the search rows of a store. It keeps nothing, so there is nothing to fill, to lose or to erase."""

    def __init__(self, store: RowStore, *, fingerprint: Callable[[], str]) -> None:
        """`fingerprint`: gives that of the embedder, "" until it is known."""
        self._store = store
        self._fingerprint = fingerprint

    async def open(self) -> None:
        """See `VectorIndex.open`."""

    async def close(self) -> None:
        """See `VectorIndex.close`."""

    async def ping(self) -> None:
        """See `VectorIndex.ping`."""

    async def upsert(self, user_id: str, passages: Sequence[PassageVector]) -> None:
        """See `VectorIndex.upsert`: the rows have them."""

    async def query(self, scope: Scope, vector: NDArray[np.float32], *, limit: int) -> list[Similar]:
        """See `VectorIndex.query`; exact."""
        return await self._store.nearest_turns(scope, vector, embedder=self._fingerprint(), limit=limit)

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`: they go with their rows."""
        return 0

    async def turn_ids(self, user_id: str, *, searched: bool = False) -> set[str]:
        """See `VectorIndex.turn_ids`: none but those that the rows have."""
        return set()
