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
    from datetime import datetime

    from memory_agent.domain import Turn
    from memory_agent.search.postings import CollectionStatistics
    from memory_agent.search.request import RowFilter
    from memory_agent.search.user_index import Alike, ResidentIndex

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
    replaces one only, to which it is tied by the most telling terms; of several that replace one the last said counts.
    """
    pairs = [
        (turns[old], turns[new], cosine)
        for new, earlier in alike.items()
        for old, cosine in earlier.items()
        if cosine >= LEAST_ALIKE and old in turns and new in turns
    ]
    claims = {turn.id: claims_of(turn.content, language) for pair in pairs for turn in pair[:2]}
    rows = statistics(()).rows
    # As telling as one word that four rows hold, or one row in fifty.
    least = inverse_document_frequency(rows, min(rows, max(_RARE_ROWS, math.ceil(_RARE_SHARE * rows))))

    def weight(shared: Collection[str]) -> float:
        held = statistics(shared).frequency
        idf = (inverse_document_frequency(rows, held.get(term, 0)) for term in shared)
        # What most turns say adds up to nothing.
        return sum(value for value in idf if value >= least / 3)

    best: dict[str, tuple[float, datetime, int, str]] = {}
    for old, new, cosine in pairs:
        told = replaces(claims[new.id], claims[old.id], weight, least=least, alike=cosine)
        if told:
            # Of two that it is tied to alike, the last said.
            this = (told, old.timestamp, old.seq, old.id)
            best[new.id] = max(best.get(new.id, this), this)
    said = sorted(best, key=lambda turn_id: (turns[turn_id].timestamp, turns[turn_id].seq))
    return {best[turn_id][-1]: turn_id for turn_id in said}


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
