"""Token margin: the share of a budget that counted tokens may fill, given that a count may be too low. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memory_agent.ports import TokenCounter

PERSONA_TOKENS: Final = 200
"""Of the reminder of who the assistant is and how the conversation stands; in a compressed context at most 20 % of it."""
PRESERVED_TOKENS: Final = 1_000
"""Of the turns that are kept word for word, by importance: some ten of a chat's."""
SUMMARY_TOKENS: Final = 500
"""Of the summary of a compressed conversation: some twenty of its lines."""


def usable(budget: int, counter: TokenCounter) -> int:
    """The most tokens by `counter` that fit in `budget` tokens: counted x (1 + margin) <= budget; 0 if budget <= 0.

    Exact, as floats are not: the next larger count would not fit.
    """
    return int(max(budget, 0) / (1 + Fraction(counter.margin)))
