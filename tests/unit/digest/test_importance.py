"""How important a turn is: every boundary of the formula."""

from typing import Any

import pytest

from memory_agent.digest.fold import importance, recency_bonus


def test_recency_goes_by_the_last_five_ten_and_twenty() -> None:
    """The newest turn is 0 from the end; a negative place is refused."""
    bonus = {0: 5, 1: 5, 4: 5, 5: 3, 9: 3, 10: 1, 19: 1, 20: 0, 21: 0, 10**9: 0}
    assert {from_end: recency_bonus(from_end) for from_end in bonus} == bonus
    with pytest.raises(ValueError, match="from_end is -1"):
        recency_bonus(-1)


def test_what_is_told_code_and_length_add_up() -> None:
    """What the caller gives, ten times, stands in for what is told, not for the bonuses."""
    rows: list[tuple[dict[str, Any], float]] = [
        *(({"chars": chars}, min(chars / 1000, 1)) for chars in (0, 1, 500, 999, 1000, 1001, 10**6)),
        ({"telling": 7.5, "chars": 250, "code": True}, 9.75),
        *(({"telling": 7.5, "given": given}, 10 * given) for given in (0.0, 0.3, 0.5, 1.0)),
        ({"chars": 1000, "code": True, "given": 0.5}, 8),
    ]
    for given_values, score in rows:
        assert importance(**{"chars": 0, **given_values}) == pytest.approx(score), given_values
