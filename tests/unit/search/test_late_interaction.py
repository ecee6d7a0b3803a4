"""Late interaction against cases worked out by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from memory_agent.domain import TokenVectors
from memory_agent.search.fusion import inverse_document_frequency
from memory_agent.search.postings import CollectionStatistics
from memory_agent.search.rerank import BESIDE, detail, token_matches, token_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

STATISTICS = CollectionStatistics(rows=100, mean_length=5, frequency={"cat": 10, "adopt": 1})


def tokens(vectors: list[list[float]], *, half: bool = False) -> TokenVectors:
    """Tokens of these vectors; where they stand does not matter."""
    whole = np.array(vectors, dtype=np.float32).reshape(len(vectors), 2)
    spans = np.zeros((len(vectors), 2), dtype=np.int32)
    return TokenVectors(spans=spans, vectors=whole.astype(np.float16) if half else whole)


def words_of(text: str) -> TokenVectors:
    """A token for each word and sign of `text`; words of more than five letters are two."""
    spans = [match.span() for match in re.finditer(r"\w{1,5}|[^\w\s]", text)]
    array = np.array(spans, dtype=np.int32).reshape(len(spans), 2)
    return TokenVectors(spans=array, vectors=np.zeros((len(spans), 2), dtype=np.float32))


def weights_of(text: str, *, without: tuple[str, ...] = ()) -> list[float]:
    """The weight of each token of `text`."""
    weights = token_weights(text, words_of(text), STATISTICS, language="english", without=without)
    return [float(weight) for weight in weights]


@pytest.mark.parametrize("half", [False, True])
def test_each_token_takes_its_best_match(half: bool) -> None:
    """The highest cosine with any token of the turn; opposites count as 0."""
    question = tokens([[1, 0], [0, 1]])
    turns = [tokens([[0.6, 0.8], [1, 0]], half=half), tokens([[-1, 0]], half=half), tokens([], half=half)]
    expected = np.array([[1, 0.8], [0, 0], [0, 0]])
    assert token_matches(question, turns) == pytest.approx(expected, abs=1e-3)


def test_a_token_counts_as_its_word_is_rare() -> None:
    """All tokens of a word have the idf of the word's term; a word that nobody said counts most."""
    rare, common = (inverse_document_frequency(100, frequency) for frequency in (1, 10))
    unheard = inverse_document_frequency(100, 0)
    # adopt|ed cats, zebra|s
    assert weights_of("adopted cats zebras") == pytest.approx([rare, rare, common, unheard, unheard])
    assert rare > common > 0


def test_function_words_and_signs_weigh_nothing() -> None:
    """What every question has tells no turn from another; a sign counts as part of its word."""
    assert weights_of("when did the") == [0, 0, 0]
    assert weights_of("? !") == [0, 0]
    common = inverse_document_frequency(100, 10)
    assert weights_of("the cat?") == pytest.approx([0, common, common])


def test_names_weigh_nothing() -> None:
    """Who spoke stands for the persons of a question, also in a possessive and in small letters."""
    common = inverse_document_frequency(100, 10)
    assert weights_of("Ann cat", without=("Ann Lee",)) == pytest.approx([0, common])
    assert weights_of("ann's cat", without=("Ann",))[-1] == pytest.approx(common)
    assert sum(weights_of("ann's", without=("Ann",))) == 0
    assert weights_of("Ann cat")[0] > 0


def test_what_is_found_beside_a_turn_counts_nearly_as_much() -> None:
    """The better of the turn itself and the turns before and after, those a little less."""
    matches = np.array([[1, 0], [0.2, 0.95], [0, 0.5]], dtype=np.float32)
    before, after = np.array([-1, 0, 1]), np.array([1, 2, -1])
    got = detail(matches, np.array([1, 1], dtype=np.float32), before, after)
    expected = [(1 + 0.95 * BESIDE) / 2, (1 * BESIDE + 0.95) / 2, (0.2 * BESIDE + 0.95 * BESIDE) / 2]
    assert got.tolist() == pytest.approx(expected)
