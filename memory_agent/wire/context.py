"""What a model gets to know before it answers, and what stands for a long conversation."""

from typing import Self

from pydantic import BaseModel, ConfigDict, computed_field

from memory_agent import domain as values
from memory_agent.domain import (
    CompressionReason,
    Emotion,
    MomentKind,
    Role,
    SummaryKind,
    Tier,
    prompt_messages,
    prompt_text,
)
from memory_agent.wire.base import Answer, Instant, JsonObject, UserId, Value
from memory_agent.wire.turns import ChatMessage, Recollection, Turn

Span = tuple[int, int]
"""The `seq` of the first and of the last turn, both included."""


# --- what summaries are made of ------------------------------------------------------------------------------
class SummaryItem(Answer[values.SummaryItem]):
    """One line of a summary: what was said in turns `first_seq` to `last_seq`."""

    kind: SummaryKind
    text: str
    first_seq: int
    last_seq: int
    participants: tuple[str, ...]
    importance: float
    """0 to 10."""


class KeyMoment(Answer[values.KeyMoment]):
    """A turn that matters, and why."""

    turn_id: str
    seq: int
    kinds: tuple[MomentKind, ...]
    score: float
    """Its importance, without recency."""
    tokens: int
    """Of its text."""
    code: bool
    """It holds code."""
    text: str
    """Its most telling words."""


class Noted(Answer[values.Noted]):
    """A few words that a turn left behind: a decision, a trait shown, a word about the relationship."""

    seq: int
    text: str


class EmotionSpan(Answer[values.EmotionSpan]):
    """A stretch of the emotional course: turns `first_seq` to `last_seq`, both included."""

    emotion: Emotion
    first_seq: int
    last_seq: int
    peak: float
    """Above 0, at most 1."""


class KeyTopic(Answer[values.KeyTopic]):
    """A subject of the conversation and the turns that are about it."""

    title: str
    ranges: tuple[Span, ...]
    """First and last `seq` of each stretch, rising."""


class TopicRanges(Answer[values.TopicRanges]):
    """Which turns are about a topic."""

    topic_id: str
    ranges: tuple[Span, ...]
    """First and last `seq` of each stretch, rising."""


# --- contexts ------------------------------------------------------------------------------------------------
class ContextLine(Answer[values.ContextLine]):
    """One item as a prompt shows it."""

    body: str
    head: str
    """When and who, in front of the body."""
    role: Role | None
    """Whose message it is, if it is one."""
    speaker: str | None


class ContextBlock(Answer[values.ContextBlock]):
    """The items of one tier, in the order in which they are read."""

    tier: Tier
    lines: tuple[ContextLine, ...]


class LedgerEntry(Answer[values.LedgerEntry]):
    """One item considered for a context: kept, or left out, and why."""

    tier: Tier
    item: str
    """A turn's id, a fact's path, or what else names it."""
    tokens: int
    """What it takes, or would have taken."""
    kept: bool
    reason: str
    score: float | None
    """What it was ordered by within its tier; null where order alone decides."""


class _Rendered(Answer[Value]):
    blocks: tuple[ContextBlock, ...]
    """What the prompt consists of, tier by tier."""
    ledger: tuple[LedgerEntry, ...]
    """The account of everything that was considered."""
    tokens: int
    """The size of `text`, never above `budget`."""
    budget: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """The prompt text."""
        return prompt_text(block.domain() for block in self.blocks)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The same as chat messages, to be followed by the user's new one."""
        blocks = [block.domain() for block in self.blocks]
        return tuple(ChatMessage.model_validate(message) for message in prompt_messages(blocks))


class MemoryContext(_Rendered[values.MemoryContext]):
    """What a model needs to know before it answers: `text` or `messages`, and every part of it on its own."""

    persona: str
    """Who the assistant is."""
    summary: tuple[SummaryItem, ...]
    preserved: tuple[Turn, ...]
    """Earlier turns that matter, word for word, by rising `seq`."""
    facts: JsonObject
    entities: dict[str, list[str]]
    """Names by kind, by first mention."""
    topic: str | None
    """The title of the active topic."""
    short_term: tuple[Turn, ...]
    """The last turns, oldest first."""
    state: str
    """How the conversation stands."""
    long_term: tuple[Recollection, ...]
    degraded: tuple[str, ...]
    """Parts that were down while it was put together."""
    preset: str
    """How the budget was divided."""


