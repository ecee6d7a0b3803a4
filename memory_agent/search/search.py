"""Long-term search: candidates, their signals, the fused ranking, and the truth read back.

Users of up to `resident_max_turns` are searched exactly in memory. Larger ones take candidates from the vector
index and from the store's term index; the formulas are the same. Turns that the worker has not indexed yet are
scored by their words, so a caller finds what it just wrote. What is returned was read from the document store
under the caller's scope a moment ago, so nothing forgotten or foreign can come back from an index.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import Entity, Recollection, SearchRow
from memory_agent.lazily import Recent, lazily
from memory_agent.search.candidates import CandidateSource
from memory_agent.search.entities import UNINDEXED_LIMIT
from memory_agent.search.fusion import (
    WEIGHTS,
    WEIGHTS_WITHOUT_DETAIL,
    best_first,
    chance_of_any,
    confidence,
    contributions,
    for_sessions,
    fuse,
    heard_weights,
    inverse_document_frequency,
    leads,
    min_max,
    nearness,
    normalised,
    shared,
    unrelated,
)
from memory_agent.search.late_interaction import SHORTLIST, Shortlist
from memory_agent.search.query_analysis import Questioner, without_name
from memory_agent.search.request import NOT_REBUILT, AnalysedQuery, SearchAnswer
from memory_agent.search.user_index import SAME_QUESTION, ResidentIndex, asked_before
from memory_agent.text.corrections import claims_of, features_of, replaces
from memory_agent.text.names import MAX_CHARS
from memory_agent.text.question import read_question
from memory_agent.text.terms import count_terms
from memory_agent.text.times import told_days

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Scope, Turn
    from memory_agent.ports import DocumentStore, Embedder, VectorIndex
    from memory_agent.search.entities import EntitySpotter
    from memory_agent.search.fusion import Signal
    from memory_agent.search.late_interaction import LateInteraction
    from memory_agent.search.postings import CollectionStatistics
    from memory_agent.search.request import RowFilter, Searched, SearchRequest
    from memory_agent.search.user_index import Alike, ResidentCache, Scored

    Floats = NDArray[np.float32]


_WORDS: Final[Mapping[str, str]] = {
    "meaning": "means something alike",
    "meaning_around": "means something alike, alone or with the turn before it",
    "words": "shares words with the question",
    "words_around": "shares words with the question, together with the turns beside it",
    "words_session": "was said in a conversation that shares words with the question",
    "person": "was said by whom the question suggests",
    "dates": "was said around the time that the question names",
    "tells_when": "tells a time, which is asked for",
    "counts": "gives a number, which is asked for",
    "names": "names something, which is asked for",
    "of_self": "tells of its speaker",
    "asks": "asks instead of telling",
    "here": "was said in this conversation",
    "detail": "matches the question word by word",
}
_WORD: Final = lazily(re.compile, r"\w[\w'’-]*")
_FORMS: Final = 2
"""Terms of one word at most: its stem, and that of it without accents."""
_LEAST_SHARE: Final = 0.05
"""A signal that made up less of the score is left unsaid."""


class Explanations:
    """Explanations of the results of one search, made when they are first asked for: prompts do without them.

    `values`: the signals of all candidates, of which the results are those at `positions`, by id; `heard`: see
    `heard_weights`; `shared`: terms of the question, by the id of a turn that has them; `query` is in `language`.
    """

    def __init__(
        self,
        values: Mapping[Signal, Floats],
        heard: Mapping[Signal, float],
        positions: Mapping[str, int],
        shared: Mapping[str, Sequence[str]],
        *,
        query: str,
        language: str,
    ) -> None:
        # Not the whole arrays, which somebody who keeps an answer would keep with it.
        at = list(positions.values())
        self._values = {signal: values[signal][at] for signal in heard}
        self._heard, self._turn_ids, self._shared = heard, list(positions), shared
        self._query, self._language = query, language

    def of(self, found: Recollection, field: str) -> dict[str, float] | str:
        """The recollection's `why`, or its `explanation`."""
        turn, why = found.turn, self._whys[found.turn.id]
        if field == "why":
            return why
        words = [self._as_asked.get(term, term) for term in self._shared.get(turn.id, ())]
        return explain(why, turn, words)

    @cached_property
    def _whys(self) -> dict[str, dict[str, float]]:
        results = range(len(self._turn_ids))
        return dict(zip(self._turn_ids, contributions(self._values, self._heard, results), strict=True))

    @cached_property
    def _as_asked(self) -> dict[str, str]:
        return words_of(self._query, self._language)


