"""The doubles that ship with the package, beyond what the conformance suites hold them to."""

import pytest

from memory_agent.errors import LLMUnavailable
from memory_agent.testing import ScriptedLLM


async def test_a_script_that_ran_out_says_so() -> None:
    with pytest.raises(LLMUnavailable, match="no reply for call 1"):
        await ScriptedLLM().complete([])
