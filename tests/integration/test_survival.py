"""What survives compression, in scripted conversations (`marked/`) with facts, decisions and code marked by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService, Turn
from memory_agent.testing import HashEmbedder
from tests import profiles

FOLDER = Path(__file__).parent / "marked"
Mark = dict[str, Any]


class Conversation:
    """A scripted conversation: turns, and marks."""

    def __init__(self, name: str) -> None:
        lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        self.turns: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.marks: list[Mark] = _read(f"{name}.marks.json")["marks"]

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


def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


async def compressed(conversation: Conversation, data_dir: Path) -> tuple[str, float, str]:
    """The compressed context, its share of the conversation's tokens, and the last turns in as many."""
    async with MemoryService(MemoryConfig(data_dir=data_dir), embedder=HashEmbedder()) as service:
        memory = service.agent("user", "thread")
        await memory.start_session()
        await memory.add_turns(conversation.turns)
        await memory.settle(600)
        context = await memory.compress()
        turns = (await memory.history(limit=10_000)).turns
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
    """Of what a conversation tells, far more than its last turns hold. Summaries are extracts; of a model's see tests/llm."""
    conversation = Conversation(name)
    long = len(conversation.turns) >= 60
    text, share, last = await compressed(conversation, tmp_path)
    assert share < (0.5 if long else 0.9)  # the last ten turns are always shown
    assert conversation.share(text) >= least, f"lost: {conversation.missing(text)}"
    assert not long or conversation.share(text) > conversation.share(last)
