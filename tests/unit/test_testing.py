"""The doubles that ship with the package, beyond what the conformance suites hold them to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memory_agent.errors import InvalidInput, LLMUnavailable
from memory_agent.testing import FixedClock, ScriptedLLM


def test_a_fixed_clock_moves_only_when_told() -> None:
    """now() stands still; tick() and set() move it."""
    clock = FixedClock()
    start = clock.now()
    assert clock.now() == start
    assert clock.tick(1.5) == clock.now() == start + timedelta(seconds=1.5)
    clock.set(datetime(2020, 1, 1, tzinfo=UTC))
    assert clock.now().year == 2020
    with pytest.raises(InvalidInput):
        clock.set(datetime(2020, 1, 1))  # noqa: DTZ001  (the point)


async def test_a_script_that_ran_out_says_so() -> None:
    """Without replies left the model is unavailable."""
    with pytest.raises(LLMUnavailable, match="no reply for call 1"):
        await ScriptedLLM().complete([])
