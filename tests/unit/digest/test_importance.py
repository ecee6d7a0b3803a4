"""How important a turn is: every boundary of the formula."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.digest.importance import MIN_IMPORTANCE, WEIGHTS, importance, recency_bonus
from memory_agent.domain.moments import MOMENT_KINDS, MomentKind


def test_the_weights_are_the_documented_ones() -> None:
    """Ten for an emotional peak down to three for a humorous moment; five makes a turn important."""
    assert dict(WEIGHTS) == {
        "emotional_peak": 10,
        "conflict_resolution": 9,
        "decision_made": 8,
        "topic_introduction": 7,
        "user_information": 6,
        "character_defining": 5,
        "question_asked": 4,
        "humor_moment": 3,
    }
    assert tuple(WEIGHTS) == MOMENT_KINDS
    assert MIN_IMPORTANCE == 5


@pytest.mark.parametrize(
    ("from_end", "bonus"),
    [(0, 5), (1, 5), (4, 5), (5, 3), (9, 3), (10, 1), (19, 1), (20, 0), (21, 0), (10**9, 0)],
)
def test_recency_goes_by_the_last_five_ten_and_twenty(from_end: int, bonus: float) -> None:
    """The newest turn is 0 from the end."""
    assert recency_bonus(from_end) == bonus


def test_no_turn_is_after_the_newest() -> None:
    """A negative place is refused."""
    with pytest.raises(ValueError, match="from_end is -1"):
        recency_bonus(-1)


@pytest.mark.parametrize(("kind", "weight"), WEIGHTS.items())
def test_a_single_moment_weighs_its_weight(kind: MomentKind, weight: float) -> None:
    """Without recency, code or length."""
    assert importance(moments={kind}, chars=0) == weight


@pytest.mark.parametrize(
    ("chars", "bonus"), [(0, 0), (1, 0.001), (500, 0.5), (999, 0.999), (1000, 1), (1001, 1), (10**6, 1)]
)
def test_length_adds_at_most_one(chars: int, bonus: float) -> None:
    """A point for a thousand characters, no more for more."""
    assert importance(moments=(), chars=chars) == pytest.approx(bonus)


def test_moments_recency_code_and_length_add_up() -> None:
    """8 + 4 for the moments, 3 for recency, 2 for code, 0.25 for length."""
    score = importance(moments={"decision_made", "question_asked"}, chars=250, code_bonus=2.0, from_end=7)
    assert score == pytest.approx(17.25)


def test_all_kinds_at_once_are_the_most() -> None:
    """52 for every kind, and 8 for the rest."""
    assert importance(moments=MOMENT_KINDS, chars=1000, code_bonus=2.0, from_end=0) == 60


def test_a_moment_counts_once() -> None:
    """However often it is listed."""
    assert importance(moments=["humor_moment", "humor_moment"], chars=0) == 3


@pytest.mark.parametrize(("given_", "score"), [(0.0, 0.0), (0.3, 3.0), (0.5, 5.0), (1.0, 10.0)])
def test_what_the_caller_says_stands_in_for_the_moments(given_: float, score: float) -> None:
    """Ten times what was given, whatever was detected; zero is said, too."""
    assert importance(moments=MOMENT_KINDS, chars=0, given=given_) == pytest.approx(score)


def test_the_bonuses_stay_when_the_caller_says() -> None:
    """Recency, code and length are added to a given importance as well."""
    assert importance(moments=(), chars=1000, code_bonus=2.0, from_end=0, given=0.5) == 13


def test_other_weights_replace_the_defaults() -> None:
    """A kind without a weight weighs nothing."""
    weights: dict[MomentKind, float] = {"humor_moment": 12.0}
    assert importance(moments=MOMENT_KINDS, chars=0, weights=weights) == 12


def test_no_recency_and_the_oldest_turns_are_alike() -> None:
    """`from_end=None` is for a score that is kept."""
    assert importance(moments=(), chars=10) == importance(moments=(), chars=10, from_end=20)


kinds = st.frozensets(st.sampled_from(MOMENT_KINDS))
places = st.none() | st.integers(0, 100)


@given(kinds, st.sampled_from(MOMENT_KINDS), st.integers(0, 10**7), places)
def test_importance_rises_with_every_added_moment(
    moments: frozenset[MomentKind], added: MomentKind, chars: int, from_end: int | None
) -> None:
    """And by the weight of the one that was added."""
    before = importance(moments=moments - {added}, chars=chars, from_end=from_end)
    after = importance(moments=moments | {added}, chars=chars, from_end=from_end)
    assert math.isclose(after - before, WEIGHTS[added], abs_tol=1e-9)


@given(kinds, st.integers(0, 10**7), st.integers(0, 100), st.integers(0, 100))
def test_importance_never_rises_with_age(
    moments: frozenset[MomentKind], chars: int, one: int, two: int
) -> None:
    """An older turn is at most as important as the same turn newer."""
    newer, older = sorted((one, two))
    assert importance(moments=moments, chars=chars, from_end=newer) >= importance(
        moments=moments, chars=chars, from_end=older
    )


@given(kinds, st.integers(0, 10**7), places, st.none() | st.floats(0, 1))
def test_importance_is_bounded(
    moments: frozenset[MomentKind], chars: int, from_end: int | None, given_: float | None
) -> None:
    """From 0 to 58 without code."""
    assert 0 <= importance(moments=moments, chars=chars, from_end=from_end, given=given_) <= 58
