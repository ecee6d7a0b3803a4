"""The fold: one document from changes in any order, and what it tells of each of them."""

import gc
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import FactChange, FactEvent, FactRecord, RefusedFact
from memory_agent.facts.fold import MOST_CONFIDENT, combined_confidence, counting, fold, fold_facts, fold_onto
from memory_agent.facts.tree import fact_json, leaves
from tests.unit.facts.builders import add, after, at, change, edit, put, retract, revert, stated
from tests.unit.facts.histories import Thread, threads, value_at


def by_id(changes: list[FactChange]) -> dict[str, FactRecord]:
    return {record.id: record for record in fold_facts(changes).records}


# --- one document
def test_an_edit_outranks_extraction_until_the_user_says_otherwise_in_a_later_turn() -> None:
    """Before it also what is extracted after it; not what a later turn states. A turn speaks for its own time."""
    late = stated(2, {"home": "Oslo"}, turn="t0001")
    assert fold([stated(1, {"home": "Bergen"}, turn="t0002"), late]) == {"home": "Bergen"}
    said = [stated(1, {"home": "Oslo"}, turn="t0001"), edit(2, put("home", "Bergen"), turn="t0005")]
    late = stated(3, {"home": "Paris"}, turn="t0004")
    later = stated(4, {"home": "Rome"}, turn="t0006")
    assert fold([*said, late]) == {"home": "Bergen"}
    assert fold([*said, late, later]) == {"home": "Rome"}
    assert fold([edit(1, retract("home"), turn="t0005"), late]) == {}


# --- what is told
@given(threads(max_size=20))
def test_what_is_told_agrees_with_the_document(thread: Thread) -> None:
    """Whatever stands has a record that stands; whatever was said and does not stand names what ended it."""
    folded = fold_facts(thread.changes)
    records = {record.id: record for record in folded.records}
    assert len(records) == len(folded.records), "each has an id of its own"
    standing = folded.standing()
    for record in folded.records:
        if record.stands:
            there = value_at(folded.document, record.path)
            found = there if isinstance(there, list) else [there]
            assert record.op in ("set", "add")
            assert record.superseded_by is None
            assert isinstance(record.value, dict | list) or record.value in found
        elif record.op in ("set", "add"):
            assert record.superseded_by in records
            assert record.superseded_by != record.id
        else:
            assert record.superseded_by is None
    for path, value, _ in leaves(folded.document):
        assert any(path[: len(record.path)] == record.path for record in standing), (path, value)
    said = [(record.path, record.value) for record in standing if not isinstance(record.value, dict | list)]
    for number, (path, value) in enumerate(said):
        assert not any(path == p and fact_json(value) == fact_json(v) for p, v in said[:number]), (
            "no entry twice"
        )


@given(threads(max_size=20))
def test_a_record_is_as_sure_and_as_fresh_as_its_sources(thread: Thread) -> None:
    """It was first said with its first source, last seen with the newest, and is as sure as all together."""
    counted = {made.seq: made for made in counting(thread.changes)}
    for record in fold_facts(thread.changes).records:
        seq, number = map(int, record.id.split("."))
        event = counted[seq].events[number]
        times = [source.said_at for source in record.sources]
        assert (record.op, record.path, record.value) == (event.op, event.path, event.value)
        assert (times[0], record.last_seen) == (counted[seq].said_at, max(times))
        assert event.confidence <= record.confidence <= 1.0
        assert len(times) > 1 or record.confidence == event.confidence


def test_the_same_statement_again_is_no_new_entry() -> None:
    """Its source joins the first one's record; confidence and last-seen rise; words and spelling stay."""
    first = change(1, put("name", "Ann", confidence=0.8, quote="I'm Ann"))
    again = change(2, put("name", "ann ", confidence=0.5, quote="it's ann"))
    [record] = fold_facts([first, again]).records
    assert (record.id, record.value, record.stands) == ("1.0", "Ann", True)
    assert [(source.turn_id, source.quote) for source in record.sources] == [
        ("t0001", "I'm Ann"),
        ("t0002", "it's ann"),
    ]
    assert record.confidence == pytest.approx(0.9)
    assert (record.said_at, record.last_seen) == (at(1), at(2))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(put("home", "Oslo"), put("home", "Bergen"), id="contradiction"),
        pytest.param(put("home", "Oslo"), put("home.city", "Bergen"), id="group for scalar"),
        pytest.param(put("home.city", "Oslo"), put("home", "Bergen"), id="scalar for group"),
        pytest.param(add("home", "Oslo"), put("home", "Bergen"), id="scalar for list"),
        pytest.param(put("home", "Oslo"), add("home", "Bergen"), id="list for scalar"),
        pytest.param(add("home", "Oslo"), put("home.city", "Bergen"), id="group for list"),
    ],
)
def test_a_contradiction_or_a_change_of_type_is_a_replacement_and_recorded(
    first: FactEvent, then: FactEvent
) -> None:
    """Whatever gave way is in the history, superseded by what took its place, which tells what it was."""
    records = by_id([change(1, first), change(2, then)])
    assert (records["1.0"].stands, records["1.0"].superseded_by) == (False, "2.0")
    assert (records["2.0"].stands, "Oslo" in str(records["2.0"].old)) == (True, True)


