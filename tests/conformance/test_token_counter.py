"""`TokenCounter`, over every adapter that needs no download."""

import functools
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.models.tokens import EstimatedTokens, ExactTokens
from memory_agent.ports import TokenCounter
from tests.profiles import apart

COUNTERS: Final[dict[str, Callable[[], TokenCounter]]] = (
    {"exact": ExactTokens} if apart() else {"estimated": EstimatedTokens}
)
EXACT = {
    "The quick brown fox jumps over the lazy dog.": 10,
    "I moved to Lisbon in March, and my sister visits every other weekend.": 15,
    "저는 서울에 살고 있어요.": 9,
    "def add(a, b):\n    return a + b\n": 13,
    "2026-07-14T09:30:00Z": 14,
}


@functools.cache
def counter_of(name: str) -> TokenCounter:
    """Made by the first test that counts."""
    return COUNTERS[name]()


@pytest.mark.parametrize("name", COUNTERS)
@given(text=st.text(max_size=60), more=st.text(max_size=60))
def test_a_text_has_no_less_than_its_prefix(name: str, text: str, more: str) -> None:
    """Adding to a text never takes more than one token away."""
    counter = counter_of(name)
    assert counter.count(text + more) >= counter.count(text) - 1


@pytest.mark.parametrize("name", COUNTERS)
def test_counts_are_near_the_truth(name: str) -> None:
    """Within 40 % of a modern encoding's, and not far below; none for the empty text, at least one for any other.

    The margin is a share, at least 0 so that budgets are never exceeded on purpose, and does not depend on what was counted.
    """
    counter = counter_of(name)
    before = counter.margin
    assert 0 <= before < 1
    assert counter.count("") == 0
    for text in (" ", "a", "\n", "한", "👩‍👩‍👧", "\u200b", "\ud7ff"):
        assert counter.count(text) >= 1, text
    for text, tokens in EXACT.items():
        assert 0.9 * tokens <= counter.count(text) <= 1.4 * tokens, text
    assert counter.margin == before
