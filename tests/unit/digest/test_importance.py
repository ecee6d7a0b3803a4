"""How important a turn is: every boundary of the formula."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.digest.importance import importance, recency_bonus


def test_recency_goes_by_the_last_five_ten_and_twenty() -> None:
    """The newest turn is 0 from the end; a negative place is refused."""
    bonus = {0: 5, 1: 5, 4: 5, 5: 3, 9: 3, 10: 1, 19: 1, 20: 0, 21: 0, 10**9: 0}
    assert {from_end: recency_bonus(from_end) for from_end in bonus} == bonus
    with pytest.raises(ValueError, match="from_end is -1"):
        recency_bonus(-1)


def test_what_is_told_recency_code_and_length_add_up() -> None:
    """What the caller gives, ten times, stands in for what is told, not for the bonuses."""
    rows: list[tuple[dict[str, Any], float]] = [
        *(({"chars": chars}, min(chars / 1000, 1)) for chars in (0, 1, 500, 999, 1000, 1001, 10**6)),
        ({"telling": 7.5, "chars": 250, "code_bonus": 2.0, "from_end": 7}, 12.75),
        ({"telling": 7.5, "from_end": 20}, 7.5),
        *(({"telling": 7.5, "given": given}, 10 * given) for given in (0.0, 0.3, 0.5, 1.0)),
        ({"chars": 1000, "code_bonus": 2.0, "from_end": 0, "given": 0.5}, 13),
    ]
    for given_values, score in rows:
        assert importance(**{"chars": 0, **given_values}) == pytest.approx(score), given_values


@given(st.floats(0, 12), st.integers(0, 10**7), st.integers(0, 100), st.integers(0, 100))
def test_importance_never_rises_with_age(telling: float, chars: int, one: int, two: int) -> None:
    """An older turn is at most as important as the same turn newer."""
    newer, older = sorted((one, two))
    assert importance(telling=telling, chars=chars, from_end=newer) >= importance(
        telling=telling, chars=chars, from_end=older
    )
