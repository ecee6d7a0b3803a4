"""Items of a context: lines of a tier that may be taken or left. Pure."""

from __future__ import annotations

import copy
from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from memory_agent.context.ledger import LEFT_TO_RECENT, Item, Packing
from memory_agent.context.render import (
    LINE_CHARS_KEPT,
    LINES_KEPT,
    Heading,
    as_data,
    fact_leaves,
    fact_line,
    heading_of,
    recalled_line,
    summary_line,
)
from memory_agent.domain import UNNAMED, ContextLine
from memory_agent.facts.fold import person_key, subject_of
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memory_agent.domain import KeyMoment, SummaryItem, SummaryKind, Tier, Turn


_LINE_CHARS: Final = 100
"""Of a list of facts that is taken as a whole; a longer one is taken value by value, for it may not fit."""
_ALWAYS_MATTERS: Final = frozenset({"allergies", "name"})


@lru_cache(maxsize=LINES_KEPT)
def _terms_of(line: str, language: str) -> tuple[str, ...]:
    """The terms of a fact's line, if it is short: of ten thousand facts one was stated since the last prompt."""
    return tuple(count_terms(line, language))


def forget_terms() -> None:
    """Forget the lines that were read last: something was forgotten."""
    _terms_of.cache_clear()


class FactItems:
    """The facts of a document as items, in its order; of a long list one item for each of its values, which share a line."""

    def __init__(self, packing: Packing, document: Mapping[str, Any], whose: str | None) -> None:
        """`whose`: the person who is named with each; None: the one that the document is keyed by."""
        self.items: list[Item] = []
        self._needless: list[Item] = []
        self._stated: list[tuple[tuple[str, ...], Any, bool]] = []
        self._holding: dict[str, list[int]] = {}
        for path, value in fact_leaves(document):
            person, below = (path[0], path[1:]) if whose is None else (whose, path)
            named = below == ("name",) and isinstance(value, str) and person_key(value) == person_key(person)
            for item, one, part in self._of_leaf(packing, path, below, value, person):
                if person and named:
                    self._needless.append(item)
                    continue
                self.items.append(item)
                self._stated.append((path, one, part))

    @classmethod
    def of(
        cls,
        packing: Packing,
        document: Mapping[str, Any],
        people: Sequence[str],
        window: Sequence[Turn],
        kept: dict[str | None, FactItems],
    ) -> FactItems:
        """The items of the facts of these people, which are `kept`.

        Whose a fact is, is said unless it can only be the person's who speaks in the window; a name that is said so anyway is
        left out.
        """
        speaking = {person_key(subject_of(turn.speaker)) for turn in window if turn.role == "user"}
        only = {person_key(name) for name in people} == (speaking or {UNNAMED})
        whose = None if len(people) > 1 else "" if only else "".join(people)
        if whose not in kept:
            kept[whose] = cls(packing, document, whose)
        for item in kept[whose]._needless:
            packing.leave(item, "said with every fact of this person")
        return kept[whose]

    def _of_leaf(
        self, packing: Packing, path: tuple[str, ...], below: tuple[str, ...], value: Any, whose: str
    ) -> Iterator[tuple[Item, Any, bool]]:
        """The items of one leaf, each with its value, and whether that is a part of the leaf's."""
        line, name, first = fact_line(below, value, whose), ".".join(path), len(self.items)
        if not isinstance(value, list) or len(line.body) <= _LINE_CHARS:
            yield packing.item("facts", name, line, place=first, reason="known"), value, False
            return
        begins = fact_line(below, [], whose).body.removesuffix("]")
        for at, one in enumerate(value):
            line = fact_line(below, [one], whose)
            item = packing.item(
                "facts", f"{name}[{at}]", line, place=first + at, reason="known", begins=begins
            )
            yield item, one, True

    def by_question(self, asked: Collection[str], language: str) -> tuple[list[Item], list[Item], list[Item]]:
        """Facts that share words with the question, those with most of them first; what matters in any conversation; the others."""
        if not self._holding:
            self._read(language)
        shared = Counter(chain.from_iterable(self._holding.get(term, ()) for term in asked))
        wanted = [self.items[at] for at in sorted(shared, key=lambda at: (-shared[at], at))]
        rest = [item for item in self.items if item.place not in shared]
        needed = [item for item in rest if not _ALWAYS_MATTERS.isdisjoint(item.name.split("."))]
        return wanted, needed, [item for item in rest if _ALWAYS_MATTERS.isdisjoint(item.name.split("."))]

    def _read(self, language: str) -> None:
        for at, item in enumerate(self.items):
            line = item.line.body
            terms_of = _terms_of if len(line) <= LINE_CHARS_KEPT else count_terms
            for term in terms_of(line, language):
                self._holding.setdefault(term, []).append(at)

    def document(self, taken: Iterable[Item]) -> dict[str, Any]:
        """The part of the document that these items state."""
        kept: dict[str, Any] = {}
        for place in sorted(int(item.place) for item in taken if item.place < _BEHIND):
            path, value, part = self._stated[place]
            inner = kept
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            if part:
                inner.setdefault(path[-1], []).append(copy.deepcopy(value))
            else:
                inner[path[-1]] = copy.deepcopy(value)
        return kept


