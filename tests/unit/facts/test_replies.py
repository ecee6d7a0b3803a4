"""What is read of a model's reply about facts: every item that can be, whatever is around it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import StatedFact
from memory_agent.facts.extractors import MAX_ITEMS, read_items

ITEM = {"quote": "I'm Tom", "about": "me", "path": "name", "value": "Tom", "over": False}
READ = StatedFact(op="add", path=("name",), value="Tom", quote="I'm Tom", subject="me")
FACTS = json.dumps({"facts": [ITEM]})
BARE = json.dumps(ITEM)


def changed(**parts: Any) -> str:
    return json.dumps({"facts": [{**ITEM, **parts}]})


SHAPES = {
    "as asked": FACTS,
    "a bare list": f"[{BARE}]",
    "a bare item": BARE,
    "items one after the other": f"{BARE}\n{BARE}",
    "under another key": json.dumps({"answer": {"memories": [ITEM]}}),
    "in three lists": json.dumps({"additions": [ITEM], "updates": [], "retractions": []}),
    "by number": json.dumps({"1": ITEM}),
    "in a fence, with words around": f"Here is the list:\n```json\n{FACTS}\n```\nI hope it helps!",
    "after thinking": f"<think>Perhaps {{}}? Or [1].</think>{FACTS}",
    "after thinking that the template opened": f"The user says who he is.\n</think>\n\n{FACTS}",
    "with single quotes": "{'facts': [{'quote': \"I'm Tom\", 'about': 'me', 'path': 'name', 'value': 'Tom', 'over': False}]}",
    "with a comma too many": FACTS.replace("}]}", "},]}"),
    "with a comment": FACTS.replace("{", "{ // the list\n", 1),
    "with other names of the keys": json.dumps(
        [{"evidence": "I'm Tom", "subject": "me", "category": "name", "fact": "Tom", "no_longer": "no"}]
    ),
    "with a path as a list": changed(path=["name"]),
    "with a JSONPath": changed(path="$.name"),
    "with what nobody asked for": changed(turn=3, confidence="high", reasoning="he says so"),
}


@pytest.mark.parametrize("reply", SHAPES.values(), ids=SHAPES)
def test_an_item_is_read_in_any_shape(reply: str) -> None:
    assert read_items(reply) == [READ]


@pytest.mark.parametrize(
    "reply",
    [
        changed(over=True),
        changed(over="yes"),
        changed(op="DELETE"),
        json.dumps({"facts": [], "retractions": [{key: ITEM[key] for key in ITEM if key != "over"}]}),
    ],
)
def test_what_is_over_is_told_by_a_key_an_operation_or_the_list_it_is_in(reply: str) -> None:
    assert [item.op for item in read_items(reply) or ()] == ["retract"]


@pytest.mark.parametrize("reply", ['{"facts": []}', "{}", "[]", "Nothing to note: []", '{"facts": {}}'])
def test_an_empty_list_is_an_answer(reply: str) -> None:
    assert read_items(reply) == []


SCHEMA_ECHOED = '{"type": "object", "properties": {"facts": {"type": "array", "items": {"type": "object"}}}}'


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I can't help with that.",
        "The user is called Tom [1].",
        '{"facts": ',
        SCHEMA_ECHOED,
        "<think>Hm, {}",
    ],
)
def test_what_holds_no_item_and_no_empty_list_cannot_be_read(reply: str) -> None:
    assert read_items(reply) is None


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"quote": TEXTS, "about": TEXTS, "path": TEXTS, "value": TEXTS, "over": st.booleans()}
    ),
    min_size=1,
    max_size=5,
)


@given(ITEMS, st.data())
def test_a_reply_cut_off_anywhere_gives_its_whole_items(
    items: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = json.dumps({"facts": items}, ensure_ascii=data.draw(st.booleans()))
    every = read_items(whole)
    assert every is not None
    cut = read_items(whole[: data.draw(st.integers(0, len(whole)))])
    assert (cut or []) == every[: len(cut or [])]


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_reply_breaks_the_reading(before: str, behind: str) -> None:
    found = read_items(f"{before}{FACTS}{behind}")
    assert found is None or all(isinstance(item, StatedFact) for item in found)
    json.dumps([item.quote for item in found or ()], ensure_ascii=False).encode()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "reply", ["[" * 200_000, '{"a":' * 100_000, "{}" * 50_000, '"' * 100_001, "<think>" * 20_000]
)
def test_junk_is_read_in_no_time(reply: str) -> None:
    assert not read_items(reply)


def test_a_model_that_repeats_itself_says_each_item_once() -> None:
    assert read_items(json.dumps([ITEM] * 500)) == [READ]
    many = [{**ITEM, "value": str(number)} for number in range(500)]
    assert len(read_items(json.dumps(many)) or ()) == MAX_ITEMS
