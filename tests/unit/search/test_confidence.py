"""The confidence in a turn: a probability that rises with each of its grounds."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.search.fusion import (
    BY_MEANING,
    BY_WORDS,
    EVERYDAY,
    Background,
    Grounds,
    confidence,
    grounds,
    unrelated,
)

fractions = st.floats(0, 1, width=32)
cosines = st.one_of(st.just(float("nan")), st.floats(-1, 1, width=32))
weights = st.floats(0, 100, width=32)
turns = st.lists(st.tuples(fractions, cosines, weights, weights), min_size=1, max_size=30)


def floats(values: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


def grounds_of(
    rows: list[tuple[float, float, float, float]], weight: float = 10.0, unrelated_cosine: float = 0.1
) -> Grounds:
    scores, meaning, words, around = (floats(column) for column in zip(*rows, strict=True))
    return grounds(scores, meaning, words, around, weight_of_words=weight, unrelated_cosine=unrelated_cosine)


@given(turns, st.floats(0, 50), st.floats(-1, 1))
def test_it_is_a_probability_whatever_comes_in(
    rows: list[tuple[float, float, float, float]], weight: float, unrelated_cosine: float
) -> None:
    found = confidence(grounds_of(rows, weight, unrelated_cosine))
    assert found.shape == (len(rows),)
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()


@given(turns, st.randoms())
def test_the_order_in_which_turns_come_changes_nothing(
    rows: list[tuple[float, float, float, float]], random: Any
) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    mixed = confidence(grounds_of([rows[i] for i in order]))
    np.testing.assert_allclose(mixed, confidence(grounds_of(rows))[order], rtol=1e-4)


@pytest.mark.parametrize("ground", ["nearness", "words", "lead"])
@given(nearness=cosines, words=st.floats(0, 1.5), lead=st.floats(-20, 0), more=st.floats(0.05, 2))
def test_each_ground_can_only_raise_it(
    ground: str, nearness: float, words: float, lead: float, more: float
) -> None:
    before = Grounds(nearness=floats([nearness]), words=floats([words]), lead=floats([lead]))
    after = dataclasses.replace(before, **{ground: getattr(before, ground) + np.float32(more)})
    assert confidence(after)[0] >= confidence(before)[0]


def test_an_embedder_whose_cosines_are_all_high_gives_the_same() -> None:
    """A constant part of all vectors, here of weight 3 to 1, moves cosines up and closer together."""
    rows = [(0.9, 0.5, 5.0, 5.0), (0.4, 0.15, 0.0, 0.0), (0.1, -0.1, 0.0, 0.0)]
    moved = [(score, (cosine + 3) / 4, words, around) for score, cosine, words, around in rows]
    np.testing.assert_allclose(
        confidence(grounds_of(moved, unrelated_cosine=(0.1 + 3) / 4)), confidence(grounds_of(rows)), rtol=1e-4
    )


def test_without_a_vector_words_alone_say_it() -> None:
    nan = float("nan")
    rows = [(0.9, nan, 8.0, 8.0), (0.2, nan, 0.0, 0.0), (0.2, 0.5, 0.0, 0.0)]
    found = confidence(grounds_of(rows))
    assert found[0] > 0.3 > found[1]
    assert BY_WORDS.nearness == 0 < BY_MEANING.nearness


def test_what_is_unrelated_is_told_from_the_memory_as_it_grows() -> None:
    """A few turns change little of what the embedder says; hundreds outweigh it; candidates say nothing of it."""
    few, many = floats([0.6] * 2), floats([0.6] * 2_000)
    assert unrelated(few, background=0.1, whole=True) == pytest.approx((2 + 1.2) / 22)
    assert unrelated(many, background=0.1, whole=True) == pytest.approx(0.595, abs=0.001)
    assert unrelated(many, background=0.1, whole=False) == pytest.approx(0.1)
    assert unrelated(floats([float("nan")]), background=0.1, whole=True) == pytest.approx(0.1)


def test_the_background_of_a_question_is_that_of_its_language() -> None:
    """Each language's sentences point its own way here; a question that points there gets their mean cosine."""
    sentences = sum(map(len, EVERYDAY.values()))
    each = sentences // len(EVERYDAY)
    vectors = np.repeat(np.eye(len(EVERYDAY), dtype=np.float32), each, axis=0)
    background = Background(vectors)
    korean = floats([0] * len(EVERYDAY))
    korean[list(EVERYDAY).index("korean")] = 0.6
    assert background.of(korean) == pytest.approx(0.6)