def test_refused_items_are_told_last_and_change_nothing() -> None:
    refused = RefusedFact(path="health.allergy", said="nuts", quote="my nuts", reason="an echo")
    folded = fold_facts([change(1, put("name", "Ann"), refused=(refused,)), stated(2, {"age": 7})])
    assert folded.document == {"name": "Ann", "age": 7}
    last = folded.records[-1]
    assert (last.id, last.path, last.value, last.refused) == (
        "1.r0",
        ("health", "allergy"),
        "nuts",
        "an echo",
    )
    assert (last.stands, last.superseded_by, last.confidence) == (False, None, 0.0)


# --- a saved document is carried on by the changes after it, or folded anew
@given(threads(speakers=("", "Ann", "ann ", "Bo")), st.integers(0, 14))
def test_a_document_carried_on_is_the_fold_of_everything(thread: Thread, saved: int) -> None:
    before, after = thread.changes[:saved], thread.changes[saved:]
    at = max((made.at for made in before), default="")
    people = fold_onto(fold_facts(before).people, at, after)
    assert people in (None, fold_facts(thread.changes).people)


def test_later_turns_and_edits_need_no_fold_of_the_rest() -> None:
    """The usual case: what is new was said last."""
    known = {"user": {"name": "Ann", "likes": ["tea"]}}
    later = [
        change(4, FactEvent(op="set", path=("name",), value="ANN"), kind="edit"),
        change(3, FactEvent(op="add", path=("likes",), value="jazz")),
    ]
    assert fold_onto(known, "t0002", later) == {"user": {"name": "ANN", "likes": ["tea", "jazz"]}}
    # A turn that waited for its extraction, a revert and a generation each go back to what is folded already.
    late = change(3, FactEvent(op="set", path=("name",), value="Eve"), turn="t0001")
    revert = change(3, FactEvent(op="revert", path=("name",), to=("t0001", 1, 0)), kind="edit")
    counts = change(3, kind="replay", generation="g")
    assert [fold_onto(known, "t0002", [made]) for made in (late, revert, counts)] == [None, None, None]


# --- confidence
CONFIDENCE = st.floats(0, 1)


@given(CONFIDENCE, CONFIDENCE, CONFIDENCE)
def test_being_said_twice_makes_surer(one: float, other: float, more: float) -> None:
    """Never less sure than either, never certain unless one was, the same either way, and rising with both."""
    both = combined_confidence(one, other)
    assert max(one, other) <= both <= 1.0
    assert (both == 1.0) == (1.0 in (one, other))
    assert both <= max(one, other, MOST_CONFIDENT)
    assert both == combined_confidence(other, one)
    assert combined_confidence(one, max(other, more)) >= both
    assert combined_confidence(one, 0.0) == pytest.approx(one)
    assert combined_confidence(0.8, 0.8) == pytest.approx(0.96)
    assert combined_confidence(0.98, 0.98) == MOST_CONFIDENT
    assert combined_confidence(0.995, 0.5) == 0.995


# --- speed
def _two_threads(count: int) -> list[FactChange]:
    """Turns about several things: new values, replaced ones, growing lists, what was said before; every tenth goes back."""
    changes = []
    for seq in range(1, count // 2 + 1):
        said = {
            "places": {f"p{seq % 500}": {"visited": seq, "note": f"note {seq}"}},
            "likes": [f"x{seq % 900}"],
        }
        changes += [stated(seq, said), stated(seq, said, thread="home")]
        if seq % (count // 20) == 0:
            changes[-2] = edit(seq, revert("places.p1", after(seq - 5, 0)), turn=changes[-2].at)
    return changes


@pytest.mark.nightly
def test_folding_twice_as_many_changes_takes_about_twice_as_long() -> None:
    """Time grows with the number of changes, not with its square (which would be 4 times)."""

    def seconds(count: int) -> float:
        changes, taken = _two_threads(count), []
        for _ in range(3):
            start = time.process_time()
            fold(changes)
            taken.append(time.process_time() - start)
        return min(taken)

    gc.collect()
    gc.disable()  # collections of garbage come in leaps
    try:
        seconds(200)
        assert seconds(4_000) < 3 * seconds(2_000)
    finally:
        gc.enable()
