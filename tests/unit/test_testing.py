"""The doubles that ship with the package, beyond what the conformance suites hold them to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memory_agent.domain import Message, Scope
from memory_agent.errors import EmbedderUnavailable, InvalidInput, LLMUnavailable, VectorIndexUnavailable
from memory_agent.testing import BruteForceIndex, FixedClock, HashEmbedder, ScriptedLLM


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


async def test_a_scripted_model_can_be_a_function() -> None:
    """A callable sees the messages, and every call is recorded."""
    llm = ScriptedLLM(lambda messages: messages[-1].content.upper())
    assert (await llm.complete([Message(role="user", content="hello")])).text == "HELLO"
    assert [call[-1].content for call in llm.calls] == ["hello"]


async def test_a_script_that_ran_out_says_so() -> None:
    """Without replies left the model is unavailable."""
    with pytest.raises(LLMUnavailable, match="no reply for call 1"):
        await ScriptedLLM().complete([])


async def test_doubles_can_fail() -> None:
    """`fail` makes the next calls raise, until it is taken away."""
    embedder, index = HashEmbedder(), BruteForceIndex()
    embedder.fail = EmbedderUnavailable("down")
    index.fail = VectorIndexUnavailable("down")
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed(["text"], purpose="query")
    with pytest.raises(VectorIndexUnavailable):
        await index.turn_ids("ann")
    embedder.fail = index.fail = None
    (vector,) = await embedder.embed(["text"], purpose="query")
    assert await index.query(Scope(user_id="ann"), vector, limit=5) == []


def test_another_seed_is_another_model() -> None:
    """Fingerprints differ with the seed and the dimension."""
    models = [HashEmbedder(), HashEmbedder(seed="other"), HashEmbedder(dimension=32)]
    assert len({model.fingerprint for model in models}) == 3