def explain(why: Mapping[str, float], turn: Turn, shared: Sequence[str]) -> str:
    """The signals of `why` (see `Recollection.why`) in words with their shares, the greatest first.

    `shared`: terms of the question that the turn has; those of entities are told by their names.
    """
    whole = sum(share for share in why.values() if share > 0.0)
    if whole <= 0.0:
        return "nothing speaks for it"
    said = []
    for signal, share in why.items():
        part = share / whole
        if part >= _LEAST_SHARE:
            said.append(f"{_in_words(signal, turn, shared)} ({part:.0%})")
        elif part <= -_LEAST_SHARE:
            said.append(f"but {_in_words(signal, turn, shared)} (-{-part:.0%})")
    return "; ".join(said) or "a little of everything"


def _in_words(signal: str, turn: Turn, shared: Sequence[str]) -> str:
    if signal == "words" and shared:
        words = list(dict.fromkeys(map(_shown, shared)))
        return f"shares the word{'s' if len(words) > 1 else ''} {', '.join(words)}"
    if signal == "person":
        return f"was said by {turn.speaker or turn.role}, as the question suggests"
    return _WORDS[signal]


def _shown(term: str) -> str:
    entity = Entity.from_term(term)
    return term if entity is None else entity.name


def words_of(query: str, language: str) -> dict[str, str]:
    """The question's own word for each of its terms; a run without blanks (Chinese, Japanese) is no word."""
    words: dict[str, str] = {}
    for word in _WORD.findall(query):
        terms = count_terms(word, language)
        if len(terms) <= _FORMS:
            words |= {term: word for term in terms if term not in words}
    return words


LOOKED_AT: Final = 20
"""So many of the best results are looked at for what replaces them."""
LEAST_ALIKE: Final = 0.25
"""Cosine from which a later turn is proposed: corrections are short, and not very like what they correct."""
MOST_PROPOSED: Final = 10
RIVALS: Final = 5
"""So many of the turns before a proposed one, the most alike, are looked at too: it may replace one that was not found."""
_RARE_ROWS: Final = 4
_RARE_SHARE: Final = 0.02


def proposed(index: ResidentIndex, turn_ids: Sequence[str], where: RowFilter) -> Alike:
    """The rows that may replace one of the turns, the most alike, each with what it may replace and their cosines."""
    candidates = index.corrections_of(turn_ids, where)
    nearest = {
        turn_id: max(0.0 if math.isnan(c) else c for c in alike.values())
        for turn_id, alike in candidates.items()
    }
    chosen = sorted(
        (turn_id for turn_id in nearest if nearest[turn_id] >= LEAST_ALIKE),
        key=lambda turn_id: -nearest[turn_id],
    )
    rivals = index.rivals_of(chosen[:MOST_PROPOSED], most=RIVALS)
    return {turn_id: candidates[turn_id] | alike for turn_id, alike in rivals.items()}


