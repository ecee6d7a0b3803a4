"""Exact counts of tokens, which counter is picked, and that picking never downloads.

Run by tests/unit/models/test_apart.py in a process of its own, for the table takes 70 MB.
"""

import importlib.util
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.budget import KeptCounts
from memory_agent.models.tokens import EstimatedTokens, ExactTokens, best_token_counter


def test_the_exact_count_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the estimate; no connection is tried for either."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    exact = best_token_counter()
    assert isinstance(exact, ExactTokens)
    # as OpenAI's tiktoken 0.14.0 counts by o200k_base; special tokens are text
    texts = {"": 0, "Hello, world!": 4, "저는 서울에 살아요": 6, "<|endoftext|>": 7, "x = f(1234)\n": 7}
    assert {text: exact.count(text) for text in texts} == texts
    assert exact.margin == 0
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert isinstance(best_token_counter(), EstimatedTokens)


def test_a_whole_prompt_is_counted_by_the_lines_that_were_counted_for_it() -> None:
    """Only where that comes to the same, which the estimate does not say of itself."""
    lines = [
        f"Ann: the {number}th thing that I said, which may well be said again\n" for number in range(100)
    ]
    prompt = "".join(lines)
    exact = ExactTokens()
    kept = KeptCounts(exact)
    assert kept.count(prompt) == exact.count(prompt) == sum(map(kept.count, lines))
    assert KeptCounts(EstimatedTokens()).count(prompt) == EstimatedTokens().count(prompt)


PIECES = [*"\n\t /-?![1aB字한\u0301\u00a0\u2028\x85\x1c\r…“😀", "’s", "  ", "é", "</memory_facts>"]


@given(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.sampled_from(["o200k_base", "cl100k_base"]),
)
def test_the_tokens_of_a_texts_lines_add_up_to_its_own(text: str, encoding: str) -> None:
    """Whatever stands at their ends and beginnings."""
    exact = ExactTokens(encoding)
    lines = exact.lines_of(text)
    assert "".join(lines) == text
    assert sum(map(exact.count, lines)) == exact.count(text)
