"""The hand-written test material in `benchmarks/data`: its shape, its counts, and that its labels fit its texts."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from memory_agent.domain import SUMMARY_KINDS
from memory_agent.domain.moments import MOMENT_KINDS
from memory_agent.models.tokens import EstimatedTokens

DATA: Final = Path(__file__).parents[2] / "benchmarks" / "data"
TURNS: Final = {"job_loss": 20, "musician": 300, "coding": 300, "korean": 40}
BLOCK_TURNS: Final = 100
BLOCK_TOKENS: Final = 170  # three summarised blocks fit into 500 tokens with their separators
FEW_TURNS: Final = 5  # more turns than these holding a mark would make it a test of nothing


def lines(name: str) -> list[dict[str, Any]]:
    """The records of a JSON Lines file, which ends with a line break and has no blank line."""
    text = (DATA / name).read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text[:-1].split("\n")]


def conversation(name: str) -> list[dict[str, Any]]:
    return lines(f"conversations/{name}.jsonl")


def beside(name: str, what: str) -> Any:
    return json.loads((DATA / "conversations" / f"{name}.{what}.json").read_text(encoding="utf-8"))


def holds(text: str, mark: dict[str, Any]) -> bool:
    """Whether all needles of at least one list occur in `text`, whatever their case."""
    folded = text.casefold()
    return any(all(needle.casefold() in folded for needle in needles) for needles in mark["any_of"])


def tokens(text: str) -> int:
    return EstimatedTokens().count(text)


# --- single texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "least"), [("code_examples.jsonl", 160), ("moment_examples.jsonl", 220)])
def test_examples_are_many_and_distinct(name: str, least: int) -> None:
    """Every example has an id of its own and is not the same as another, text before it included."""
    examples = lines(name)
    assert len(examples) >= least
    assert len({example["id"] for example in examples}) == len(examples)
    assert len({json.dumps([e["text"], e.get("previous")]) for e in examples}) == len(examples)
    assert all(set(example.get("moments", ())) <= set(MOMENT_KINDS) for example in examples)


# --- conversations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TURNS)
def test_a_conversation_has_its_turns_and_its_speakers_alternate(name: str) -> None:
    """The user begins, the assistant answers, nobody says the same thing twice."""
    turns = conversation(name)
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (TURNS[name] // 2)
    assert len({turn["content"] for turn in turns}) == len(turns)


@pytest.mark.parametrize("name", TURNS)
def test_marks_are_held_by_the_turns_they_name_and_by_few_others(name: str) -> None:
    """A mark's needles occur in its turns, and in a handful of turns at most in the whole conversation."""
    turns, marks = conversation(name), beside(name, "marks")["marks"]
    assert len({mark["id"] for mark in marks}) == len(marks) >= 10
    for mark in marks:
        numbers = mark["turn"] if isinstance(mark["turn"], list) else [mark["turn"]]
        assert mark["any_of"]
        assert all(needles and all(needles) for needles in mark["any_of"])
        assert holds("\n".join(turns[number - 1]["content"] for number in numbers), mark), mark["id"]
        assert sum(holds(turn["content"], mark) for turn in turns) <= FEW_TURNS, mark["id"]


@pytest.mark.parametrize("name", TURNS)
def test_summaries_cover_every_turn_in_blocks_and_stay_short(name: str) -> None:
    """Blocks of a hundred turns follow on each other, their items within their turns and 170 tokens."""
    blocks = beside(name, "llm")["blocks"]
    spans = [
        (first, min(first + BLOCK_TURNS - 1, TURNS[name])) for first in range(1, TURNS[name], BLOCK_TURNS)
    ]
    assert [(block["first"], block["last"]) for block in blocks] == spans
    for block in blocks:
        assert sum(tokens(item["text"]) for item in block["items"]) <= BLOCK_TOKENS
        for item in block["items"]:
            assert item["kind"] in SUMMARY_KINDS
            assert block["first"] <= item["first"] <= item["last"] <= block["last"]


@pytest.mark.parametrize("name", TURNS)
def test_summaries_hold_most_facts_and_decisions(name: str) -> None:
    """What a good model would answer keeps at least seven in ten of the marked facts and decisions."""
    items = chain.from_iterable(block["items"] for block in beside(name, "llm")["blocks"])
    text = "\n".join(item["text"] for item in items)
    marks = [mark for mark in beside(name, "marks")["marks"] if mark["kind"] != "code"]
    assert sum(holds(text, mark) for mark in marks) >= 0.7 * len(marks)
