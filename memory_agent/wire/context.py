"""Contexts on the wire: memory for an answer, and compressed conversations."""

from typing import Self

from pydantic import computed_field

from memory_agent import domain as values
from memory_agent.domain import prompt_messages, prompt_text
from memory_agent.wire.base import Answer, Wire
from memory_agent.wire.turns import ChatMessage, Recollection, Turn

SummaryItem = Answer[values.SummaryItem]
KeyMoment = Answer[values.KeyMoment]
KeyTopic = Answer[values.KeyTopic]
Compression = Answer[values.Compression]
ContextBlock = Answer[values.ContextBlock]


class _Rendered(Wire):
    blocks: tuple[ContextBlock, ...]

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


class MemoryContext(_Rendered, Answer[values.MemoryContext]):
    """Memory for answering a message: `text` or `messages`, and every part of it on its own."""

    preserved: tuple[Turn, ...]
    short_term: tuple[Turn, ...]
    long_term: tuple[Recollection, ...]


class CompressionMetadata(Answer[values.CompressionMetadata]):
    """The turns that a compressed context stands for, and the tokens it saves."""

    tokens_before: int
    tokens_after: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_saved(self) -> int:
        """By having this context in their stead."""
        return self.tokens_before - self.tokens_after


class CompressedContext(_Rendered, Answer[values.CompressedContext]):
    """Compressed context of a whole conversation as of a turn."""

    preserved: tuple[Turn, ...]
    recent: tuple[Turn, ...]
    metadata: CompressionMetadata


class SessionSummary(Wire):
    """Summary of a conversation: a part of its `CompressedContext`, for reading alone."""

    items: tuple[SummaryItem, ...]
    moments: tuple[KeyMoment, ...]
    topics: tuple[KeyTopic, ...]
    made_by: str | None
    """"llm:…" or "extractive:…"; null where nothing is summed up."""
    through: int
    """The `seq` up to which turns are summed up; 0 if none are."""
    recorded: bool
    """Whether it is a compression's; before the first one it is taken out of the turns each time."""

    @classmethod
    def of(cls, context: values.CompressedContext) -> Self:
        """The summary within the context."""
        return cls(
            items=tuple(map(SummaryItem.of, context.summary)),
            moments=tuple(map(KeyMoment.of, context.moments)),
            topics=tuple(map(KeyTopic.of, context.topics)),
            made_by=context.metadata.made_by,
            through=context.metadata.summary_through,
            recorded=context.metadata.number > 0,
        )
