"""The topics stage: each turn of a thread joins a topic or opens one, in the order of the thread.

A turn carries its topic's id, and that is the truth; the rest of a topic is folded from its turns. First the turns
get their ids (a first assignment stands), then the topics take in those of their turns that they do not hold yet. So a
stage that is cut short or runs twice changes nothing. It makes the same number of calls however many topics it touches.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from memory_agent.topics.projection import folded, match_topic, opened_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import Scope, Topic, Turn
    from memory_agent.ports import DocumentStore
    from memory_agent.topics.index import TopicIndex
    from memory_agent.topics.projection import MatchSettings, Subjects, TopicFolder

_LOOKED_BACK: Final = 4
_OPENED: Final = uuid.UUID("5f0c3a0e-6f0b-4d0e-9a57-0c4f7a4c3b21")
_INLINE_TURNS: Final = 8
"""Turns that are matched on the event loop, at up to a millisecond each."""


class TopicKeeper:
    """Runs the topics stage."""

    def __init__(self, store: DocumentStore, folder: TopicFolder, settings: MatchSettings) -> None:
        self._store = store
        self._folder = folder
        self._indexes = folder.indexes
        self._settings = settings

    async def assign(self, turns: Sequence[Turn]) -> dict[str, str]:
        """Give turns of one thread, by rising `seq`, their topics; by turn id. Assistants' turns follow what they answer."""
        scope = turns[0].scope
        subjects = await self._folder.subjects(scope.user_id, turns)
        current = await self._current(turns[0])
        async with self._indexes.of(scope) as index:
            stale, others, missing = index.stale, index.foreign, _missing(turns, index)
            is_ready = not (stale or others or missing)
            if is_ready:
                chosen, archived = await self._choose(turns, index, subjects, current)
        if not is_ready:
            if stale:
                await self._folder.renew_stale(scope)
            if others:
                await self._renew_foreign(scope, others)
            if missing:
                await self._folder.take_in(scope, missing, (), index)
            async with self._indexes.of(scope) as index:
                chosen, archived = await self._choose(turns, index, subjects, current)
        if chosen:
            await self._store.assign_topics(scope, chosen)
        topic_ids = {turn.id: turn.topic_id or chosen.get(turn.id, "") for turn in turns}
        take_in = functools.partial(
            self._folder.take_in, scope, index=index, subjects=subjects, archived=archived
        )
        found = await take_in(_joined(turns, topic_ids, index), chosen)
        if missed := chosen.keys() - found:
            # Another worker was first with these, or they are forgotten: what the store says stands.
            stored = await self._store.list_turns(scope, ids=list(missed))
            theirs = {turn.id: turn.topic_id or "" for turn in stored}
            fresh = {turn_id for turn_id in theirs if theirs[turn_id] != chosen[turn_id]}
            topic_ids |= dict.fromkeys(missed, "") | theirs
            await take_in(_joined(stored, topic_ids, index), fresh)
        return topic_ids

    async def _renew_foreign(self, scope: Scope, others: Sequence[str]) -> None:
        """Make topics of another model's vectors anew, once their turns have this one's."""
        whole = await self._store.list_topics(scope, ids=others)
        for topic in await self._folder.are_current(whole):
            await self._folder.renew(topic, keep_summary=True)

    async def _current(self, first: Turn) -> str | None:
        """The topic id of the turn before `first`; None if it has none."""
        after = max(first.seq - _LOOKED_BACK, 0)
        before = await self._store.list_turns(
            first.scope, after_seq=after, through=first.seq, limit=_LOOKED_BACK
        )
        for turn in reversed(before):
            if turn.seq < first.seq and turn.topic_id is not None:
                return turn.topic_id
        return None

    async def _choose(
        self, turns: Sequence[Turn], index: TopicIndex, subjects: Subjects, before: str | None
    ) -> tuple[dict[str, str], bool]:
        """Turn id -> topic id for those that have none yet, and whether topics that rest were looked at."""
        current = None if before is None else _root(index, before)
        if current is None and (latest := index.newest()) is not None:
            current = latest.id
        choose = functools.partial(chosen_topics, turns, index, subjects, current, self._settings)
        many = len(turns) > _INLINE_TURNS
        chosen = await asyncio.to_thread(choose) if many else choose()
        if not any(topic_id == topic_id_of(turn_id) for turn_id, topic_id in chosen.items()):
            return chosen, False
        # Before a topic is opened, those that rest are looked at: what comes back, comes back into its topic.
        if index.rest:
            choose = functools.partial(choose, archived=True)
            chosen = await asyncio.to_thread(choose) if many else choose()
        return chosen, True


def chosen_topics(
    turns: Sequence[Turn],
    index: TopicIndex,
    subjects: Subjects,
    current: str | None,
    settings: MatchSettings,
    *,
    archived: bool = False,
) -> dict[str, str]:
    """Turn id -> topic id for turns of one thread, by rising `seq`, that have no topic yet.

    A new topic has the id that `topic_id_of` makes of the turn that opens it. `index`: the thread's topics, those that rest only with `archived`; it is
    afterwards as it was before. `current`: the topic of the turn before.
    """
    chosen: dict[str, str] = {}
    before: dict[str, Topic | None] = {}
    try:
        for turn in turns:
            if turn.topic_id is not None:
                current = _root(index, turn.topic_id)
                continue
            if turn.role == "user":
                matched = match_topic(subjects[turn.id], index, current, settings, archived=archived)
                current = topic_id_of(turn.id) if matched is None else matched
            if current is not None:  # before the first question there is nothing to follow
                chosen[turn.id] = current
                # As it will be folded, for the turns that follow.
                known = index.get(current)
                before.setdefault(current, known)
                index.hold(folded(known or opened_by(turn, current), [turn], subjects))
    finally:
        for topic_id, topic in before.items():
            if topic is None:
                index.drop(topic_id)
            else:
                index.hold(topic)
    return chosen


def topic_id_of(turn_id: str) -> str:
    """The id of a topic that this turn opens: always the same, and not the turn's, which is erased once it is forgotten."""
    return str(uuid.uuid5(_OPENED, turn_id))


def _missing(turns: Sequence[Turn], index: TopicIndex) -> dict[str, list[Turn]]:
    """By topic id, the turns whose topic isn't there: a crash came between their assignment and its first save."""
    missing: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        if turn.topic_id is not None and index.root(turn.topic_id) is None:
            missing[turn.topic_id].append(turn)
    return missing


def _joined(turns: Sequence[Turn], topic_ids: Mapping[str, str], index: TopicIndex) -> dict[str, list[Turn]]:
    """By the topic that they are in now, those of the turns that have one."""
    joined: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        if topic_id := topic_ids[turn.id]:
            joined[_root(index, topic_id)].append(turn)
    return joined


def _root(index: TopicIndex, topic_id: str) -> str:
    """The topic that a turn with this id belongs to."""
    family = index.root(topic_id)
    return topic_id if family is None else family.id
