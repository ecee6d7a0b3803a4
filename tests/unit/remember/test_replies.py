"""What of a model's reply is trusted, repaired and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import MalformedReply
from memory_agent.remember.replies import parse_object


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("{}", {}),
        ('Sure!\n```json\n{"a": {"b": [1, 2]}}\n```\nAnything else?', {"a": {"b": [1, 2]}}),
        ('<think>maybe {"x": 1}?</think>{"a": 2}', {"a": 2}),
        ("{'a': 'it is', 'b': True,}", {"a": "it is", "b": True}),
        ('{"a": [1, 2, // two\n 3]}', {"a": [1, 2, 3]}),
        ('{name: "Ann"}', {"name": "Ann"}),
        ('[{"a": 1}, {"b": 2, "l": [1]}, {"l": [2]}]', {"a": 1, "b": 2, "l": [1, 2]}),
        ('I am {well} [sic]: {"a": "x}y"}', {"a": "x}y"}),
        ('a [ b {"a": "it\'s"}', {"a": "it's"}),
    ],
)
def test_an_object_is_found_and_mended(reply: str, value: dict[str, Any]) -> None:
    """Wrapping and slips of notation are mended."""
    assert parse_object(reply) == value


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I found no facts.",
        "null",
        "42",
        '"text"',
        "[1, 2]",
        '{"name": "An',
        '{"a": {"b": 1}',
        '[{"a": 1}, {"b":',
        '```json\n{"a": {"b": 1}\n```',
    ],
)
def test_what_is_cut_off_or_no_object_is_refused(reply: str) -> None:
    """Half an object is never taken for a whole one; the reply is kept with the error."""
    with pytest.raises(MalformedReply) as caught:
        parse_object(reply)
    assert caught.value.reply == reply


def test_a_truncated_reply_is_refused_even_if_it_parses() -> None:
    """A server that says it stopped at the length limit is believed."""
    with pytest.raises(MalformedReply, match="cut off"):
        parse_object('{"a": 1}', truncated=True)


json_objects = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=12),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)


@given(json_objects, st.booleans())
def test_sound_json_comes_back_as_it_was(value: dict[str, Any], ascii_only: bool) -> None:
    """A strict object is never touched by repairing, in a fence or not."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse_object(text) == value
    assert parse_object(f"Here you are:\n{text}\nThat is all.") == value


@given(json_objects.filter(bool), st.data())
def test_no_prefix_of_an_object_passes(value: dict[str, Any], data: st.DataObject) -> None:
    """Wherever a reply is cut, it is refused."""
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(MalformedReply):
        parse_object(text[:cut])
