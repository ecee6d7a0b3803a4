"""Candidates for users too large to keep in memory: by meaning from the vector index, by words from the store's term index.

The term index is made when a user outgrows the memory and not before: it would take more room than all else that is kept of a turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.errors import VectorIndexUnavailable
from memory_agent.ports import ALL_ROWS
from memory_agent.search.fusion import WEIGHTS_WITHOUT_DETAIL, best_first, fuse, normalised
from memory_agent.search.postings import CollectionStatistics
from memory_agent.search.request import RowFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_agent.domain import Scope, SearchRow
    from memory_agent.ports import DocumentStore, RowStore, VectorIndex
    from memory_agent.search.request import AnalysedQuery
    from memory_agent.search.user_index import ResidentIndex

BESIDE: Final = 200
"""Of so many of the best candidates the turns beside them are looked up, too: what they say counts for them."""


_PAGE: Final = 500
"""Rows of a user that outgrows the memory which are taken in at a time; a crash costs one page."""


_COUNTED_USERS: Final = 10_000
_AWAY_SECONDS: Final = 10.0
"""That an index which is away is not asked: one that hangs would make every search wait."""

log = logging.getLogger(__name__)


class CandidateKeeper:
    """Takes rows of users with more than `max_turns` into the term index."""

    def __init__(self, store: RowStore, *, max_turns: int) -> None:
        self._store = store
        self._max_turns = max_turns
        self._room: dict[str, int] = {}
        """How many rows users may get before they have to be counted again."""

    async def take(self, user_id: str, rows: Sequence[SearchRow]) -> None:
        """Take in rows that were put just now, or are to be taken in anew.

        A user that outgrows the memory with them gets all in. Interrupted, it is gone on with at the user's next rows. Whoever puts a row and looks here afterwards either finds
        that all are in, and adds it, or is early enough for the pages that are still to be read.
        """
        through = await self._store.candidates_through(user_id)
        if through is None and not await self._outgrown(user_id, len(rows)):
            return
        if through == ALL_ROWS:
            await self._add(user_id, rows)
        else:
            await self._fill(user_id, through or 0)

    async def _outgrown(self, user_id: str, new: int) -> bool:
        room = self._room.pop(user_id, 0) - new
        if room < 0:
            room = self._max_turns - await self._store.count_rows(user_id, limit=self._max_turns + 1)
        if len(self._room) >= _COUNTED_USERS:
            self._room.clear()
        self._room[user_id] = room
        return room < 0

    async def _fill(self, user_id: str, through: int) -> None:
        while rows := await self._store.search_rows(user_id, after=through, limit=_PAGE):
            await self._add(user_id, [row for row in rows if not row.erased])
            through = rows[-1].index_seq
            await self._store.set_candidates_through(user_id, through)
        await self._store.set_candidates_through(user_id, ALL_ROWS)

    async def _add(self, user_id: str, rows: Sequence[SearchRow]) -> None:
        await self._store.index_terms(user_id, [row.turn_id for row in rows])


class CandidateSource:
    """Makes an index of a question's candidates."""

    def __init__(
        self,
        store: DocumentStore,
        vectors: VectorIndex,
        *,
        embedder: Callable[[], str],
        index_of: Callable[..., ResidentIndex],
    ) -> None:
        """`embedder`: see `CandidateKeeper`; `index_of`: see `ResidentCache.index_of`."""
        self._store = store
        self._vectors = vectors
        self._embedder = embedder
        self._index_of = index_of
        self._away_until = 0.0

    async def index(
        self, scope: Scope, asked: AnalysedQuery, limit: int
    ) -> tuple[ResidentIndex, CollectionStatistics]:
        """An index over up to `limit` candidates by meaning and by each word, and the whole collection's statistics."""
        nearest, held = await asyncio.gather(
            self._nearest(scope, asked, limit),
            self._store.term_candidates(scope, asked.terms, limit=limit),
        )
        statistics = CollectionStatistics(
            rows=held.rows, mean_length=held.mean_length, frequency=held.frequency
        )
        ids = list(dict.fromkeys([*nearest, *held.turn_ids]))
        rows = await self._store.search_rows(scope.user_id, ids=ids) if ids else []

        def begun() -> tuple[ResidentIndex, set[tuple[str, int]]]:
            """Their index, and the places beside the best of them that it lacks."""
            index = self._index_of(rows, whole=False)
            scored = index.score(asked, where=RowFilter(thread_id=scope.thread_id), statistics=statistics)
            best = best_first(fuse(normalised(scored.values), WEIGHTS_WITHOUT_DETAIL))[:BESIDE]
            of_best = {scored.turn_ids[position] for position in best}
            beside = {
                (row.thread_id, row.seq + step) for row in rows if row.turn_id in of_best for step in (-1, 1)
            }
            return index, beside - {(row.thread_id, row.seq) for row in rows}

        # Thousands of rows take so long that nobody else on the event loop should wait for them.
        index, beside = await asyncio.to_thread(begun)
        if beside:
            turns = await self._store.turns_at(scope.user, sorted(beside))
            index.extend(await self._store.search_rows(scope.user_id, ids=[turn.id for turn in turns]))
        return index, statistics

    async def _nearest(self, scope: Scope, asked: AnalysedQuery, limit: int) -> list[str]:
        """By the vector index; by a look at all rows, exactly, where it lacks some or is away."""
        if asked.gist is None:
            return []
        vector, found = np.asarray(asked.gist), None
        if time.monotonic() >= self._away_until and not await self._store.vectors_missing(scope.user):
            try:
                found = await self._vectors.query(scope, vector, limit=limit)
            except VectorIndexUnavailable as exc:
                self._away_until = time.monotonic() + _AWAY_SECONDS
                log.warning("the vector index is away, searching the rows: %s", exc)
        # A large user has more: the index has lost some, and is filled again.
        if found is None or (scope.thread_id is None and len(found) < limit):
            found = await self._store.nearest_turns(scope, vector, embedder=self._embedder(), limit=limit)
        return [similar.turn_id for similar in found]