def replacements(
    turns: Mapping[str, Turn],
    alike: Alike,
    statistics: Callable[[Collection[str]], CollectionStatistics],
    *,
    language: str,
) -> dict[str, str]:
    """The turns that are replaced, each with the one that does it, as ids.

    `turns`: those that `alike` names and that are there; `alike`: see `proposed`; `statistics`: of given terms. A turn
    replaces those to which it is tied by the most telling terms; of several that replace one the first said counts.
    """
    pairs = [
        (turns[old], turns[new], cosine)
        for new, earlier in alike.items()
        for old, cosine in earlier.items()
        if cosine >= LEAST_ALIKE and old in turns and new in turns
    ]
    claims = {turn.id: claims_of(turn.said, language) for pair in pairs for turn in pair[:2]}
    rows = statistics(()).rows
    # As telling as one word that four rows hold, or one row in fifty.
    least = inverse_document_frequency(rows, min(rows, max(_RARE_ROWS, math.ceil(_RARE_SHARE * rows))))

    def weight(shared: Collection[str]) -> float:
        held = statistics(shared).frequency
        idf = (inverse_document_frequency(rows, held.get(term, 0)) for term in shared)
        # What most turns say adds up to nothing.
        return sum(value for value in idf if value >= least / 3)

    ties: dict[str, dict[str, float]] = {}
    for old, new, cosine in pairs:
        told = replaces(claims[new.id], claims[old.id], weight, least=least, alike=cosine)
        if told:
            ties.setdefault(new.id, {})[old.id] = told
    replaced: dict[str, str] = {}
    for new_id in sorted(ties, key=lambda turn_id: (turns[turn_id].timestamp, turns[turn_id].seq)):
        most = max(ties[new_id].values())
        for old_id in (old_id for old_id, told in ties[new_id].items() if told == most):
            replaced.setdefault(old_id, new_id)
    return replaced


def corrected(ranking: Sequence[str], replaced: Mapping[str, str], *, formerly: bool = False) -> list[str]:
    """`ranking` with each turn that replaces another right before it; with `formerly` right behind what it replaces."""
    first: dict[str, list[str]] = {}
    for old, new in replaced.items():
        while formerly and new in replaced:
            new = replaced[new]
        one, other = (new, old) if formerly else (old, new)
        first.setdefault(one, []).insert(0, other)
    order: list[str] = []
    placed: set[str] = set()

    def place(turn_id: str) -> None:
        if turn_id not in placed:
            placed.add(turn_id)
            for other in first.get(turn_id, ()):
                place(other)
            order.append(turn_id)

    for turn_id in ranking:
        place(turn_id)
    return order


