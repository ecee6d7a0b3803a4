"""Facts: what is known, and its history."""

from typing import Any

from memory_agent import domain as values
from memory_agent.wire.base import Answer, JsonObject

FactRecord = Answer[values.FactRecord]


class Facts(Answer[dict[str, Any]]):
    """The facts, as one document."""

    facts: JsonObject

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Facts":
        """The answer with this document."""
        return cls.model_validate({"facts": document})

    def domain(self) -> dict[str, Any]:
        """The document."""
        return dict(self.facts)
