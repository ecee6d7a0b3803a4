"""Facts documents as folds of events."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import FactChange
from memory_agent.remember.merge import (
    MAX_DEPTH,
    MAX_EVENTS,
    UnmergeableFacts,
    apply_event,
    fact_key,
    fold,
    statement_events,
)

scalars = st.text(max_size=10) | st.integers(-5, 5) | st.booleans() | st.none()
statements = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), scalars | st.lists(scalars, max_size=3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner | scalars, max_size=3),
    max_leaves=6,
)


def change(statement: dict[str, Any], seq: int = 1) -> FactChange:
    """A statement as a stored change."""
    return FactChange(
        key=f"k{seq}",
        turn_id="turn",
        extractor="test",
        recorded_at=datetime(2026, 1, 1, tzinfo=UTC),
        events=statement_events(statement),
        seq=seq,
    )


def merged(*given_statements: dict[str, Any]) -> dict[str, Any]:
    """The document after these statements."""
    return fold([change(statement, i) for i, statement in enumerate(given_statements, 1)])


@pytest.mark.parametrize(
    ("first", "then", "document"),
    [
        ({"name": "Ann"}, {"name": "Anna"}, {"name": "Anna"}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        (
            {"likes": ["Tea", "jazz"]},
            {"likes": ["jazz", " tea ", "chess"]},
            {"likes": ["Tea", "jazz", "chess"]},
        ),
        ({"likes": "tea"}, {"likes": ["jazz"]}, {"likes": ["jazz"]}),
        ({"likes": ["tea"]}, {"likes": "jazz"}, {"likes": "jazz"}),
        ({"home": "Oslo"}, {"home": {"city": "Bergen"}}, {"home": {"city": "Bergen"}}),
        ({"home": {"city": "Oslo"}}, {"home": "Bergen"}, {"home": "Bergen"}),
        ({"name": "Ann"}, {"name": None}, {"name": "Ann"}),
        ({"name": "Ann"}, {"name": "  ", "likes": [], "x": {}}, {"name": "Ann"}),
        (
            {"pets": [{"kind": "dog"}]},
            {"pets": [{"kind": "dog"}, {"kind": "cat"}]},
            {"pets": [{"kind": "dog"}, {"kind": "cat"}]},
        ),
        ({"flags": [1]}, {"flags": [True]}, {"flags": [1, True]}),
        ({"Home Town": "Oslo"}, {"homeTown": "Bergen"}, {"home_town": "Bergen"}),
    ],
)
def test_statements_merge_by_the_rules(
    first: dict[str, Any], then: dict[str, Any], document: dict[str, Any]
) -> None:
    """Each rule of the module's docstring, by example."""
    assert merged(first, then) == document


@given(statements)
def test_merging_the_same_twice_changes_nothing(statement: dict[str, Any]) -> None:
    """A repeated statement adds nothing, though scalars and lists may compete for one path within it."""
    once = merged(statement)
    assert merged(statement, statement) == once


@given(statements, statements)
def test_disjoint_statements_commute(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Statements about different things may come in any order."""
    left, right = {"left": one}, {"right": other}
    assert merged(left, right) == merged(right, left)


@given(st.lists(statements, max_size=5), st.integers(0, 5))
def test_folding_in_parts_equals_folding_at_once(given_statements: list[dict[str, Any]], cut: int) -> None:
    """A saved document plus the later changes is the fold of all, and folding changes no input."""
    changes = [change(statement, i) for i, statement in enumerate(given_statements, 1)]
    saved = fold(changes[:cut])
    before = copy.deepcopy(saved)
    assert fold(changes[cut:], saved) == fold(changes)
    assert saved == before


@given(statements)
def test_documents_are_json(statement: dict[str, Any]) -> None:
    """What is merged can be stored: it survives a round trip through JSON."""
    document = merged(statement)
    assert json.loads(json.dumps(document)) == document


@given(st.text(max_size=50))
def test_keys_are_plain_and_stable(key: str) -> None:
    """A key has no dot, dollar, space or control character, and normalising it again changes nothing."""
    plain = fact_key(key)
    assert not set(plain) & set(".$ \0\n\t")
    assert fact_key(plain) == plain


def test_too_deep_too_many_or_too_long_is_refused_whole() -> None:
    """Nothing is cut off silently."""
    deep: dict[str, Any] = {"a": 1}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    for bad in (deep, {"l": list(range(MAX_EVENTS + 1))}, {"x": "y" * 3_000}, {"$": 1}, {"x": float("nan")}):
        with pytest.raises(UnmergeableFacts):
            statement_events(bad)


def test_an_event_copies_its_value() -> None:
    """A document shares no list or object with the events it was folded from."""
    events = statement_events({"pets": [{"kind": "dog"}]})
    document: dict[str, Any] = {}
    apply_event(document, events[0])
    document["pets"][0]["kind"] = "cat"
    assert events[0].value == {"kind": "dog"}
