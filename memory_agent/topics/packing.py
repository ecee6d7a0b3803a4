"""The compact stage: the older part of a long topic is summarised and packed; the last turns stay as they are.

The summary is saved first, then the turns are packed, so that a crash in between leaves every turn readable and
the next run finds out how far this one came: the summary says up to which turn it goes, a turn whether it is packed.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.domain import TopicSummary, TopicTurns
from memory_agent.errors import MalformedReply, ModelRefused
from memory_agent.llm.summaries import MAX_PROMPT_CHARS
from memory_agent.optimistic import COSTLY_TRIES, Tries, overtaken
from memory_agent.topics.merged import count_turns, unmerged

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from memory_agent.domain import PackedSize, Scope, Topic, Turn
    from memory_agent.llm.summaries import Summarizer
    from memory_agent.ports import Clock, DocumentStore
    from memory_agent.topics.projection import TopicFolder

log = logging.getLogger(__name__)

_OWED_LOOKED_AT: Final = 50
"""The oldest turns that owe the stage: what is parked stays behind while the others move on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactSettings:
    """Active turns that a topic may have, and how many of its last ones stay active then."""

    max_messages_per_topic: int
    recent_message_keep: int


class Compactor:
    """Runs the compact stage, and packs topics that are archived."""

    def __init__(
        self,
        store: DocumentStore,
        summarizer: Summarizer,
        extract: Summarizer,
        folder: TopicFolder,
        clock: Clock,
        settings: CompactSettings,
    ) -> None:
        """`extract`: what sums up where `summarizer` will not, or gives nothing that can be read."""
        self._store = store
        self._folder = folder
        self._summarizer = summarizer
        self._extract = extract
        self._clock = clock
        self._settings = settings

    async def grown(self, turns: Sequence[Turn]) -> list[Turn]:
        """Of these turns of one thread the last of each topic that has to be compacted (and so, needs no other).

        Not of one with a turn that is parked for the same: that it cannot be summarised is known, and shown.
        """
        last = {turn.topic_id: turn for turn in turns if turn.topic_id is not None}
        if not last:
            return []
        scope = turns[0].scope
        touched = await self._families(scope, last)
        counted = await self._store.count_topic_turns(scope, [i for topic in touched for i in topic.turns_of])
        due = []
        for topic in touched:
            counts = sum((counted[i] for i in topic.turns_of), TopicTurns())
            unsummarised = topic.summary is None and counts.compressed > 0
            if topic.stale or unsummarised or self._too_long(counts):
                due.append(topic)
        parked = await self._parked(scope) if due else frozenset()
        members = [
            max((last[i] for i in topic.turns_of if i in last), key=lambda turn: turn.seq)
            for topic in due
            if parked.isdisjoint(topic.turns_of)
        ]
        return sorted(members, key=lambda turn: turn.seq)

    async def _families(self, scope: Scope, topic_ids: Collection[str]) -> list[Topic]:
        """The topics that turns with these ids belong to; archived ones are looked for only if they are meant."""
        topics = unmerged(await self._store.list_topics(scope, archived=False))
        found = [topic for topic in topics if not set(topic_ids).isdisjoint(topic.turns_of)]
        missing = set(topic_ids) - {i for topic in found for i in topic.turns_of}
        if missing:
            everything = unmerged(await self._store.list_topics(scope))
            found += [topic for topic in everything if not missing.isdisjoint(topic.turns_of)]
        return found

    async def _parked(self, scope: Scope) -> frozenset[str]:
        """Ids of topics with a turn that is parked and owes this stage."""
        owed = await self._store.owed_turns(scope, "compact", limit=_OWED_LOOKED_AT)
        return frozenset(turn.topic_id for turn in owed if turn.parked and turn.topic_id is not None)

    def _too_long(self, counts: TopicTurns) -> bool:
        return counts.turns - counts.compressed > self._settings.max_messages_per_topic

    async def compact(self, turns: Sequence[Turn]) -> None:
        """Compact the topics of these turns of one thread, those that have grown too long.

        Raises what the summarizer raises; then the topic is as it was, but for what it summarised before that.
        """
        scope = turns[0].scope
        await self._folder.renew_stale(scope)
        ids = {turn.topic_id for turn in turns if turn.topic_id is not None}
        for topic in await self._families(scope, ids):
            await self._compact(topic)

    async def _compact(self, topic: Topic) -> None:
        counts = await count_turns(self._store, topic)
        to_pack: list[Turn] = []
        if self._too_long(counts):
            active = await self._store.list_turns(topic.scope, topic_ids=topic.turns_of, compressed=False)
            to_pack = active[: -self._settings.recent_message_keep or None]
        elif topic.summary is not None or not counts.compressed:
            return
        through = await self._end_of_packed(topic, to_pack)
        await self._summarise(topic.scope, topic.id, through)
        await self._pack(topic, to_pack)

    async def pack_all(self, topic: Topic) -> PackedSize:
        """Pack every turn of a topic that is to rest. Its summary stays as it is."""
        active = await self._store.list_turns(topic.scope, topic_ids=topic.turns_of, compressed=False)
        return await self._pack(topic, active)

    async def _pack(self, topic: Topic, turns: Sequence[Turn]) -> PackedSize:
        return await self._store.compress_turns(topic.scope, topic.id, [turn.id for turn in turns])

    async def _end_of_packed(self, topic: Topic, to_pack: Sequence[Turn]) -> int:
        packed = await self._store.list_turns(
            topic.scope, topic_ids=topic.turns_of, compressed=True, limit=1, newest=True
        )
        return max(turn.seq for turn in [*packed, *to_pack[-1:]])

    async def _summarise(self, scope: Scope, topic_id: str, through: int) -> None:
        """Have a summary of all turns up to `through` on the topic.

        It is saved, a prompt's worth of turns at a time, only if what it was made of is still there afterwards: a turn may
        be forgotten meanwhile, and the summary before it with it.
        """
        tries = Tries(COSTLY_TRIES)
        async for _ in tries:
            await self._folder.renew_stale(scope)
            topic = await self._load(scope, topic_id)
            if topic is None or (topic.summary is not None and topic.summary.through >= through):
                return
            before = topic.summary
            new = await self._store.list_turns(
                scope, topic_ids=topic.turns_of, after_seq=0 if before is None else before.through
            )
            new = prompt_of([turn for turn in new if turn.seq <= through])
            if not new:
                return
            text, made_by = await self._summarised(None if before is None else before.text, new)
            summary = TopicSummary(
                text=text,
                made_by=made_by,
                through=new[-1].seq,
                turns=len(new) + (0 if before is None else before.turns),
                made_at=self._clock.now(),
            )
            if await self._save_summary(topic, summary, [turn.id for turn in new]):
                tries.won()
        raise overtaken(f"the topic {topic_id} while it was summarised")

    async def _summarised(self, previous: str | None, turns: Sequence[Turn]) -> tuple[str, str]:
        """The summary, and what made it: if the model's cannot be read, or it makes none, an extract stands in.

        Asking again hardly helps, and a topic that grows on without any summary is the worse prompt.
        """
        try:
            return await self._summarizer.summarize(previous, turns), self._summarizer.name
        except (MalformedReply, ModelRefused) as exc:
            # No message: the reply is about all turns of the topic.
            log.warning("a topic is summed up by an extract: %s", type(exc).__name__)
            return await self._extract.summarize(previous, turns), self._extract.name

    async def _save_summary(self, topic: Topic, summary: TopicSummary, turn_ids: Sequence[str]) -> bool:
        """Save unless the summary before it changed or one of its turns went; turns that joined don't matter."""
        async for _ in Tries():
            current = await self._load(topic.scope, topic.id)
            if current is None or current.stale or current.absorbed != topic.absorbed:
                return False
            if current.summary != topic.summary:
                return False
            # After the load: an erasure resets the topic once the turns are gone, and then this save fails.
            alive = await self._store.list_turns(topic.scope, ids=turn_ids)
            if len(alive) < len(turn_ids):
                return False
            updated = dataclasses.replace(current, summary=summary)
            if await self._store.save_topic(updated, expected=current.revision):
                return True
        return False

    async def _load(self, scope: Scope, topic_id: str) -> Topic | None:
        found = await self._store.list_topics(scope, ids=[topic_id])
        return found[0] if found else None


def prompt_of(turns: Sequence[Turn]) -> list[Turn]:
    """As many of the first turns as one prompt takes, at least one."""
    chars = itertools.accumulate(len(turn.content) for turn in turns)
    return [turn for turn, total in zip(turns, chars, strict=True) if total <= MAX_PROMPT_CHARS] or list(
        turns[:1]
    )
