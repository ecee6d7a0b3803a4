"""The rules of merging, and what a document cannot hold."""

import copy
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.facts.merge import (
    MAX_DEPTH,
    MAX_EVENTS,
    MAX_KEY_CHARS,
    MAX_TEXT_CHARS,
    UnmergeableFacts,
    fact_key,
    fact_path,
    fact_value,
    statement_events,
    value_events,
)
from tests.unit.examples import cases, examples
from tests.unit.facts.builders import JSON, STATEMENTS, deep_merge

EXAMPLES = examples("facts/facts.json")


def merged(*statements: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for statement in statements:
        document = deep_merge(document, statement)
    return document


def nested(depth: int, leaf: Any = 1, *, lists: bool = False) -> Any:
    for _ in range(depth):
        leaf = [leaf] if lists else {"a": leaf}
    return leaf


def keys_within(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in keys_within(inner))]
    if isinstance(value, list):
        return [key for inner in value for key in keys_within(inner)]
    return []


# --- the rules
@pytest.mark.parametrize(("first", "then", "document"), cases(EXAMPLES["merges"]))
def test_statements_merge_by_the_rules(
    first: dict[str, Any], then: dict[str, Any], document: dict[str, Any]
) -> None:
    """Each rule of the module's docstring, by example; types count."""
    assert json.dumps(merged(first, then)) == json.dumps(document)


@given(STATEMENTS, STATEMENTS)
def test_merging_repeats_nothing_and_leaves_both_sides_alone(
    statement: dict[str, Any], other: dict[str, Any]
) -> None:
    """A repeated statement adds nothing, though values may compete for one path within it; others may come in any order.

    What is stored is normalised: stating it again meets every path and value.
    """
    once, before = merged(statement), copy.deepcopy(statement)
    assert json.dumps(merged(statement, statement)) == json.dumps(once)
    assert merged(once, once) == once == merged(statement)
    assert statement == before
    left, right = {"left": statement}, {"right": other}
    assert merged(left, right) == merged(right, left)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_whatever_json_is_stated_is_refused_or_can_be_stored(statement: dict[str, Any]) -> None:
    """A merged document survives strict JSON in UTF-8, has plain keys, holds nothing empty, and takes itself again."""
    try:
        document = merged(statement)
    except UnmergeableFacts:
        return
    assert json.loads(json.dumps(document, allow_nan=False, ensure_ascii=False).encode()) == document
    assert all(key == fact_key(key) for key in keys_within(document))
    assert merged(document, document) == document
    assert "null" not in json.dumps(document).split('"')[::2]
    for event in statement_events(statement):
        assert fact_value(event.value, event.path) == event.value


# --- what cannot be held
MANY = {"l": list(range(MAX_EVENTS + 1))}
"""More than anybody states at once, though a person may set a list of any length."""


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(nested(MAX_DEPTH + 1), id="nested too deep"),
        pytest.param(nested(3_000), id="nested far too deep"),
        pytest.param({"l": nested(3_000, lists=True)}, id="lists far too deep"),
        pytest.param({"l": nested(900, lists=True)}, id="lists too deep for copies of them"),
        pytest.param({"l": [nested(MAX_DEPTH)]}, id="an element nested too deep"),
        pytest.param({"l": [nested(3_000)]}, id="an element nested far too deep"),
        pytest.param(MANY, id="too many"),
        pytest.param({"x": "y" * (MAX_TEXT_CHARS + 1)}, id="a long text"),
        pytest.param({"l": [{"x": "y" * MAX_TEXT_CHARS}]}, id="a long element"),
        pytest.param({"l": [["y" * 50] * 50]}, id="a long list in a list"),
        pytest.param({"k" * (MAX_KEY_CHARS + 1): 1}, id="a long key"),
        pytest.param({"l": [{"k" * (MAX_KEY_CHARS + 1): 1}]}, id="a long key in an element"),
        pytest.param({"$": 1}, id="a key without a name"),
        pytest.param({"l": [{"\0": 1}]}, id="a key without a name in an element"),
        pytest.param({"l": [{"aB": 1, "a_b": 2}]}, id="the same key twice in an element"),
        pytest.param({"x": float("nan")}, id="not a number"),
        pytest.param({"l": [{"x": float("inf")}]}, id="infinity in an element"),
        pytest.param({"x": 2**63}, id="a huge number"),
        pytest.param({"x": 10**5_000}, id="a number too huge to print"),
        pytest.param({"l": [{"x": 10**100}]}, id="a huge number in an element"),
        pytest.param({"x": b"y"}, id="bytes"),
        pytest.param({"x": {1, 2}}, id="a set"),
        pytest.param({"l": [Decimal(1)]}, id="a decimal"),
        pytest.param({"l": [{"x": object()}]}, id="an object in an element"),
    ],
)
def test_what_no_document_can_hold_is_refused_whole(bad: dict[str, Any]) -> None:
    with pytest.raises(UnmergeableFacts):
        statement_events({"fine": 1} | bad)
    if bad != MANY:
        with pytest.raises(UnmergeableFacts):
            fact_value(bad, ())


EMPTY: tuple[Any, ...] = (None, "", " \n", "\u200b", "\0", [], {}, ["a", ""], {"a": None}, [{}])


def test_a_person_cannot_set_what_states_nothing_or_one_key_twice() -> None:
    """Erasing is what retracting is for; two spellings of a key with values of their own would lose one of them."""
    for empty in EMPTY:
        with pytest.raises(UnmergeableFacts, match="states nothing"):
            fact_value(empty, ("x",))
    with pytest.raises(UnmergeableFacts, match="twice"):
        fact_value({"Home Town": {"x": 1}, "homeTown": {"y": 2}}, ("x",))


# --- keys and paths
KEYS = {
    "Favourite Colour": "favourite_colour", "homeTown": "home_town", "HTTPServer": "httpserver",
    "$set.x": "set_x", "__proto__": "proto", "a\0b\x1bc": "a_b_c", "größe": "grösse", "ﬁne": "fine", "이름": "이름",
    "नाम": "नाम", "aꭰ": "aᎠ", "😀": "",
}  # fmt: skip


def test_keys_become_snake_case() -> None:
    """Letters, digits and marks of any script stay; what is between them becomes one underscore."""
    assert {key: fact_key(key) for key in KEYS} == KEYS
    assert [fact_key(plain) for plain in KEYS.values()] == [*KEYS.values()]


def test_paths_are_read_from_text_and_from_keys() -> None:
    """Dots separate keys in a text; within a key they are only characters. Each names something, and there is one."""
    assert fact_path("preferences.Meeting time") == ("preferences", "meeting_time")
    assert fact_path(["preferences", "a.b"]) == ("preferences", "a_b")
    assert len(fact_path(["a"] * MAX_DEPTH)) == MAX_DEPTH
    for path in ("", ".", "a..b", "a.$", (), ("a", ""), ["a"] * (MAX_DEPTH + 1), "a." * 10_000):
        with pytest.raises(UnmergeableFacts):
            fact_path(path)


# --- events
def test_a_value_becomes_one_event_for_each_thing_it_says() -> None:
    said = value_events(("me",), {"Name": "Ann", "likes": ["tea", None, "jazz"], "home": {"city": "Oslo"}})
    assert [(event.op, event.path, event.value) for event in said] == [
        ("set", ("me", "name"), "Ann"),
        ("add", ("me", "likes"), "tea"),
        ("add", ("me", "likes"), "jazz"),
        ("set", ("me", "home", "city"), "Oslo"),
    ]
