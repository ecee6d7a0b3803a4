"""The port of search rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import EntityCount, Scope, SearchRow, TermCandidates


class RowStore(Protocol):
    """Search rows: what a search needs of each turn."""

    async def put_search_rows(self, user_id: str, rows: Sequence[SearchRow], *, now: datetime) -> None:
        """Insert or replace rows by turn id; each gets a fresh `index_seq` (the rows' own is ignored).

        `index_seq` is greater than every one the user had before, also when rows were deleted since (it is
        `max(newest + 1, now in ms since 1970)`), and as with `seq`, none becomes visible below one already seen.
        Raises StoreError if a row is of another user, or its turn's row is another user's; rows before it may be stored.
        """

    async def search_rows(
        self, user_id: str, *, ids: Sequence[str] | None = None, after: int = 0, limit: int | None = None
    ) -> list[SearchRow]:
        """The user's rows (stubs of erased ones included) by rising `index_seq`, without their `tokens`.

        `ids`: only these turns'. `after`: only `index_seq` above it. `limit`: the first so many.
        """

    async def token_codes(self, user_id: str, ids: Sequence[str], *, embedder: str) -> dict[str, bytes]:
        """`SearchRow.tokens` of the user's rows of these turns, by turn id; rows without any, or by another embedder, passed over."""

    async def index_head(self, user_id: str) -> int:
        """The user's highest `index_seq`; 0 without rows. One small indexed read: every search makes it."""

    async def term_candidates(self, scope: Scope, terms: Sequence[str], *, limit: int) -> TermCandidates:
        """For each term, the newest `limit` rows of the scope (by turn id) that hold it, with the user's statistics.

        Each candidate once, in any order. Stubs of erased rows count for nothing.
        """

    async def neighbour_rows(self, user_id: str, places: Sequence[tuple[str, int]]) -> list[SearchRow]:
        """The user's rows at these places (thread, `seq`), without stubs of erased ones, each once and in any order.

        Places without a row are passed over. By an index: it costs what it finds, however many rows the user has.
        """

    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        """The entities that the scope's rows name (terms that `Entity.from_term` knows), by first mention.

        That is by `timestamp` and turn id of the first turn that names it, and for equal ones in the order of the
        row's terms. Each turn counts once for an entity.
        """
