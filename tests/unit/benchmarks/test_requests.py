"""Requests are asked of what was said before them, and their evidence lies before the last exchange."""

from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.recall import measure
from benchmarks.recall_sets import BadRecallSet, Sets, read_sets
from benchmarks.requests import in_place_of_questions
from memory_agent import MemoryService
from tests.unit.benchmarks.services import Data, FakeService
from tests.unit.benchmarks.sets import record, written


def a_set(file: Path) -> Sets:
    """A chat of six exchanges: turns 0 and 1 to 10 and 11, all of the same words but for a number."""
    roles = ("user", "assistant")
    turns = [
        {"id": n, "session": "s1", "date": None, "role": roles[n % 2], "text": f"the hotel number{n % 4}"}
        for n in range(12)
    ]
    question = {"id": "q1", "text": "?", "type": "4", "date": None, "gold_turns": [0], "gold_sessions": []}
    return read_sets([written(file, record(turns=turns, questions=[question]))])


def a_request(**changes: Any) -> dict[str, Any]:
    return {"set": "chat", "corpus": "c1", "turn": 8, "gold_turns": [4], "type": "decides", **changes}


async def test_a_request_is_asked_before_it_and_what_follows_is_remembered(tmp_path: Path) -> None:
    """Asked out of order. Turn 8 has the words of 0 and 4, turn 6 those of 2; the last exchange comes up and is left out."""
    file = written(
        tmp_path / "requests.jsonl", a_request(), "", a_request(turn=6, gold_turns=[2, 3], type="refers")
    )
    data = Data()
    both = {**a_set(tmp_path / "without.jsonl"), **a_set(tmp_path / "chat.jsonl")}
    sets = in_place_of_questions(both, file)
    _, results, times = await measure(cast("MemoryService", FakeService(data, {})), sets)
    assert {result.question: result.found for result in results} == {
        "6": ("2", "3", "1", "0"),
        "8": ("4", "0", "5", "3", "2", "1"),
    }
    assert {result.question: result.gold_turns for result in results} == {
        "6": {"2": 1, "3": 2},
        "8": {"4": 1},
    }
    assert {(result.set, result.type) for result in results} == {
        ("chat requests", "decides"),
        ("chat requests", "refers"),
    }
    assert data.asked == ["the hotel number2", "the hotel number0"]
    assert times["chat requests"].turns == 8


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: not a request"),
        ({"set": "chat"}, "line 1: 'gold_turns' is missing"),
        (a_request(corpus="c1", turn=99), "line 1: corpus 'c1' has no turn '99'"),
        (a_request(gold_turns=[3, 6]), r"which begins with turn '6'; leave out \['6'\]"),
        (a_request(gold_turns=[10]), r"leave out \['10'\]"),
        (a_request(gold_turns=[]), "line 1: no evidence"),
        (a_request(set="other"), "has no request of 'chat'; it has those of other"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_remedy(tmp_path: Path, line: Any, said: str) -> None:
    file = written(tmp_path / "requests.jsonl", line)
    with pytest.raises(BadRecallSet, match=said):
        in_place_of_questions(a_set(tmp_path / "chat.jsonl"), file)
