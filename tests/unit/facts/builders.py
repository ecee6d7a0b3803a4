"""What the tests of the facts tier are made of: changes, turns, items, and strategies of documents."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from memory_agent.domain import (
    PERSON,
    ChangeKind,
    FactChange,
    FactEvent,
    Place,
    RefusedFact,
    StatedFact,
    Turn,
)
from memory_agent.facts.merge import fact_value, statement_events
from memory_agent.facts.tree import FactTree
from tests.unit.search.builders import turn as stored_turn

START = datetime(2026, 11, 20, 9, tzinfo=UTC)
"""A Friday."""


def at(minute: float) -> datetime:
    """So many minutes after the start."""
    return START + timedelta(minutes=minute)


# --- changes
def change(
    seq: int,
    *events: FactEvent,
    kind: ChangeKind = "extraction",
    turn: str | None = None,
    said: float | None = None,
    recorded: float | None = None,
    generation: str = "",
    thread: str = "work",
    refused: tuple[RefusedFact, ...] = (),
) -> FactChange:
    """A stored change; one that nothing is said of was said, recorded and stored in the order of `seq`.

    `turn` is the id of the turn that states it, by which it takes its place; edits have an id of their own.
    """
    place = turn or f"t{seq:04d}"
    return FactChange(
        key=f"{place}:{kind}:{generation}:{seq}",
        kind=kind,
        at=place,
        turn_id=place if kind == "extraction" else None,
        turns=(place,) if kind == "extraction" else (),
        said_at=at(seq if said is None else said),
        recorded_at=at(seq if recorded is None else recorded),
        extractor="test" if kind == "extraction" else PERSON,
        events=events,
        refused=refused,
        generation=generation,
        thread_id=thread,
        seq=seq,
    )


def stated(seq: int, statement: dict[str, Any], **more: Any) -> FactChange:
    return change(seq, *statement_events(statement), **more)


def deep_merge(document: Mapping[str, Any], statement: Mapping[str, Any]) -> dict[str, Any]:
    """`document` with `statement` merged into it, by the rules of `facts.merge`."""
    tree = FactTree.of(document)
    for event in statement_events(statement):
        tree.apply(event, 0)
    return tree.document()


def edit(seq: int, event: FactEvent, **more: Any) -> FactChange:
    return change(seq, event, kind="edit", **more)


def put(path: str, value: Any, **more: Any) -> FactEvent:
    """`value` stands at the dotted path."""
    return FactEvent(op="set", path=tuple(path.split(".")), value=value, **more)


def add(path: str, value: Any, **more: Any) -> FactEvent:
    """`value` is an element of the list at the dotted path."""
    return FactEvent(op="add", path=tuple(path.split(".")), value=value, **more)


def remove(path: str, value: Any) -> FactEvent:
    """`value` is no element of the list at the dotted path."""
    return FactEvent(op="remove", path=tuple(path.split(".")), value=value)


def retract(path: str) -> FactEvent:
    """Nothing stands at the dotted path."""
    return FactEvent(op="retract", path=tuple(path.split(".")))


def revert(path: str, to: Place) -> FactEvent:
    """The dotted path ("": everything) becomes what it was at that place."""
    return FactEvent(op="revert", path=tuple(path.split(".")) if path else (), to=to)


def after(seq: int, number: int = 0) -> Place:
    """The place of an event of the change `seq` that took its place by its own id."""
    return (f"t{seq:04d}", seq, number)


# --- turns and items
def turn(content: str, *, id: str = "t0009", **more: Any) -> Turn:  # noqa: A002 - as the field is called
    given: dict[str, Any] = {"user_id": "ann", "thread_id": "work", "timestamp": START, "tokens": 1}
    return stored_turn(more.pop("seq", 9), content, id=id, **given | more)


def item(path: str, value: Any = None, quote: str | None = None, **more: Any) -> StatedFact:
    """What an extractor says that the turn states."""
    given: dict[str, Any] = {"op": "add", "turn_id": "t0009"}
    return StatedFact(path=tuple(path.split(".")), value=value, quote=quote, **given | more)


# --- strategies
KEYS = st.sampled_from("abc")
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)
"""Few and short, so that they meet."""
SCALARS = st.sampled_from(["tea", "Tea", " tea", "jazz", 1, 1.0, 0, True, False, "1"])
SAID = st.text(max_size=10) | st.integers(-5, 5) | st.booleans() | st.none() | SCALARS
STATEMENTS = st.recursive(
    st.dictionaries(KEYS, SAID | st.lists(SAID, max_size=3), max_size=3),
    lambda inner: st.dictionaries(KEYS, inner | SAID, max_size=3),
    max_leaves=6,
)
_NESTED = st.recursive(
    st.lists(SCALARS, min_size=1, max_size=3) | st.dictionaries(KEYS, SCALARS, min_size=1, max_size=3),
    lambda inner: st.dictionaries(KEYS, inner | SCALARS, min_size=1, max_size=3),
    max_leaves=4,
)


def _plain(value: Any) -> Any:
    return fact_value(value, ())


VALUES = (SCALARS | _NESTED).map(_plain)
"""What a person may set."""
ELEMENTS = (SCALARS | st.dictionaries(KEYS, SCALARS, min_size=1, max_size=2)).map(_plain)
EVENTS = st.one_of(
    st.builds(FactEvent, op=st.just("set"), path=PATHS, value=VALUES, confidence=st.floats(0, 1)),
    st.builds(FactEvent, op=st.just("set"), path=PATHS, value=SCALARS.map(_plain)),
    st.builds(FactEvent, op=st.just("add"), path=PATHS, value=ELEMENTS, confidence=st.floats(0, 1)),
    st.builds(FactEvent, op=st.just("remove"), path=PATHS, value=ELEMENTS),
    st.builds(FactEvent, op=st.just("retract"), path=PATHS),
)
"""Anything but a revert."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
"""Whatever a model may come up with."""
