"""Budgets of contexts: the share that counted tokens may fill, given that a count may be too low, and how it is divided.

A preset's share is of the whole budget, and what a tier may take before recollections have their turn; what is left
over then goes to what did not fit before. So a share is no promise and wastes nothing. Pure.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memory_agent.domain import Preset
    from memory_agent.ports import TokenCounter


PERSONA_TOKENS: Final = 200
"""Of the reminder of who the assistant is and how the conversation stands; in a compressed context at most 20 % of it."""
PRESERVED_TOKENS: Final = 1_000
"""Of the turns that are kept word for word, by importance: some ten of a chat's."""
SUMMARY_TOKENS: Final = 500
"""Of the summary of a compressed conversation: some twenty of its lines."""
ROLLING_SUMMARY_TOKENS: Final = 400
"""Of a summary of a topic, or of the older messages of a history."""


def usable(budget: int, counter: TokenCounter) -> int:
    """The most tokens by `counter` that fit in `budget` tokens: counted x (1 + margin) <= budget; 0 if budget <= 0.

    Exact, as floats are not: the next larger count would not fit.
    """
    return int(max(budget, 0) / (1 + Fraction(counter.margin)))


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, if all below it do; 0 does without being asked."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """The most of the budget that each tier takes, 0 to 1; one without a share (None) is left out.

    `facts`: those that the question touches, and what always matters; `other_facts`: what else is known.
    """

    facts: float
    other_facts: float = 0.0
    summary: float | None = None
    preserved: float | None = None
    topic: float | None = None
    state: float | None = None
    window: bool = True


PRESETS: Final[dict[Preset, Shares]] = {
    # What is recalled for the question holds nearly all evidence; facts and a model's summary what it takes to be of use.
    "balanced": Shares(facts=0.06, other_facts=0.01, summary=0.06),
    # Earlier code word for word.
    "code": Shares(facts=0.06, other_facts=0.01, summary=0.08, preserved=0.22, topic=0.02, state=0.03),
    # Who the user is, and the thread of the talk.
    "chat": Shares(facts=0.15, other_facts=0.15, summary=0.10, preserved=0.06, topic=0.03, state=0.05),
    # Facts, the last turns, and what is recalled.
    "minimal": Shares(facts=0.10, other_facts=0.04),
    # For questions about the past, asked beside the conversation: no window either.
    "recall": Shares(facts=0.05, other_facts=0.01, window=False),
}


_KEPT_CHARS: Final = 4_000
_ALL_KEPT_CHARS: Final = 2_000_000
"""Some 4 MB at most, twice that while one lot replaces the other; a prompt looks at up to a thousand texts."""


class KeptCounts:
    """`TokenCounter` that keeps the counts of texts up to `_KEPT_CHARS`: the lines of turns recur from prompt to prompt.

    Of `counter`. The texts that were asked for last stay, between one and two times `_ALL_KEPT_CHARS`. A longer text, such as a
    whole prompt, is counted line by line where that comes to the same.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._lines_of = getattr(counter, "lines_of", None)
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}
        self._newer_chars = 0

    @property
    def margin(self) -> float:
        """See `TokenCounter.margin`."""
        return self._counter.margin

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        found = self._newer.get(text)
        if found is not None:
            return found
        found = self._older.get(text)
        if found is None and self._lines_of is not None and len(text) > _KEPT_CHARS:
            lines = self._lines_of(text)
            return sum(map(self.count, lines)) if len(lines) > 1 else self._counter.count(text)
        if found is None:
            found = self._counter.count(text)
        if len(text) <= _KEPT_CHARS:
            if self._newer_chars >= _ALL_KEPT_CHARS:
                self._older, self._newer, self._newer_chars = self._newer, {}, 0
            self._newer[text] = found
            self._newer_chars += len(text)
        return found

    def clear(self) -> None:
        """Forget all texts: something was forgotten."""
        self._newer, self._older, self._newer_chars = {}, {}, 0


class TextCaches:
    """Caches of texts that are kept without their user."""

    def __init__(self, empty: Callable[[], None], drop: Callable[[str], None]) -> None:
        """`empty`: empties them all; `drop`: makes a cache forget what it keeps of a user."""
        self._empty, self._drop = empty, drop
        self._cleared = 0

    def clear(self) -> None:
        """Forget all texts: something was forgotten."""
        self._cleared += 1
        self._empty()

    @contextlib.contextmanager
    def reading(self, user_id: str) -> Iterator[None]:
        """Read turns of a user in the block; if something is forgotten meanwhile, the block may put it back, so all are emptied again."""
        before = self._cleared
        try:
            yield
        finally:
            if self._cleared != before:
                self._empty()
                self._drop(user_id)
