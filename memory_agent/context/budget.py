"""Token margin: the share of a budget that counted tokens may fill, given that a count may be too low. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_agent.ports import TokenCounter


def usable(budget: int, counter: TokenCounter) -> int:
    """The most tokens by `counter` that fit in `budget` tokens: counted x (1 + margin) <= budget; 0 if budget <= 0.

    Exact, as floats are not: the next larger count would not fit.
    """
    return int(max(budget, 0) / (1 + Fraction(counter.margin)))
