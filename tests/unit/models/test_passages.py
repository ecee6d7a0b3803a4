"""Cutting long texts."""

import re

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.models.batching import Piece, cut_passages
from memory_agent.models.tokens import estimated_pieces


def words(text: str) -> list[Piece]:
    return [Piece(match.start(), match.end()) for match in re.finditer(r"\w+|[^\w\s]", text)]


def test_passages_end_where_a_reader_would_cut() -> None:
    """With a sentence in the last quarter, between words where tokens are parts of them; what fits is left as it is."""
    assert cut_passages(" a b c ", words(" a b c "), window=3, overlap=1) == [" a b c "]
    text = "One two three four five six. Seven eight nine ten."
    assert cut_passages(text, words(text), window=8, overlap=0)[0] == "One two three four five six. "
    pieces = [Piece(i, i + 2) for i in (0, 2, 4, 7, 9, 11, 14, 16, 18)]
    passages = cut_passages("abcdef ghijkl mnopqr", pieces, window=7, overlap=0)
    assert passages == ["abcdef ghijkl ", "mnopqr"]


def test_neighbours_overlap_and_it_always_moves_on() -> None:
    text = " ".join(f"w{n}" for n in range(20))
    first, second, *_ = cut_passages(text, words(text), window=8, overlap=2)
    assert first.split()[-2:] == second.split()[:2]
    pieces = [Piece(i, i + 1) for i in range(500)]
    for overlap in (0, 5, 9):
        passages = cut_passages("x" * 500, pieces, window=10, overlap=overlap)
        assert sum(map(len, passages)) >= 500
        assert all(len(passage) <= 10 for passage in passages)


@given(st.text(alphabet="ab .\n한😀", max_size=200), st.integers(4, 20), st.integers(0, 3))
def test_every_character_is_in_a_passage(text: str, window: int, overlap: int) -> None:
    pieces = [Piece(*piece) for piece in estimated_pieces(text)]
    passages = cut_passages(text, pieces, window=window, overlap=overlap)
    end = position = 0
    for passage in passages:
        places = range(end, position - 1, -1)
        position = next(at for at in places if text.startswith(passage, at) and at + len(passage) >= end)
        end = max(end, position + len(passage))
    assert end == len(text)
    assert len(passages) <= max(1, len(pieces))
