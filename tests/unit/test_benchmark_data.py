"""The hand-written test material in `benchmarks/data`: its shape, its counts, and that its labels fit its texts."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from memory_agent.models.tokens import EstimatedTokens

DATA: Final = Path(__file__).parents[2] / "benchmarks" / "data"
HANGUL: Final = re.compile(r"[가-힣]")
TURNS: Final = {"job_loss": 20, "musician": 300, "coding": 300, "korean": 40}
MARKS: Final = {"job_loss": (10, 14), "musician": (30, 36), "coding": (30, 36), "korean": (10, 14)}
LONG: Final = [name for name, turns in TURNS.items() if turns > 100]
BLOCK_TURNS: Final = 100
BLOCK_TOKENS: Final = 170  # three summarised blocks fit into 500 tokens with their separators
FEW_TURNS: Final = 5  # more turns than these holding a mark would make it a test of nothing
MOMENTS: Final = {
    "emotional_peak",
    "conflict_resolution",
    "decision_made",
    "topic_introduction",
    "user_information",
    "character_defining",
    "question_asked",
    "humor_moment",
}


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
def test_examples_are_many_distinct_and_explained(name: str, least: int) -> None:
    """Every example has an id of its own and a note, and is not the same as another, text before it included."""
    examples = lines(name)
    assert len(examples) >= least
    assert len({example["id"] for example in examples}) == len(examples)
    assert len({json.dumps([e["text"], e.get("previous")]) for e in examples}) == len(examples)
    assert all(example["text"].strip() and example["note"].strip() for example in examples)


def test_code_examples_name_the_language_of_code_alone() -> None:
    """About half of the examples are code, in twelve languages at least; no other text has a language."""
    examples = lines("code_examples.jsonl")
    for example in examples:
        assert set(example) == {"id", "text", "code", "language", "note"}
        assert isinstance(example["code"], bool)
        assert example["language"] is None or (example["code"] and example["language"])
    assert 0.4 <= sum(example["code"] for example in examples) / len(examples) <= 0.6
    assert len({example["language"] for example in examples} - {None}) >= 12


def test_moment_examples_hold_every_kind_often_and_many_turns_without_any() -> None:
    """Each kind has 22 turns at least, a quarter of all turns has none, three in ten are Korean."""
    examples = lines("moment_examples.jsonl")
    for example in examples:
        assert set(example) == {"id", "role", "text", "previous", "moments", "note"}
        assert set(example["moments"]) <= MOMENTS
        assert len(set(example["moments"])) == len(example["moments"])
    kinds = Counter(chain.from_iterable(example["moments"] for example in examples))
    assert all(kinds[kind] >= 22 for kind in MOMENTS)
    assert sum(not example["moments"] for example in examples) >= len(examples) / 4
    assert sum(len(example["moments"]) > 1 for example in examples) >= 10
    assert 0.25 <= sum(bool(HANGUL.search(example["text"])) for example in examples) / len(examples) <= 0.35


def test_turns_before_a_moment_alternate_up_to_the_turn_itself() -> None:
    """The turns before come in order of speaking; a new subject and a settled quarrel always have some."""
    for example in lines("moment_examples.jsonl"):
        roles = [role for role, _ in example["previous"]] + [example["role"]]
        assert set(roles) <= {"user", "assistant"}
        assert all(one != next_one for one, next_one in pairwise(roles)), example["id"]
        if {"topic_introduction", "conflict_resolution"} & set(example["moments"]):
            assert example["previous"], example["id"]
        if "user_information" in example["moments"]:
            assert example["role"] == "user", example["id"]


# --- conversations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TURNS)
def test_a_conversation_has_its_turns_and_its_speakers_alternate(name: str) -> None:
    """The user begins, the assistant answers, nobody says the same thing twice."""
    turns = conversation(name)
    assert len(turns) == TURNS[name]
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (TURNS[name] // 2)
    assert len({turn["content"] for turn in turns}) == len(turns)
    for turn in turns:
        assert set(turn) == {"role", "content", "speaker"}
        assert turn["content"] == turn["content"].strip() != ""
        assert (turn["speaker"] is None) == (turn["role"] == "assistant")
        assert turn["content"].count("```") % 2 == 0


@pytest.mark.parametrize("name", LONG)
def test_a_long_conversation_has_turns_of_natural_length(name: str) -> None:
    """300 turns of 10 to 120 words each are 11,000 to 20,000 tokens by the estimate, however it is tuned."""
    turns = conversation(name)
    assert all(10 <= len(turn["content"].split()) <= 120 for turn in turns)
    assert 11_000 <= sum(tokens(turn["content"]) for turn in turns) <= 20_000


@pytest.mark.parametrize("name", TURNS)
def test_marks_are_held_by_the_turns_they_name_and_by_few_others(name: str) -> None:
    """A mark's needles occur in its turns, and in a handful of turns at most in the whole conversation."""
    turns, marks = conversation(name), beside(name, "marks")
    assert set(marks) == {"title", "marks"}
    least, most = MARKS[name]
    assert least <= len(marks["marks"]) <= most
    assert len({mark["id"] for mark in marks["marks"]}) == len(marks["marks"])
    for mark in marks["marks"]:
        assert set(mark) == {"id", "turn", "kind", "what", "any_of"}
        assert mark["kind"] in {"fact", "decision", "code"}
        assert mark["any_of"]
        assert all(needles and all(needles) for needles in mark["any_of"])
        numbers = mark["turn"] if isinstance(mark["turn"], list) else [mark["turn"]]
        assert holds("\n".join(turns[number - 1]["content"] for number in numbers), mark), mark["id"]
        assert sum(holds(turn["content"], mark) for turn in turns) <= FEW_TURNS, mark["id"]


