"""Candidates for users too large to keep in memory: by meaning from the vector index, by words from the store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.errors import BackendError
from memory_agent.search.fusion import DEFAULT_WEIGHTS, best_first, fuse, normalised
from memory_agent.search.postings import CollectionStatistics
from memory_agent.search.request import RowFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_agent.domain import Scope
    from memory_agent.ports import RowStore, VectorIndex
    from memory_agent.search.request import AnalysedQuery
    from memory_agent.search.user_index import ResidentIndex

BESIDE: Final = 200
"""Of so many of the best candidates the turns beside them are looked up, too: what they say counts for them."""


class CandidateSource:
    """Makes an index of a question's candidates."""

    def __init__(
        self, store: RowStore, vectors: VectorIndex, *, index_of: Callable[..., ResidentIndex]
    ) -> None:
        """`index_of`: see `ResidentCache.index_of`."""
        self._store = store
        self._vectors = vectors
        self._index_of = index_of

    async def index(
        self, scope: Scope, asked: AnalysedQuery, limit: int, degraded: list[str]
    ) -> tuple[ResidentIndex, CollectionStatistics]:
        """An index over up to `limit` candidates by meaning and by each word, and the whole collection's statistics."""
        nearest, held = await asyncio.gather(
            self._nearest(scope, asked, limit, degraded),
            self._store.term_candidates(scope, asked.terms, limit=limit),
        )
        statistics = CollectionStatistics(
            rows=held.rows, mean_length=held.mean_length, frequency=held.frequency
        )
        ids = list(dict.fromkeys([*nearest, *held.turn_ids]))
        rows = await self._store.search_rows(scope.user_id, ids=ids) if ids else []
        index = self._index_of(rows, whole=False)
        scored = index.score(asked, where=RowFilter(thread_id=scope.thread_id), statistics=statistics)
        best = best_first(fuse(normalised(scored.values), DEFAULT_WEIGHTS))[:BESIDE]
        of_best = {scored.turn_ids[position] for position in best}
        here = {(row.thread_id, row.seq) for row in rows}
        wanted = {
            (row.thread_id, row.seq + step) for row in rows if row.turn_id in of_best for step in (-1, 1)
        }
        if wanted - here:
            rows += await self._store.neighbour_rows(scope.user_id, sorted(wanted - here))
            index = self._index_of(rows, whole=False)
        return index, statistics

    async def _nearest(
        self, scope: Scope, asked: AnalysedQuery, limit: int, degraded: list[str]
    ) -> list[str]:
        if asked.gist is None:
            return []
        try:
            found = await self._vectors.query(scope, np.asarray(asked.gist), limit=limit)
        except BackendError:
            degraded.append("vector_index")
            return []
        return [similar.turn_id for similar in found]
