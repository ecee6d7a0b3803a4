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

import numpy as np

from memory_agent.topics.matching import joined_embedding, match_topic, turn_terms
from memory_agent.topics.merged import family_of, newest, unmerged
from memory_agent.topics.projection import joining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Scope, Topic, Turn
    from memory_agent.ports import DocumentStore
    from memory_agent.topics.matching import MatchSettings
    from memory_agent.topics.projection import TopicFolder, Vectors

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
                await self._folder.take_in(topic_id, members, ())
            topics = await self._topics(scope)
        vectors = await self._folder.vectors(scope.user_id, turns)
        current = await self._current(turns[0], topics)
        choose = functools.partial(self._choose, turns, topics, vectors, current)
        many = len(turns) * len(topics) > _INLINE_COMPARISONS
        if chosen := await asyncio.to_thread(choose) if many else choose():
            await self._store.assign_topics(scope, chosen)
        # Another worker may have been first with some: what the store says stands.
        stored = await self._store.list_turns(scope, ids=[turn.id for turn in turns])
        fresh = {turn.id for turn in turns if turn.topic_id is None}
        joined: dict[str, list[Turn]] = defaultdict(list)
        for turn in stored:
            if turn.topic_id is not None:
                joined[_root(topics, turn.topic_id)].append(turn)
        for topic_id, members in joined.items():
            await self._folder.take_in(topic_id, members, fresh)

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

    def _choose(
        self, turns: Sequence[Turn], topics: Sequence[Topic], vectors: Vectors, current: str | None
    ) -> dict[str, str]:
        """Turn id -> topic id for those that have none yet; a new topic has the id of the turn that opens it."""
        ours = [topic for topic in topics if topic.embedder == self._folder.fingerprint]
        embeddings = {topic.id: topic.embedding for topic in ours}
        counts = {topic.id: topic.embedded for topic in ours}
        chosen: dict[str, str] = {}
        for turn in turns:
            if turn.topic_id is not None:
                current = _root(topics, turn.topic_id)
                continue
            if turn.role == "user":
                terms = turn_terms(turn.content)
                matched = match_topic(vectors.get(turn.id), terms, embeddings, current, self._settings)
                current = turn.id if matched is None else matched
            if current is not None:  # before the first question there is nothing to follow
                chosen[turn.id] = current
                self._join(current, turn, vectors, embeddings, counts)
        return chosen

    def _join(
        self,
        topic_id: str,
        turn: Turn,
        vectors: Vectors,
        embeddings: dict[str, NDArray[np.float16]],
        counts: dict[str, int],
    ) -> None:
        """The embedding as it will be folded, for the turns that follow."""
        count = counts.get(topic_id, 0)
        embeddings.setdefault(topic_id, np.empty(0, dtype=np.float16))
        vector = joining(turn, vectors, count, self._settings.short_turn_terms)
        if vector is not None:
            embeddings[topic_id] = joined_embedding(embeddings[topic_id], count, vector)
            count += 1
        counts[topic_id] = count


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
