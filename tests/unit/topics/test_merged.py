"""Merged topics: whatever people merged and split, each turn's topic id leads to one topic that stands."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Topic
from memory_agent.topics.index import newest, unmerged
from tests.conformance.values import a_topic


def topic(name: str, *absorbed: str, through: int = 0) -> Topic:
    return a_topic(name, absorbed=absorbed, through=through)


def standing_ids(*topics: Topic) -> list[str]:
    return [found.id for found in unmerged(topics)]


def test_what_was_absorbed_does_not_stand() -> None:
    """Only topics that stand hide others; of two that absorbed each other one stands, whichever order they come in."""
    assert standing_ids(topic("a"), topic("b", "a")) == ["b"]
    assert standing_ids(topic("a"), topic("b", "a"), topic("c", "b", "a")) == ["c"]
    assert standing_ids(topic("a"), topic("b", "a"), topic("c", "b")) == ["a", "c"]
    one, other = topic("a", "b"), topic("b", "a")
    assert standing_ids(one, other) == standing_ids(other, one) == ["b"]


def test_the_newest_topic_is_the_one_with_the_latest_turn() -> None:
    """None where there is no topic."""
    assert newest([topic("a", through=3), topic("b", through=9)]).id == "b"  # type: ignore[union-attr]
    assert newest(list[Topic]()) is None


names = st.sampled_from("abcdef")


@given(st.dictionaries(names, st.lists(names, max_size=4, unique=True), min_size=1))
def test_every_topic_leads_to_one_that_stands(absorbed: dict[str, list[str]]) -> None:
    """As long as merges don't go round in a circle, which merging refuses: nothing is hidden by what doesn't stand."""
    topics = [topic(name, *(other for other in others if other < name)) for name, others in absorbed.items()]
    stand = {one.id: one for one in unmerged(topics)}
    hidden = {name for one in stand.values() for name in one.absorbed}
    assert stand.keys() == {one.id for one in topics} - hidden
    for one in topics:
        assert any(one.id in standing.turns_of for standing in stand.values())
