"""Counts of tokens that are kept say what the counter says, and ask it once."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context import budget
from memory_agent.context.budget import KeptCounts
from memory_agent.models.tokens import EstimatedTokens


class Asked(EstimatedTokens):
    """The estimate, which notes how often it is asked for each text."""

    def __init__(self) -> None:
        self.times = Counter[str]()

    def count(self, text: str) -> int:
        self.times[text] += 1
        return super().count(text)


@given(st.lists(st.text(max_size=30), max_size=50))
def test_kept_counts_are_the_counters(texts: list[str]) -> None:
    asked = Asked()
    kept = KeptCounts(asked)
    for _ in range(2):
        assert [kept.count(text) for text in texts] == [EstimatedTokens().count(text) for text in texts]
    assert set(asked.times.values()) <= {1}
    assert kept.margin == asked.margin
    kept.clear()
    assert [kept.count(text) for text in texts] == [EstimatedTokens().count(text) for text in texts]
    assert set(asked.times.values()) <= {2}


def test_the_texts_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those asked for last stay; a long text is counted each time."""
    monkeypatch.setattr(budget, "_ALL_KEPT_CHARS", 100)
    asked = Asked()
    kept = KeptCounts(asked)
    long = "a long text " * 1_000
    for number in range(100):
        kept.count(f"text {number}")
        kept.count("of every prompt")
        kept.count(long)
    assert asked.times["of every prompt"] == 1
    assert asked.times[long] == 100
    again = [
        number for number in range(100) if kept.count(f"text {number}") and asked.times[f"text {number}"] > 1
    ]
    assert len(again) >= 80
