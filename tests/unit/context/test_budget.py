"""How much of a budget counting may fill."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.budget import usable


class Counter:
    """A counter of which only the margin matters here."""

    def __init__(self, margin: float) -> None:
        self.margin = margin

    def count(self, text: str) -> int:
        return len(text)


budgets = st.integers(min_value=-10, max_value=10**12)
margins = st.floats(min_value=0, max_value=1, exclude_max=True)


@pytest.mark.parametrize(
    ("budget", "margin", "room"),
    [(1_000, 0.25, 800), (4, 0.25, 3), (1, 0.25, 0), (0, 0.25, 0), (-5, 0.0, 0), (1_000, 0.0, 1_000)],
)
def test_room_is_left_for_what_counts_may_miss(budget: int, margin: float, room: int) -> None:
    """By example."""
    assert usable(budget, Counter(margin)) == room


@given(budget=budgets, margin=margins)
def test_it_is_the_most_that_fits(budget: int, margin: float) -> None:
    """What is usable fits with the margin on top, and one token more would not; 0 for no budget."""
    room = usable(budget, Counter(margin))
    assert room >= 0
    if budget <= 0:
        assert room == 0
    else:
        assert room * (1 + Fraction(margin)) <= budget < (room + 1) * (1 + Fraction(margin))


@given(budget=budgets)
def test_exact_counts_may_use_everything(budget: int) -> None:
    """Without a margin the whole budget is usable."""
    assert usable(budget, Counter(0.0)) == max(budget, 0)


@given(budget=budgets, more=st.integers(min_value=0, max_value=10**6), margin=margins)
def test_a_larger_budget_never_holds_less(budget: int, more: int, margin: float) -> None:
    """Monotone in the budget."""
    assert usable(budget, Counter(margin)) <= usable(budget + more, Counter(margin))
