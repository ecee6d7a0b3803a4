"""How much of a budget counting may fill."""

from fractions import Fraction

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


@given(budget=budgets, margin=margins)
def test_it_is_the_most_that_fits(budget: int, margin: float) -> None:
    """What is usable fits with the margin on top, and one token more would not; 0 for no budget."""
    room = usable(budget, Counter(margin))
    assert room >= 0
    if budget <= 0:
        assert room == 0
    else:
        assert room * (1 + Fraction(margin)) <= budget < (room + 1) * (1 + Fraction(margin))
