"""The compact stage: the older part of a long topic is summarised and packed; the last turns stay as they are.

The summary is saved first, then the turns are packed, so that a crash in between leaves every turn readable and
the next run finds out how far this one came: the summary says up to which turn it goes, a turn whether it is packed.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.concurrency import COSTLY_TRIES, Tries, overtaken
from memory_agent.domain import TopicSummary, TopicTurns
from memory_agent.llm.summaries import REQUEST_TOKENS
from memory_agent.topics.index import count_turns, load_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from memory_agent.domain import PackedSize, Scope, Topic, Turn
    from memory_agent.llm.summaries import ModelOrExtract, Summed
    from memory_agent.ports import Clock, DocumentStore
    from memory_agent.topics.projection import TopicFolder

_OWED_LOOKED_AT: Final = 50
"""The oldest turns that owe the stage: what is parked stays behind while the others move on."""


@dataclass(frozen=True, slots=True)
class Compactor:
    """Runs the compact stage, and packs topics that are archived."""

    store: DocumentStore
    summaries: ModelOrExtract[str | None, Summed]
    folder: TopicFolder
    clock: Clock
    most: int
    """Active turns that a topic may have."""
    keep: int
    """Of a topic that has more, the last turns that stay active."""

    async def grown(self, turns: Sequence[Turn]) -> list[Turn]:
        """Of these turns of one thread the last of each topic that has to be compacted (and so, needs no other).

        Not of one with a turn that is parked for the same: that it cannot be summarised is known, and shown.
        """
        last = {turn.topic_id: turn for turn in turns if turn.topic_id is not None}
        if not last:
            return []
        scope = turns[0].scope
        touched = await self._families(scope, last)
        counted = await self.store.count_topic_turns(scope, [i for topic in touched for i in topic.turns_of])
        due = []
        for topic in touched:
            counts = sum((counted[i] for i in topic.turns_of), TopicTurns())
            unsummarised = topic.summary is None and counts.compressed > 0
            if topic.stale or unsummarised or self._too_long(counts):
                due.append(topic)
        owed = await self.store.owed_turns(scope, "compact", limit=_OWED_LOOKED_AT) if due else []
        parked = {turn.topic_id for turn in owed if turn.parked}
        members = [
            max((last[i] for i in topic.turns_of if i in last), key=lambda turn: turn.seq)
            for topic in due
            if parked.isdisjoint(topic.turns_of)
        ]
        return sorted(members, key=lambda turn: turn.seq)

    async def _families(self, scope: Scope, topic_ids: Collection[str]) -> list[Topic]:
        """The topics that turns with these ids belong to, as the index has them: without summaries' texts."""
        async with self.folder.indexes.of(scope) as index:
            found = {topic.id: topic for i in topic_ids if (topic := index.root(i)) is not None}
        return list(found.values())

    def _too_long(self, counts: TopicTurns) -> bool:
        return counts.turns - counts.compressed > self.most

    async def compact(self, turns: Sequence[Turn]) -> None:
        """Compact the topics of these turns of one thread, those that have grown too long."""
        scope = turns[0].scope
        await self.folder.renew_stale(scope)
        ids = {turn.topic_id for turn in turns if turn.topic_id is not None}
        for topic in await self._families(scope, ids):
            await self._compact(topic)

    async def _compact(self, topic: Topic) -> None:
        counts = await count_turns(self.store, topic)
        to_pack: list[Turn] = []
        if self._too_long(counts):
            active = await self.store.list_turns(topic.scope, topic_ids=topic.turns_of, compressed=False)
            to_pack = active[: -self.keep]
        elif topic.summary is not None or not counts.compressed:
            return
        packed = await self.store.list_turns(
            topic.scope, topic_ids=topic.turns_of, compressed=True, limit=1, newest=True
        )
        last = [*packed, *to_pack[-1:]]
        if not last:
            return  # its turns went to another topic, or were forgotten, since they were counted
        await self._summarise(topic.scope, topic.id, max(turn.seq for turn in last))
        await self.store.compress_turns(topic.scope, topic.id, [turn.id for turn in to_pack])

    async def pack_all(self, topic: Topic) -> PackedSize:
        """Pack every turn of a topic that is to rest. Its summary stays as it is."""
        active = await self.store.list_turns(topic.scope, topic_ids=topic.turns_of, compressed=False)
        return await self.store.compress_turns(topic.scope, topic.id, [turn.id for turn in active])

    async def _summarise(self, scope: Scope, topic_id: str, through: int) -> None:
        """Have a summary of all turns up to `through` on the topic.

        It is saved, a prompt's worth of turns at a time, only if what it was made of is still there afterwards: a turn may
        be forgotten meanwhile, and the summary before it with it.
        """
        tries = Tries(COSTLY_TRIES)
        async for attempt in tries:
            if attempt:  # before the first one, all were looked at
                await self.folder.renew_stale(scope)
            topic = await load_topic(self.store, scope, topic_id)
            if topic is None or (topic.summary is not None and topic.summary.through >= through):
                return
            before = topic.summary
            new = await self.store.list_turns(
                scope, topic_ids=topic.turns_of, after_seq=before.through if before else 0
            )
            new = prompt_of([turn for turn in new if turn.seq <= through])
            if not new:
                return
            made, made_by = await self.summaries.summarize(before.text if before else None, new)
            summary = TopicSummary(
                text=made.text,
                title=made.title or (before.title if before else ""),
                made_by=made_by,
                through=new[-1].seq,
                turns=(before.turns if before else 0) + len(new),
                made_at=self.clock.now(),
            )
            if await self._save_summary(topic, summary, [turn.id for turn in new]):
                if summary.through >= through:
                    return
                tries.won()
        raise overtaken(f"the topic {topic_id} while it was summarised")

    async def _save_summary(self, topic: Topic, summary: TopicSummary, turn_ids: Sequence[str]) -> bool:
        """Save unless the summary before it changed or one of its turns went; turns that joined don't matter."""
        async for _ in Tries():
            current = await load_topic(self.store, topic.scope, topic.id)
            if current is None or current.stale:
                return False
            if (current.absorbed, current.summary) != (topic.absorbed, topic.summary):
                return False
            # After the load: an erasure resets the topic once the turns are gone, and then this save fails.
            alive = await self.store.list_turns(topic.scope, ids=turn_ids)
            if len(alive) < len(turn_ids):
                return False
            updated = dataclasses.replace(current, summary=summary, title=summary.title or current.title)
            if await self.store.save_topics([updated]):
                return True
        return False


def prompt_of(turns: Sequence[Turn]) -> list[Turn]:
    """As many of the first turns as about one request to a model takes, at least one."""
    tokens = itertools.accumulate(turn.tokens for turn in turns)
    fit = [turn for turn, total in zip(turns, tokens, strict=True) if total <= REQUEST_TOKENS // 2]
    return fit or list(turns[:1])
