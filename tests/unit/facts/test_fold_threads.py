"""What is known of a user over several threads."""

from typing import Any

import pytest
from hypothesis import given

from memory_agent.domain import FactChange, FactEvent
from memory_agent.facts.fold import fold, fold_facts
from memory_agent.facts.tree import fact_json
from tests.unit.examples import cases, examples
from tests.unit.facts import builders
from tests.unit.facts.builders import add, after, at, change, put, retract, revert, stated
from tests.unit.facts.histories import Thread, threads


def history(said: list[list[Any]]) -> list[FactChange]:
    """Edits in the order of their rows: the thread, then what is said, as the builders are called.

    What is reverted goes back to the change of that number, 0 for before them all.
    """

    def event(op: str, path: str, *value: Any) -> FactEvent:
        if op == "revert":
            return revert(path, after(*value) if value[0] else ("", 0, 0))
        made: FactEvent = getattr(builders, op)(path, *value)
        return made

    return [
        change(seq, *(event(*each) for each in events), kind="edit", thread=thread)
        for seq, (thread, *events) in enumerate(said, 1)
    ]


EXAMPLES = examples("facts/facts.json")


def work(seq: int, *events: FactEvent) -> FactChange:
    return change(seq, *events, kind="edit", thread="work")


def home(seq: int, *events: FactEvent) -> FactChange:
    return change(seq, *events, kind="edit", thread="home")


@pytest.mark.parametrize(("said", "document"), cases(EXAMPLES["threads"]))
def test_the_newest_statement_of_any_thread_counts(said: list[list[Any]], document: dict[str, Any]) -> None:
    """Over threads values compete by when they were said, and lists come together."""
    changes = history(said)
    assert fold(changes) == document
    assert fold(changes[::-1]) == document


@pytest.mark.parametrize(("said", "document"), cases(EXAMPLES["reverts"]))
def test_a_revert_undoes_only_what_its_own_thread_said(
    said: list[list[Any]], document: dict[str, Any]
) -> None:
    """What was undone counts as never said in that thread; what others said counts as ever."""
    folded = fold_facts(history(said))
    assert folded.document == document
    records = {record.id for record in folded.records}
    for record in folded.records:
        if record.op in ("set", "add") and not record.stands:
            assert record.superseded_by in records


@given(threads(name="work"))
def test_a_thread_beside_another_about_something_else_is_known_as_it_is_alone(thread: Thread) -> None:
    """Also with all its reverts and generations: the user's facts are the thread's own, and the other's."""
    other = stated(1, {"elsewhere": {"x": ["y"]}}, turn="t0000", said=0, thread="home")
    alone, together = fold(thread.changes), fold([other, *thread.changes])
    assert together.pop("elsewhere") == {"x": ["y"]}
    assert as_sets(together) == as_sets(alone)


def as_sets(document: Any) -> Any:
    """A document without regard to the order of lists, which is that of what still counts."""
    if isinstance(document, dict):
        return {key: as_sets(value) for key, value in document.items()}
    return sorted(map(fact_json, document)) if isinstance(document, list) else document


def test_what_comes_back_joins_what_another_thread_says_already() -> None:
    """What both say is theirs together, surer than either; the rest stands by its own record."""
    both = put("g", {"l": ["tea", "jazz"]}, confidence=0.5)
    changes = [
        work(1, both),
        work(2, retract("g")),
        home(3, add("g.l", "tea", confidence=0.5)),
        work(4, revert("g.l", after(1))),
    ]
    folded = fold_facts(changes)
    assert folded.document == {"g": {"l": ["tea", "jazz"]}}
    records = {record.id: record for record in folded.standing()}
    assert [*records] == ["work/1.0", "home/3.0"]
    assert [source.thread_id for source in records["home/3.0"].sources] == ["home", "work"]
    assert records["home/3.0"].confidence == 0.75


def test_what_was_said_later_does_not_delay_what_was_said_before() -> None:
    """As of a time, a turn stored after one from the future speaks at its own time."""
    changes = [
        stated(1, {"x": 1}, said=10, thread="work"),
        stated(2, {"a": "early"}, said=5, thread="work"),
        stated(1, {"a": "later"}, said=7, thread="home"),
    ]
    assert fold(changes, as_of=at(8)) == {"a": "later"}
    assert fold(changes) == {"x": 1, "a": "early"}, "it was stored after what was said at ten"
