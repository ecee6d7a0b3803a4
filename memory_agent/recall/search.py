"""Long-term search: candidates, their signals, the fused ranking, and the truth read back.

Users of up to `resident_max_turns` are searched exactly in memory. Larger ones take candidates from the vector
index and from the store's term index; the formulas are the same. Turns that the worker has not indexed yet are
scored by their words, so a caller finds what it just wrote. What is returned was read from the document store
under the caller's scope a moment ago, so nothing forgotten or foreign can come back from an index.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.domain import Recollection, Scope
from memory_agent.errors import BackendError, EmbedderError, EmbedderUnavailable
from memory_agent.recall.fuse import best_first, bm25, fuse, inverse_document_frequency, min_max
from memory_agent.recall.resident import CollectionStatistics, ResidentIndex, RowFilter, Signals
from memory_agent.recall.terms import count_terms, text_length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Turn
    from memory_agent.ports import DocumentStore, Embedder, VectorIndex
    from memory_agent.recall.resident import ResidentCache
    from memory_agent.recall.spotting import EntitySpotter

UNINDEXED_LIMIT: Final = 500
"""How many of the scope's newest unindexed turns a search scores by their words (a bulk ingest may have more)."""

_TERMS_CACHE: Final = 2_000
_WIDER: Final = 8
"""How many times more candidates are taken when filters left too few."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """What is asked of long-term memory."""

    scope: Scope
    query: str
    top_k: int
    where: RowFilter
    topic_ids: frozenset[str] | None = None
    """Only turns that carry one of these."""
    metadata: Mapping[str, Any] | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether the caller excludes turns of the scope."""
        return (
            bool(self.metadata)
            or self.topic_ids is not None
            or self.where != RowFilter(thread_id=self.scope.thread_id)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchAnswer:
    """Recollections, best first, and the parts that were down (`embedder`, `vector_index`, `entities`)."""

    recollections: tuple[Recollection, ...]
    degraded: tuple[str, ...]


class Searcher:
    """Searches long-term memory. Errors of the document store are raised; other parts degrade the answer."""

    def __init__(
        self,
        store: DocumentStore,
        vectors: VectorIndex,
        embedder: Embedder,
        residents: ResidentCache,
        spotter: EntitySpotter,
        *,
        language: str,
        min_similarity: float,
        candidates: int,
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._embedder = embedder
        self._residents = residents
        self._spotter = spotter
        self._language = language
        self._min_similarity = min_similarity
        self._candidates = candidates
        self._terms_of: OrderedDict[str, dict[str, int]] = OrderedDict()

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The best `top_k` turns of the scope that pass the filters."""
        degraded: list[str] = []
        terms = count_terms(request.query, self._language)
        try:
            named = await self._spotter.of_question(request.query)
        except BackendError:
            degraded.append("entities")
            named = self._spotter.by_dictionary(request.query)
        # As terms they find turns that name the same under another alias, and count the more the rarer they are.
        terms |= {entity.term: 1 for entity in named}
        query, (unindexed, resident) = await asyncio.gather(
            self._embed(request.query, degraded), self._unindexed_and_resident(request.scope)
        )
        if resident is not None:
            found = await self._rank(request, resident, unindexed, query, terms)
        else:
            found = await self._search_candidates(request, unindexed, query, terms, degraded)
        return SearchAnswer(recollections=found, degraded=tuple(dict.fromkeys(degraded)))

    async def _unindexed_and_resident(self, scope: Scope) -> tuple[list[Turn], ResidentIndex | None]:
        """In this order: a turn that the worker indexes in between is then in both, and not in neither."""
        unindexed = await self._store.owed_turns(scope, "index", limit=UNINDEXED_LIMIT, newest=True)
        return unindexed, await self._residents.get(scope.user_id)

    async def _search_candidates(
        self,
        request: SearchRequest,
        unindexed: Sequence[Turn],
        query: NDArray[np.float32] | None,
        terms: Mapping[str, int],
        degraded: list[str],
    ) -> tuple[Recollection, ...]:
        """Search a user too large to keep, with more candidates as long as the filters leave too few of them."""
        limit = self._candidates
        while True:
            index, statistics = await self._candidate_index(
                request.scope, query, list(terms), limit, degraded
            )
            found = await self._rank(request, index, unindexed, query, terms, statistics)
            if len(found) >= request.top_k or not request.is_filtered or limit >= statistics.rows:
                return found
            limit *= _WIDER

    async def _rank(
        self,
        request: SearchRequest,
        index: ResidentIndex,
        unindexed: Sequence[Turn],
        query: NDArray[np.float32] | None,
        terms: Mapping[str, int],
        statistics: CollectionStatistics | None = None,
    ) -> tuple[Recollection, ...]:
        """The best turns of `index` and of `unindexed`, read back from the truth."""
        signals = index.signals(query=query, terms=terms, where=request.where, statistics=statistics)
        signals = self._with_unindexed(
            signals, unindexed, request.where, terms, statistics or index.statistics(terms)
        )
        scores = fuse(signals.similarity, signals.words, min_similarity=self._min_similarity)
        return await self._read_back(request, signals, scores)

    async def _embed(self, query: str, degraded: list[str]) -> NDArray[np.float32] | None:
        try:
            vectors = await self._embedder.embed([query], purpose="query")
        except (EmbedderUnavailable, EmbedderError):
            degraded.append("embedder")
            return None
        vector: NDArray[np.float32] = vectors[0]
        return vector

    async def _candidate_index(
        self,
        scope: Scope,
        query: NDArray[np.float32] | None,
        terms: Sequence[str],
        limit: int,
        degraded: list[str],
    ) -> tuple[ResidentIndex, CollectionStatistics]:
        """An index over the candidates of a user too large to keep, with the whole collection's statistics."""
        nearest, held = await asyncio.gather(
            self._nearest(scope, query, limit, degraded),
            self._store.term_candidates(scope, terms, limit=limit),
        )
        ids = dict.fromkeys([*nearest, *held.turn_ids])
        rows = await self._store.search_rows(scope.user_id, ids=list(ids)) if ids else []
        statistics = CollectionStatistics(
            rows=held.rows, mean_length=held.mean_length, frequency=held.frequency
        )
        return ResidentIndex(rows, embedder=self._residents.embedder), statistics

    async def _nearest(
        self, scope: Scope, query: NDArray[np.float32] | None, limit: int, degraded: list[str]
    ) -> list[str]:
        if query is None:
            return []
        try:
            found = await self._vectors.query(scope, query, limit=limit)
        except BackendError:
            degraded.append("vector_index")
            return []
        return [similar.turn_id for similar in found]

    def _with_unindexed(
        self,
        signals: Signals,
        turns: Sequence[Turn],
        where: RowFilter,
        terms: Mapping[str, int],
        statistics: CollectionStatistics,
    ) -> Signals:
        """`signals` and those of unindexed turns, which have no vector yet."""
        known = set(signals.turn_ids) if turns else set()
        fresh = [turn for turn in reversed(turns) if turn.id not in known and _passes(turn, where)]
        if not fresh:
            return signals
        words = np.array([self._score_words(turn, terms, statistics) for turn in fresh], dtype=np.float32)
        return Signals(
            turn_ids=[*signals.turn_ids, *(turn.id for turn in fresh)],
            similarity=np.concatenate([signals.similarity, np.full(len(fresh), np.nan, dtype=np.float32)]),
            words=np.concatenate([signals.words, words]),
        )

    def _score_words(self, turn: Turn, terms: Mapping[str, int], statistics: CollectionStatistics) -> float:
        counted = self._terms_of.get(turn.id)
        if counted is None:
            counted = count_terms(searchable_text(turn), self._language)
            counted |= {entity.term: 1 for entity in self._spotter.of_unindexed(turn)}
            self._terms_of[turn.id] = counted
            if len(self._terms_of) > _TERMS_CACHE:
                self._terms_of.popitem(last=False)
        length = np.array([text_length(counted)], dtype=np.float32)
        mean = statistics.mean_length or float(length[0])
        total = 0.0
        for term in terms:
            if term in counted:
                # The turn itself counts as one more row that holds the term.
                idf = inverse_document_frequency(statistics.rows + 1, statistics.frequency.get(term, 0) + 1)
                counts = np.array([counted[term]], dtype=np.float32)
                total += float(bm25(counts, length, mean_length=mean, idf=idf)[0])
        return total

    async def _read_back(
        self, request: SearchRequest, signals: Signals, scores: NDArray[np.float32]
    ) -> tuple[Recollection, ...]:
        """Turns of the truth for the ranking, page by page, until `top_k` of them passed every filter."""
        ranking = best_first(scores)
        normalised = (min_max(signals.similarity), min_max(signals.words, floor=0.0))
        found: list[Recollection] = []
        page = request.top_k
        start = 0
        while start < len(ranking) and len(found) < request.top_k:
            positions = ranking[start : start + page]
            start += page
            page = min(2 * page, 1_000)  # a narrow metadata filter reads on in larger steps
            ids = [signals.turn_ids[position] for position in positions]
            turns = (
                {turn.id: turn for turn in await self._store.list_turns(request.scope, ids=ids)}
                if ids
                else {}
            )
            for position in positions:
                turn = turns.get(signals.turn_ids[position])
                if turn is not None and _is_wanted(turn, request):
                    why = _why(signals, normalised, position)
                    found.append(Recollection(turn=turn, score=float(scores[position]), why=why))
        return tuple(found[: request.top_k])

    def clear_cache(self) -> None:
        """Forget the words kept of unindexed turns."""
        self._terms_of.clear()


def searchable_text(turn: Turn) -> str:
    """What of a turn is embedded and counted: its text, and who spoke where several people may have."""
    return f"{turn.speaker}: {turn.content}" if turn.speaker else turn.content


def _passes(turn: Turn, where: RowFilter) -> bool:
    return (
        (where.thread_id is None or turn.thread_id == where.thread_id)
        and (where.since is None or turn.timestamp >= where.since)
        and (where.until is None or turn.timestamp < where.until)
        and (where.role is None or turn.role == where.role)
    )


def _is_wanted(turn: Turn, request: SearchRequest) -> bool:
    """Whether the turn passes the filters that its search row says nothing about."""
    if request.topic_ids is not None and turn.topic_id not in request.topic_ids:
        return False
    return not request.metadata or all(
        key in turn.metadata and turn.metadata[key] == value for key, value in request.metadata.items()
    )


def _why(
    signals: Signals, normalised: tuple[NDArray[np.float32], NDArray[np.float32]], position: int
) -> dict[str, float]:
    why = {"words": float(signals.words[position]), "words_normalised": float(normalised[1][position])}
    if not np.isnan(signals.similarity[position]):
        why["similarity"] = float(signals.similarity[position])
        why["similarity_normalised"] = float(normalised[0][position])
    return why
