"""Reading topics: how each one stands, what a model needs to go on with it, its whole history."""

from __future__ import annotations

import bisect
import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_agent.checks import checked_tag
from memory_agent.domain import TopicTurns, Turn
from memory_agent.topics.index import count_turns, find_topic, newest, unmerged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import Scope, TopicDecayState, TopicHead, TopicSummary
    from memory_agent.llm.summaries import Summarizer, Summed
    from memory_agent.ports import Clock, DocumentStore, TokenCounter


MemoryType = Literal["short-term", "transitioning", "long-term"]

DEFAULT_IMPORTANCE: Final = 0.5
"""Of a topic whose turns came without one."""

VOTES_PER_HALF: Final = 4
"""So many more useful votes than useless ones halve what an importance lacks to 1; so many fewer halve it."""

_MOST_DOUBLINGS: Final = 1_000  # what a float holds


@dataclass(frozen=True, kw_only=True, slots=True)
class DecaySettings:
    """How fast topics fade; units and reasons in `config/memory.toml`."""

    base_half_life_seconds: float = 86_400.0
    max_half_life_seconds: float = 2_592_000.0
    access_threshold_for_lt: int = 5

    def half_life(self, access_count: int) -> float:
        """Seconds until the priority of a topic with so many accesses has halved."""
        doublings = min(access_count // self.access_threshold_for_lt, _MOST_DOUBLINGS)
        return min(self.base_half_life_seconds * 2.0**doublings, self.max_half_life_seconds)

    def memory_type(self, access_count: int) -> MemoryType:
        """Short-term below the threshold, long-term from twice as many accesses on, transitioning between."""
        if access_count < self.access_threshold_for_lt:
            return "short-term"
        return "transitioning" if access_count < 2 * self.access_threshold_for_lt else "long-term"

    def priority(self, topic: TopicHead | TopicDecayState, now: datetime) -> float:
        """A topic's priority at `now`, in [0, importance]."""
        age = (now - topic.last_access).total_seconds()
        return decayed(importance_of(topic), age, self.half_life(topic.access_count))


def decayed(importance: float, age_seconds: float, half_life_seconds: float) -> float:
    """`importance` after so long without access; within [0, importance]. An age below 0 counts as 0."""
    return float(importance * 0.5 ** (max(age_seconds, 0.0) / half_life_seconds))


def learned_importance(given: float, votes: int) -> float:
    """Importance in [0, 1] after feedback: `given`, moved by the votes (useful minus not useful).

    Only their difference counts, so a vote is undone by its opposite. n votes up leave 2^(-n/4) of the distance
    to 1, n votes down 2^(-n/4) of the distance to 0.
    """
    share = 0.5 ** (abs(votes) / VOTES_PER_HALF)
    return float(1.0 - (1.0 - given) * share if votes > 0 else given * share)


def importance_of(topic: TopicHead | TopicDecayState) -> float:
    """A topic's importance in [0, 1]: what its turns or a person gave, moved by feedback."""
    given = topic.given_importance if topic.set_importance is None else topic.set_importance
    return learned_importance(DEFAULT_IMPORTANCE if given is None else given, topic.votes)


_DAY = 86_400.0
_MESSAGE_TOKENS: Final = 4
"""Of a message beside its content, in a chat API."""
_EXTRACTED: Final = "in sentences taken from it"
_MOST_EXTRACTED: Final = 200
"""Turns that are looked through for sentences to quote: some milliseconds."""

UNTITLED: Final = "(untitled)"
"""Of a topic whose users' turns were all forgotten, or one that is being made anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicStats:
    """Statistics of a topic. `opener`: the first 80 characters of the message that opened it. Messages are turns of any role; ages are in seconds.

    `importance_score` is in [0, 1], `priority` in [0, importance_score]. `compression_ratio`: bytes of its
    compressed texts before, as a multiple of what they take now (1.0 without any). `summary_made_by`: "llm:…" for a
    language model's words, "extractive:…" for sentences taken out of the turns, None without a summary.
    `set_importance` is what people said, None if its turns decide; `absorbed` are the topics that were merged into it.
    """

    topic_id: str
    topic_title: str
    opener: str
    active_messages: int
    compressed_messages: int
    total_messages: int
    has_summary: bool
    summary_made_by: str | None
    importance_score: float
    access_count: int
    memory_type: MemoryType
    half_life_days: float
    age_seconds: float
    inactive_seconds: float
    priority: float
    compression_ratio: float
    tags: tuple[str, ...]
    archived: bool
    current: bool
    set_importance: float | None = None
    absorbed: tuple[str, ...] = ()
    summary: TopicSummary | None = None

    def priority_in(self, days: float) -> float:
        """Tell the priority in so many days from now, or before now, if nobody comes back to the topic."""
        age = self.inactive_seconds + days * _DAY
        return decayed(self.importance_score, age, self.half_life_days * _DAY)


@dataclass(frozen=True, slots=True)
class TopicReader:
    """Answers what is asked of a thread's topics. Topics that were merged into others are seen as those."""

    store: DocumentStore
    clock: Clock
    decay: DecaySettings
    counter: TokenCounter
    extract: Summarizer[str | None, Summed]
    """Takes sentences out of turns that neither fit nor are summarised yet."""

    async def topics(
        self, scope: Scope, *, include_archived: bool, tag: str | None = None
    ) -> list[TopicStats]:
        """The thread's topics, highest priority first. `tag`: only those that carry it."""
        return (await self.page(scope, slice(None), include_archived=include_archived, tag=tag))[0]

    async def page(
        self, scope: Scope, rows: slice, *, include_archived: bool, tag: str | None = None
    ) -> tuple[list[TopicStats], list[TopicHead]]:
        """Statistics of these rows of `topics`, and all of them. Raises InvalidInput for what can be no tag."""
        topics = unmerged(await self.store.topic_heads(scope))
        current = newest(topic for topic in topics if not topic.archived)
        shown = [topic for topic in topics if include_archived or not topic.archived]
        if tag is not None:
            wanted = checked_tag(tag)
            shown = [topic for topic in shown if wanted in topic.tags]
        now = self.clock.now()
        shown.sort(key=lambda topic: (topic.archived, -self.decay.priority(topic, now), topic.id))
        on_page = shown[rows]
        counts = await self.store.count_topic_turns(scope, [i for topic in on_page for i in topic.turns_of])
        count = {topic.id: sum((counts[i] for i in topic.turns_of), TopicTurns()) for topic in on_page}
        return [
            self._stats(topic, count[topic.id], now, current=topic is current) for topic in on_page
        ], shown

    async def stats(self, scope: Scope, topic_id: str | None) -> TopicStats:
        """Statistics of the topic (None: the current one)."""
        topic = await find_topic(self.store, scope, topic_id)
        heads = await self.store.topic_heads(scope)
        current = newest(unmerged(head for head in heads if not head.archived))
        counts = await count_turns(self.store, topic)
        is_current = current is not None and current.id == topic.id
        return self._stats(topic, counts, self.clock.now(), current=is_current)

    def _stats(self, topic: TopicHead, counts: TopicTurns, now: datetime, *, current: bool) -> TopicStats:
        summary = _summary_of(topic)
        return TopicStats(
            topic_id=topic.id,
            topic_title=topic.title or UNTITLED,
            opener=topic.opener,
            active_messages=counts.turns - counts.compressed,
            compressed_messages=counts.compressed,
            total_messages=counts.turns,
            has_summary=summary is not None,
            summary_made_by=None if summary is None else summary.made_by,
            importance_score=importance_of(topic),
            access_count=topic.access_count,
            memory_type=self.decay.memory_type(topic.access_count),
            half_life_days=self.decay.half_life(topic.access_count) / _DAY,
            age_seconds=max((now - topic.created_at).total_seconds(), 0.0),
            inactive_seconds=max((now - topic.last_access).total_seconds(), 0.0),
            priority=self.decay.priority(topic, now),
            compression_ratio=counts.raw_bytes / counts.packed_bytes if counts.packed_bytes else 1.0,
            current=current,
            summary=summary,
            **{name: getattr(topic, name) for name in ("tags", "archived", "set_importance", "absorbed")},
        )

    async def context(self, scope: Scope, topic_id: str | None, max_tokens: int) -> list[dict[str, str]]:
        """Messages for a model: a system message, then the topic's turns, the whole history if it fits.

        Of one that doesn't, the last turns; the system message has the summary of the others.
        """
        topic = await find_topic(self.store, scope, topic_id)
        of_it = functools.partial(self.store.list_turns, scope, topic_ids=topic.turns_of, newest=True)
        room = int(max_tokens * (1 - self.counter.margin)) - _MESSAGE_TOKENS
        turns = await of_it(limit=max(room // _MESSAGE_TOKENS, 1))
        said = self._cut(f"The conversation is about: {topic.title or UNTITLED}", room // 2)
        shown = self._last_that_fit(turns, room - self.counter.count(said))
        if len(shown) < len(turns):
            summary = _summary_of(topic)
            covered = 0
            if summary is not None:
                covered = summary.through
                kind = _EXTRACTED if summary.made_by.startswith("extractive") else "summarised"
                said = self._cut(f"{said}\n\nWhat was said before, {kind}:\n{summary.text}", room // 2)
            rest = room - self.counter.count(said)
            shown = self._last_that_fit(turns, rest)
            if shown[0].seq - 1 > covered and (
                between := await of_it(after_seq=covered, through=shown[0].seq - 1, limit=_MOST_EXTRACTED)
            ):
                shown = self._last_that_fit(turns, rest - rest // 4)
                between += [turn for turn in turns if between[-1].seq < turn.seq < shown[0].seq]
                if made := (await self.extract.summarize(None, between)).text:
                    when = "since" if covered else "before"
                    said += self._cut(f"\n\nWhat was said {when}, {_EXTRACTED}:\n{made}", rest // 4)
        return [{"role": "system", "content": said}, *map(_message, shown)]

    def _last_that_fit(self, turns: Sequence[Turn], room: int) -> list[Turn]:
        """The last turns that fit in `room` tokens as messages; of a longer last one the beginning."""
        fit = list[Turn]()
        for turn in reversed(turns):
            left = room - _MESSAGE_TOKENS
            room = left - self.counter.count(_message(turn)["content"])
            if room < 0:
                return fit or [dataclasses.replace(turn, content=self._cut(turn.shown, left))]
            fit.insert(0, turn)
        return fit

    def _cut(self, text: str, tokens: int) -> str:
        """`text`, or of one with more tokens the beginning and "…"."""
        if self.counter.count(text) <= tokens:
            return text
        lengths = range(len(text))
        longest = bisect.bisect_left(lengths, tokens, key=lambda n: self.counter.count(f"{text[:n]}…") + 1)
        return f"{text[: max(longest - 1, 0)]}…"

    async def history(
        self, scope: Scope, topic_id: str | None, *, include_compressed: bool
    ) -> list[dict[str, Any]]:
        """Every turn of the topic in order, word for word; without the compressed ones if not asked for."""
        topic = await find_topic(self.store, scope, topic_id)
        turns = await self.store.list_turns(
            scope, topic_ids=topic.turns_of, compressed=None if include_compressed else False
        )
        return [{"role": turn.role, "content": turn.content, "timestamp": turn.timestamp} for turn in turns]


def _summary_of(topic: TopicHead) -> TopicSummary | None:
    """None for an empty one as well: of some turns no sentence is worth quoting."""
    return topic.summary if topic.summary is not None and topic.summary.text else None


def _message(turn: Turn) -> dict[str, str]:
    content = f"{turn.speaker}: {turn.shown}" if turn.speaker else turn.shown
    if turn.role == "tool":  # chat APIs refuse one without the call that it answers
        return {"role": "assistant", "content": f"(from a tool) {content}"}
    return {"role": turn.role, "content": content}