_BY_MEANING: Final[frozenset[Signal]] = frozenset({"meaning", "meaning_around"})
_NEAR: Final = 0.5
"""Nearness of a turn that says what is asked about."""
_MOST_TERMS: Final = 7
"""A message of many words goes back to a turn by a few of them: no more than so many rare terms are looked for in the best one."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CurrentSearch:
    """One search: the question, the index, the turns that are not in it yet, and the statistics of both."""

    request: SearchRequest
    asked: AnalysedQuery
    index: ResidentIndex
    fresh: ResidentIndex
    statistics: CollectionStatistics
    degraded: list[str]

    def scored(self) -> Scored:
        """Raw signals of all turns that pass the filters."""
        where, statistics = self.request.where, self.statistics
        scored = self.index.score(self.asked, where=where, statistics=statistics)
        if not len(self.fresh):
            return scored
        return scored.joined(self.fresh.score(self.asked, where=where, statistics=statistics))

    def confidence(
        self, scored: Scored, scores: Floats, detail: float | None, but: NDArray[np.bool_]
    ) -> Floats:
        """Of all turns, shape (n,); see `memory_agent.search.fusion`. `detail`: of the best one; `but`: those that say nothing new."""
        meaning, weight = scored.values["meaning"], self.statistics.weight(self.asked.terms)
        usual = unrelated(meaning, background=self.asked.background, whole=self.index.whole)
        alone, around = (shared(scored.values[words], weight) for words in ("words", "words_around"))
        near, heard = nearness(meaning, usual), ~but
        unknown = np.isnan(near)
        # Words tell where a turn has no vector yet, and beside an embedder that compares nothing word by word.
        by_words = float(around[heard if detail is None else heard & unknown].max(initial=0.0))
        chance = chance_of_any(words=by_words) if by_words or unknown.all() else 0.0
        if not unknown.all():
            nearest = float(near[~unknown & heard].max(initial=-1.0))
            chance = max(chance, chance_of_any(nearest=nearest, detail=detail, turns=len(near)))
        if self.asked.spans and float(scored.values["dates"].max(initial=0.0)) == 1.0:
            # Of "What did I do on Monday?" the day is what is asked for, and something was said on it.
            chance = max(chance, 1.0 - self.by_nearness(scored, {})[1])
        return confidence(chance, (alone + around) / 2.0, leads(scores, but))

    @property
    def weight_of_words(self) -> float:
        """See `normalised`. 0 where the question names an entity that a row holds: that is no chance, whatever its other words."""
        terms, frequency = self.asked.terms, self.statistics.frequency
        named = any(term.startswith("@") and frequency.get(term) for term in terms)
        return 0.0 if named else self.statistics.weight(terms, most=_MOST_TERMS)

    def no_answers(self, scored: Scored) -> NDArray[np.bool_]:
        """Mask of the turns that answer nothing: those that only ask the same, and what the question goes on with."""
        before = asked_before(scored)
        if self.asked.said is not None:
            alike = self.index.similarity(self.asked.said, scored.turn_ids)
            before |= np.nan_to_num(alike) >= SAME_QUESTION
        return before

    def by_nearness(
        self, scored: Scored, values: Mapping[Signal, Floats]
    ) -> tuple[dict[Signal, Floats], float]:
        """Meaning as the nearness of each turn, and how much it tells, for a question that names a time.

        Turns that a time tells apart often mean the same: scaled from the least to the most, what is chance would tell them
        apart. It tells all where the best turn is `_NEAR`; "What did I do on Monday?" asks for little but the time.
        """
        meaning = scored.values["meaning"]
        if not self.asked.spans or np.isnan(meaning).all():
            return {}, 1.0
        usual = unrelated(meaning, background=self.asked.background, whole=self.index.whole)
        best = float(np.nanmax(nearness(meaning, usual)))
        found: dict[Signal, Floats] = {}
        for signal in _BY_MEANING & values.keys():
            near = (nearness(scored.values[signal], usual) / max(best, _NEAR)).clip(0.0, 1.0)
            found[signal] = np.where(np.isnan(near), values[signal], near).astype(np.float32)
        return found, min(max(best, 0.0) / _NEAR, 1.0)

    def shared(self, turn_ids: Sequence[str]) -> dict[str, list[str]]:
        """The question's terms that each of the turns holds."""
        terms = self.asked.terms
        return self.index.shared_terms(turn_ids, terms) | self.fresh.shared_terms(turn_ids, terms)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ranked:
    """Of the turns, shape (n,) each: normalised signals that any turn has, their sum by `weights`, and the confidence.

    `similarity`: what `min_similarity` was compared with; None where that is not set.
    """

    scored: Scored
    values: Mapping[Signal, Floats]
    weights: Mapping[str, float]
    scores: Floats
    confidence: Floats
    similarity: Floats | None


CANDIDATES: Final = 500
"""From Chroma, and for each word of the question, of users that aren't resident; more find more and cost more."""

