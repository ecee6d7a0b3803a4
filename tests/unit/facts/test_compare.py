"""Two states of what is known, side by side."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.facts.compare import FactDifference, differences, leaves
from memory_agent.facts.fold import Folded, fold_facts
from memory_agent.facts.merge import same_element
from memory_agent.facts.tree import fact_json
from tests.unit.examples import cases, examples
from tests.unit.facts.builders import add, at, change, edit, put, stated
from tests.unit.facts.histories import Thread, threads

Leaf = tuple[tuple[str, ...], bool, str]


def state(document: dict[str, Any]) -> Folded:
    """What is known after one turn that states all of it."""
    return fold_facts([stated(1, document)] if document else [])


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """The differences, each as kind, path, before and after."""
    found = differences(state(before), state(after))
    return [(each.kind, ".".join(each.path), each.before, each.after) for each in found]


@pytest.mark.parametrize(("before", "after", "expected"), cases(examples("facts/facts.json")["differences"]))
def test_differences_are_told_by_path(
    before: dict[str, Any], after: dict[str, Any], expected: list[list[Any]]
) -> None:
    """Scalars by their path, elements of lists one by one; the order within lists is none."""
    assert [list(each) for each in told(before, after)] == expected


def flat(document: dict[str, Any]) -> dict[Leaf, Any]:
    """Every scalar and element of a document by where it stands and what it says."""
    return {
        (path, in_list, fact_json(value) if in_list else ""): value
        for path, value, in_list in leaves(document)
    }


@given(threads(), threads())
def test_differences_explain_the_whole_change(one: Thread, other: Thread) -> None:
    """Taking away what was before and putting what is after in its place turns one document into the other."""
    before, after = fold_facts(one.changes), fold_facts(other.changes)
    found = differences(before, after)
    remaining = [_shown(*said) for said in _said(before.document)]
    for each in found:
        if each.kind != "added":
            remaining.remove(_shown(each.path, each.before))
        if each.kind != "removed":
            remaining.append(_shown(each.path, each.after))
    assert sorted(remaining) == sorted(_shown(*said) for said in _said(after.document))
    assert [each.path for each in found] == sorted(each.path for each in found)


def _shown(path: tuple[str, ...], value: Any) -> str:
    """1 and 1.0 are one number, as in JSON."""

    def number(text: str) -> float | int:
        return int(float(text)) if float(text).is_integer() else float(text)

    return repr((path, json.loads(json.dumps(value), parse_float=number)))


def _said(document: dict[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    return [(path, value) for path, value, _ in leaves(document)]


@given(threads())
def test_a_state_does_not_differ_from_itself(thread: Thread) -> None:
    """Nor do two whose documents are equal."""
    folded = fold_facts(thread.changes)
    assert differences(folded, folded) == ()
    assert differences(folded, Folded(document=folded.document, records=())) == ()


@given(threads(), threads())
def test_the_other_way_round_everything_is_the_other_way_round(one: Thread, other: Thread) -> None:
    """What was added is removed, and what was before is after."""
    before, after = fold_facts(one.changes), fold_facts(other.changes)
    opposite = {"added": "removed", "removed": "added", "changed": "changed"}

    def shown(found: tuple[FactDifference, ...]) -> list[str]:
        return sorted(repr((each.kind, each.path, each.before, each.after)) for each in found)

    there = shown(differences(before, after))
    back = differences(after, before)
    assert there == sorted(repr((opposite[each.kind], each.path, each.after, each.before)) for each in back)


@given(threads(max_size=20))
def test_every_value_that_is_told_has_its_sources(thread: Thread) -> None:
    """All of what is known came from somewhere: the record of the value itself, or of what it was set with."""
    folded = fold_facts(thread.changes)
    for each in differences(fold_facts([]), folded):
        assert each.sources_before == ()
        assert each.sources_after
        own = [
            record
            for record in folded.standing()
            if record.path == each.path and same_element(record.value, each.after)
        ]
        assert not own or each.sources_after == own[-1].sources


def test_parts_of_what_a_person_set_have_that_source() -> None:
    """And what was added to it later has its own."""
    before = fold_facts([])
    after = fold_facts(
        [
            edit(1, put("family", {"dog": "Rex", "people": ["Bo"]})),
            change(2, put("family.cat", "Tom", quote="Tom the cat")),
            change(3, add("family.people", "Mia", quote="Mia too")),
        ]
    )
    found = {(each.path[-1], each.after): each.sources_after[0].quote for each in differences(before, after)}
    assert found == {
        ("dog", "Rex"): None,
        ("people", "Bo"): None,
        ("cat", "Tom"): "Tom the cat",
        ("people", "Mia"): "Mia too",
    }


def test_a_part_has_the_source_of_the_innermost_group_that_was_set() -> None:
    """Not of the one around it."""
    family = edit(1, put("family", {"cat": "Tom", "dog": {"name": "Rex", "age": 2}}))
    after = fold_facts([family, edit(2, put("family.dog", {"name": "Max", "age": 3}))])
    found = {each.after: each.sources_after[0].said_at for each in differences(fold_facts([]), after)}
    assert found == {"Tom": at(1), "Max": at(2), 3: at(2)}


@given(st.data())
def test_leaves_are_all_scalars_and_elements(data: st.DataObject) -> None:
    """In the document's order, each with whether it is an element; lists in lists are elements as they are."""
    document = {"a": {"b": 1, "c": ["x", ["y"], {"d": 2}]}, "e": None}
    path = tuple(data.draw(st.lists(st.sampled_from("ab"), max_size=2)))
    assert list(leaves(document, path)) == [
        ((*path, "a", "b"), 1, False),
        ((*path, "a", "c"), "x", True),
        ((*path, "a", "c"), ["y"], True),
        ((*path, "a", "c"), {"d": 2}, True),
        ((*path, "e"), None, False),
    ]
