"""Presets: the shares of a context's budget, by its purpose.

A share is of the whole budget, and what a tier may take before recollections have their turn; what is left over
then goes to what did not fit before. So a share is no promise and wastes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memory_agent.domain import Preset


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Shares of the budget, 0 to 1. A tier with 0 is left out."""

    facts: float
    summary: float
    preserved: float
    entities: float
    topic: float
    short_term: float
    state: float
    window: bool = True
    """Whether the newest exchange belongs in whatever its share; without, no turn of the window does."""


PRESETS: Final[dict[Preset, Shares]] = {
    # Chosen on LoCoMo-dev (`benchmarks/context.py`): what is recalled for the question holds most evidence, so it gets
    # most of the room, and what else a prompt needs no more than it takes to be of use.
    "balanced": Shares(
        facts=0.12, summary=0.08, preserved=0.06, entities=0.02, topic=0.03, short_term=0.18, state=0.05
    ),
    # Earlier code word for word, and a longer stretch of what is being worked on.
    "code": Shares(
        facts=0.08, summary=0.10, preserved=0.22, entities=0.02, topic=0.03, short_term=0.35, state=0.04
    ),
    # Who the user is, and the thread of the talk.
    "chat": Shares(
        facts=0.20, summary=0.12, preserved=0.10, entities=0.03, topic=0.05, short_term=0.30, state=0.08
    ),
    # Facts, the last turns, and what is recalled.
    "minimal": Shares(
        facts=0.15, summary=0.0, preserved=0.0, entities=0.0, topic=0.0, short_term=0.15, state=0.05
    ),
    # For questions about the past, asked beside the conversation or with it in the caller's own messages: what is
    # recalled, and a few facts.
    "recall": Shares(
        facts=0.05,
        summary=0.0,
        preserved=0.0,
        entities=0.0,
        topic=0.0,
        short_term=0.0,
        state=0.0,
        window=False,
    ),
}
