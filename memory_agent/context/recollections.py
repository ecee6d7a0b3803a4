"""Recollections as items of a prompt: in the order in which they were said, taken by what they are worth. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from memory_agent.context.passages import best_passage
from memory_agent.context.render import heading_of, recalled_line
from memory_agent.text.features import features_of
from memory_agent.text.subjects import content_words, says_more_than

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from memory_agent.context.ledger import Packing
    from memory_agent.context.material import Material
    from memory_agent.context.placing import Item
    from memory_agent.domain import Turn

_PASSAGE_SHARE: Final = 1 / 25
"""Of the budget, for one recollection: of a longer turn the passage is shown that has most of the question's words."""
_LEAST_PASSAGE_TOKENS: Final = 60


def passage_tokens(budget: int) -> int:
    """The most tokens that one recollection takes of a budget."""
    return max(int(budget * _PASSAGE_SHARE), _LEAST_PASSAGE_TOKENS)


_EQUAL_RANKS: Final = 12
"""Ranks that are worth about the same: what is found tenth is evidence half as often as what is found first."""
_EQUAL_TOKENS: Final = 45
"""Turns up to this size cost about the same: one of ten tokens is no bargain, for it seldom says anything."""


def recalled_items(packing: Packing, material: Material) -> list[Item]:
    """Recollections, best first, to be read day by day in the order in which they were said, other threads' first."""
    recollections, answered = material.recollections, material.answered

    def elsewhere(turn: Turn) -> bool:
        return material.thread_id not in (None, turn.thread_id)

    def when(turn: Turn) -> tuple[Any, ...]:
        return turn.timestamp.date(), not elsewhere(turn), turn.timestamp, turn.thread_id, turn.seq

    in_time = sorted((found.turn for found in recollections), key=when)
    place = {turn.id: float(number) for number, turn in enumerate(in_time)}
    rank = {found.turn.id: number for number, found in enumerate(recollections)}
    turns = {found.turn.id: found.turn for found in recollections}

    def quoted(number: int, turn: Turn) -> Turn | None:
        """The turn that this one answers, unless that is wanted more than it: then it stands right above."""
        other = answered.get(turn.id)
        return None if other is None or rank.get(other.id, number) < number else other

    items = []
    for number, found in enumerate(recollections):
        turn, away = found.turn, elsewhere(found.turn)
        item = packing.item(
            "long_term",
            turn.id,
            recalled_line(turn, quoted(number, turn), turns.get(found.replaced_by or "")),
            place=place[turn.id],
            reason="recalled from another conversation" if away else "recalled",
            score=found.score,
            confidence=found.confidence,
            turn=turn,
            under=heading_of(turn, elsewhere=away),
        )
        # Other threads' turns have the numbers of this one's, and are not what those show.
        items.append(item._replace(seq=None) if away else item)
    return items


def telling(packing: Packing, items: Sequence[Item], material: Material) -> list[Item]:
    """Recollections but for small talk: words of greeting, thanks and reaction, and names of who talks, also given ones.

    A short answer tells as much as the question that it answers; a reaction to what was told tells nothing.
    """
    turns = [found.turn for found in material.recollections]
    speakers = {turn.speaker or "" for turn in (*material.window, *turns)}
    documents = material.facts.values() if len(material.people) > 1 else [material.facts]
    given = [str(facts["name"]) for facts in documents if "name" in facts]
    names = content_words(" ".join([*sorted(speakers), *given]))

    def tells(turn: Turn | None) -> bool:
        return turn is not None and says_more_than(turn.content, names)

    def answers(turn: Turn) -> bool:
        question = material.answered.get(turn.id)
        return question is not None and features_of(question.content).asks and tells(question)

    telling = {turn.id for turn in turns if tells(turn) or answers(turn)}
    for item in items:
        if item.name not in telling:
            packing.leave(item, "small talk")
    return [item for item in items if item.name in telling]


def by_worth(items: Sequence[Item], most: int) -> list[Item]:
    """Items by what they are worth for their tokens, given best first; one takes at most `most` tokens.

    An item's worth falls with its rank r as 1 / (r + 12), its price rises with the square root of its tokens. Chosen
    on four sets of conversations (`benchmarks/context.py`): long replies of an assistant give way to what people
    said, and among turns of one size the order stays that of the ranking.
    """

    def price(ranked: tuple[int, Item]) -> tuple[float, int]:
        rank, item = ranked
        return (rank + _EQUAL_RANKS) * math.sqrt(max(min(item.tokens, most), _EQUAL_TOKENS)), rank

    return [item for _, item in sorted(enumerate(items), key=price)]


def take_recollections(
    packing: Packing, items: Sequence[Item], asked: Collection[str], language: str, most: int
) -> bool:
    """Take recollections by their worth; of one longer than `most` tokens the passage that answers best. True if all fit."""
    all_fit = True
    for item in by_worth(items, most):
        whole = item.tokens <= most or packing.where_shown(item) or packing.room < most
        taken = packing.take(item if whole else _passage(packing, item, asked, language, most))
        all_fit = all_fit and (taken or packing.where_shown(item) is not None)
    return all_fit


def _passage(packing: Packing, item: Item, asked: Collection[str], language: str, most: int) -> Item:
    """The item with the passage that answers best; with its beginning and end if none is short enough."""
    passage = best_passage(
        item.line.body, asked, language, lambda body: packing.showing(item, body).tokens <= most
    )
    if not passage:
        return packing.cut(item, most) or item
    return packing.showing(item, passage, "the passage nearest to the question")
