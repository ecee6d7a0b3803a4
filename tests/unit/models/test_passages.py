"""Cutting long texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.models.passages import Piece, cut_passages
from memory_agent.models.tokens import estimated_pieces


def words(text: str) -> list[Piece]:
    return [Piece(match.start(), match.end()) for match in re.finditer(r"\w+|[^\w\s]", text)]


def test_a_text_that_fits_is_returned_unchanged() -> None:
    """Exactly as many tokens as the window holds is one passage."""
    assert cut_passages(" a b c ", words(" a b c "), window=3, overlap=1) == [" a b c "]


def test_passages_end_with_sentences() -> None:
    """A sentence's end in the last quarter of the window is where the passage ends."""
    text = "One two three four five six. Seven eight nine ten."
    assert cut_passages(text, words(text), window=8, overlap=0)[0] == "One two three four five six. "


def test_neighbours_overlap() -> None:
    """Each passage repeats the last words of the one before."""
    text = " ".join(f"w{n}" for n in range(20))
    first, second, *_ = cut_passages(text, words(text), window=8, overlap=2)
    assert first.split()[-2:] == second.split()[:2]


def test_words_stay_whole_where_they_can() -> None:
    """Where tokens are parts of words, the cut is between words."""
    text = "abcdef ghijkl mnopqr"
    pieces = [Piece(i, i + 2) for i in (0, 2, 4, 7, 9, 11, 14, 16, 18)]
    assert cut_passages(text, pieces, window=7, overlap=0) == ["abcdef ghijkl ", "mnopqr"]


@given(
    text=st.text(alphabet="ab .\n한😀", max_size=200),
    window=st.integers(min_value=4, max_value=20),
    overlap=st.integers(min_value=0, max_value=3),
)
def test_every_character_is_in_a_passage_and_no_passage_is_too_long(
    text: str, window: int, overlap: int
) -> None:
    """Passages cover the text in order, and none is heavier than the window."""
    pieces = [Piece(*piece) for piece in estimated_pieces(text)]
    passages = cut_passages(text, pieces, window=window, overlap=overlap)
    end = 0
    position = 0
    for passage in passages:
        position = next(
            at
            for at in range(end, position - 1, -1)
            if text.startswith(passage, at) and at + len(passage) >= end
        )
        end = max(end, position + len(passage))
    assert end == len(text)
    assert len(passages) <= max(1, len(pieces))


@pytest.mark.parametrize("overlap", [0, 5, 9])
def test_it_always_moves_on(overlap: int) -> None:
    """An overlap as large as the window allows still ends."""
    text = "x" * 500
    pieces = [Piece(i, i + 1) for i in range(500)]
    passages = cut_passages(text, pieces, window=10, overlap=overlap)
    assert sum(map(len, passages)) >= 500
    assert all(len(passage) <= 10 for passage in passages)
