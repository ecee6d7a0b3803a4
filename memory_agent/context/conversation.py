"""Packing what stands for a whole conversation: the reminder first, the recent turns last. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from memory_agent.context.budget import PRESERVED_TOKENS, SUMMARY_TOKENS
from memory_agent.context.items import (
    fact_items,
    leave_unfit,
    plain_items,
    preserved_items,
    summary_items,
    window_items,
)
from memory_agent.context.ledger import Packing
from memory_agent.context.render import one_line
from memory_agent.digest.importance import recency_bonus
from memory_agent.domain import CompressedContext, CompressionMetadata, ContextLine, KeyTopic
from memory_agent.text.moments.emotions import describe_course

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.context.ledger import Item, Packed
    from memory_agent.context.persona import Reminder
    from memory_agent.digest.fold import Digest
    from memory_agent.domain import Compression, KeyMoment, SummaryItem, Tier, Turn
    from memory_agent.ports import TokenCounter

ORDER: Final[tuple[Tier, ...]] = (
    "persona",
    "state",
    "summary",
    "topics",
    "moments",
    "course",
    "facts",
    "decisions",
    "preserved",
    "short_term",
)
_DUE_TURNS: Final = 1
_TOPICS: Final = 8
# Shares of the budget, before key moments take what is left.
REMINDER_SHARE: Final = 0.20
_PRESERVED: Final = 0.15
_DECISIONS: Final = 0.08
_SUMMARY: Final = 0.40
_FACTS: Final = 0.15
_TOPICS_SHARE: Final = 0.05
_COURSE: Final = 0.04
_RECENT: Final = 0.40
_CODE: Final = 5.0
"""What an excerpt of code is worth more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A conversation as of a turn. `digest` is of all its turns; `summary` of those up to the last compression.

    Before the first compression `summary` is of all turns as well. `preserved`: turns with their scores, the most wanted first; `recent`: the
    last turns, oldest first; `titles`: of topics by id; `made_by`: of the summary.
    """

    reminder: Reminder
    digest: Digest
    summary: Sequence[SummaryItem]
    preserved: Sequence[tuple[Turn, float]]
    recent: Sequence[Turn]
    made_by: str | None = None
    passed_over: Sequence[KeyMoment] = ()
    """Moments that there is no room for among the preserved turns."""
    titles: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    people: Sequence[str] = ()
    """Of whom facts are known; `facts` are keyed by them if there are several."""
    last: Compression | None = None


def pack_compressed(conversation: Conversation, *, budget: int, counter: TokenCounter) -> CompressedContext:
    """The compressed context in at most `budget` tokens."""
    packing = Packing(ORDER, budget=budget, counter=counter)
    digest = conversation.digest
    packing.take_all(plain_items(packing, "persona", conversation.reminder.identity, "the reminder"))
    packing.take_all(plain_items(packing, "state", conversation.reminder.state, "the reminder"))
    leave_unfit(packing, conversation.reminder.left, conversation.passed_over)
    recent = window_items(packing, conversation.recent, "recent", numbered=True)
    newest, older = recent[:_DUE_TURNS], recent[_DUE_TURNS:]
    waiting = packing.take_unbroken(newest)
    if digest.turns <= len(recent) and not waiting:
        waiting, older = packing.take_unbroken(older), []  # the whole conversation: nothing sums it up better
    extract = (conversation.made_by or "").startswith("extractive")
    shown = {turn.id for turn in conversation.recent}
    left: list[Item] = []
    for items, share, most in (
        (summary_items(packing, conversation.summary, excerpts=extract), _SUMMARY, SUMMARY_TOKENS),
        (preserved_items(packing, conversation.preserved, recent=shown), _PRESERVED, PRESERVED_TOKENS),
        (_decision_items(packing, digest), _DECISIONS, budget),
        (
            fact_items(packing, conversation.facts, conversation.people, conversation.recent),
            _FACTS,
            budget,
        ),
        (_topic_items(packing, conversation), _TOPICS_SHARE, budget),
        (_course_items(packing, digest), _COURSE, budget),
    ):
        left += packing.take_all(items, limit=min(int(budget * share), most))
    waiting = [*waiting, *older] if waiting else packing.take_unbroken(older, limit=int(budget * _RECENT))
    packing.take_all(_moment_items(packing, conversation))
    limits: dict[Tier, int] = {"summary": SUMMARY_TOKENS, "preserved": PRESERVED_TOKENS}
    for item in left:
        packing.take(item, limit=limits.get(item.tier))
    packing.take_all(waiting)
    return _context(packing.packed(), conversation, budget=budget)


def _decision_items(packing: Packing, digest: Digest) -> list[Item]:
    """Newest first, for a later decision may replace an earlier one."""
    return [
        packing.item(
            "decisions",
            f"decision:{note.seq}",
            ContextLine(body=one_line(f"- turn {note.seq}: {note.text}")),
            place=note.seq,
            reason="decided",
        )
        for note in reversed(digest.decisions)
    ]


def _topic_items(packing: Packing, conversation: Conversation) -> list[Item]:
    topics = [topic for topic in conversation.digest.topics if topic.topic_id in conversation.titles]
    return [
        packing.item(
            "topics",
            topic.topic_id,
            ContextLine(body=one_line(f"- {conversation.titles[topic.topic_id]} ({_ranges(topic.ranges)})")),
            place=topic.ranges[0][0],
            reason="talked about",
        )
        for topic in reversed(topics[-_TOPICS:])
    ]


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """`turn 12`, `turns 12-15, 20`."""
    told = ", ".join(f"{a}" if a >= b else f"{a}-{b}" for a, b in ranges)
    return f"turn {told}" if told.isdecimal() else f"turns {told}"


def _worth(moment: KeyMoment) -> float:
    """Of an excerpt: code is of use word for word or not at all, so no summary holds it."""
    return moment.score + (_CODE if moment.code else 0.0)


def _moment_items(packing: Packing, conversation: Conversation) -> list[Item]:
    """The weightiest moments, each in its most telling words; those of a turn that is shown whole are left out."""
    items: list[Item] = []
    for moment in sorted(conversation.digest.moments, key=lambda moment: (-_worth(moment), -moment.seq)):
        what = ", ".join(moment.kinds).replace("_", " ") or ("code" if moment.code else "said")
        if moment.text:
            item = packing.item(
                "moments",
                moment.turn_id,
                ContextLine(body=one_line(f"- turn {moment.seq}, {what}: {moment.text}")),
                place=moment.seq,
                reason="a key moment",
                score=moment.score,
                excerpt_of=moment.seq,
            )
            items.append(item)
    return items


def _course_items(packing: Packing, digest: Digest) -> list[Item]:
    if not digest.course:
        return []
    line = ContextLine(body=describe_course(digest.course))
    return [packing.item("course", "course", line, place=0, reason="the emotional course")]


def _context(packed: Packed, conversation: Conversation, *, budget: int) -> CompressedContext:
    digest, last = conversation.digest, conversation.last
    preserved = {turn.id: turn for turn, _ in conversation.preserved if packed.keeps("preserved", turn.id)}
    ordered = tuple(sorted(preserved.values(), key=lambda turn: turn.seq))
    return CompressedContext(
        blocks=packed.blocks,
        ledger=packed.ledger,
        tokens=packed.tokens,
        budget=budget,
        reminder="\n".join(filter(None, (packed.text_of("persona"), packed.text_of("state")))),
        summary=tuple(conversation.summary),
        topics=tuple(
            KeyTopic(title=conversation.titles[topic.topic_id], ranges=topic.ranges)
            for topic in digest.topics
            if packed.keeps("topics", topic.topic_id)
        ),
        moments=tuple(m for m in digest.moments if packed.keeps("moments", m.turn_id)),
        course=digest.course if packed.keeps("course", "course") else (),
        facts=packed.facts(conversation.facts),
        decisions=tuple(
            note for note in digest.decisions if packed.keeps("decisions", f"decision:{note.seq}")
        ),
        preserved=ordered,
        recent=tuple(turn for turn in conversation.recent if packed.keeps("short_term", turn.id)),
        metadata=CompressionMetadata(
            original_turns=digest.turns,
            compressed_at=0 if last is None else last.through,
            number=0 if last is None else last.number,
            tokens_before=digest.tokens,
            tokens_after=packed.tokens,
            preserved_ids=tuple(turn.id for turn in ordered),
            made_by=conversation.made_by,
            summary_through=digest.through if last is None else last.through,
        ),
    )


def choose_preserved(
    digest: Digest, *, kept: Sequence[str], recent: set[str], max_tokens: int
) -> tuple[list[KeyMoment], list[KeyMoment]]:
    """The moments kept word for word, the weightiest first as far as they fit, and those that there is no room for.

    Weight is importance with the bonus for being recent; among equals those kept before come first. `recent`: turns that
    are shown anyway.
    """
    before = set(kept)
    room = max_tokens
    chosen: list[KeyMoment] = []
    passed_over: list[KeyMoment] = []

    def weight(moment: KeyMoment) -> float:
        return moment.score + recency_bonus(max(digest.through - moment.seq, 0))

    for moment in sorted(digest.moments, key=lambda m: (-weight(m), m.turn_id not in before, -m.seq)):
        if moment.turn_id in recent:
            continue
        if moment.tokens <= room:
            chosen.append(moment)
            room -= moment.tokens
        else:
            passed_over.append(moment)
    return chosen, passed_over
