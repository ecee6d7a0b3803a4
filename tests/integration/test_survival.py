"""What survives compression, in scripted conversations (`marked/`) with facts, decisions and code marked by hand.

A conversation stands beside its marks and what a good model would say of it, written by hand (`*.llm.json`). docs/sessions.md
has the figures of all four with the real model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService, Turn
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.servers.openai_script import ScriptedOpenAI

FOLDER = Path(__file__).parent / "marked"
Mark = dict[str, Any]


class Conversation:
    """A scripted conversation: turns, marks, and what a good model would say of it."""

    def __init__(self, name: str) -> None:
        lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        self.turns: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.marks: list[Mark] = _read(f"{name}.marks.json")["marks"]
        self.blocks: list[dict[str, Any]] = _read(f"{name}.llm.json")["blocks"]

    def missing(self, text: str) -> list[str]:
        """Ids of the marks that `text` lacks."""
        folded = text.casefold()
        return [
            mark["id"]
            for mark in self.marks
            if not any(all(needle.casefold() in folded for needle in needles) for needles in mark["any_of"])
        ]

    def share(self, text: str) -> float:
        """The share of the marks that `text` holds."""
        return 1 - len(self.missing(text)) / len(self.marks)

    def answer(self, request: dict[str, Any]) -> str:
        """The scripted model: of conversations the summary so far and what the hand-written one says of the turns."""
        system, question = (message["content"] for message in request["messages"][:2])
        if "running summary of a long conversation" not in system:
            return '{"facts": []}' if "response_format" in request else "They talk on."
        numbers = [int(number) for number in re.findall(r'<turn number="(\d+)"', question)]
        so_far = re.search(r"<summary_so_far>\n(.*?)\n</summary_so_far>", question, re.DOTALL)
        lines = so_far[1].splitlines() if so_far else []
        for item in (item for block in self.blocks for item in block["items"]):
            if numbers[0] <= item["last"] <= numbers[-1]:
                who = ", ".join(item["participants"])
                turns = f"{item['first']}-{item['last']}"
                lines.append(f"[{item['kind']} | {turns} | {who} | {item['importance']}] {item['text']}")
        return "\n".join(lines)


def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


async def compressed(conversation: Conversation, data_dir: Path, *, llm: bool) -> tuple[str, float, str]:
    """The compressed context, its share of the conversation's tokens, and the last turns in as many."""
    server = ScriptedOpenAI(conversation.answer).start() if llm else None
    settings = {"openai_base_url": server.base_url, "openai_api_key": "none"} if server else {}
    try:
        cfg = MemoryConfig(data_dir=data_dir, **settings)
        async with MemoryService(cfg, embedder=HashEmbedder()) as service:
            memory = service.agent("user", "thread")
            await memory.start_session()
            await memory.add_turns(conversation.turns)
            await memory.settle(600)
            context = await memory.compress()
            turns = (await memory.history(limit=10_000)).turns
    finally:
        if server is not None:
            server.stop()
    whole = sum(turn.tokens for turn in turns)
    return str(context), context.tokens / whole, last_turns(turns, context.tokens)


def last_turns(turns: Sequence[Turn], tokens: int) -> str:
    kept: list[str] = []
    for turn in reversed(turns):
        tokens -= turn.tokens
        if tokens < 0:
            break
        kept.append(turn.content)
    return "\n".join(kept)


@pytest.mark.parametrize(
    ("name", "least"),
    profiles.by_day(("korean", 0.65), ("job_loss", 0.6), ("musician", 0.65), ("coding", 0.5)),
)
async def test_most_marks_survive_in_half_the_tokens(name: str, least: float, tmp_path: Path) -> None:
    """Nine of ten with a model that summarises (scripted), far more than the last turns hold; without one at least some."""
    conversation = Conversation(name)
    long = len(conversation.turns) >= 60
    for llm, wanted in ((True, 0.9), (False, least)):
        text, share, last = await compressed(conversation, tmp_path / str(llm), llm=llm)
        assert share < (0.5 if long else 0.9)  # the last ten turns are always shown
        assert conversation.share(text) >= wanted, f"lost: {conversation.missing(text)}"
        assert not long or conversation.share(text) > conversation.share(last)