_ROWS_CACHE: Final = 2_000
_BEYOND: Final = 50
"""So many places beyond those asked for are looked through for near-duplicates."""
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
            features_of(turn.said),
            told_days(turn.said, turn.local_time),
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
            index, statistics = await self._candidates.index(request.scope, asked, limit)
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
        settings, request, all_scored = self._settings, current.request, current.scored()
        sessions = current.index.sessions
        before = current.no_answers(all_scored)
        scored = all_scored.without(before)
        values = normalised(scored.values, weight_of_words=current.weight_of_words)
        # What says nothing of any turn is looked at once, and not for every sum.
        values = {
            signal: given for signal, given in values.items() if signal == "words" or given.max(initial=0.0)
        }
        if "here" in values and values["here"].all():
            del values["here"]
        plain, told = current.by_nearness(scored, values)
        values |= plain
        dates = {"dates": self._weights["dates"] * (2.0 - told)}  # the more, the less is asked besides
        weights = for_sessions(self._without_detail, sessions) | dates
        scores = fuse(values, weights)
        # Once: while tokens are waited for, rows may come into the index.
        similarity = (
            None
            if settings.min_similarity is None
            else current.index.similarity(current.asked.query, scored.turn_ids)
        )
        shortlist = best_first(self._results(scores, similarity), most=SHORTLIST)
        best_detail = None
        # Of "the second one then" the words tell less than what it goes on with.
        if len(shortlist) and current.asked.said is None:
            found = await self._word_by_word(current, scored, shortlist, values["words"])
            if found is not None:
                detail, best_detail = found
                values |= {"detail": detail * np.float32(told)}
                weights = for_sessions(self._weights, sessions) | dates
                scores = fuse(values, weights)
        scores = self._results(scores, similarity)
        most = request.top_k + _BEYOND
        # What rows don't tell, filters may refuse any number of.
        best = best_first(scores, most=None if request.is_filtered else most)
        repeated = current.index.repeats_among([scored.turn_ids[at] for at in best[:most].tolist()])
        nothing_new = before.copy()
        nothing_new[best[:most][repeated]] = True
        confident = current.confidence(scored, scores, best_detail, nothing_new)
        best = np.concatenate([best[:most][~repeated], best[:most][repeated], best[most:]])
        if request.least_confidence:
            best = best[confident[best] >= request.least_confidence]
        turns = await self._read_back(current, scored, best)
        ranked = Ranked(
            scored=scored,
            values=values,
            weights=weights,
            scores=scores,
            confidence=confident,
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
        formerly = current.asked.question.formerly
        order = corrected([turn.id for _, turn in turns], replaced, formerly=formerly)
        return [(at[turn_id], by_id[turn_id]) for turn_id in order[: request.top_k]], replaced

    async def _word_by_word(
        self,
        current: CurrentSearch,
        scored: Scored,
        best: NDArray[np.intp],
        words: Floats,
    ) -> tuple[Floats, float] | None:
        """The signal `detail` of all candidates, and what the best has of it before it is scaled.

        It is 0 but for the `best`, whose `words` stand in where their tokens aren't kept.
        """
        turn_ids = [scored.turn_ids[position] for position in best.tolist()]
        before, after = current.index.beside(turn_ids)
        shortlist = Shortlist(
            query=current.request.query,
            names=(*current.asked.question.names, *current.asked.time_words),
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
        scaled = min_max(again)
        if current.asked.spans:  # see `by_nearness`
            scaled = np.square(again / max(float(np.nanmax(again)), 1e-6))
        detail[best] = np.where(np.isnan(again), words[best], scaled)
        return detail, float(np.nanmax(again))

    async def _read_back(
        self, current: CurrentSearch, scored: Scored, ranking: NDArray[np.intp]
    ) -> list[tuple[int, Turn]]:
        """Positions and turns of the truth for the ranking, page by page, until enough of them passed every filter."""
        request = current.request
        found: list[tuple[int, Turn]] = []
        start, page = 0, request.top_k
        while start < len(ranking) and len(found) < request.top_k:
            positions = ranking[start : start + page].tolist()
            ids = [scored.turn_ids[position] for position in positions]
            turns = {turn.id: turn for turn in await self._store.list_turns(request.scope, ids=ids)}
            read = ((position, turns.get(turn_id)) for position, turn_id in zip(positions, ids, strict=True))
            found += ((position, turn) for position, turn in read if turn is not None and request.wants(turn))
            start, page = (
                start + page,
                min(2 * page, 1_000),
            )  # a narrow metadata filter reads on in larger steps
        return found[: request.top_k]

    def _answer(
        self,
        current: CurrentSearch,
        turns: Sequence[tuple[int, Turn]],
        replaced: Mapping[str, str],
        ranked: Ranked,
    ) -> tuple[Recollection, ...]:
        positions = {turn.id: position for position, turn in turns}
        ids, at = list(positions), list(positions.values())
        explained = Explanations(
            ranked.values,
            heard_weights(ranked.values, ranked.weights),
            positions,
            current.shared(ids),
            query=current.request.query[:MAX_CHARS],
            language=self._settings.language,
        ).of
        similarity = (
            current.index.similarity(current.asked.query, ids)
            if ranked.similarity is None
            else ranked.similarity[at]
        )
        told = (ranked.scores[at], ranked.confidence[at], similarity)
        numbers = zip(*(each.tolist() for each in told), strict=True)
        return tuple(
            Recollection(
                turn=turn,
                score=score,
                confidence=confident,
                why={},
                similarity=None if math.isnan(cosine) else cosine,
                replaced_by=replaced.get(turn.id),
            ).made_later(explained, "why", "explanation")
            for (_, turn), (score, confident, cosine) in zip(turns, numbers, strict=True)
        )
