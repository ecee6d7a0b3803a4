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

LETTER = """Could you make this warmer?

Dear book club,
I had to miss the meeting on December 5. My sister Ines was ill."""
PLAN = """### 3 Applicability outside of the European Union
**Example Social Media Post**
Day 8-10:
- Visit Porto on 12 May with Ines
250: Path 1:
```python
app = Flask(__name__)
```
#### Error Handling
I booked 3 nights in Lisbon for 240 euros."""
STALE = (
    "I'm so scared of the exam!", "You will do fine.", "I put the book down and went out to the garden.", "Good.",
    "I'm scared of nothing.", "Fine.", "In high school I used to play this mobile game and my friends did too.", "Fun.",
    "Let's do it!", "Yes.", "I'm so proud of you.", "Thank you.",
)  # fmt: skip


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


async def test_summaries_quote_what_users_say_and_nothing_they_paste(memory: MemoryAgent) -> None:
    """No heading, list, code or letter, nobody's draft, and whole sentences under their day."""
    talk = [LETTER, PLAN, "I prefer SQLAlchemy 3.1.0, because my team at Harwick knows it.", PLAN]
    await memory.add_turns(said([*talk, *(f"ok then, number {i} it is" for i in range(96))]))
    await memory.settle(timeout=60)
    context = await memory.compress()
    assert [item.text for item in context.summary] == [talk[2]]
    assert f"user: {talk[2]}" in context.part("preserved").splitlines()
    prompt = str(await memory.fetch_memory("What about the team at Harwick?", max_tokens=500)).splitlines()
    assert {f"user: {talk[2]}", f"… {talk[2]}"} & set(prompt)  # the latter beneath another turn of hers
    assert context.part("moments").count("\n") <= 2  # the line of code, with who wrote it and when


async def test_nothing_is_guessed_of_moods_decisions_or_friendship(memory: MemoryAgent) -> None:
    """What was felt 60 days ago, what only looks like a decision, whose "I" it is: the turns say it, no line does."""
    await memory.add_turns(said([*STALE, *(f"ok {i}" for i in range(58))]))
    await memory.settle(timeout=60)
    await memory.compress()
    for context in (await memory.fetch_memory("How are you?"), await memory.session_context()):
        text = str(context)
        assert (context.reminder, context.summary) == ("", ())
        for guess in ("mood", "fear", "sadness", "Decided", "Between you", "You have shown"):
            assert guess not in text
