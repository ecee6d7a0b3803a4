"""`TokenCounter`, over every adapter that needs no download."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.models.tokens import EstimatedTokens

if TYPE_CHECKING:
    from memory_agent.ports import TokenCounter

COUNTERS: dict[str, TokenCounter] = {"estimated": EstimatedTokens()}


@pytest.fixture(params=list(COUNTERS))
def counter(request: pytest.FixtureRequest) -> TokenCounter:
    return COUNTERS[request.param]


def test_the_empty_text_has_no_tokens(counter: TokenCounter) -> None:
    """count("") is 0."""
    assert counter.count("") == 0


def test_the_margin_is_a_share(counter: TokenCounter) -> None:
    """At least 0, so that budgets are never exceeded on purpose, and below 1, so that they hold something."""
    assert 0 <= counter.margin < 1


def test_the_margin_does_not_depend_on_what_was_counted(counter: TokenCounter) -> None:
    """Budgets ask for it once."""
    before = counter.margin
    counter.count("한국어 text, 12 of it\n" * 50)
    assert counter.margin == before


@pytest.mark.parametrize("text", [" ", "a", "\n", "한", "👩‍👩‍👧", "\u200b", "\ud7ff"], ids=repr)
def test_any_other_text_has_some(counter: TokenCounter, text: str) -> None:
    """A text that is not empty has at least one token."""
    assert counter.count(text) >= 1


@pytest.mark.parametrize("name", list(COUNTERS))
@given(text=st.text(max_size=60), more=st.text(max_size=60))
def test_a_text_has_no_less_than_its_prefix(name: str, text: str, more: str) -> None:
    """Adding to a text never takes more than one token away."""
    counter = COUNTERS[name]
    assert counter.count(text + more) >= counter.count(text) - 1


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("I moved to Lisbon in March, and my sister visits every other weekend.", 15),
        ("저는 서울에 살고 있어요.", 9),
        ("def add(a, b):\n    return a + b\n", 13),
        ("2026-07-14T09:30:00Z", 14),
    ],
)
def test_the_count_is_near_the_truth(counter: TokenCounter, text: str, tokens: int) -> None:
    """Within 40 % of a modern encoding's count, and not far below it."""
    assert 0.9 * tokens <= counter.count(text) <= 1.4 * tokens
