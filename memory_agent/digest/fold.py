"""Digest of a conversation, folded turn by turn: moments, emotional course, decisions, traits. Pure.

`analyse` looks at one turn alone, and is the costly part; `fold` adds an analysed turn to the digest of those before it,
and is cheap. So analyses can be kept, and the digest be made anew from the turns that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.digest.excerpts import excerpt_of, rated_sentences
from memory_agent.digest.importance import CODE_BONUS, MIN_IMPORTANCE, importance
from memory_agent.domain import KeyMoment, Noted, TopicRanges
from memory_agent.text.code.detect import code_priority
from memory_agent.text.moments.detect import (
    PREVIOUS_TURNS,
    content_stems,
    decision_in,
    detect_moments,
    observed_traits,
    relationship_note,
)
from memory_agent.text.moments.emotions import extend_course, feeling_of
from memory_agent.text.sentences import sentences_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.digest.excerpts import Excerpt
    from memory_agent.domain import Compression, EmotionSpan, Feeling, MomentKind, Turn
    from memory_agent.text.code.detect import CodeRules

MAX_MOMENTS: Final = 120
MAX_DECISIONS: Final = 24
MAX_TRAITS: Final = 12
MAX_NOTES: Final = 12
MAX_TOPICS: Final = 16
MAX_RANGES: Final = 8
_SAME_RANGE: Final = 2
_TELLING: Final = 3.0
"""The weight of two names or numbers, as `digest.excerpts` counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """The analysis of one turn, by rules. `score`: its importance, without recency; `feeling`: its speaker's."""

    kinds: frozenset[MomentKind]
    score: float
    code: bool
    feeling: Feeling | None
    decision: str | None
    traits: tuple[str, ...]
    relationship: str | None
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
    course: tuple[EmotionSpan, ...] = ()
    decisions: tuple[Noted, ...] = ()
    traits: tuple[Noted, ...] = ()
    relationship: tuple[Noted, ...] = ()
    topics: tuple[TopicRanges, ...] = ()
    """By the turn that came last."""

    @classmethod
    def of(cls, compression: Compression | None) -> Digest:
        """The digest that a compression recorded; the empty one without a compression."""
        if compression is None:
            return cls()
        same = ("through", "turns", "moments", "course", "decisions", "traits", "relationship", "topics")
        kept = {name: getattr(compression, name) for name in same}
        return cls(tokens=compression.tokens_before, **kept)


def clear_text_caches() -> None:
    """Forget the last few texts that the rules keep to read them once: something was forgotten."""
    for cached in (sentences_of, content_stems, feeling_of, rated_sentences):
        cached.cache_clear()


def analyse(turn: Turn, previous: Sequence[Turn], rules: CodeRules) -> Analysis:
    """`previous`: the turns before it, oldest first; the last few are looked at."""
    before = [(p.role, p.content) for p in previous[-PREVIOUS_TURNS:]]
    kinds = detect_moments(turn.content, role=turn.role, previous=before)
    bonus = code_priority(turn.content, rules, base=CODE_BONUS)
    return Analysis(
        kinds=kinds,
        score=importance(moments=kinds, chars=len(turn.content), code_bonus=bonus, given=turn.importance),
        code=bonus > 0,
        # The course is the user's: an assistant's courtesy would drown it.
        feeling=feeling_of(turn.content) if turn.role == "user" else None,
        decision=decision_in(turn.content) if "decision_made" in kinds else None,
        traits=observed_traits(turn.content, role=turn.role),
        relationship=relationship_note(turn.content, role=turn.role),
        excerpt=excerpt_of(turn.content, role=turn.role, code=bonus > 0),
    )


def fold(digest: Digest, turns: Iterable[tuple[Turn, Analysis]]) -> Digest:
    """The digest with these turns, which follow what it has, by rising `seq`."""
    moments, course = list(digest.moments), digest.course
    decisions, traits, notes = list(digest.decisions), list(digest.traits), list(digest.relationship)
    topics = {topic.topic_id: list(topic.ranges) for topic in digest.topics}
    through, count, tokens = digest.through, digest.turns, digest.tokens
    for turn, analysis in turns:
        if turn.seq <= through:
            continue
        through, count, tokens = turn.seq, count + 1, tokens + turn.tokens
        # A user's turn full of names and numbers tells facts, though no rule knows of what kind.
        tells = turn.role == "user" and analysis.excerpt.weight >= _TELLING
        if analysis.code or analysis.score >= MIN_IMPORTANCE or tells:
            moments.append(_moment(turn, analysis.kinds, analysis.score, analysis.code, analysis.excerpt))
        if turn.topic_id is not None:
            ranges = topics.pop(turn.topic_id, [])
            _add_turn(ranges, turn.seq)
            topics[turn.topic_id] = ranges
        course = extend_course(course, turn.seq, analysis.feeling)
        if analysis.decision:
            decisions.append(Noted(seq=turn.seq, text=analysis.decision))
        traits += (Noted(seq=turn.seq, text=text) for text in analysis.traits)
        if analysis.relationship:
            notes.append(Noted(seq=turn.seq, text=analysis.relationship))
    return Digest(
        through=through,
        turns=count,
        tokens=tokens,
        moments=_weightiest(moments),
        course=course,
        decisions=_newest(decisions, MAX_DECISIONS),
        traits=_newest(traits, MAX_TRAITS),
        relationship=_newest(notes, MAX_NOTES),
        topics=tuple(
            TopicRanges(topic_id=topic_id, ranges=tuple(ranges))
            for topic_id, ranges in list(topics.items())[-MAX_TOPICS:]
        ),
    )


def _moment(
    turn: Turn, kinds: frozenset[MomentKind], score: float, code: bool, excerpt: Excerpt
) -> KeyMoment:
    return KeyMoment(
        turn_id=turn.id,
        seq=turn.seq,
        kinds=tuple(sorted(kinds)),
        score=score,
        tokens=turn.tokens,
        code=code,
        text=excerpt.text,
    )


def _add_turn(ranges: list[tuple[int, int]], seq: int) -> None:
    """Add a turn to the ranges, the newest `MAX_RANGES`. What others say in between (an answer) opens no new one."""
    first = ranges.pop()[0] if ranges and seq - ranges[-1][1] <= _SAME_RANGE else seq
    ranges.append((first, seq))
    del ranges[:-MAX_RANGES]


def _weightiest(moments: Sequence[KeyMoment]) -> tuple[KeyMoment, ...]:
    kept = sorted(moments, key=lambda moment: (-moment.score, -moment.seq))[:MAX_MOMENTS]
    return tuple(sorted(kept, key=lambda moment: moment.seq))


def _newest(notes: Sequence[Noted], most: int) -> tuple[Noted, ...]:
    """The last `most` of them, of equal ones (but for case) the newest."""
    by_text = {note.text.casefold(): note for note in notes}
    return tuple(sorted(by_text.values(), key=lambda note: note.seq)[-most:])
