"""Packing a context into its token budget, with a ledger of every item considered. Pure.

Facts come first (up to `facts_share` of the budget), then the newest turns of the window (up to
`short_term_share`), then recollections by rank; what room is left goes to older turns of the window, those too
large for it left out. An item is in whole or not at all, and the budget holds for the rendered text, delimiters
included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import LedgerEntry, MemoryContext
from memory_agent.recall.render import SECTIONS, fact_line, prompt_text, turn_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memory_agent.domain import Recollection, Turn
    from memory_agent.ports import TokenCounter
    from memory_agent.recall.render import Section

_NO_ROOM: Final = "no room in the budget"
_KEPT: Final[Mapping[Section, str]] = {
    "facts": "fact",
    "short_term": "in the window",
    "long_term": "recalled",
}
_OF_TURNS: Final[tuple[Section, ...]] = ("short_term", "long_term")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Item:
    section: Section
    name: str
    line: str
    tokens: int


@dataclass(kw_only=True, slots=True)
class _Packing:
    """Items chosen so far and the tokens they take, envelope included."""

    counter: TokenCounter
    budget: int
    used: int = 0
    chosen: dict[Section, list[_Item]] = field(default_factory=lambda: {section: [] for section in SECTIONS})
    left: dict[tuple[Section, str], tuple[_Item, str]] = field(default_factory=dict)

    def take(self, item: _Item, *, limit: int) -> bool:
        """Take `item` if it fits in the budget and `limit`; opening a section costs its delimiters."""
        cost = item.tokens
        if not self.chosen[item.section]:
            cost += self._envelope(item.section)
        if self.used + cost > min(limit, self.budget):
            self.leave(item, _NO_ROOM)
            return False
        self.chosen[item.section].append(item)
        self.used += cost
        self.left.pop((item.section, item.name), None)
        return True

    def leave(self, item: _Item, reason: str) -> None:
        """Note why `item` is not taken; a later `take` may change that."""
        self.left[item.section, item.name] = (item, reason)

    def shows(self, turn_id: str) -> bool:
        """Whether the turn is taken, as part of the window or as a recollection."""
        return any(item.name == turn_id for part in _OF_TURNS for item in self.chosen[part])

    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Every item considered: those taken, then those left with the reason."""
        taken = [_entry(item, _KEPT[section]) for section in SECTIONS for item in self.chosen[section]]
        return (*taken, *(_entry(item, reason, kept=False) for item, reason in self.left.values()))

    def _envelope(self, section: Section) -> int:
        if not any(self.chosen.values()):
            return self.counter.count(prompt_text({section: [""]}))
        other = next(name for name in SECTIONS if name != section)
        both = self.counter.count(prompt_text({section: [""], other: [""]}))
        return max(both - self.counter.count(prompt_text({other: [""]})), 0) + 1


def pack_context(
    *,
    facts: Mapping[str, Any],
    window: Sequence[Turn],
    recollections: Sequence[Recollection],
    top_k: int,
    degraded: Sequence[str],
    budget: int,
    counter: TokenCounter,
    facts_share: float,
    short_term_share: float,
) -> MemoryContext:
    """The context that fits in `budget` tokens of rendered text.

    `window`: the last turns, oldest first; `recollections`: best first, of which at most `top_k` that the window
    does not show are taken.
    """
    packing = _Packing(counter=counter, budget=budget)

    def of_turn(section: Section, turn: Turn) -> _Item:
        # The content was counted when it was stored; what the line adds is little, and the whole is counted in the
        # end. One more token for the line break that joins it to the next.
        line = turn_lines(turn)
        tokens = turn.tokens + counter.count(line[: max(len(line) - len(turn.content), 0)]) + 1
        return _Item(section=section, name=turn.id, line=line, tokens=tokens)

    leaves = list(fact_leaves(facts))
    for path, value in leaves:
        line = fact_line(path, value)
        fact = _Item(section="facts", name=".".join(path), line=line, tokens=counter.count(line) + 1)
        packing.take(fact, limit=int(budget * facts_share))
    newest_first = [of_turn("short_term", turn) for turn in reversed(window)]
    waiting = _take_until_full(packing, newest_first, limit=packing.used + int(budget * short_term_share))
    for found in recollections:
        remembered = of_turn("long_term", found.turn)
        if packing.shows(found.turn.id):
            packing.leave(remembered, "the window shows it already")
        elif len(packing.chosen["long_term"]) >= top_k:
            packing.leave(remembered, "more than top_k_memories were found")
        else:
            packing.take(remembered, limit=budget)
    for turn in waiting:
        if packing.shows(turn.name):
            packing.leave(turn, "recalled already")
        else:
            packing.take(turn, limit=budget)

    text, tokens = _render_within(packing)
    kept = {section: {chosen.name for chosen in packing.chosen[section]} for section in SECTIONS}
    return MemoryContext(
        short_term=tuple(turn for turn in window if turn.id in kept["short_term"]),
        long_term=tuple(found for found in recollections if found.turn.id in kept["long_term"]),
        facts=_kept_facts(leaves, kept["facts"]),
        degraded=tuple(degraded),
        ledger=packing.ledger(),
        tokens=tokens,
        budget=budget,
        text=text,
    )


def fact_leaves(
    facts: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every scalar or list of a facts document with its path, in the document's order."""
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from fact_leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _take_until_full(packing: _Packing, items: Sequence[_Item], *, limit: int) -> list[_Item]:
    """Take items in order up to the first that does not fit; it and those behind it are what is left."""
    for position, item in enumerate(items):
        if not packing.take(item, limit=limit):
            return list(items[position:])
    return []


def _render_within(packing: _Packing) -> tuple[str, int]:
    """The rendered text and its tokens; should the parts' sum have been too low an estimate, the least wanted items leave."""
    leave: list[Section] = ["long_term", "short_term", "facts"]
    while True:
        chosen: dict[Section, list[str]] = {
            section: [item.line for item in packing.chosen[section]] for section in SECTIONS
        }
        chosen["short_term"].reverse()  # chosen newest first, read oldest first
        text = prompt_text(chosen)
        tokens = packing.counter.count(text)
        if tokens <= packing.budget:
            return text, tokens
        section = next(section for section in leave if packing.chosen[section])
        packing.leave(packing.chosen[section].pop(), _NO_ROOM)


def _kept_facts(leaves: Sequence[tuple[tuple[str, ...], Any]], kept: set[str]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for path, value in leaves:
        if ".".join(path) in kept:
            inner = document
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = value
    return document


def _entry(item: _Item, reason: str, *, kept: bool = True) -> LedgerEntry:
    return LedgerEntry(section=item.section, item=item.name, tokens=item.tokens, kept=kept, reason=reason)
