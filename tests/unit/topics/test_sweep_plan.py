"""Which topics of a thread a sweep lets go."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import TopicDecayState
from memory_agent.topics.stats import DecaySettings
from memory_agent.topics.sweep import SweepSettings, plan_thread

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def settings(max_topics: int) -> SweepSettings:
    """The defaults, but for how many topics a thread may have."""
    return SweepSettings(
        max_topics=max_topics,
        decay_policy="archive",
        retention_days=None,
        forget_facts=False,
        lease_seconds=60,
        decay=DecaySettings(),
    )


def topic(
    name: str, days: float, *, through: int = 1, archived: bool = False, absorbed: tuple[str, ...] = ()
) -> TopicDecayState:
    """A topic of importance 0.5 that was last accessed so many days ago."""
    return TopicDecayState(
        user_id="u",
        thread_id="t",
        id=name,
        last_access=NOW - timedelta(days=days),
        access_count=0,
        given_importance=0.5,
        set_importance=None,
        votes=0,
        through=through,
        absorbed=absorbed,
        archived=archived,
        stale=False,
    )


def planned(*topics: TopicDecayState, max_topics: int) -> list[str]:
    return [faded.id for faded, _ in plan_thread(topics, now=NOW, settings=settings(max_topics))]


def test_once_there_are_too_many_all_that_have_faded_go() -> None:
    """The most faded first; never the current one, even if it is the oldest, and none above .05: 0.5 is 0.0625 after three days."""
    assert planned(topic("a", 900), topic("b", 900, through=2), max_topics=2) == []
    old = (topic("a", 10), topic("b", 30), topic("c", 20), topic("now", 0, through=9))
    assert planned(*old, max_topics=3) == planned(*old, max_topics=1) == ["b", "c", "a"]
    assert planned(*old, max_topics=4) == []
    assert planned(topic("a", 3), topic("b", 4), topic("c", 0, through=9), max_topics=1) == ["b"]
    assert planned(topic("a", 500), topic("current", 900, through=7), max_topics=1) == ["a"]


def test_archived_and_absorbed_topics_do_not_count() -> None:
    """What was merged is a part of the other topic, and what is archived is out of the way already."""
    topics = (
        topic("a", 90, absorbed=("c",)),
        topic("b", 90, archived=True),
        topic("c", 90),
        topic("d", 0, through=9),
    )
    assert planned(*topics, max_topics=2) == []
    assert planned(*topics, max_topics=1) == ["a"]


@given(st.lists(st.floats(0, 60), min_size=1, max_size=12), st.integers(1, 12))
def test_what_is_planned_is_all_that_has_faded(days: list[float], max_topics: int) -> None:
    """None up to the limit; above it all below the threshold but for the current one, priorities rising."""
    topics = [topic(f"{number:02}", age, through=number) for number, age in enumerate(days, start=1)]
    plan = plan_thread(topics, now=NOW, settings=settings(max_topics))
    rated = {topic.id: DecaySettings().priority(topic, NOW) for topic in topics[:-1]}
    faded = {topic_id for topic_id, priority in rated.items() if priority < 0.05}
    assert {topic.id for topic, _ in plan} == (faded if len(topics) > max_topics else set())
    priorities = [priority for _, priority in plan]
    assert priorities == sorted(priorities)
    assert all(priority == rated[topic.id] for topic, priority in plan)
