"""Cues: how statements are meant, of whom, and which turns state nothing."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.text.cues import Owner, Statement, read_statement, states_nothing
from tests.unit.examples import examples

TABLE = examples("text/cues.toml")


def read(text: str, words: str) -> Statement:
    start = text.index(words)
    return read_statement(text, start, start + len(words or text))


@pytest.mark.parametrize(("text", "words"), TABLE["doubtful"])
def test_what_is_wished_asked_quoted_played_or_taken_back_is_in_doubt(text: str, words: str) -> None:
    assert read(text, words).doubt is not None


@pytest.mark.parametrize(("text", "words"), TABLE["ended"])
def test_what_is_gone_given_up_or_not_so_has_ended(text: str, words: str) -> None:
    statement = read(text, words)
    assert (statement.doubt, statement.ended) == (None, True)


@pytest.mark.parametrize(("text", "words"), TABLE["plain"])
def test_what_is_plainly_ones_own_is_neither(text: str, words: str) -> None:
    assert dataclasses.replace(read(text, words), clause=(0, 0)) == Statement()


@pytest.mark.parametrize(("text", "words", "relation", "name"), TABLE["others"])
def test_what_is_said_of_somebody_else_is_theirs(text: str, words: str, relation: str, name: str) -> None:
    statement = read(text, words)
    assert (statement.doubt, statement.owner) == (None, Owner(relation=relation, name=name))


def test_greetings_reactions_code_and_questions_of_the_world_state_nothing() -> None:
    said: list[Any] = [text for text in TABLE["states_nothing"] if not states_nothing(text)]
    assert said == []
    assert [text for text in TABLE["states_something"] if states_nothing(text)] == []


@given(st.text(max_size=80), st.integers(0, 80), st.integers(0, 80))
@settings(max_examples=100, deadline=None)
def test_any_span_of_any_text_can_be_read(text: str, start: int, length: int) -> None:
    read_statement(text, start, start + length)
    states_nothing(text)
