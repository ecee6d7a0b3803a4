"""Corrections among search results: the later turn that replaces a result, found by way of it.

A turn that corrects another may share no word with the question ("Actually Luso Van offered 3,100" for "which company
moves our things?"), so it is looked for from what was found, among the rows whose signs carry a cue. The index proposes
by time, speaker and cosine; the texts decide (`memory_agent.text.corrections`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from memory_agent.search.fusion import inverse_document_frequency
from memory_agent.text.corrections import claims_of, replaces

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from memory_agent.domain import Turn
    from memory_agent.search.postings import CollectionStatistics

LOOKED_AT: Final = 20
"""So many of the best results are looked at for what replaces them."""
LEAST_ALIKE: Final = 0.3
"""Cosine from which a later turn is proposed: corrections are short, and not very like what they correct."""
MOST_PROPOSED: Final = 3
"""For each result, the most alike; together they are one read of the store."""
_RARE_ROWS: Final = 4
_RARE_SHARE: Final = 0.02


def proposed(candidates: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Of each turn's candidates, by id with their cosines, the most alike; those without a vector (NaN) always."""
    chosen: dict[str, dict[str, float]] = {}
    for turn_id, alike in candidates.items():
        unknown = {other: 0.0 for other, cosine in alike.items() if math.isnan(cosine)}
        near = sorted(((c, other) for other, c in alike.items() if c >= LEAST_ALIKE), reverse=True)
        chosen[turn_id] = unknown | {other: cosine for cosine, other in near[:MOST_PROPOSED]}
    return chosen


def replacements(
    found: Sequence[Turn],
    later: Mapping[str, Turn],
    alike: Mapping[str, Mapping[str, float]],
    statistics: Callable[[Collection[str]], CollectionStatistics],
    *,
    language: str,
) -> dict[str, str]:
    """The found turns that are replaced, each with the proposed turn that does it, as ids.

    `later`: the proposed turns by id; `alike`: see `proposed`; `statistics`: of given terms. A turn replaces one only, to
    which it is tied by the most telling terms; of several that replace one the last said counts.
    """
    claims = {turn.id: claims_of(turn.content, language) for turn in (*found, *later.values())}
    terms = {
        term
        for each in claims.values()
        for part in (each.terms, *each.dropped, *(part for value in each.values for part in value[3:6]))
        for term in part
    }
    known = statistics(terms)
    idf = {term: inverse_document_frequency(known.rows, known.frequency.get(term, 0)) for term in terms}
    # As telling as one word that four rows hold, or one row in fifty.
    least = inverse_document_frequency(
        known.rows, min(known.rows, max(_RARE_ROWS, math.ceil(_RARE_SHARE * known.rows)))
    )

    def weight(shared: Collection[str]) -> float:
        # What most turns say adds up to nothing.
        return sum(value for term in shared if (value := idf[term]) >= least / 3)

    best: dict[str, tuple[float, str]] = {}
    for turn in found:
        for other, cosine in alike.get(turn.id, {}).items():
            if other in later:
                told = replaces(claims[other], claims[turn.id], weight, least=least, alike=cosine)
                if told > best.get(other, (0.0, ""))[0]:
                    best[other] = (told, turn.id)
    said = sorted(best, key=lambda other: (later[other].timestamp, later[other].seq))
    return {best[other][1]: other for other in said}


def corrected(ranking: Sequence[str], replaced: Mapping[str, str]) -> list[str]:
    """`ranking` with each turn that replaces another right before it, unless it stands before it already."""
    order: list[str] = []
    placed: set[str] = set()

    def place(turn_id: str) -> None:
        if turn_id not in placed:
            placed.add(turn_id)
            if turn_id in replaced:
                place(replaced[turn_id])
            order.append(turn_id)

    for turn_id in ranking:
        place(turn_id)
    return order
