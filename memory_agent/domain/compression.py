"""Compressed contexts, and the record of each compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from memory_agent.domain.base import OfThread

if TYPE_CHECKING:
    from datetime import datetime


SummaryKind = Literal["topic", "event", "fact", "emotion", "decision"]
SUMMARY_KINDS: Final[tuple[SummaryKind, ...]] = get_args(SummaryKind)
CompressionReason = Literal["tokens", "turns", "asked"]
"""Why: the context had grown to its share of the limit, so many turns had come since, or somebody called `compress`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryItem:
    """One line of a summary: what was said in turns `first_seq` to `last_seq`. `importance`: 0 to 10."""

    kind: SummaryKind
    text: str
    first_seq: int
    last_seq: int
    participants: tuple[str, ...] = ()
    importance: float = 5.0
    said_at: datetime | None = None
    """Of a quote, which is one of `participants`' own words; None of what a model wrote."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyMoment:
    """A turn that matters: its caller says so, a person tells something in it, or it holds code.

    `score`: its importance, without recency; `tokens`: of its text; `who` said it, by name or role, and when (`at`).
    """

    turn_id: str
    seq: int
    who: str
    at: datetime
    score: float
    tokens: int
    code: bool = False
    text: str = ""
    """Its most telling words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicRanges:
    """The turns about a topic: `ranges` of `seq`, first and last, rising."""

    topic_id: str
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compression(OfThread):
    """The event of compressing a thread up to and including `seq == through`, with what it derived.

    `number` counts from 1 within the thread; each builds on the one before, which went up to `after_seq`. `turns`:
    how many turns there were up to `through`; `covers`: ids of those after `after_seq`. Tokens are those of all these
    turns before, and of the compressed context after. The turns themselves are untouched.
    """

    id: str
    user_id: str
    thread_id: str
    session_id: str | None
    number: int
    at: datetime
    reason: CompressionReason
    after_seq: int
    through: int
    turns: int
    tokens_before: int
    tokens_after: int
    made_by: str
    """Of the summary: "llm:…" for a language model's words, "extractive:…" for sentences taken out of the turns."""
    summary: tuple[SummaryItem, ...]
    moments: tuple[KeyMoment, ...]
    """By rising `seq`."""
    topics: tuple[TopicRanges, ...]
    preserved: tuple[str, ...]
    """Ids of the turns that are kept word for word, by rising `seq`."""
    covers: tuple[str, ...]
