"""Curation of topics by people: merge and split, tag, weigh, say whether they were useful, archive and restore."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from memory_agent.checks import checked_id
from memory_agent.errors import InvalidInput, NotFound
from memory_agent.optimistic import Tries, overtaken
from memory_agent.topics.index import find_topic, load_topic, no_such_topic, unmerged
from memory_agent.topics.projection import emptied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memory_agent.domain import Scope, Topic
    from memory_agent.ports import Clock, DocumentStore
    from memory_agent.topics.packing import Compactor
    from memory_agent.topics.projection import TopicFolder

MAX_TAGS: Final = 64


def _one_already(topic_id: str, into: str) -> InvalidInput:
    return InvalidInput(f"topics {topic_id!r:.80} and {into!r:.80} are one already; name two topics")


_archived = functools.partial(replace, archived=True)


class Curator:
    """Changes topics as people ask; each change is one write under the topic's revision."""

    def __init__(self, store: DocumentStore, folder: TopicFolder, compactor: Compactor, clock: Clock) -> None:
        self._store, self._folder = store, folder
        self._compactor, self._clock = compactor, clock

    async def merge(self, scope: Scope, topic_id: str, into: str) -> Topic:
        """The turns of `topic_id` are `into`'s from now on; `split` undoes it. Raises InvalidInput for one and the same.

        The turns keep the id they have: that `into` has absorbed the other one is a single write, so that there is no
        half of a merge.
        """
        absorbed = await self._find(scope, topic_id)
        if absorbed.id == (await self._find(scope, into)).id:
            raise _one_already(topic_id, into)
        # First, so that they stay out of the way when the merged topic is archived and not among what is looked at.
        for hidden in await self._store.list_topics(scope, ids=absorbed.turns_of):
            await self._change(scope, hidden.id, _archived, itself=True)
        while True:
            taken, tags, apart = absorbed.turns_of, absorbed.tags, absorbed.parted

            def absorb(
                topic: Topic,
                taken: tuple[str, ...] = taken,
                more: tuple[str, ...] = tags,
                apart: tuple[str, ...] = apart,
            ) -> Topic:
                if topic.id in taken:
                    raise _one_already(topic_id, into)
                both = tuple(dict.fromkeys((*topic.absorbed, *taken)))
                tags = tuple(dict.fromkeys((*topic.tags, *more)))[:MAX_TAGS]
                parted = tuple(i for i in dict.fromkeys((*topic.parted, *apart)) if i not in both)
                return replace(emptied(topic), absorbed=both, tags=tags, parted=parted, archived=False)

            merged = await self._change(scope, into, absorb)
            again = await load_topic(self._store, scope, absorbed.id)
            if again is None or set(again.turns_of) <= set(merged.turns_of):
                break
            absorbed = again  # it has absorbed another one meanwhile
        await self._folder.renew_soon(scope)
        return await self._find(scope, merged.id)

    async def split(self, scope: Scope, topic_id: str) -> Topic:
        """`topic_id`, which was merged into another topic, stands for itself again, with the turns that carry its id.

        No sweep merges the two again.
        """
        checked_id("topic_id", topic_id)
        topics = await self._store.list_topics(scope)
        own = next((topic for topic in topics if topic.id == topic_id), None)
        absorbers = [topic for topic in topics if topic_id in topic.absorbed]
        if own is None or not absorbers:
            refused = InvalidInput if own else NotFound
            raise refused(
                f"topic_id is {topic_id!r:.80}, which was not merged into another topic; give the id that was merged"
            )
        # The part first: while another topic stands for it, that shows nowhere. The topic that stands last.
        await self._change(
            scope, topic_id, lambda found: replace(emptied(found), archived=False), itself=True
        )
        taken = {*own.turns_of}
        standing_ids = {topic.id for topic in unmerged(topics)}

        def part(topic: Topic) -> Topic:
            absorbed = tuple(i for i in topic.absorbed if i not in taken)
            parted = tuple(dict.fromkeys((*topic.parted, topic_id)))
            return replace(emptied(topic), absorbed=absorbed, parted=parted)

        for absorber in sorted(absorbers, key=lambda topic: topic.id in standing_ids):
            await self._change(scope, absorber.id, part, itself=True)
        await self._folder.renew_soon(scope)
        return await self._find(scope, topic_id)

    async def tag(
        self, scope: Scope, topic_id: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> Topic:
        """Add and remove tags, compared as they are; at most 64 of at most 64 characters."""
        added, removed = [tag.strip() for tag in add], {tag.strip() for tag in remove}

        def tagged(topic: Topic) -> Topic:
            tags = tuple(dict.fromkeys(tag for tag in (*topic.tags, *added) if tag not in removed))
            if len(tags) > MAX_TAGS:
                raise InvalidInput(
                    f"topic {topic_id} would have {len(tags)} tags; at most {MAX_TAGS} are kept"
                )
            return replace(topic, tags=tags)

        return await self._change(scope, topic_id, tagged)

    async def weigh(self, scope: Scope, topic_id: str, importance: float | None) -> Topic:
        """Set the importance, 0 to 1; None: as its turns say."""
        weighed = functools.partial(replace, set_importance=importance)
        return await self._change(scope, topic_id, weighed)

    async def vote(self, scope: Scope, turn_or_topic: str, *, useful: bool) -> Topic:
        """Count one vote for the topic, or for the topic of the turn. The opposite vote undoes it."""
        topic_id = checked_id("turn_or_topic", turn_or_topic)
        for turn in await self._store.list_turns(scope, ids=[turn_or_topic]):
            if turn.topic_id is None:
                if "topics" in turn.pending:
                    raise InvalidInput(f"turn {turn.id} has no topic yet", remedy=("settle", "waits for it"))
                raise InvalidInput(f"turn {turn.id} has no topic; name one that has")
            topic_id = turn.topic_id
        step = 1 if useful else -1
        return await self._change(scope, topic_id, lambda topic: replace(topic, votes=topic.votes + step))

    async def restore(self, scope: Scope, topic_id: str) -> Topic:
        """An archived topic takes part in matching again, as accessed now. Its packed turns are read as before."""
        now = self._clock.now()

        def restored(topic: Topic) -> Topic:
            return replace(topic, archived=False, last_access=max(topic.last_access, now))

        return await self._change(scope, topic_id, restored)

    async def archive(self, scope: Scope, topic_id: str) -> Topic:
        """Take a topic out of matching and pack it, as the sweep does; `restore` undoes it."""
        topic = await self._find(scope, topic_id)
        await self._compactor.pack_all(topic)
        for hidden in await self._store.list_topics(scope, ids=topic.absorbed):
            await self._change(scope, hidden.id, _archived, itself=True)
        return await self._change(scope, topic.id, _archived)

    async def _find(self, scope: Scope, topic_id: str) -> Topic:
        head = await find_topic(self._store, scope, checked_id("topic_id", topic_id))
        found = await load_topic(self._store, scope, head.id)
        if found is None:
            raise no_such_topic(scope, topic_id)
        return found

    async def _change(
        self, scope: Scope, topic_id: str, change: Callable[[Topic], Topic], *, itself: bool = False
    ) -> Topic:
        """Apply `change` to the topic (or with `itself` to the very one, whatever absorbed it), as it then is stored."""
        async for _ in Tries():
            topic = await (
                load_topic(self._store, scope, topic_id) if itself else self._find(scope, topic_id)
            )
            if topic is None:
                raise NotFound(f"topic_id is {topic_id!r:.80}, which was forgotten meanwhile")
            if await self._store.save_topics([change(topic)]):
                return await load_topic(self._store, scope, topic.id) or topic
        raise overtaken(f"the topic {topic_id}")
