"""Tests of what an adapter tells a model beside the messages that it is shown."""

from __future__ import annotations

from memory_agent import MemoryAgent
from memory_agent.integrations.shared import recalled


async def test_last_turns_that_the_model_is_shown_are_not_told_again_after_calls_of_tools(
    memory: MemoryAgent,
) -> None:
    """A call is kept as a turn of a tool, whose text no message has."""
    await memory.add_turn("user", "Weather in Oslo?")
    await memory.add_turn("tool", "[function_call weather]")
    await memory.add_turn("assistant", "It snows.")
    assert await recalled(memory, "And now?", shown=["Weather in Oslo?", "It snows.", "And now?"]) == ""
    assert "It snows." in await recalled(memory, "And now?", shown=["And now?"])
