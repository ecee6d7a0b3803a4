"""Which JSON is found in a model's reply, what of it is mended, and what is refused."""

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import MalformedReply
from memory_agent.facts.extractors import read_stated
from memory_agent.llm.replies import MAX_DEPTH, MAX_MENDED_CHARS, json_documents
from tests.unit.examples import examples, misses


def values(reply: str) -> list[Any]:
    documents = json_documents(reply)
    assert not [document.problem for document in documents if document.problem]
    return [document.value for document in documents]


EXAMPLES = examples("llm/replies.toml")


@pytest.mark.parametrize("kind", ["found", "thinking"])
def test_documents_are_found_in_prose_and_not_in_thinking(kind: str) -> None:
    """In order, whatever is around them; brackets that are no JSON's are prose, and a tag that somebody spoke of is text.

    Thinking is passed over, also if the tag that begins it is not in the reply.
    """
    assert misses(EXAMPLES[kind], values) == []


MENDED: dict[str, Any] = {
    "{'a': 'it is', 'b': True, 'c': None,}": {"a": "it is", "b": True, "c": None},
    "{'a': 'I'm Ada', 'b': \"it's\"}": {"a": "I'm Ada", "b": "it's"},
    r"""[{'a': 'I'm Ada'}, {'b': 'a \'x\' \"y\" "z"'}]""": [{"a": "I'm Ada"}, {"b": """a 'x' "y" "z\""""}],
    "{'a': ('x', 'y')}": {"a": ["x", "y"]},
    '{"a": [1, 2, // two: {\n 3 /* three ] */]}': {"a": [1, 2, 3]},
    '{"a": 1, # one\n "b": 2}': {"a": 1, "b": 2},
    '{name: "Ann"}': {"name": "Ann"},
    "{“a”: “b {”}": {"a": "b {"},
    '{"a": "She said "hi" to me", "b": 1}': {"a": 'She said "hi" to me', "b": 1},
    '[{"a": 1} {"b": 2}]': [{"a": 1}, {"b": 2}],
    '{"a": "one\ntwo"}': {"a": "one\ntwo"},
    '{"a": NaN, "b": [-Infinity, 1e999]}': {"a": None, "b": [None, None]},
    '{"a": "\\ud83d", "b\\udc00": 1}': {"a": "?", "b?": 1},
    '{"a": [{"x": 1}], "a": [{"y": 2}]}': {"a": [{"x": 1}, {"y": 2}]},
    '{"a": [{"x": 1}], "a": null}': {"a": [{"x": 1}]},
    '{"a": 1, "a": 1}': {"a": 1},
    '{"a": ' + "9" * 5_000 + "}": {"a": "9" * 5_000},
}


def test_slips_of_notation_are_mended() -> None:
    assert {text: values(f"Here: {text} That is all.") for text in MENDED} == {
        text: [value] for text, value in MENDED.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        *EXAMPLES["guessing"],
        '{"a": [' + '"x"y"' * 200 + "]}",
        "[" * 10_000 + "]" * 10_000,
        "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2),
        '{"a":' * (MAX_DEPTH + 2) + "1" + "}" * (MAX_DEPTH + 2),
    ],
)
def test_what_cannot_be_mended_without_guessing_says_so(text: str) -> None:
    before, broken, after = json_documents(f'{{"a": 1}} {text} {{"b": 2}}')
    assert (before.value, broken.value, after.value) == ({"a": 1}, None, {"b": 2})
    assert broken.problem


@pytest.mark.parametrize(
    "reply", [*EXAMPLES["cut"], "[" * 100_000, "{'a': '" + "x" * MAX_MENDED_CHARS + "'}"]
)
def test_what_is_cut_off_is_refused(reply: str) -> None:
    """Half a document is never taken for a whole one; the reply is kept with the error."""
    with pytest.raises(MalformedReply) as caught:
        json_documents(reply)
    assert caught.value.reply == reply


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
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert values(text) == [value]
    assert values(f"Here you are:\n```\n{text}\n```\nThat is all.") == [value]


@given(st.text(alphabet="{}[](),:\"'“”\\/*#.<>thinka1 \n", max_size=60))
def test_no_text_brings_about_another_error(reply: str) -> None:
    with contextlib.suppress(MalformedReply):
        assert isinstance(json_documents(reply), list)


JUNK = {
    "brackets": "[",
    "braces": "{",
    "objects begun": '{"a":',
    "keys alone": '{"a"',
    "quotes": '"',
    "curly quotes": "“",
    "prose": "He said so. ",
    "prose with brackets": "[x {y ",
    "empty objects": "{}",
    "python": "{'a': 1} ",
    "repeated keys": '{"a":[{}],',
    "comments": "{/*",
    "thinking begun": "<think>",
    "thinking ended": "\n</think>",
    "tags begun": "<think ",
    "quotes in quotes": '{"a": "b"c"d"} ',
    "facts": '{"path": "name", "value": "Ada", "turn": 1},\n',
    "lists of facts": 'Additions: [{"path": "name", "value": "Ada", "turn": 1}]\n',
}


def seconds(text: str, read: Callable[[str], object]) -> float:
    """The better of two, for the machine may be busy."""
    best = float("inf")
    for _ in range(2):
        begun = time.process_time()
        with contextlib.suppress(MalformedReply):
            read(text)
        best = min(best, time.process_time() - begun)
    return best


@pytest.mark.nightly
@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
@pytest.mark.parametrize("read", [json_documents, lambda text: read_stated(text, turns={1: "t1"})])
def test_time_grows_with_length_and_no_faster(junk: str, read: Callable[[str], object]) -> None:
    """Twice the length takes less than four times as long, and 10 MB of junk come to an end."""
    repeats = 1_000_000 // len(junk)
    assert seconds(junk * 2 * repeats, read) < 4 * max(seconds(junk * repeats, read), 0.05)
    with contextlib.suppress(MalformedReply):
        read(junk * 10 * repeats)
