"""The memory that a model is told of before it answers, for every framework."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from memory_agent.domain import prompt_text
from memory_agent.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memory_agent.integrations.values import Memory


log = logging.getLogger(__name__)


async def recalled(memory: Memory, question: str, *, shown: Iterable[str] = ()) -> str:
    """The context for a question, as text; empty while the memory is away, with a warning.

    `shown`: the texts of messages that the model is shown anyway. If the thread's last turns are all among them, the context
    leaves them out.
    """
    if not question.strip():
        return ""
    try:
        context = await memory.fetch_memory(question)
    except Unavailable as exc:
        log.warning("answering without memory: %s", exc)
        return ""
    texts = {text.strip() for text in shown}
    repeats = all(turn.role == "tool" or turn.content.strip() in texts for turn in context.short_term)
    return prompt_text(block for block in context.blocks if not (repeats and block.tier == "short_term"))


def joined(*parts: str | None) -> str:
    """The parts that say anything, with an empty line between them: instructions first, so that their beginning stays the same."""
    return "\n\n".join(part for part in parts if part)
