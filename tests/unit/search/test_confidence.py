"""The confidence in a turn: a probability that rises with each of its grounds, and that nothing fits counts, too."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.search.fusion import (
    MOST_SHARED,
    Background,
    chance_of_any,
    confidence,
    leads,
    nearness,
    shared,
    unrelated,
)
from memory_agent.text.subjects import everyday_sentences

NAN = float("nan")
fractions = st.floats(0, 1, width=32)
cosines = st.floats(-1, 1, width=32)
details = st.none() | st.floats(0, 1.2)
shares = st.floats(0, MOST_SHARED)
scored = st.lists(st.tuples(fractions | st.just(NAN), st.booleans()), min_size=1, max_size=30)
"""Scores of turns, and whether each says nothing new."""


def floats(values: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


def columns(turns: list[tuple[float, bool]]) -> tuple[Any, Any]:
    scores, old = zip(*turns, strict=True)
    return floats(scores), np.array(old)


@given(st.none() | cosines, details, shares, scored, st.data())
def test_it_is_a_probability_and_no_higher_than_that_of_any_answer(
    nearest: float | None, detail: float | None, words: float, turns: list[tuple[float, bool]], data: Any
) -> None:
    any_chance = chance_of_any(nearest=nearest, detail=detail, words=words)
    assert 0 <= any_chance <= 1
    held = data.draw(st.lists(shares, min_size=len(turns), max_size=len(turns)))
    found = confidence(any_chance, floats(held), leads(*columns(turns)))
    assert found.shape == (len(turns),)
    assert ((found >= 0) & (found <= np.float32(any_chance))).all()


@given(cosines, details, shares, st.floats(-20, 0), fractions, st.floats(0.05, 0.5))
def test_each_ground_raises_it(
    nearest: float, detail: float | None, words: float, lead: float, chance: float, more: float
) -> None:
    known, with_detail = {"nearest": nearest, "detail": detail}, {"nearest": nearest, "detail": detail or 0.0}
    for ground, told in (("nearest", known), ("detail", with_detail), ("words", {"words": words})):
        assert chance_of_any(**told | {ground: (told[ground] or 0.0) + more}) > chance_of_any(**told)
    before, *after = (
        confidence(chance + a, floats([words + b]), floats([lead + c]))[0]
        for a, b, c in ((0, 0, 0), (more, 0, 0), (0, more, 0), (0, 0, more))
    )
    assert min(after) >= before
    assert after[0] > before


@given(scored, st.randoms(), st.floats(0.05, 0.5))
def test_a_turn_stands_out_by_its_score_alone(
    turns: list[tuple[float, bool]], random: Any, more: float
) -> None:
    """Wherever it stands in their order; what says nothing new takes nothing from the others, what says something does."""
    scores, old = columns(turns)
    found = leads(scores, old)
    assert (found <= 0).all()
    order = list(range(len(turns)))
    random.shuffle(order)
    np.testing.assert_allclose(leads(scores[order], old[order]), found[order], atol=1e-3)
    if not old.all():
        np.testing.assert_allclose(found[~old], leads(scores[~old]), atol=1e-3)
        first = int(np.flatnonzero(~old)[0])
        raised = scores.copy()
        raised[first] = np.nan_to_num(scores[first]) + more
        others = np.delete(leads(raised, old), first)
        assert leads(raised, old)[first] >= found[first]
        assert (others <= np.delete(found, first) + 1e-4).all()


def test_a_share_of_the_words_is_bounded_and_nothing_where_unknown() -> None:
    """What is said over and over says no more than once and a half; a question without words is shared by none."""
    assert shared(floats([NAN, 0, 5, 100]), 10).tolist() == [0, 0, 0.5, MOST_SHARED]
    assert shared(floats([0]), 0).tolist() == [0]


def test_an_embedder_whose_cosines_are_all_high_gives_the_same() -> None:
    """A constant part of all vectors, here of weight 3 to 1, moves cosines up and closer together; no vector stays unknown."""
    cosine = floats([0.5, 0.15, -0.1, NAN])
    high = floats((cosine + 3) / 4)
    np.testing.assert_allclose(nearness(high, (0.1 + 3) / 4), nearness(cosine, 0.1), rtol=1e-4)
    assert nearness(floats([1, 0.1, NAN]), 0.1).tolist() == pytest.approx([1, 0, NAN], nan_ok=True)


def test_what_is_unrelated_is_told_from_the_memory_as_it_grows() -> None:
    """A few turns change little of what the embedder says; hundreds outweigh it; candidates say nothing of it."""
    few, many = floats([0.6] * 2), floats([0.6] * 2_000)
    assert unrelated(few, background=0.1, whole=True) == pytest.approx((2 + 1.2) / 22)
    assert unrelated(many, background=0.1, whole=True) == pytest.approx(0.595, abs=0.001)
    assert unrelated(many, background=0.1, whole=False) == pytest.approx(0.1)
    assert unrelated(floats([NAN]), background=0.1, whole=True) == pytest.approx(0.1)


def test_the_background_of_a_question_is_that_of_its_language() -> None:
    """Each language's sentences point its own way here; a question that points there gets their mean cosine."""
    sentences = sum(map(len, everyday_sentences().values()))
    each = sentences // len(everyday_sentences())
    vectors = np.repeat(np.eye(len(everyday_sentences()), dtype=np.float32), each, axis=0)
    background = Background(vectors)
    korean = floats([0] * len(everyday_sentences()))
    korean[list(everyday_sentences()).index("korean")] = 0.6
    assert background.of(korean) == pytest.approx(0.6)


def test_the_best_of_few_turns_is_surer_than_as_near_a_one_of_many() -> None:
    few, many, more = (chance_of_any(nearest=0.3, detail=0.4, turns=turns) for turns in (2, 100, 10_000))
    assert few > 0.5 > many == more
