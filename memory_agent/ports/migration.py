"""The port of the move to another embedding model: its vectors beside those that rows have, and whose count for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memory_agent.domain import NextVectors


class MigrationStore(Protocol):
    """Next vectors: a part of their search row, which go whenever it is erased or replaced by one without them.

    `RowStore` reads them with the rows; `token_codes` and `nearest_turns` find them by their embedder, as they do the rows' own.
    """

    async def vector_pointer(self, user_id: str) -> str:
        """The embedder whose vectors the user is searched by; "" where that is everybody's. One small indexed read."""

    async def set_vector_pointer(self, user_id: str, embedder: str, *, now: datetime) -> None:
        """Set it, or ("") take it away. If that changes it, the user's newest row that is no stub gets a fresh `index_seq` after it.

        So whoever holds the user's rows in memory learns of it as of any change. The pointer goes with the user's last row.
        """

    async def turns_without(self, user_id: str, embedder: str, *, limit: int) -> list[str]:
        """The first `limit` turns, by rising id, whose row (but for stubs) has no vectors by this embedder, of either kind."""

    async def put_next_vectors(self, user_id: str, vectors: Mapping[str, NextVectors]) -> None:
        """Put next vectors, by turn id, in place of those that are there; `index_seq` stays. Passes over turns without a row, and stubs."""

    async def adopt_next_vectors(self, user_id: str, embedder: str) -> int:
        """Make the next vectors by this embedder the rows' own, with their tokens, in place of those they had; of how many rows.

        Each row has the one or the other at any moment; `index_seq` stays.
        """

    async def drop_next_vectors(self, user_id: str) -> int:
        """Drop all next vectors of the user's rows; of how many."""
