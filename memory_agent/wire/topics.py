"""Topics: how they stand, what they say."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from memory_agent import domain as values
from memory_agent.domain import Role
from memory_agent.topics import stats as standing
from memory_agent.topics.decay import MemoryType
from memory_agent.wire.base import Answer, Instant
from memory_agent.wire.turns import ChatMessage


class TopicSummary(Answer[values.TopicSummary]):
    """What was said in a topic, in short."""

    text: str
    made_by: str
    through: int
    """The `seq` up to which it goes."""
    turns: int
    """How many turns it covers."""
    made_at: Instant


class TopicStats(Answer[standing.TopicStats]):
    """How a topic stands. Messages are turns of any role."""

    topic_id: str
    topic_title: str
    active_messages: int
    compressed_messages: int
    total_messages: int
    has_summary: bool
    summary_made_by: str | None
    """"llm:…" for a language model's words, "extractive:…" for sentences taken out of the turns."""
    importance_score: float
    """0 to 1."""
    access_count: int
    memory_type: MemoryType
    half_life_days: float
    age_seconds: float
    inactive_seconds: float
    priority: float
    """0 to `importance_score`: what is left of it after so long without access."""
    compression_ratio: float
    """Bytes of its compressed texts before, as a multiple of what they take now."""
    tags: tuple[str, ...]
    archived: bool
    current: bool
    """It is the thread's active topic."""
    set_importance: float | None
    """What people said; null: its turns decide."""
    absorbed: tuple[str, ...]
    """The ids of the topics that were merged into it."""
    summary: TopicSummary | None


class MergeSuggestion(Answer[values.MergeSuggestion]):
    """Two topics that have grown together. Which goes into which is the caller's to decide."""

    topic_id: str
    into: str
    topic_title: str
    into_title: str
    similarity: float
    """Cosine of their embeddings."""


class TopicTurn(Answer[dict[str, Any]]):
    """A turn of a topic, word for word."""

    role: Role
    content: str
    timestamp: Instant

    def domain(self) -> dict[str, Any]:
        """The turn as `MemoryAgent.topic_history` lists it."""
        return {"role": self.role, "content": self.content, "timestamp": self.timestamp}


class TopicContext(BaseModel):
    """What a model needs to go on with a topic."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    messages: tuple[ChatMessage, ...]
    """A system message with the topic's title and summary, then its recent turns."""

    @classmethod
    def of(cls, messages: list[dict[str, str]]) -> "TopicContext":
        """The answer with these messages."""
        return cls.model_validate({"messages": messages})

    def domain(self) -> list[dict[str, str]]:
        """The messages as `MemoryAgent.topic_context` lists them."""
        return [message.model_dump() for message in self.messages]
