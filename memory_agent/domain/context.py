"""What a model gets to know before it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_agent.domain.search import Recollection
    from memory_agent.domain.turns import Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """One item considered for a context: `kept`, or left out for `reason`."""

    section: Literal["facts", "short_term", "long_term"]
    item: str
    tokens: int
    kept: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryContext:
    """What a model needs to know before it answers. `str(context)` is the prompt text.

    `tokens` is the size of that text, never above `budget`. `degraded` names the parts that were down while it
    was put together (`embedder`, `vector_index`, `llm`, `short_term`, `long_term`, `facts`); `ledger` accounts
    for every item considered.
    """

    short_term: tuple[Turn, ...]
    long_term: tuple[Recollection, ...]
    facts: Mapping[str, Any]
    degraded: tuple[str, ...]
    ledger: tuple[LedgerEntry, ...]
    tokens: int
    budget: int
    text: str

    def __str__(self) -> str:
        return self.text
