"""What a real model of 1.5 billion parameters replied when it was asked for summaries, said again by a real HTTP server."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_agent import MalformedReply
from memory_agent.conversations.compress import LLMConversationSummarizer
from memory_agent.domain import SummaryItem
from memory_agent.llm.summaries import SummaryWriter
from memory_agent.models.openai import OpenAIChat
from memory_agent.models.tokens import EstimatedTokens
from tests.servers.openai_script import ScriptedOpenAI
from tests.unit.examples import examples
from tests.unit.search.builders import turn

REAL = examples("llm/summaries.toml")
TALK = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "llm" / "everyday.jsonl").read_text("utf-8").splitlines()
]


async def summed_up(server: ScriptedOpenAI, reply: str) -> tuple[SummaryItem, ...]:
    """The summary of the everyday talk by a model that replies so."""
    server.then(reply)
    said = [text for row in TALK for text in (row["text"], row["reply"])]
    turns = [
        turn(n, text, role="user" if n % 2 else "assistant", timestamp=datetime(2026, 5, 4, 9, tzinfo=UTC))
        for n, text in enumerate(said, start=1)
    ]
    chat = OpenAIChat("m", base_url=server.base_url, max_retries=0)
    try:
        writer = SummaryWriter(chat, EstimatedTokens(), max_tokens=500)
        return await LLMConversationSummarizer(writer).summarize((), turns)
    finally:
        await chat.close()


async def test_of_a_clumsy_reply_what_is_said_stays(openai_server: ScriptedOpenAI) -> None:
    """Moments get the turns that they are about; what was decided to nobody's knowledge goes."""
    items = await summed_up(openai_server, REAL["real_everyday"])
    told = [(item.kind, item.first_seq, item.text) for item in items]
    assert ("event", 5, "trip planning") in told
    assert ("event", 9, "knee condition") in told
    assert ("fact", 1, "Midwife at Graz") in told
    assert ("event", 15, "sushi and coffee preferences") in told  # the model said turn 10
    assert not [text for kind, _, text in told if kind in ("decision", "emotion")]


async def test_the_worked_example_told_again_is_no_summary(openai_server: ScriptedOpenAI) -> None:
    with pytest.raises(MalformedReply):
        await summed_up(openai_server, REAL["real_echo"])
