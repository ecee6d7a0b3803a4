"""Two states of what is known, side by side."""

import json
from typing import Any

import pytest
from hypothesis import given

from memory_agent.facts.compare import differences, leaves
from memory_agent.facts.fold import Folded, fold_facts
from memory_agent.facts.tree import fact_json
from tests.unit.examples import cases, examples
from tests.unit.facts.builders import stated
from tests.unit.facts.histories import Thread, threads


def state(document: dict[str, Any]) -> Folded:
    return fold_facts([stated(1, document)] if document else [])


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """The differences, each as kind, path, before and after."""
    found = differences(state(before), state(after))
    return [(each.kind, ".".join(each.path), each.before, each.after) for each in found]


@pytest.mark.parametrize(("before", "after", "expected"), cases(examples("facts/facts.json")["differences"]))
def test_differences_are_told_by_path(
    before: dict[str, Any], after: dict[str, Any], expected: list[list[Any]]
) -> None:
    assert [list(each) for each in told(before, after)] == expected


@given(threads(speakers=("", "Ann", "Bo")), threads(speakers=("", "Ann", "Bo")))
def test_differences_explain_the_whole_change(one: Thread, other: Thread) -> None:
    """Taking away what was before and putting what is after in its place turns one document into the other."""
    before, after = fold_facts(one.changes), fold_facts(other.changes)
    found = differences(before, after)
    remaining = [_shown(*said) for said in _said(before.people)]
    for each in found:
        if each.kind != "added":
            remaining.remove(_shown((each.subject, *each.path), each.before))
        if each.kind != "removed":
            remaining.append(_shown((each.subject, *each.path), each.after))
    assert sorted(remaining) == sorted(_shown(*said) for said in _said(after.people))
    where = [(each.subject, each.path) for each in found]
    assert where == sorted(where)
    assert differences(before, Folded(people=before.people, records=())) == ()
    # The other way round, what was added is removed, and what was before is after.
    opposite = {"added": "removed", "removed": "added", "changed": "changed"}
    back = [
        (opposite[each.kind], each.subject, each.path, each.after, each.before)
        for each in differences(after, before)
    ]
    there = [(each.kind, each.subject, each.path, each.before, each.after) for each in found]
    assert sorted(map(repr, there)) == sorted(map(repr, back))


def _shown(path: tuple[str, ...], value: Any) -> str:
    """1 and 1.0 are one number, as in JSON."""

    def number(text: str) -> float | int:
        return int(float(text)) if float(text).is_integer() else float(text)

    return repr((path, json.loads(json.dumps(value), parse_float=number)))


def _said(document: dict[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    return [(path, value) for path, value, _ in leaves(document)]


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
            if record.path == each.path and fact_json(record.value) == fact_json(each.after)
        ]
        assert not own or each.sources_after == own[-1].sources
