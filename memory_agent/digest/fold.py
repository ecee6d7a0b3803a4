"""Digest of a conversation, folded turn by turn: moments and topics. Pure.

`analyse` looks at one turn alone, and is the costly part; `fold` adds an analysed turn to the digest of those before it,
and is cheap. So analyses can be kept, and the digest be made anew from the turns that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.digest.excerpts import excerpt_of
from memory_agent.digest.importance import MIN_IMPORTANCE, importance
from memory_agent.domain import KeyMoment, TopicRanges
from memory_agent.text.code.detect import has_code
from memory_agent.text.corrections import claims_of
from memory_agent.text.features import features_of
from memory_agent.text.quotes import LEAST_TELLING, quotes_of
from memory_agent.text.sentences import sentences_of
from memory_agent.text.subjects import clear_subjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.digest.excerpts import Excerpt
    from memory_agent.domain import Compression, Turn

MAX_MOMENTS: Final = 120
MAX_TOPICS: Final = 16
MAX_RANGES: Final = 8
_SAME_RANGE: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """The analysis of one turn, by rules. `score`: its importance, without recency."""

    score: float
    code: bool
    excerpt: Excerpt
    """Its most telling words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """The fold of the analyses of all turns up to and including `seq == through`. Bounded: what matters least goes first."""

    through: int = 0
    turns: int = 0
    tokens: int = 0
    """Of all these turns, word for word."""
    moments: tuple[KeyMoment, ...] = ()
    topics: tuple[TopicRanges, ...] = ()
    """By the turn that came last."""

    @classmethod
    def of(cls, compression: Compression | None) -> Digest:
        """The digest that a compression recorded; the empty one without a compression."""
        if compression is None:
            return cls()
        same = ("through", "turns", "moments", "topics")
        kept = {name: getattr(compression, name) for name in same}
        return cls(tokens=compression.tokens_before, **kept)


def clear_text_caches() -> None:
    """Forget the texts that the rules keep to read them once: something was forgotten."""
    for cached in (has_code, sentences_of, quotes_of, features_of, claims_of):
        cached.cache_clear()
    clear_subjects()


def analyse(turn: Turn) -> Analysis:
    """Analysis of one turn by the rules, whatever stands around it."""
    code = has_code(turn.content)
    excerpt = excerpt_of(turn.content, role=turn.role, code=code)
    score = importance(telling=excerpt.weight, chars=len(turn.content), code=code, given=turn.importance)
    return Analysis(score=score, code=code, excerpt=excerpt)


def fold(digest: Digest, turns: Iterable[tuple[Turn, Analysis | None]]) -> Digest:
    """The digest with these turns, which follow what it has, by rising `seq`. None: it is left open if that is a moment."""
    moments = list(digest.moments)
    topics = {topic.topic_id: list(topic.ranges) for topic in digest.topics}
    through, count, tokens = digest.through, digest.turns, digest.tokens
    for turn, analysis in turns:
        if turn.seq <= through:
            continue
        through, count, tokens = turn.seq, count + 1, tokens + turn.tokens
        if analysis is not None and _is_moment(analysis):
            moments.append(_moment(turn, analysis))
        if turn.topic_id is not None:
            ranges = topics.pop(turn.topic_id, [])
            _add_turn(ranges, turn.seq)
            topics[turn.topic_id] = ranges
    return Digest(
        through=through,
        turns=count,
        tokens=tokens,
        moments=_weightiest(moments),
        topics=tuple(
            TopicRanges(topic_id=topic_id, ranges=tuple(ranges))
            for topic_id, ranges in list(topics.items())[-MAX_TOPICS:]
        ),
    )


def _is_moment(analysis: Analysis) -> bool:
    telling = analysis.score >= MIN_IMPORTANCE or analysis.excerpt.weight >= LEAST_TELLING
    return analysis.code or telling


def _moment(turn: Turn, analysis: Analysis) -> KeyMoment:
    return KeyMoment(
        turn_id=turn.id,
        seq=turn.seq,
        who=turn.speaker or turn.role,
        at=turn.timestamp,
        score=analysis.score,
        tokens=turn.tokens,
        code=analysis.code,
        text=analysis.excerpt.text,
    )


def _add_turn(ranges: list[tuple[int, int]], seq: int) -> None:
    """Add a turn to the ranges, the newest `MAX_RANGES`. What others say in between (an answer) opens no new one."""
    first = ranges.pop()[0] if ranges and seq - ranges[-1][1] <= _SAME_RANGE else seq
    ranges.append((first, seq))
    del ranges[:-MAX_RANGES]


def _weightiest(moments: Sequence[KeyMoment]) -> tuple[KeyMoment, ...]:
    """The `MAX_MOMENTS` of the highest score; of those that say the same the newest."""
    once = {(moment.text or moment.turn_id): moment for moment in moments}
    kept = sorted(once.values(), key=lambda moment: (-moment.score, -moment.seq))[:MAX_MOMENTS]
    return tuple(sorted(kept, key=lambda moment: moment.seq))
