"""What of a reply is thinking, which JSON it holds, and when it is a refusal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.llm.replies import is_refusal, json_values, objects_in, without_thinking

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON) | st.dictionaries(st.text(max_size=5), JSON), st.booleans())
def test_sound_json_comes_back_as_it_was(value: Any, ascii_only: bool) -> None:
    reply = json.dumps(value, ensure_ascii=ascii_only)
    assert json_values(f"Sure, here it is:\n```json\n{reply}\n```") == [value]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("<think>a {b}</think>c", "c"),
        ("<Reasoning>\na\n</reasoning>\n\nc", "c"),
        ("so I say\n</think>\nc", "c"),
        ("<think>cut off", ""),
        ('{"quote": "I wrote </think> there"}', '{"quote": "I wrote </think> there"}'),
        ("no thinking < here >", "no thinking < here >"),
    ],
)
def test_thinking_is_left_out(reply: str, said: str) -> None:
    assert without_thinking(reply) == said


def test_objects_come_with_the_keys_that_lead_to_them() -> None:
    assert list(objects_in({"a": [{"b": 1}], "c": {}})) == [
        ((), {"a": [{"b": 1}], "c": {}}),
        (("a",), {"b": 1}),
        (("c",), {}),
    ]


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("As an AI language model, I have no opinion.", True),
        ("죄송하지만 도와드릴 수 없습니다.", True),
        ("Ann is sorry that she can't come to the wedding.", False),
        ("I can't go on like this, said Ann. " * 20, False),
        ("", False),
    ],
)
def test_a_refusal_is_told_by_its_first_words(said: str, refused: bool) -> None:
    assert is_refusal(said) is refused
