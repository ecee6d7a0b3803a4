"""Merged topics: those that stand for themselves, and the one that a turn's topic id leads to."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from memory_agent.domain import Topic, TopicDecayState, TopicHead, TopicTurns
from memory_agent.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from memory_agent.domain import Scope
    from memory_agent.ports import TopicStore

AnyTopic = TypeVar("AnyTopic", bound=TopicHead | TopicDecayState)


def unmerged(topics: Iterable[AnyTopic]) -> list[AnyTopic]:
    """Those of a thread's topics that no other one has absorbed, in their order.

    What a topic that was itself absorbed has absorbed does not count: it is in the list of the one that stands, unless
    it was split off since. Should two topics have absorbed each other, the one with the greater id stands.
    """
    given = list(topics)
    absorbers: dict[str, list[str]] = defaultdict(list)
    for topic in sorted(given, key=lambda topic: topic.id):
        for absorbed in topic.absorbed:
            absorbers[absorbed].append(topic.id)
    stands: dict[str, bool] = {}

    def decide(topic_id: str) -> bool:
        if topic_id not in stands:
            stands[topic_id] = False  # while it is looked at
            stands[topic_id] = not any(decide(other) for other in absorbers[topic_id])
        return stands[topic_id]

    for topic_id in sorted(topic.id for topic in given):
        decide(topic_id)
    return [topic for topic in given if stands[topic.id]]


def newest(topics: Iterable[AnyTopic]) -> AnyTopic | None:
    """The thread's current topic: the one that its latest turn is in; None without topics."""
    return max(topics, key=lambda topic: topic.through, default=None)


async def families_of(store: TopicStore, scope: Scope, topic_ids: Collection[str]) -> list[TopicHead]:
    """The topics that turns of the thread with these topic ids belong to: those that absorbed them, or themselves.

    No other topic is looked at, but for those that absorbed one of these in their turn.
    """
    found: dict[str, TopicHead] = {}
    asked: set[str] = set()
    while wanted := {*topic_ids, *found} - asked:
        asked |= wanted
        found |= {topic.id: topic for topic in await store.topic_heads(scope, ids=sorted(wanted))}
    return [
        topic
        for topic in unmerged(found[topic_id] for topic_id in sorted(found))
        if not set(topic_ids).isdisjoint(topic.turns_of)
    ]


async def load_topic(store: TopicStore, scope: Scope, topic_id: str) -> Topic | None:
    """The very topic of that id, whatever absorbed it."""
    return next(iter(await store.list_topics(scope, ids=[topic_id])), None)


async def find_topic(store: TopicStore, scope: Scope, topic_id: str | None) -> TopicHead:
    """The topic of that id (or that absorbed it); None: the thread's current one.

    Raises NotFound if the thread has no such topic, or none at all.
    """
    if topic_id is not None:
        try:
            families = await families_of(store, scope, {topic_id})
        except UnicodeEncodeError:  # half a surrogate pair, which no store was ever given
            families = []
        if not families:
            raise no_such_topic(scope, topic_id)
        return families[0]
    topics = await store.topic_heads(scope)
    current = newest(unmerged(topic for topic in topics if not topic.archived))
    if current is None:
        none_yet = "no topic yet; they form once a turn is settled"
        what = "only archived topics; name one" if topics else none_yet
        raise NotFound(f"thread {scope.thread_id!r} has {what}")
    return current


def tagged(topics: Iterable[TopicHead], tag: str) -> list[TopicHead]:
    """Those of a thread's topics that carry the tag, which is compared as it is."""
    return [topic for topic in topics if tag in topic.tags]


async def topic_ids_tagged(store: TopicStore, scope: Scope, tag: str) -> frozenset[str]:
    """The topic ids that turns of the scope's topics with this tag carry, those of topics merged into them included."""
    threads: dict[str, list[TopicHead]] = defaultdict(list)
    for topic in await store.topic_heads(scope):
        threads[topic.thread_id].append(topic)
    return frozenset(
        topic_id
        for topics in threads.values()
        for topic in tagged(unmerged(topics), tag)
        for topic_id in topic.turns_of
    )


def no_such_topic(scope: Scope, topic_id: object) -> NotFound:
    """The error for an id that no topic of the thread has."""
    return NotFound(
        f"topic_id is {topic_id!r:.80}, and thread {scope.thread_id!r} has no such topic",
        remedy=("topics", "lists them"),
    )


async def count_turns(store: TopicStore, topic: TopicHead) -> TopicTurns:
    """The topic's turns, with those of the topics that it absorbed."""
    counts = await store.count_topic_turns(topic.scope, topic.turns_of)
    return sum(counts.values(), TopicTurns())
