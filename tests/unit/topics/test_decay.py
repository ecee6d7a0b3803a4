"""How topics fade: the table of half-lives, and what priority and importance never do."""

import functools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Topic
from memory_agent.topics.stats import (
    DecaySettings,
    decayed,
    importance_of,
    learned_importance,
)

DAY = 86_400.0
DECAY = DecaySettings()
half_life = DECAY.half_life
NOW = datetime(2026, 5, 1, tzinfo=UTC)

shares = st.floats(0, 1)
ages = st.floats(0, 1e9)
accesses = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("few", "many", "days", "kind"),
    [
        (0, 4, 1, "short-term"), (5, 9, 2, "transitioning"), (10, 14, 4, "long-term"), (15, 19, 8, "long-term"),
        (20, 24, 16, "long-term"), (25, 1_000_000, 30, "long-term"),
    ],
)  # fmt: skip
def test_the_half_life_doubles_with_every_five_accesses(few: int, many: int, days: int, kind: str) -> None:
    """The table of the documentation, at both ends of each row."""
    for count in (few, many):
        assert half_life(count) == days * DAY
        assert DECAY.memory_type(count) == kind


@given(st.floats(1, 1e6), st.floats(1, 1e9), st.integers(1, 100), accesses)
def test_a_half_life_is_what_the_settings_say(base: float, most: float, every: int, count: int) -> None:
    """Never above the longest, the base below the threshold, and twice as long after as many accesses more."""
    settings = DecaySettings(
        base_half_life_seconds=base, max_half_life_seconds=most, access_threshold_for_lt=every
    )
    life = settings.half_life(count)
    assert life == min(most, base * 2.0 ** min(count // every, 1_000))
    assert settings.half_life(count + every) == min(most, 2 * base * 2.0 ** min(count // every, 1_000))
    assert (settings.memory_type(count) == "short-term") == (count < every)


def test_after_five_half_lives_three_percent_are_left() -> None:
    """3.1 % after 5 days for a topic that nobody came back to, and after 80 for one with 20 to 24 accesses."""
    for count, days in ((0, 5), (24, 80), (12, 20)):
        assert decayed(1.0, days * DAY, half_life(count)) == pytest.approx(0.03125)


@given(shares, st.floats(-1e9, 1e9), accesses, shares, ages, accesses)
def test_priority_stays_within_importance_and_follows_importance_age_and_accesses(
    importance: float, age: float, count: int, more_important: float, older: float, more: int
) -> None:
    """Never below 0 nor above the importance, for a last access in the future too; each of the three has its direction."""
    life = half_life(count)
    assert 0.0 <= decayed(importance, age, life) <= importance
    less, most = sorted((importance, more_important))
    assert decayed(less, age, life) <= decayed(most, age, life)
    younger, oldest = sorted((age, older))
    assert decayed(importance, oldest, life) <= decayed(importance, younger, life)
    fewer, most_often = sorted((count, more))
    assert decayed(importance, age, half_life(fewer)) <= decayed(importance, age, half_life(most_often))


@given(shares, st.integers(-1_000, 1_000))
def test_feedback_is_bounded_and_undone_by_its_opposite(given_importance: float, votes: int) -> None:
    """However many votes: within [0, 1]; up never lowers, down never raises, and none leaves it as it was."""
    learned = learned_importance(given_importance, votes)
    assert 0.0 <= learned <= 1.0
    assert (
        learned_importance(given_importance, votes - 1)
        <= learned
        <= learned_importance(given_importance, votes + 1)
    )
    assert learned_importance(given_importance, 0) == given_importance


def test_what_a_person_set_outranks_what_turns_gave() -> None:
    """Importance 0 is an importance, and None means: as the turns say."""
    topic = functools.partial(
        Topic, id="t", user_id="u", thread_id="h", created_at=NOW, last_access=NOW, given_importance=0.9
    )
    assert importance_of(topic()) == 0.9
    assert importance_of(topic(set_importance=0.0)) == 0.0
    assert importance_of(topic(set_importance=0.2, votes=4)) == pytest.approx(0.6)


def test_the_priority_of_a_topic_is_counted_from_its_last_access() -> None:
    """One half-life after the last access half of the importance is left."""
    topic = Topic(
        id="t",
        user_id="u",
        thread_id="h",
        created_at=NOW - timedelta(days=400),
        last_access=NOW - timedelta(days=2),
        access_count=7,
        given_importance=0.8,
    )
    assert DECAY.priority(topic, NOW) == pytest.approx(0.4)