def plain_items(packing: Packing, tier: Tier, lines: Sequence[str], reason: str) -> list[Item]:
    """Lines of the persona or the state."""
    return [
        packing.item(tier, f"{tier}[{place}]", ContextLine(body=as_data(line)), place=place, reason=reason)
        for place, line in enumerate(lines)
    ]


def leave_unfit(packing: Packing, lines: Sequence[tuple[Tier, str]], moments: Sequence[KeyMoment]) -> None:
    """Note what there is no room for: lines in the reminder, moments among the preserved turns."""
    for place, (tier, line) in enumerate(lines):
        name = f"{tier}:left[{place}]"
        item = packing.item(tier, name, ContextLine(body=as_data(line)), place=place, reason="")
        packing.leave(item, "no room in the reminder")
    for moment in moments:
        item = Item(
            tier="preserved",
            name=moment.turn_id,
            line=ContextLine(body=moment.text),
            tokens=moment.tokens,
            place=moment.seq,
            reason="",
            score=moment.score,
        )
        packing.leave(item, "no room among the preserved turns")


def preserved_items(
    packing: Packing,
    preserved: Sequence[tuple[Turn, float]],
    *,
    recent: Collection[str],
    replaced: Collection[str] = (),
) -> list[Item]:
    """Turns that matter, word for word. Those that are `recent` (by id) are left to the recent turns.

    Those that are `replaced` are left to the recollections, beside what holds instead.
    """
    items = [
        packing.item(
            "preserved",
            turn.id,
            recalled_line(turn),
            place=turn.seq,
            reason="important",
            score=score,
            turn=turn,
            under=heading_of(turn),
        )
        for turn, score in preserved
    ]
    for item in items:
        if item.name in recent:
            packing.leave(item, LEFT_TO_RECENT)
        elif item.name in replaced:
            packing.leave(item, "a later turn replaces it")
    return [item for item in items if item.name not in recent and item.name not in replaced]


SECTION_OF: Final[Mapping[SummaryKind, Tier]] = {
    "topic": "summary",
    "event": "moments",
    "emotion": "journey",
    "fact": "facts",
    "decision": "decisions",
}
"""Of a compressed context, for what a language model sums up."""
_BEHIND: Final = 1_000_000
"""The place of what a summary has of a section, before or behind what else is in it."""


def summary_items(packing: Packing, summary: Sequence[SummaryItem], *, sections: bool = False) -> list[Item]:
    """A summary's items, the most important first.

    `sections`: each in the section of its kind, and quotes, which are of no use beside their turns, as excerpts of these.
    """
    items: list[Item] = []
    for place, item in enumerate(summary):
        quote = item.said_at is not None
        tier = SECTION_OF[item.kind] if sections and not quote else "summary"
        items.append(
            packing.item(
                tier,
                f"summary[{place}]",
                summary_line(item),
                place=place + {"facts": _BEHIND, "moments": -_BEHIND}.get(tier, 0),
                reason="summarised",
                score=item.importance,
                excerpt_of=item.first_seq if sections and quote else None,
                under=Heading(item.said_at.date()) if item.said_at else None,
            )
        )
    return sorted(items, key=lambda item: (-(item.score or 0.0), item.place))


def turn_items(packing: Packing, turns: Sequence[Turn], reason: str) -> list[Item]:
    """The last turns (oldest first) word for word, the newest first, with who said them under the day."""
    return [
        packing.item(
            "short_term",
            turn.id,
            recalled_line(turn),
            place=turn.seq,
            reason=reason,
            turn=turn,
            under=heading_of(turn),
        )
        for turn in reversed(turns)
    ]