@pytest.mark.parametrize("name", LONG)
def test_marks_are_spread_over_a_long_conversation(name: str) -> None:
    """Each hundred turns holds between a quarter and half of the marks."""
    marks = beside(name, "marks")["marks"]
    blocks = Counter((mark["turn"] - 1) // BLOCK_TURNS for mark in marks)
    assert all(len(marks) / 4 <= blocks[block] <= len(marks) / 2 for block in range(3))


def test_only_the_coding_session_has_code_and_marks_it() -> None:
    """The session has a dozen marks of code, and code blocks in Python, SQL, TypeScript and shell."""
    kinds = Counter(mark["kind"] for mark in beside("coding", "marks")["marks"])
    assert kinds["code"] >= 12
    text = "\n".join(turn["content"] for turn in conversation("coding"))
    assert {"python", "sql", "ts", "sh"} <= set(re.findall(r"^```(\w+)$", text, re.MULTILINE))
    for name in TURNS.keys() - {"coding"}:
        assert all(mark["kind"] != "code" for mark in beside(name, "marks")["marks"])


@pytest.mark.parametrize("name", TURNS)
def test_summaries_cover_every_turn_in_blocks_and_stay_short(name: str) -> None:
    """Blocks of a hundred turns follow on each other; each has 6 to 12 items within its turns and 170 tokens."""
    blocks = beside(name, "llm")["blocks"]
    spans = [
        (first, min(first + BLOCK_TURNS - 1, TURNS[name])) for first in range(1, TURNS[name], BLOCK_TURNS)
    ]
    assert [(block["first"], block["last"]) for block in blocks] == spans
    for block in blocks:
        assert 6 <= len(block["items"]) <= 12
        assert sum(tokens(item["text"]) for item in block["items"]) <= BLOCK_TOKENS
        for item in block["items"]:
            assert set(item) == {"kind", "first", "last", "participants", "importance", "text"}
            assert item["kind"] in {"topic", "event", "fact", "emotion", "decision"}
            assert block["first"] <= item["first"] <= item["last"] <= block["last"]
            assert set(item["participants"]) <= {"user", "assistant"}
            assert item["participants"]
            assert 0 <= item["importance"] <= 10
            assert item["text"].strip()


@pytest.mark.parametrize("name", TURNS)
def test_summaries_hold_most_facts_and_decisions(name: str) -> None:
    """What a good model would answer keeps at least seven in ten of the marked facts and decisions."""
    items = chain.from_iterable(block["items"] for block in beside(name, "llm")["blocks"])
    text = "\n".join(item["text"] for item in items)
    marks = [mark for mark in beside(name, "marks")["marks"] if mark["kind"] != "code"]
    assert sum(holds(text, mark) for mark in marks) >= 0.7 * len(marks)
