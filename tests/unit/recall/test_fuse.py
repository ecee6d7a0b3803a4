"""The formulas of ranking, against plain references."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from memory_agent.recall.fuse import K1, B, best_first, bm25, fuse, inverse_document_frequency, min_max

if TYPE_CHECKING:
    from numpy.typing import NDArray


def floats(values: list[float]) -> NDArray[np.float32]:
    """Values as search keeps them."""
    return np.array(values, dtype=np.float32)


FLOATS = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-1, 1, width=32))


def test_bm25_is_the_published_formula() -> None:
    """A term's score equals the formula worked out by hand."""
    idf = inverse_document_frequency(100, 4)
    assert idf == pytest.approx(math.log(1 + (100 - 4 + 0.5) / (4 + 0.5)))
    got = bm25(floats([3]), floats([20]), mean_length=10, idf=idf)[0]
    assert got == pytest.approx(idf * 3 * (K1 + 1) / (3 + K1 * (1 - B + B * 2)), rel=1e-6)


@given(st.integers(1, 10_000), st.data())
def test_rarer_terms_weigh_more(rows: int, data: st.DataObject) -> None:
    """idf is positive and falls with the number of rows that hold the term."""
    frequency = data.draw(st.integers(0, rows - 1))
    assert inverse_document_frequency(rows, frequency) > inverse_document_frequency(rows, frequency + 1) > 0


@given(FLOATS)
def test_min_max_keeps_order_and_bounds(values: NDArray[np.float32]) -> None:
    """Normalised values lie in [0, 1], keep the order, and reach 1."""
    scaled = min_max(values)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert scaled.max() == 1
    order = np.argsort(values, kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()


def test_min_max_gives_nothing_to_the_unknown() -> None:
    """NaN becomes 0, also where all is NaN; equal values above a floor share 1."""
    assert min_max(floats([np.nan, 0.2, 0.4])).tolist() == [0, 0, 1]
    assert min_max(floats([np.nan, np.nan])).tolist() == [0, 0]
    assert min_max(floats([2, 2]), floor=0.0).tolist() == [1, 1]
    assert min_max(floats([0, 0]), floor=0.0).tolist() == [0, 0]


def test_a_result_without_words_needs_similarity() -> None:
    """min_similarity bars what only resembles the question faintly; a shared word lets it pass."""
    scores = fuse(floats([0.29, 0.31, 0.05]), floats([0, 0, 1.5]), min_similarity=0.3)
    assert np.isnan(scores[0])
    assert not np.isnan(scores[1])
    assert not np.isnan(scores[2])


def test_without_vectors_words_alone_decide() -> None:
    """With the embedder down the order is that of the word scores, and the best has score 1."""
    scores = fuse(floats([np.nan] * 3), floats([0, 2, 1]), min_similarity=0.3)
    assert best_first(scores).tolist() == [1, 2]
    assert scores[1] == 1


@given(FLOATS, st.data())
def test_fused_scores_are_the_half_and_half_sum(similarity: NDArray[np.float32], data: st.DataObject) -> None:
    """Scores lie in [0, 1] and equal the plain sum of the normalised signals."""
    shape = similarity.shape
    words = data.draw(hnp.arrays(np.float32, shape, elements=st.floats(0, 20, width=32)))
    scores = fuse(similarity, words, min_similarity=-1.0)
    high, low, top = max(similarity.tolist()), min(similarity.tolist()), max(words.tolist())
    for got, sim, word in zip(scores.tolist(), similarity.tolist(), words.tolist(), strict=True):
        by_meaning = (sim - low) / (high - low) if high > low else 1.0
        by_word = word / top if top > 0 else 0.0
        assert got == pytest.approx(0.5 * by_meaning + 0.5 * by_word, abs=1e-4)


def test_of_equal_scores_the_later_comes_first() -> None:
    """Ties go to what was said last."""
    assert best_first(floats([0.5, np.nan, 0.5, 0.9])).tolist() == [3, 2, 0]
