"""Messages to a language model, and the tokens they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memory_agent.domain.base import Counts


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message to a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """A language model's reply with what it cost. `truncated`: cut off at the model's length limit."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    truncated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage(Counts):
    """Requests to a language model, and their tokens as its server counts them."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            requests=self.requests - other.requests,
            prompt_tokens=self.prompt_tokens - other.prompt_tokens,
            completion_tokens=self.completion_tokens - other.completion_tokens,
        )
