"""The topics stage: each turn of a thread joins a topic or opens one, in the order of the thread.

A turn carries its topic's id, and that is the truth; the rest of a topic is folded from its turns. First the turns
get their ids (a first assignment stands), then each topic takes in those of its turns that it does not hold yet. So a
stage that is cut short or runs twice changes nothing.
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from memory_agent.topics.matching import match_topic
from memory_agent.topics.merged import family_of, newest, unmerged
from memory_agent.topics.projection import folded, opened_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import Scope, Topic, Turn
    from memory_agent.ports import DocumentStore
    from memory_agent.topics.matching import MatchSettings
    from memory_agent.topics.projection import Subjects, TopicFolder

_LOOKED_BACK: Final = 4
_INLINE_COMPARISONS: Final = 2_000
"""Turns times topics that are compared on the event loop: a few milliseconds."""


class TopicKeeper:
    """Runs the topics stage."""

    def __init__(self, store: DocumentStore, folder: TopicFolder, settings: MatchSettings) -> None:
        self._store = store
        self._folder = folder
        self._settings = settings

    async def assign(self, turns: Sequence[Turn]) -> None:
        """Give turns of one thread, by rising `seq`, their topics. Assistants' turns follow what they answer."""
        scope = turns[0].scope
        await self._folder.renew_stale(scope)
        topics = await self._topics(scope)
        if cut_short := _without_topic(turns, topics):
            for topic_id, members in cut_short.items():
                await self._folder.take_in(topic_id, members, (), topics)
            topics = await self._topics(scope)
        subjects = await self._folder.subjects(scope.user_id, turns)
        current = await self._current(turns[0], topics)
        chosen = await self._choose(turns, topics, subjects, current)
        if any(turn_id == topic_id for turn_id, topic_id in chosen.items()):
            # Before a topic is opened, those that rest are looked at: what comes back, comes back into its topic.
            topics = unmerged(await self._store.list_topics(scope))
            chosen = await self._choose(turns, topics, subjects, current)
        if chosen:
            await self._store.assign_topics(scope, chosen)
        # Another worker may have been first with some: what the store says stands.
        stored = await self._store.list_turns(scope, ids=[turn.id for turn in turns])
        fresh = {turn.id for turn in turns if turn.topic_id is None}
        joined: dict[str, list[Turn]] = defaultdict(list)
        for turn in stored:
            if turn.topic_id is not None:
                joined[_root(topics, turn.topic_id)].append(turn)
        for topic_id, members in joined.items():
            await self._folder.take_in(topic_id, members, fresh, topics)

    async def _topics(self, scope: Scope) -> list[Topic]:
        """The thread's active topics; those of another model's vectors made anew once their turns have this one's."""
        topics = unmerged(await self._store.list_topics(scope, archived=False))
        others = [topic for topic in topics if topic.embedder != self._folder.fingerprint]
        if not others:
            return topics
        for topic in await self._folder.are_current(others):
            await self._folder.renew(topic, keep_summary=True)
        return unmerged(await self._store.list_topics(scope, archived=False))

    async def _current(self, first: Turn, topics: Sequence[Topic]) -> str | None:
        """The topic of the turn before `first`, also if it was archived since."""
        after = max(first.seq - _LOOKED_BACK, 0)
        before = await self._store.list_turns(first.scope, after_seq=after, limit=_LOOKED_BACK)
        for turn in reversed(before):
            if turn.seq < first.seq and turn.topic_id is not None:
                return _root(topics, turn.topic_id)
        return latest.id if (latest := newest(topics)) else None

    async def _choose(
        self, turns: Sequence[Turn], topics: Sequence[Topic], subjects: Subjects, current: str | None
    ) -> dict[str, str]:
        """Turn id -> topic id for those that have none yet; a new topic has the id of the turn that opens it."""
        choose = functools.partial(
            chosen_topics, turns, topics, subjects, current, self._settings, self._folder.fingerprint
        )
        many = len(turns) * len(topics) > _INLINE_COMPARISONS
        return await asyncio.to_thread(choose) if many else choose()


def chosen_topics(
    turns: Sequence[Turn],
    topics: Sequence[Topic],
    subjects: Subjects,
    current: str | None,
    settings: MatchSettings,
    embedder: str,
) -> dict[str, str]:
    """Turn id -> topic id for turns of one thread, by rising `seq`, that have no topic yet.

    A new topic has the id of the turn that opens it. `topics`: those that stand; `current`: the topic of the turn before.
    """
    ours = {topic.id: topic for topic in topics if topic.embedder == embedder}
    chosen: dict[str, str] = {}
    for turn in turns:
        if turn.topic_id is not None:
            current = _root(topics, turn.topic_id)
            continue
        if turn.role == "user":
            matched = match_topic(subjects[turn.id], ours, current, settings)
            current = turn.id if matched is None else matched
        if current is not None:  # before the first question there is nothing to follow
            chosen[turn.id] = current
            # As it will be folded, for the turns that follow.
            ours[current] = folded(
                ours.get(current) or opened_by(turn, current), [turn], subjects, embedder=embedder
            )
    return chosen


def _root(topics: Sequence[Topic], topic_id: str) -> str:
    """The topic that a turn with this id belongs to."""
    family = family_of(topics, topic_id)
    return topic_id if family is None else family.id


def _without_topic(turns: Sequence[Turn], topics: Sequence[Topic]) -> dict[str, list[Turn]]:
    """Turns whose topic is not there, by its id: a crash came between their assignment and the topic's first save."""
    missing: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        if turn.topic_id is not None and family_of(topics, turn.topic_id) is None:
            missing[turn.topic_id].append(turn)
    return missing
