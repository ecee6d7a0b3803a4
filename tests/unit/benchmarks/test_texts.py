"""Conversations come again with other names, however many turns are wanted, and bad files are told with the line."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recall_sets import BadRecallSet
from benchmarks.texts import Texts, conversations, made_up, sentences, text_option, texts_of
from tests.unit.benchmarks.sets import record, written

NUMBERS = st.integers(min_value=0, max_value=50_000)
TURNS = [
    {"id": "t1", "session": "s1", "date": None, "role": "Ann Lee", "text": "Did Bob call you, Ann asked."},
    {"id": "t2", "session": "s1", "date": None, "role": "Bob", "text": "No."},
    {"id": "t3", "session": "s1", "date": None, "role": "Bob", "text": " "},
    {"id": "t4", "session": "s1", "date": None, "role": "assistant", "text": "Annual Bobsled trip: booked."},
]
QUESTION = {"type": "1", "date": None, "gold_turns": ["t1"], "gold_sessions": []}


@pytest.fixture(scope="module")
def friends(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    """A conversation of three turns that say something, and two questions."""
    asked = [{"id": "q1", "text": "Who called Ann?", **QUESTION}, {"id": "q2", "text": "Why?", **QUESTION}]
    file = tmp_path_factory.mktemp("texts") / "friends.jsonl"
    return conversations([written(file, record(turns=TURNS, questions=asked))])


def test_the_first_round_is_the_conversation_as_it_stands(friends: Texts) -> None:
    said = [friends.turn(number) for number in range(3)]
    assert [one.text for one in said] == [TURNS[0]["text"], "No.", TURNS[3]["text"]]
    assert [(one.role, one.speaker) for one in said] == [
        ("user", "Ann Lee"),
        ("user", "Bob"),
        ("assistant", None),
    ]
    assert [friends.question(number) for number in range(2)] == ["Who called Ann?", "Why?"]
    assert friends.name == "friends"


def test_people_have_other_names_in_the_next_round_and_other_words_stay(friends: Texts) -> None:
    asked, answered, other = (friends.turn(number) for number in range(3, 6))
    ann, bob = str(asked.speaker), str(answered.speaker)
    assert ann != bob
    assert asked.text.startswith(f"Did {bob} call you, {ann} asked.")
    assert other.text.startswith("Annual Bobsled trip: booked.")
    assert f"Who called {ann}?" in friends.question(2)


@given(one=NUMBERS, other=NUMBERS)
def test_a_number_has_one_text_and_another_number_another(friends: Texts, one: int, other: int) -> None:
    for text in (lambda n: friends.turn(n).text, friends.question, made_up().question):
        assert (text(one) == text(other)) == (one == other)


def test_turns_of_a_sitting_are_a_minute_apart_and_the_next_sitting_hours_later() -> None:
    at = [made_up(sentences).turn(number).at(number).timestamp for number in (0, 1, 24, 25)]
    gaps = [
        (later - earlier).total_seconds() for earlier, later in itertools.pairwise(at) if later and earlier
    ]
    assert gaps[0] == 60
    assert gaps[2] > 3_600


def test_a_set_without_turns_or_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecallSet, match="empty: no turns in there"):
        conversations([written(tmp_path / "empty.jsonl", record(turns=[], questions=[]))])
    with pytest.raises(BadRecallSet, match="mute: no questions in there"):
        conversations([written(tmp_path / "mute.jsonl", record(questions=[]))])


def test_a_bad_file_ends_the_program_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    text_option(parser)
    bad = str(written(tmp_path / "bad.jsonl", record(), "not JSON"))
    with pytest.raises(SystemExit):
        texts_of(parser, parser.parse_args(["--text", bad]).text, otherwise=made_up())
    assert "bad.jsonl, line 2: not JSON" in capsys.readouterr().err
    assert texts_of(parser, None, otherwise=made_up()).name == "made up"
