"""Topic decay: pure functions of a topic's accesses and of `now`.

    half_life = 1 day · min(2^floor(accesses / 5), 30)
    priority  = importance · 0.5^(seconds since the last access / half_life)

The exponential form is Ebbinghaus' forgetting curve as spaced-repetition models use it (Settles and Meeder, "A
Trainable Spaced Repetition Model for Language Learning", ACL 2016: p = 2^(-age / half_life), with a half-life that
doubles with success).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import TopicDecayState, TopicHead

MemoryType = Literal["short-term", "transitioning", "long-term"]

DEFAULT_IMPORTANCE: Final = 0.5
"""Of a topic whose turns came without one."""

VOTES_PER_HALF: Final = 4
"""So many more useful votes than useless ones halve what an importance lacks to 1; so many fewer halve it."""

_FIRST_HALF_LIFE: Final = 86_400.0
"""Seconds, of a topic that nobody came back to."""
ACCESS_THRESHOLD: Final = 5
"""Accesses that double the half-life: a topic of a week's daily talks lasts twice as long as one that came up once."""
LONGEST: Final = 30
"""Times the base that a half-life may reach: from a day, a month, so that even a favourite fades within a year."""
_ENOUGH_DOUBLINGS: Final = 5  # 2^5 is past LONGEST


def half_life(access_count: int) -> float:
    """Seconds until the priority of a topic with so many accesses has halved."""
    doublings = min(access_count // ACCESS_THRESHOLD, _ENOUGH_DOUBLINGS)
    return _FIRST_HALF_LIFE * min(2.0**doublings, LONGEST)


def decayed(importance: float, age_seconds: float, half_life_seconds: float) -> float:
    """`importance` after so long without access; within [0, importance]. An age below 0 counts as 0."""
    return float(importance * 0.5 ** (max(age_seconds, 0.0) / half_life_seconds))


def learned_importance(given: float, votes: int) -> float:
    """Importance in [0, 1] after feedback: `given`, moved by the votes (useful minus not useful).

    Only their difference counts, so a vote is undone by its opposite. n votes up leave 2^(-n/4) of the distance
    to 1, n votes down 2^(-n/4) of the distance to 0.
    """
    share = 0.5 ** (abs(votes) / VOTES_PER_HALF)
    return float(1.0 - (1.0 - given) * share if votes > 0 else given * share)


def memory_type(access_count: int) -> MemoryType:
    """Short-term under `ACCESS_THRESHOLD` accesses, long-term from twice as many on, transitioning between."""
    if access_count < ACCESS_THRESHOLD:
        return "short-term"
    return "transitioning" if access_count < 2 * ACCESS_THRESHOLD else "long-term"


def importance_of(topic: TopicHead | TopicDecayState) -> float:
    """A topic's importance in [0, 1]: what its turns or a person gave, moved by feedback."""
    given = topic.given_importance if topic.set_importance is None else topic.set_importance
    return learned_importance(DEFAULT_IMPORTANCE if given is None else given, topic.votes)


def priority_of(topic: TopicHead | TopicDecayState, now: datetime) -> float:
    """A topic's priority at `now`, in [0, importance]."""
    age = (now - topic.last_access).total_seconds()
    return decayed(importance_of(topic), age, half_life(topic.access_count))
