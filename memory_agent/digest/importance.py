"""Importance of a turn: how much it tells, and bonuses for being recent, long or about code. Pure."""

from __future__ import annotations

from typing import Final

MIN_IMPORTANCE: Final = 5.0
"""From here on a turn counts as important: half of what its caller may give it."""
CODE_BONUS: Final = 2.0
"""Of a turn with code."""

_RECENCY: Final = ((5, 5.0), (10, 3.0), (20, 1.0))
_FULL_LENGTH_CHARS: Final = 1000
_GIVEN_SCALE: Final = 10.0


def recency_bonus(from_end: int) -> float:
    """5 for the last 5 turns, 3 for the last 10, 1 for the last 20, else 0; `from_end` is 0 for the newest turn.

    >>> [recency_bonus(from_end) for from_end in (0, 4, 5, 9, 10, 19, 20)]
    [5.0, 5.0, 3.0, 3.0, 1.0, 1.0, 0.0]

    Raises ValueError for a negative `from_end`.
    """
    if from_end < 0:
        raise ValueError(f"from_end is {from_end}; the newest turn is 0")
    return next((bonus for turns, bonus in _RECENCY if from_end < turns), 0.0)


def importance(
    *,
    telling: float = 0.0,
    chars: int,
    code: bool = False,
    given: float | None = None,
) -> float:
    """The importance of one turn, 0 or more; important from `MIN_IMPORTANCE` on.

    `telling` + `CODE_BONUS` for code + min(`chars` / 1000, 1). `telling`: how much its most telling
    sentence tells (`text.quotes`). `given`, 0 to 1, is how important the caller said the turn is: 10 x `given` then stands
    in for it, since who wrote the turn knows better than rules do.

    >>> importance(telling=3.5, chars=500)
    4.0
    >>> importance(telling=3.5, chars=0, given=0.3)
    3.0
    """
    weight = telling if given is None else _GIVEN_SCALE * given
    return weight + CODE_BONUS * code + min(max(chars, 0) / _FULL_LENGTH_CHARS, 1.0)
