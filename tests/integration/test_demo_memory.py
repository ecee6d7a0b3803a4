"""The demo's conversation, asked as people ask: twice, and about nothing."""

from __future__ import annotations

from memory_agent import MemoryService
from memory_agent.demo import conversation, questions
from tests.fixtures import on_both_by_day

NOTHING_TO_RECALL = ("Hello!", "thanks, that helped", "what's the capital of Mongolia?")


@on_both_by_day
async def test_what_was_asked_before_is_answered_and_small_talk_recalls_next_to_nothing(
    service: MemoryService,
) -> None:
    """Questions that were asked and not answered don't stand before what answers them."""
    memory = service.agent("mara", "diary")
    await memory.add_turns(conversation())
    await memory.settle(timeout=120)
    for question in NOTHING_TO_RECALL:
        assert len((await memory.fetch_memory(question)).long_term) <= 2, question
    for question, _ in questions():
        await memory.update_memory(question, "I'm not sure.")
    await memory.settle(timeout=120)
    for question, expected in questions():
        found = await memory.fetch_long_term(question, top_k=3)
        assert any(expected in one.text for one in found), question
