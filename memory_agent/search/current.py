"""One search that is under way: what is searched, and how its turns are ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.search.confidence import confidence, grounds, unrelated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.search.fusion import Signal
    from memory_agent.search.postings import CollectionStatistics
    from memory_agent.search.request import AnalysedQuery, SearchRequest
    from memory_agent.search.user_index import ResidentIndex, Scored

    Floats = NDArray[np.float32]

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

    def confidence(self, scores: Floats, scored: Scored, at: Sequence[int]) -> Floats:
        """Of the turns at these positions, see `memory_agent.search.confidence`. `scores`: of all in the first stage, by which it was fitted."""
        values, meaning = scored.values, scored.values["meaning"]
        return confidence(
            grounds(
                scores,
                meaning[at],
                np.nan_to_num(values["words"][at]),
                np.nan_to_num(values["words_around"][at]),
                weight_of_words=self.statistics.weight(self.asked.terms),
                unrelated_cosine=unrelated(meaning, background=self.asked.background, whole=self.index.whole),
                at=at,
            )
        )

    @property
    def weight_of_words(self) -> float:
        """See `normalised`. 0 where the question names an entity that a row holds: that is no chance, whatever its other words."""
        terms, frequency = self.asked.terms, self.statistics.frequency
        named = any(term.startswith("@") and frequency.get(term) for term in terms)
        return 0.0 if named else self.statistics.weight(terms, most=_MOST_TERMS)

    def shared(self, turn_ids: Sequence[str]) -> dict[str, list[str]]:
        """The question's terms that each of the turns holds."""
        terms = self.asked.terms
        return self.index.shared_terms(turn_ids, terms) | self.fresh.shared_terms(turn_ids, terms)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ranked:
    """Scores of the turns, shape (n,) each: normalised signals that any turn has, their sum by `weights`, and that of the first stage.

    `similarity`: what `min_similarity` was compared with; None where that is not set.
    """

    scored: Scored
    values: Mapping[Signal, Floats]
    weights: Mapping[str, float]
    scores: Floats
    surest: Floats
    similarity: Floats | None