class CompressionMetadata(Answer[values.CompressionMetadata]):
    """What a compressed context stands for, and what that saves."""

    original_turns: int
    compressed_at: int
    """The `seq` at which the last compression was made; 0 before the first."""
    number: int
    """Of the last compression; 0 before the first, when the summary is taken out of the turns each time."""
    tokens_before: int
    """Of all turns that the context stands for, word for word."""
    tokens_after: int
    preserved_ids: tuple[str, ...]
    made_by: str | None
    """Of the summary: "llm:…" or "extractive:…"; null without turns."""
    summary_through: int
    """The `seq` up to which turns are summed up; 0 without turns."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_saved(self) -> int:
        """By having this context in their stead."""
        return self.tokens_before - self.tokens_after


class CompressedContext(_Rendered[values.CompressedContext]):
    """What stands for a whole conversation as of a turn."""

    reminder: str
    """Who the assistant is and how the conversation stands."""
    summary: tuple[SummaryItem, ...]
    """All of it; the text leaves out lines whose turns it shows word for word."""
    topics: tuple[KeyTopic, ...]
    moments: tuple[KeyMoment, ...]
    course: tuple[EmotionSpan, ...]
    """The emotional course."""
    facts: JsonObject
    decisions: tuple[Noted, ...]
    preserved: tuple[Turn, ...]
    """Turns that are kept word for word."""
    recent: tuple[Turn, ...]
    """The last turns, oldest first."""
    metadata: CompressionMetadata


class Compression(Answer[values.Compression]):
    """The record of a compression: what was summed up, and what that saved. The turns themselves are untouched."""

    id: str
    user_id: UserId
    thread_id: str
    session_id: str | None
    number: int
    """Counts from 1 within the thread."""
    at: Instant
    reason: CompressionReason
    after_seq: int
    """Where the one before ended."""
    through: int
    """The `seq` of the last turn that it sums up."""
    turns: int
    """How many there were up to `through`."""
    tokens_before: int
    tokens_after: int
    made_by: str
    """Of the summary: "llm:…" for a language model's words, "extractive:…" for sentences taken out of the turns."""
    summary: tuple[SummaryItem, ...]
    moments: tuple[KeyMoment, ...]
    course: tuple[EmotionSpan, ...]
    decisions: tuple[Noted, ...]
    traits: tuple[Noted, ...]
    relationship: tuple[Noted, ...]
    topics: tuple[TopicRanges, ...]
    preserved: tuple[str, ...]
    """Ids of the turns that are kept word for word."""
    covers: tuple[str, ...]
    """Ids of the turns after `after_seq`."""


class SessionSummary(BaseModel):
    """What sums up a conversation: a part of its `CompressedContext`, for reading alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    items: tuple[SummaryItem, ...]
    moments: tuple[KeyMoment, ...]
    decisions: tuple[Noted, ...]
    course: tuple[EmotionSpan, ...]
    """The emotional course."""
    topics: tuple[KeyTopic, ...]
    made_by: str | None
    """"llm:…" or "extractive:…"; null without turns."""
    through: int
    """The `seq` up to which turns are summed up; 0 without turns."""
    recorded: bool
    """Whether it is a compression's; before the first one it is taken out of the turns each time."""

    @classmethod
    def of(cls, context: values.CompressedContext) -> Self:
        """The summary within the context."""
        return cls(
            items=tuple(map(SummaryItem.of, context.summary)),
            moments=tuple(map(KeyMoment.of, context.moments)),
            decisions=tuple(map(Noted.of, context.decisions)),
            course=tuple(map(EmotionSpan.of, context.course)),
            topics=tuple(map(KeyTopic.of, context.topics)),
            made_by=context.metadata.made_by,
            through=context.metadata.summary_through,
            recorded=context.metadata.number > 0,
        )
