"""Topics: how they stand, what they say."""

from typing import Any

from memory_agent.domain import Role
from memory_agent.topics import stats
from memory_agent.wire.base import Answer, Instant
from memory_agent.wire.turns import ChatMessage

TopicStats = Answer[stats.TopicStats]


class TopicTurn(Answer[dict[str, Any]]):
    """A turn of a topic, word for word."""

    role: Role
    content: str
    timestamp: Instant

    def domain(self) -> dict[str, Any]:
        """The turn as `MemoryAgent.topic_history` lists it."""
        return self.model_dump()


class TopicContext(Answer[list[dict[str, str]]]):
    """Context for going on with a topic."""

    messages: tuple[ChatMessage, ...]
    """A system message with the topic's title and summary, then its recent turns."""

    @classmethod
    def of(cls, messages: list[dict[str, str]]) -> "TopicContext":
        """The answer with these messages."""
        return cls.model_validate({"messages": messages})

    def domain(self) -> list[dict[str, str]]:
        """The messages as `MemoryAgent.topic_context` lists them."""
        return [message.model_dump() for message in self.messages]
