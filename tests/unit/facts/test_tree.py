"""The tree against plain bookkeeping of paths: what stands, where it is from, what ended it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import FactEvent
from memory_agent.facts.tree import Effect, FactTree, fact_json
from tests.unit.examples import cases, examples
from tests.unit.facts.builders import EVENTS, PATHS

Path = tuple[str, ...]
Restore = tuple[Path, int]
"""Where, and (from the newest back) to which earlier state."""

OPERATIONS = st.lists(EVENTS | st.tuples(PATHS | st.just(()), st.integers(0, 9)), max_size=12)


Row = tuple[bool, tuple[tuple[Any, int], ...]]
"""Whether it is a list, and its elements (or the one scalar) with their marks."""


class Ledger:
    """What a FactTree should be, as a flat table: for each path a scalar, or the elements of its list."""

    def __init__(self, rows: dict[Path, Row] | None = None) -> None:
        self.rows = dict(rows or {})

    def copy(self) -> Ledger:
        return Ledger(self.rows)

    def at_or_below(self, path: Path) -> Ledger:
        return Ledger({p: row for p, row in self.rows.items() if p[: len(path)] == path})

    def above(self, path: Path) -> Ledger:
        return Ledger({p: row for p, row in self.rows.items() if p != path and path[: len(p)] == p})

    def without(self, part: Ledger) -> None:
        self.rows = {p: row for p, row in self.rows.items() if p not in part.rows}

    def marks(self) -> set[int]:
        return {mark for _, kept in self.rows.values() for _, mark in kept}

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for path, (listed, kept) in self.rows.items():
            node = document
            for key in path[:-1]:
                node = node.setdefault(key, {})
            node[path[-1]] = [value for value, _ in kept] if listed else kept[0][0]
        return document

    def says(self) -> dict[Path, tuple[bool, list[str]]]:
        return {p: (listed, [fact_json(v) for v, _ in kept]) for p, (listed, kept) in self.rows.items()}

    # --- operations
    def put(self, path: Path, new: Ledger) -> None:
        for part in (self.at_or_below(path), self.above(path)):
            self.without(part)
        self.rows |= new.rows

    def set(self, path: Path, value: Any, mark: int) -> None:
        new = Ledger()
        new._fill(path, value, mark)
        if self.at_or_below(path).says() != new.says():
            self.put(path, new)

    def _fill(self, path: Path, value: Any, mark: int) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                self._fill((*path, key), inner, mark)
        elif isinstance(value, list):
            for element in value:
                self.add(path, element, mark)
        else:
            self.rows[path] = (False, ((value, mark),))

    def add(self, path: Path, value: Any, mark: int) -> None:
        listed, kept = self.rows.get(path, (False, ()))
        if not listed:
            self.put(path, Ledger({path: (True, ((value, mark),))}))
        elif not any(fact_json(value) == fact_json(there) for there, _ in kept):
            self.rows[path] = (True, (*kept, (value, mark)))

    def remove(self, path: Path, value: Any) -> None:
        listed, kept = self.rows.pop(path, (False, ()))
        if left := tuple(one for one in kept if fact_json(one[0]) != fact_json(value)):
            self.rows[path] = (listed, left)

    def restore(self, path: Path, earlier: Ledger) -> None:
        gone, part = self.at_or_below(path), earlier.at_or_below(path)
        self.without(gone)
        if part.rows:
            self.put(path, part)
            return
        for p in earlier.above(path).rows:
            if gone.rows and not self.at_or_below(p).rows and not self.above(p).rows:
                self.rows |= earlier.above(path).rows

    def apply(self, event: FactEvent, mark: int) -> None:
        if event.op == "set":
            self.set(event.path, event.value, mark)
        elif event.op == "add":
            self.add(event.path, event.value, mark)
        elif event.op == "remove":
            self.remove(event.path, event.value)
        else:
            self.without(self.at_or_below(event.path))


def played(
    operations: list[FactEvent | Restore],
) -> Iterator[tuple[FactTree, Ledger, FactTree, Effect]]:
    """After each operation: the tree, the ledger, the tree before, and what the operation said it did."""
    tree: FactTree = FactTree()
    ledger = Ledger()
    states = [(tree.copy(), ledger.copy())]
    for mark, operation in enumerate(operations, 1):
        if isinstance(operation, FactEvent):
            effect = tree.apply(operation, mark)
            ledger.apply(operation, mark)
        else:
            path, back = operation
            earlier_tree, earlier_ledger = states[max(len(states) - 1 - back, 0)]
            effect = tree.restore(path, earlier_tree)
            ledger.restore(path, earlier_ledger)
        yield tree, ledger, states[-1][0], effect
        states.append((tree.copy(), ledger.copy()))


def has_empties(value: Any) -> bool:
    """Whether an object or a list at any depth holds nothing."""
    if isinstance(value, dict):
        return not value or any(map(has_empties, value.values()))
    return isinstance(value, list) and not value


# --- against the ledger
@given(OPERATIONS, PATHS)
def test_the_tree_holds_what_plain_bookkeeping_holds(
    operations: list[FactEvent | Restore], path: Path
) -> None:
    """After every operation the document, the marks and the leaves are those of a flat table of paths; so is each part."""
    for tree, ledger, _, _ in played(operations):
        document = tree.document()
        assert fact_json(document) == fact_json(ledger.document())
        assert document == ledger.document()
        assert tree.marks() == ledger.marks() == {kept.mark for _, kept, _ in tree.leaves()}
        assert not any(map(has_empties, document.values())), "nothing empty remains"
        node: Any = document
        for key in path:
            node = node.get(key) if isinstance(node, dict) else None
        assert tree.get(path) == node
        assert {kept.mark for _, kept, _ in tree.leaves(path)} == ledger.at_or_below(path).marks()
        in_the_way = ledger.at_or_below(path).rows or ledger.above(path).rows
        assert (tree.in_the_way(path) is None) == (not in_the_way)


@given(OPERATIONS)
def test_an_effect_tells_which_marks_went(operations: list[FactEvent | Restore]) -> None:
    """Every mark that stands no more was ended; what met the same changed nothing; what gave way is told."""
    for number, (tree, _, before, effect) in enumerate(played(operations)):
        operation = operations[number]
        assert before.marks() - tree.marks() <= effect.ended <= before.marks()
        if not isinstance(operation, FactEvent):
            assert tree.marks() - before.marks() <= effect.met <= tree.marks()
            continue
        if effect.met:
            assert (tree.document(), tree.marks()) == (before.document(), before.marks())
            assert effect.met <= before.marks()
            assert not effect.ended
        assert bool(effect.ended) <= (effect.old is not None), "what ended something says what"
        if tree.document() != before.document() and operation.op in ("remove", "retract"):
            assert effect.ended


# --- by example
def of(document: dict[str, Any]) -> FactTree:
    """A tree of that document, every value with the mark 0."""
    return FactTree.of(document)


@pytest.mark.parametrize(("before", "said", "old"), cases(examples("facts/facts.json")["gives_way"]))
def test_what_gave_way_is_told(before: dict[str, Any], said: list[Any], old: Any) -> None:
    """`old` is the value that had to go, at the path or above it, and None only if none had to."""
    op, path, *value = said
    keys = tuple(path.split(".")) if path else ()
    event = FactEvent(op="set" if op == "put" else op, path=keys, value=value[0] if value else None)
    effect = of(before).apply(event, 1)
    assert effect.old == old
    assert bool(effect.ended) == (old is not None)


def test_restoring_brings_back_a_value_that_gave_way_to_a_group() -> None:
    """A home that became a group by one statement is the plain value again once that is reverted, and back again."""
    tree = of({"home": "Oslo"})
    before = tree.copy()
    tree.set(("home", "city"), "Bergen", 1)
    after = tree.copy()
    assert tree.restore(("home", "city"), before).met == {0}
    assert tree.document() == {"home": "Oslo"}
    tree.restore(("home", "city"), after)
    assert tree.document() == {"home": {"city": "Bergen"}}
    # Only the named path is restored: its neighbours need their group.
    tree.set(("home", "floor"), 3, 2)
    tree.restore(("home", "city"), before)
    assert tree.document() == {"home": {"floor": 3}}
    # A plain value that was retracted by itself is not what a path below it is about.
    tree.retract(("home",))
    assert tree.restore(("home", "city"), before) == Effect()
    assert tree.document() == {}
