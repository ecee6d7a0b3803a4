"""How what is believed joins what is known, and that nothing an extractor says does harm."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import StatedFact
from memory_agent.facts.fold import MOST_CONFIDENT, fold
from memory_agent.facts.merge import MAX_DEPTH, fact_path
from memory_agent.facts.tree import FactTree
from memory_agent.facts.vetting import USUAL_CONFIDENCE, refusal
from tests.unit.examples import cases, examples
from tests.unit.facts.builders import JSON, STATEMENTS, change, stated
from tests.unit.facts.statements import QUOTE, TEXT, holding, made, reason, states, vetted

EXAMPLES = examples("facts/facts.json")


# --- joining what is known
@pytest.mark.parametrize(("holds", "said", "events"), cases(EXAMPLES["joins"]))
def test_an_item_joins_what_is_known(holds: dict[str, Any], said: list[Any], events: list[list[Any]]) -> None:
    path, value, more = said
    found = made(vetted(states(path, value, **more), holds=holding(holds)))
    assert [list(event) for event in found] == events


@pytest.mark.parametrize(("holds", "said", "why"), cases(EXAMPLES["stays"]))
def test_nothing_that_is_more_gives_way(holds: dict[str, Any], said: list[Any], why: str) -> None:
    """A whole group or list of facts neither becomes one value nor goes at a word."""
    path, value, more = said
    assert reason(vetted(states(path, value, **more), holds=holding(holds))).startswith(why)


# --- bounds of what is said
def test_an_extractor_is_never_certain() -> None:
    """Whatever it says: only people are."""
    bounds = {None: USUAL_CONFIDENCE, 0.3: 0.3, 1.0: MOST_CONFIDENT}
    assert {
        said: vetted(states("name", "Ann", confidence=said)).events[0].confidence for said in bounds
    } == bounds


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param((), "x", id="no path"),
        pytest.param(("$",), "x", id="a path that names nothing"),
        pytest.param(("a",) * (MAX_DEPTH + 1), "x", id="a long path"),
        pytest.param(("\ud800" * 300,), "\ud800", id="lone surrogates"),
        pytest.param(("a",), nested(3_000), id="nested far too deep"),
        pytest.param(("a",), 10**5_000, id="a huge number"),
        pytest.param(("a",), {("b", "c"): {1, 2}}, id="no JSON"),
        pytest.param(("a",), b"x" * 9_999, id="bytes"),
        pytest.param(("a",), "x" * 100_000, id="a long text"),
    ],
)
@pytest.mark.parametrize("op", ["add", "retract"])
def test_what_no_document_can_hold_is_refused_with_the_reason(
    path: tuple[str, ...], value: Any, op: Any
) -> None:
    """Nothing breaks, and what is kept of it is short and can be stored."""
    item_of_it = StatedFact(
        op=op, path=path, value=value, quote=QUOTE, turn_id="t0009", old=value, plain=True
    )
    [refused] = vetted(item_of_it, holds=holding({"a": ["x", "y"]}), never=("health",)).refused
    stored = json.dumps([refused.path, refused.said, refused.reason], ensure_ascii=False).encode()
    assert len(stored) < 4_000
    assert refused.reason


FACTS = st.builds(
    StatedFact,
    plain=st.booleans(),
    op=st.sampled_from(["add", "retract"]),
    path=st.lists(
        st.sampled_from(["a", "b", "likes", "preferences", "user", "pets"]) | st.text(max_size=5), max_size=4
    ).map(tuple),
    value=JSON,
    quote=st.none() | st.just(QUOTE) | st.just("I like tea") | st.text(max_size=10),
    turn_id=st.sampled_from(["t0009", "t0009", "t0009", "t0001"]),
    old=st.none() | JSON,
    confidence=st.none() | st.floats(0, 1),
    valid_from=st.sampled_from([None, "2024-05"]),
)


@given(st.lists(FACTS, max_size=5), STATEMENTS, st.sampled_from([(), ("health",)]))
def test_whatever_is_stated_is_believed_or_refused(
    items: list[StatedFact], holds: dict[str, Any], never: tuple[str, ...]
) -> None:
    held = holding(holds)
    found = vetted(*items, holds=held, never=never)
    for event in found.events:
        assert event.quote
        assert event.quote in TEXT
        assert 0.0 <= event.confidence <= 1.0
        assert event.path == fact_path(event.path)
        json.dumps(event.value, allow_nan=False, ensure_ascii=False).encode()
    for refused in found.refused:
        assert refused.reason
        json.dumps([refused.path, refused.said, refused.quote, refused.reason], ensure_ascii=False).encode()
    assert found.refused or found.events or not items
    tree = FactTree.of(held.tree("").document())
    for event in found.events:
        there = tree.get(event.path)
        if event.op in ("set", "add"):
            assert not isinstance(there, dict)
            assert event.op == "add" or not isinstance(there, list)
        elif event.op == "retract":
            assert sum(1 for _ in tree.leaves(event.path)) <= 1
        tree.apply(event, 1)
    assert fold([stated(1, holds), change(2, *found.events)]) == tree.document()


@given(STATEMENTS)
def test_what_is_known_can_always_be_said_again(holds: dict[str, Any]) -> None:
    held = holding({"x": holds})
    items = [
        StatedFact(op="add", path=path, value=kept.value, quote=QUOTE, turn_id="t0009", plain=True)
        for path, kept, _ in FactTree.of(held.tree("").document()).leaves()
    ]
    found = vetted(*items, holds=held)
    assert found.refused == []
    assert fold([stated(1, {"x": holds}), change(2, *found.events)]) == held.tree("").document()


def test_a_refusal_keeps_the_op_and_what_was_said() -> None:
    """As the history shows it."""
    refused = refusal(StatedFact(op="add", path=("a", "b"), value={"x": "é"}, quote="q"), "why")
    assert (refused.op, refused.path, refused.said, refused.quote, refused.reason) == (
        *("add", "a.b", '{"x": "é"}', "q", "why"),
    )
