"""What compression and prompts said of real conversations that was wrong, without a language model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from memory_agent import MemoryAgent
from memory_agent.domain import CompressedContext
from memory_agent.testing import FixedClock
from tests.integration.conversations import START, opened, said


@pytest.fixture
async def memory(embedded_settings: dict[str, Any]) -> AsyncIterator[MemoryAgent]:
    quiet = {"enable_fact_extraction": False, "enable_topics": False}
    async with opened(
        {**embedded_settings, **quiet}, clock=FixedClock(START + timedelta(days=60))
    ) as service:
        yield service.agent("ann", "chat")


def shown(context: CompressedContext) -> list[str]:
    return [line.body for block in context.blocks for line in block.lines if line.role is not None]


async def test_a_longer_conversation_costs_less_and_less_and_the_last_ten_turns_are_there(
    memory: MemoryAgent,
) -> None:
    """Never more than its turns, from 60 turns on less than half; of long turns beginning and end."""
    texts = [f"My train {i} to Porto leaves at {i % 24}:30, so I have to be early." for i in range(100)]
    texts[98] = f"I begin here. {'So it goes on and on. ' * 200}I end here."
    await memory.add_turns(said(texts))
    for length in (30, 40, 60, 98, 99, 100):
        context = await memory.session_context(through=length)
        whole = sum(turn.tokens for turn in (await memory.history(limit=length)).turns)
        assert context.metadata.tokens_before == whole
        assert context.tokens <= whole * (0.5 if length >= 60 else 1)
        assert [turn.seq for turn in context.recent] == list(range(length - 9, length + 1))
        if length < 99:
            assert shown(context)[-10:] == texts[length - 10 : length]
    cut = shown(context)[-2]
    assert cut.startswith("I begin here.")
    assert cut.endswith("I end here.")


@pytest.mark.parametrize("asks", ["user", "assistant"])
async def test_questions_and_answers_have_a_summary_of_the_answers(memory: MemoryAgent, asks: str) -> None:
    """Whoever asks: each answer is quoted with its question, for neither tells anything by itself."""
    question, answer = "What colour was number {}?", "The {}th was a dark sort of teal."
    texts = [text.format(n) for n in range(60) for text in (question, answer)]
    await memory.add_turns(said(texts if asks == "user" else ["Go on.", *texts]))
    await memory.settle(timeout=60)
    now = await memory.session_context()
    assert now.tokens < now.metadata.tokens_before / 2
    for context in (now, await memory.compress()):
        assert len(context.summary) > 5
        for item in context.summary:
            number = (item.first_seq - 1 - (asks != "user")) // 2
            assert item.text == f"(to “{question.format(number)}”) {answer.format(number)}"
