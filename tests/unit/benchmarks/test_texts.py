"""Conversations come again with other names, however many turns are wanted, and bad files are told with the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.texts import Texts, conversations, made_up
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
