"""Long-term search: candidates, their signals, the fused ranking, and the truth read back.

Users of up to `resident_max_turns` are searched exactly in memory. Larger ones take candidates from the vector
index and from the store's term index; the formulas are the same. Turns that the worker has not indexed yet are
scored by their words, so a caller finds what it just wrote. What is returned was read from the document store
under the caller's scope a moment ago, so nothing forgotten or foreign can come back from an index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import Recollection, SearchRow
from memory_agent.recent import Recent
from memory_agent.search.candidates import CandidateSource
from memory_agent.search.corrections import LOOKED_AT, corrected, proposed, replacements
from memory_agent.search.current import CurrentSearch, Ranked
from memory_agent.search.entities import UNINDEXED_LIMIT
from memory_agent.search.explanation import Explanations
from memory_agent.search.fusion import (
    WEIGHTS,
    WEIGHTS_WITHOUT_DETAIL,
    best_first,
    for_sessions,
    fuse,
    heard_weights,
    min_max,
    normalised,
)
from memory_agent.search.late_interaction import SHORTLIST, Shortlist
from memory_agent.search.query_analysis import Questioner, without_name
from memory_agent.search.request import NOT_REBUILT, AnalysedQuery, SearchAnswer
from memory_agent.search.user_index import ResidentIndex, behind_repeats
from memory_agent.text.features import features_of
from memory_agent.text.names import MAX_CHARS
from memory_agent.text.question import read_question
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Scope, Turn
    from memory_agent.ports import DocumentStore, Embedder, VectorIndex
    from memory_agent.search.entities import EntitySpotter
    from memory_agent.search.late_interaction import LateInteraction
    from memory_agent.search.postings import CollectionStatistics
    from memory_agent.search.request import Searched, SearchRequest
    from memory_agent.search.user_index import Scored
    from memory_agent.search.user_index_cache import ResidentCache

    Floats = NDArray[np.float32]

CANDIDATES: Final = 500
"""From Chroma, and for each word of the question, of users that aren't resident; more find more and cost more."""

