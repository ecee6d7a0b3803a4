"""How important a turn is: every boundary of the formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.digest.importance import MIN_IMPORTANCE, WEIGHTS, importance, recency_bonus
from memory_agent.domain.moments import MOMENT_KINDS, MomentKind


def test_the_weights_fall_in_the_order_of_the_kinds() -> None:
    """The two lightest kinds alone make no turn important."""
    assert tuple(WEIGHTS) == MOMENT_KINDS
    assert [WEIGHTS[kind] for kind in MOMENT_KINDS] == [10, 9, 8, 7, 6, 5, 4, 3]
    assert MIN_IMPORTANCE == 5


def test_recency_goes_by_the_last_five_ten_and_twenty() -> None:
    """The newest turn is 0 from the end; a negative place is refused."""
    bonus = {0: 5, 1: 5, 4: 5, 5: 3, 9: 3, 10: 1, 19: 1, 20: 0, 21: 0, 10**9: 0}
    assert {from_end: recency_bonus(from_end) for from_end in bonus} == bonus
    with pytest.raises(ValueError, match="from_end is -1"):
        recency_bonus(-1)


def test_moments_recency_code_and_length_add_up() -> None:
    """Each kind once by its weight; what the caller gives, ten times, stands in for the kinds, not for the bonuses."""
    rows: list[tuple[Any, dict[str, Any], float]] = [
        *(((), {"chars": chars}, min(chars / 1000, 1)) for chars in (0, 1, 500, 999, 1000, 1001, 10**6)),
        (["decision_made", "question_asked"], {"chars": 250, "code_bonus": 2.0, "from_end": 7}, 17.25),
        (MOMENT_KINDS, {"chars": 1000, "code_bonus": 2.0, "from_end": 0}, 60),
        (["humor_moment", "humor_moment"], {}, 3),
        (["emotional_peak"], {"from_end": None}, 10),
        (["emotional_peak"], {"from_end": 20}, 10),
        *((MOMENT_KINDS, {"given": given}, 10 * given) for given in (0.0, 0.3, 0.5, 1.0)),
        ([], {"chars": 1000, "code_bonus": 2.0, "from_end": 0, "given": 0.5}, 13),
        (MOMENT_KINDS, {"weights": {"humor_moment": 12.0}}, 12),
    ]
    for moments, others, score in rows:
        assert importance(moments=moments, **{"chars": 0, **others}) == pytest.approx(score), (
            moments,
            others,
        )


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
