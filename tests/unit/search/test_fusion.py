"""The formulas of ranking, against plain references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from memory_agent.search.fusion import (
    K1,
    SCALED,
    SIGNALS,
    WEIGHTS,
    B,
    Signal,
    best_first,
    bm25,
    contributions,
    for_sessions,
    fuse,
    heard_weights,
    inverse_document_frequency,
    min_max,
    normalised,
)

Floats = NDArray[np.float32]
Fused = tuple[dict[Signal, Floats], dict[str, float]]


def floats(values: list[float]) -> Floats:
    return np.array(values, dtype=np.float32)


FLOATS = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-1, 1, width=32))
SHARES = st.one_of(st.just(0.0), st.floats(2**-10, 1, width=32))


@st.composite
def _fused(draw: st.DrawFn) -> Fused:
    size = draw(st.integers(1, 8))
    names = draw(st.lists(st.sampled_from(SIGNALS), unique=True, min_size=1))
    values = {name: draw(hnp.arrays(np.float32, size, elements=SHARES)) for name in names}
    weight = st.one_of(st.just(0.0), st.floats(-5, -0.1), st.floats(0.1, 5))
    return values, {name: draw(weight) for name in names}


fused = _fused()
"""Normalised signals of some candidates, and weights."""


def test_bm25_is_the_published_formula() -> None:
    idf = inverse_document_frequency(100, 4)
    assert idf == pytest.approx(math.log(1 + (100 - 4 + 0.5) / (4 + 0.5)))
    got = bm25(floats([3]), floats([20]), mean_length=10, idf=idf)[0]
    assert got == pytest.approx(idf * 3 * (K1 + 1) / (3 + K1 * (1 - B + B * 2)), rel=1e-6)


@given(FLOATS)
def test_min_max_keeps_order_and_bounds(values: Floats) -> None:
    """Normalised values lie in [0, 1], keep the order, and reach 1 unless none is above 0."""
    scaled = min_max(values)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert scaled.max() == (1 if np.ptp(values) > 0 or values.max() > 0 else 0)
    order = np.argsort(values, kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()


def test_min_max_gives_nothing_to_the_unknown() -> None:
    """NaN becomes 0, also where all is NaN; equal values above 0 share 1."""
    assert min_max(floats([np.nan, 0.2, 0.4])).tolist() == [0, 0, 1]
    assert min_max(floats([np.nan, np.nan])).tolist() == [0, 0]
    assert min_max(floats([2, 2])).tolist() == [1, 1]
    assert min_max(floats([np.nan, 2])).tolist() == [0, 1]
    assert min_max(floats([0, 0])).tolist() == [0, 0]
    assert min_max(floats([])).tolist() == []


def test_only_signals_without_bounds_are_scaled() -> None:
    """A cosine or a BM25 is stretched over [0, 1]; a signal that says 0.5 of itself stays 0.5; unknown is 0."""
    raw = floats([0.2, np.nan, 0.5])
    for signal in SIGNALS:
        got = normalised({signal: raw})[signal].tolist()
        expected = [0.0, 0.0, 1.0] if signal in SCALED else [0.2, 0.0, 0.5]
        assert got == pytest.approx(expected), signal


@given(fused, st.booleans())
def test_scores_are_the_weighted_sum(given_signals: Fused, silent: bool) -> None:
    values, weights = given_signals
    if silent:
        values[next(iter(values))][:] = 0.0
    heard = [name for name in values if weights[name] and max(values[name].tolist()) > 0]
    most = sum(max(weights[name], 0.0) for name in heard) or 1.0
    for place, score in enumerate(fuse(values, weights).tolist()):
        assert 0 <= score <= 1
        total = sum(weights[name] * float(values[name][place]) for name in heard) / most
        assert score == pytest.approx(min(max(total, 0.0), 1.0), abs=1e-5)


@given(fused)
def test_contributions_sum_to_the_score(given_signals: Fused) -> None:
    """Of every candidate, before its score was cut off at 0; the greatest comes first, and none is 0."""
    values, weights = given_signals
    scores = fuse(values, weights).tolist()
    whys = contributions(values, heard_weights(values, weights), range(len(scores)))
    for why, score in zip(whys, scores, strict=True):
        assert max(sum(why.values()), 0.0) == pytest.approx(score, abs=1e-5)
        sizes = [abs(share) for share in why.values()]
        assert sizes == sorted(sizes, reverse=True)
        assert all(sizes)


@given(st.integers(0, 5_000))
def test_the_words_of_a_session_count_by_how_many_sessions_there_are(sessions: int) -> None:
    """Nothing of one, half of eleven, nearly in full of many; all else counts as before."""
    few, more = (for_sessions(WEIGHTS, count)["words_session"] for count in (sessions, sessions + 1))
    whole = WEIGHTS["words_session"]
    assert 0.0 <= few <= more < whole
    assert for_sessions(WEIGHTS, sessions) | {"words_session": whole} == WEIGHTS
    assert [for_sessions(WEIGHTS, count)["words_session"] / whole for count in (0, 1, 11, 91)] == (
        pytest.approx([0.0, 0.0, 0.5, 0.9])
    )


def test_of_equal_scores_the_later_comes_first() -> None:
    """Ties go to what was said last; NaN is no result."""
    assert best_first(floats([0.5, np.nan, 0.5, 0.9])).tolist() == [3, 2, 0]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, math.nan])), st.integers(1, 12))
def test_the_best_few_are_the_first_of_all(scores: list[float], most: int) -> None:
    """Also where several that are worth the same compete for the last places."""
    assert best_first(floats(scores), most=most).tolist() == best_first(floats(scores)).tolist()[:most]


def test_words_count_as_far_as_they_reach() -> None:
    """Where the best turn holds little of what the question's words weigh, by chance, they count as much less; what stands in stays."""
    nan = np.nan
    words = np.array([1.0, 0.5, 0.0, nan], dtype=np.float32)
    meaning = np.array([0.1, 0.2, 0.9, 0.9], dtype=np.float32)
    for weight, reach in ((0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (8.0, 0.25)):
        got = normalised({"words": words, "words_session": words, "meaning": meaning}, weight_of_words=weight)
        for signal in ("words", "words_session"):
            assert got[signal].tolist()[:3] == pytest.approx([reach, reach / 2, 0.0])
        assert got["words"][3] == pytest.approx(1.0)
        assert got["meaning"].tolist() == pytest.approx([0.0, 0.125, 1.0, 1.0])
