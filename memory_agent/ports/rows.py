"""The port of search rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import EntityCount, Scope, SearchRow, Similar, TermCandidates


ALL_ROWS: Final = 2**63 - 1
"""`RowStore.candidates_through` where every row of the user is among the candidates."""


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

    async def count_rows(self, user_id: str, *, limit: int) -> int:
        """The number of the user's rows, stubs included, but at most `limit`; no more than that are looked at."""

    async def rows_by_others(self, embedder: str) -> int:
        """The number of rows, of anybody, whose vectors another embedder made. By an index: it costs what it counts."""

    async def index_terms(self, user_id: str, turn_ids: Sequence[str]) -> None:
        """Take the rows of these turns into the user's term index, begun by the first call. Rows that are in it stay so.

        Rows that were put (again) are not in it until this is called for them; those that are erased leave it.
        """

    async def candidates_through(self, user_id: str) -> int | None:
        """Up to which `index_seq` the user's rows are among the candidates; ALL_ROWS: all. None: the user has no term index."""

    async def set_candidates_through(self, user_id: str, index_seq: int) -> None:
        """Note that they are up to there at least; it never sinks. It goes with the user's last row."""

    async def term_candidates(self, scope: Scope, terms: Sequence[str], *, limit: int) -> TermCandidates:
        """For each term, the newest `limit` rows of the scope (by turn id) that hold it, with the user's statistics.

        Of rows in the term index (`index_terms`). Each candidate once, in any order. Stubs of erased rows count for nothing.
        """

    async def nearest_turns(
        self, scope: Scope, vector: NDArray[np.float32], *, embedder: str, limit: int
    ) -> list[Similar]:
        """The scope's at most `limit` nearest turns by cosine, nearest first, each once (nearest passage), among rows by `embedder`.

        Exact to half a step of the rows' vectors: all of the scope's are looked at, page by page, and none is kept. `vector`:
        float32, shape (dimension,), unit length. Raises ValueError if it has another dimension than the rows'.
        """

    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        """The entities that the scope's rows in the term index name (terms that `Entity.from_term` knows), by first mention.

        That is by `timestamp` and turn id of the first turn that names it, and for equal ones in the order of the
        row's terms. Each turn counts once for an entity.
        """