_ROWS_CACHE: Final = 2_000
_BEYOND: Final = 50
"""So many places beyond those asked for are looked through for near-duplicates."""
_PAGE: Final = 64
"""Turns that are read at first where their tokens tell how many are enough."""
_TOKENS_OF_TERM: Final = 2.0
"""In any conversation and language that was looked at, within a tenth."""
_MORE: Final = 1.125
"""What is found first is not all as long as a mean turn."""
_WIDER: Final = 8
"""How many times more candidates are taken when filters left too few."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSettings:
    """Settings of the search; reasons in `config/memory.toml`. `weights`: those instead of the fitted ones."""

    language: str
    min_similarity: float | None
    weights: Mapping[str, float]
    late_interaction: LateInteraction


class Searcher:
    """Searches long-term memory. Errors of the document store are raised; other parts degrade the answer."""

    def __init__(
        self,
        store: DocumentStore,
        embedder: Embedder,
        vectors: VectorIndex,
        residents: ResidentCache,
        spotter: EntitySpotter,
        settings: SearchSettings,
    ) -> None:
        self._store = store
        self._weights = {**WEIGHTS, **settings.weights}
        self._without_detail = {**WEIGHTS_WITHOUT_DETAIL, **settings.weights}
        self._questioner = Questioner(
            embedder, spotter, language=settings.language, weights=self._without_detail
        )
        self._residents = residents
        self._spotter = spotter
        self._settings = settings
        self._candidates = CandidateSource(
            store, vectors, embedder=lambda: residents.embedder, index_of=residents.index_of
        )
        self._row_of: Recent[str, SearchRow] = Recent(_ROWS_CACHE)

    async def searched(self, scope: Scope) -> Searched:
        """The turns and the index that any question of the scope searches."""
        # In this order: a turn that the worker indexes in between is then in both, and not in neither.
        unindexed = await self._store.owed_turns(scope, "index", limit=UNINDEXED_LIMIT, newest=True)
        return unindexed, await self._residents.get(scope.user_id)

    async def search(self, request: SearchRequest, searched: Searched | None = None) -> SearchAnswer:
        """The best `top_k` turns of the scope that pass the filters. `searched`: read already."""
        degraded: list[str] = []
        unindexed, resident = searched or await self.searched(request.scope)
        speakers = {turn.speaker for turn in unindexed if turn.speaker is not None}
        asked = await self._questioner.asked(
            request.query,
            now=request.now,
            where=request.where,
            known=speakers.union(resident.speakers if resident is not None else ()),
            called=request.called,
            resident=resident,
            degraded=degraded,
            said=request.said,
        )
        told = any(turn.role == "assistant" for turn in unindexed)
        told = told or (resident is not None and resident.with_assistant)
        asked = replace(asked, here=request.here, with_assistant=told)
        if resident is not None:
            # Only now, for while the question was embedded another search may have taken some into the index.
            current = self._over(resident, unindexed, request, asked, degraded)
            found = await self._rank(current)
        else:
            found = await self._search_candidates(request, asked, unindexed, degraded)
        return SearchAnswer(recollections=found, degraded=tuple(dict.fromkeys(degraded)))

    def clear_cache(self) -> None:
        """Forget the words kept of unindexed turns."""
        self._row_of.clear()

    # --- what is searched ------------------------------------------------------------------------------------
    def _row(self, turn: Turn) -> SearchRow:
        if (row := self._row_of.got(turn.id)) is not None:
            return row
        language = self._settings.language
        row = SearchRow.of(
            turn,
            count_terms(turn.searchable_text, language),
            self._spotter.of_unindexed(turn),
            features_of(turn.content),
            vectors=np.empty((0, 0), dtype=np.float32),
            embedder="",
            language=language,
        )
        return self._row_of.put(turn.id, row)

    def _over(
        self,
        index: ResidentIndex,
        unindexed: Sequence[Turn],
        request: SearchRequest,
        asked: AnalysedQuery,
        degraded: list[str],
        of_index: CollectionStatistics | None = None,
    ) -> CurrentSearch:
        """A search of `index` and of those turns that the worker has not indexed yet, by their words alone."""
        if index.foreign and index.embedder:
            degraded.append(NOT_REBUILT)
        new = [self._row(turn) for turn in reversed(unindexed) if not index.has(turn.id)]
        fresh = self._residents.index_of(new)
        statistics = of_index or index.statistics(asked.terms)
        return CurrentSearch(
            request=request,
            asked=asked,
            index=index,
            fresh=fresh,
            statistics=statistics.joined(fresh.statistics(asked.terms)) if new else statistics,
            degraded=degraded,
        )

    async def _search_candidates(
        self,
        request: SearchRequest,
        asked: AnalysedQuery,
        unindexed: Sequence[Turn],
        degraded: list[str],
    ) -> tuple[Recollection, ...]:
        """Search a user too large to keep, with more candidates as long as the filters leave too few of them."""
        limit = CANDIDATES
        while True:
            index, statistics = await self._candidates.index(request.scope, asked, limit, degraded)
            current = self._over(index, unindexed, request, asked, degraded, statistics)
            speakers = {*current.index.speakers, *current.fresh.speakers}
            question = read_question(request.query, known=speakers, called=request.called)
            told = asked.with_assistant or current.index.with_assistant
            terms = without_name(asked.terms, question.names, self._settings.language)
            asked_now = replace(asked, question=question, terms=terms, with_assistant=told)
            current = replace(current, asked=asked_now)
            found = await self._rank(current)
            if len(found) >= request.top_k or not request.is_filtered or limit >= statistics.rows:
                return found
            limit *= _WIDER

    # --- ranking ---------------------------------------------------------------------------------------------
    async def _rank(self, current: CurrentSearch) -> tuple[Recollection, ...]:
        """The best turns of what is searched, read back from the truth."""
        settings, scored = self._settings, current.scored()
        sessions = current.index.sessions
        values = normalised(scored.values, weight_of_words=current.weight_of_words)
        # What says nothing of any turn is looked at once, and not for every sum.
        values = {
            signal: given for signal, given in values.items() if signal == "words" or given.max(initial=0.0)
        }
        weights = for_sessions(self._without_detail, sessions)
        here = values.pop("here", None)
        # By what a turn says; the thread that it is of makes it no surer.
        surest = scores = fuse(values, weights)
        if here is not None and not here.all():
            values["here"] = here
            scores = fuse(values, weights)
        # Once: while tokens are waited for, rows may come into the index.
        similarity = (
            None
            if settings.min_similarity is None
            else current.index.similarity(current.asked.query, scored.turn_ids)
        )
        shortlist = best_first(self._results(scores, similarity), most=SHORTLIST)
        # Of "the second one then" the words tell less than what it goes on with.
        if len(shortlist) and not current.asked.leans:
            detail = await self._word_by_word(current, scored, shortlist, values["words"])
            if detail is not None:
                values, weights = values | {"detail": detail}, for_sessions(self._weights, sessions)
                scores = fuse(values, weights)
        scores = self._results(scores, similarity)
        most = current.request.top_k + _BEYOND
        # What rows don't tell, filters may refuse any number of.
        best = best_first(scores, most=None if current.request.is_filtered else most)
        ranking = behind_repeats(best, scored.turn_ids, current.index, most=most)
        turns = await self._read_back(current.request, scored, ranking, current.statistics.mean_length)
        ranked = Ranked(
            scored=scored,
            values=values,
            weights=weights,
            scores=scores,
            surest=surest,
            similarity=similarity,
        )
        return self._answer(current, *await self._corrected(current, turns, ranked), ranked)

    def _results(self, scores: Floats, similarity: Floats | None) -> Floats:
        """`scores`, NaN for what is no result: a turn without a vector has no cosine that could be high enough."""
        least = self._settings.min_similarity
        if least is None or similarity is None:
            return scores
        return np.where(similarity >= least, scores, np.nan).astype(np.float32)

    async def _corrected(
        self, current: CurrentSearch, turns: Sequence[tuple[int, Turn]], ranked: Ranked
    ) -> tuple[list[tuple[int, Turn]], dict[str, str]]:
        """The turns with those that replace one of the best right before it, and which that are, by id."""
        request, by_id = current.request, {turn.id: turn for _, turn in turns}
        best = [turn.id for _, turn in turns[:LOOKED_AT] if turn.role == "user"]
        alike = proposed(current.index, best, request.where)
        if not alike:
            return list(turns), {}
        missing = {*alike, *(old for earlier in alike.values() for old in earlier)} - by_id.keys()
        read = await self._store.list_turns(request.scope, ids=sorted(missing)) if missing else []
        replaced = replacements(
            by_id | {turn.id: turn for turn in read},
            alike,
            current.index.statistics,
            language=self._settings.language,
        )
        by_id |= {turn.id: turn for turn in read if request.wants(turn)}
        at = {turn.id: position for position, turn in turns}
        for new in replaced.values():
            if new in by_id and new not in at:
                at[new] = ranked.scored.turn_ids.index(new)
        # What is less like the question than the caller allows is no result.
        replaced = {
            old: new
            for old, new in replaced.items()
            if old in best and new in by_id and not np.isnan(ranked.scores[at[new]])
        }
        order = corrected([turn.id for _, turn in turns], replaced)
        return [(at[turn_id], by_id[turn_id]) for turn_id in order[: request.top_k]], replaced

    async def _word_by_word(
        self,
        current: CurrentSearch,
        scored: Scored,
        best: NDArray[np.intp],
        words: Floats,
    ) -> Floats | None:
        """The signal `detail` of all candidates: 0 but for the `best`, whose `words` stand in where their tokens aren't kept."""
        turn_ids = [scored.turn_ids[position] for position in best.tolist()]
        before, after = current.index.beside(turn_ids)
        shortlist = Shortlist(
            query=current.request.query,
            names=current.asked.question.names,
            statistics=current.statistics,
            user_id=current.request.scope.user_id,
            turn_ids=turn_ids,
            before=before,
            after=after,
        )
        again = await self._settings.late_interaction.score(shortlist)
        if again is None:
            return None
        detail = np.zeros(len(scored.turn_ids), dtype=np.float32)
        detail[best] = np.where(np.isnan(again), words[best], min_max(again))
        return detail

    async def _read_back(
        self, request: SearchRequest, scored: Scored, ranking: NDArray[np.intp], mean_terms: float
    ) -> list[tuple[int, Turn]]:
        """Positions and turns of the truth for the ranking, page by page, until enough of them passed every filter.

        `mean_terms`: of a turn, by which so many are read ahead as should be enough.
        """
        found: list[tuple[int, Turn]] = []
        turns: dict[str, Turn] = {}
        read = 0
        enough, tokens = request.enough_tokens, 0
        page, start = min(_PAGE, request.top_k) if enough else request.top_k, 0
        tokens_each = max(min(_TOKENS_OF_TERM * mean_terms, request.tokens_each), 1.0)
        most = min(int(_MORE * (enough or 0) / tokens_each), request.top_k)
        while start < len(ranking) and len(found) < request.top_k and (enough is None or tokens < enough):
            if read < min(start + page, len(ranking)):
                end = max(start + page, most)
                ids = [scored.turn_ids[position] for position in ranking[read:end].tolist()]
                turns |= {turn.id: turn for turn in await self._store.list_turns(request.scope, ids=ids)}
                read = end
            positions = ranking[start : start + page].tolist()
            start += page
            for position in positions:
                turn = turns.get(scored.turn_ids[position])
                if turn is not None and request.wants(turn):
                    found.append((position, turn))
                    tokens += min(turn.tokens, request.tokens_each)
            page = 2 * page  # a narrow metadata filter reads on in larger steps
            if enough and tokens:
                page = max(_PAGE // 4, (enough - tokens) * start // tokens + 1)
            page = min(page, 1_000)
        return found[: request.top_k]

    def _answer(
        self,
        current: CurrentSearch,
        turns: Sequence[tuple[int, Turn]],
        replaced: Mapping[str, str],
        ranked: Ranked,
    ) -> tuple[Recollection, ...]:
        at = [position for position, _ in turns]
        explanations = Explanations(
            ranked.values,
            heard_weights(ranked.values, ranked.weights),
            at,
            current.shared([turn.id for _, turn in turns]),
            query=current.request.query[:MAX_CHARS],
            language=self._settings.language,
        )
        confident = current.confidence(ranked.surest, ranked.scored, at)
        similarity = (
            current.index.similarity(current.asked.query, [turn.id for _, turn in turns])
            if ranked.similarity is None
            else ranked.similarity[at]
        )
        told = (ranked.scores[at], confident, similarity)
        numbers = zip(*(each.tolist() for each in told), strict=True)
        return tuple(
            explanations.of(
                Recollection(
                    turn=turn,
                    score=score,
                    confidence=confident,
                    why={},
                    similarity=None if math.isnan(cosine) else cosine,
                    replaced_by=replaced.get(turn.id),
                ),
                number,
            )
            for number, ((_, turn), (score, confident, cosine)) in enumerate(zip(turns, numbers, strict=True))
        )
