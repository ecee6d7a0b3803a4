"""Topics that were merged: which of them stand for themselves, and to which one a turn's topic id leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from memory_agent.domain import Topic, TopicStanding
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import Scope
    from memory_agent.ports import DocumentStore

AnyTopic = TypeVar("AnyTopic", Topic, TopicStanding)


def standing(topics: Iterable[AnyTopic]) -> list[AnyTopic]:
    """Those of a thread's topics that no other one has absorbed, in their order."""
    given = list(topics)
    hidden = {topic_id for topic in given for topic_id in topic.absorbed}
    return [topic for topic in given if topic.id not in hidden]


def newest(topics: Iterable[AnyTopic]) -> AnyTopic | None:
    """The thread's current topic: the one that its latest turn is in; None without topics."""
    return max(topics, key=lambda topic: topic.through, default=None)


def family_of(topics: Sequence[Topic], topic_id: str) -> Topic | None:
    """The topic that a turn with `topic_id` belongs to: the one that absorbed it, or itself; None if there is none."""
    for topic in standing(topics):
        if topic_id in topic.turns_of:
            return topic
    return None


async def find_topic(store: DocumentStore, scope: Scope, topic_id: str | None) -> Topic:
    """The topic of that id (or that absorbed it); None: the thread's current one.

    Raises InvalidInput if the thread has no such topic, or none at all.
    """
    topics = await store.list_topics(scope)
    if topic_id is None:
        current = newest(standing(topic for topic in topics if not topic.archived))
        if current is None:
            raise InvalidInput(
                f"thread {scope.thread_id!r} has no topic yet; topics form once a user's turn is settled"
            )
        return current
    found = family_of(topics, topic_id)
    if found is None:
        raise InvalidInput(
            f"topic_id is {topic_id!r:.80}, and thread {scope.thread_id!r} has no such topic; topics() lists them"
        )
    return found
