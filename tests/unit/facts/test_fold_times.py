"""Going back: reverts, generations, and what was known or said at a time."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.facts.fold import applied_generations, counting, fold, fold_facts
from tests.unit.facts.builders import PATHS, after, at, change, edit, put, revert, stated
from tests.unit.facts.histories import Thread, as_it_was, threads, value_at

ANYWHERE = PATHS | st.just(())


# --- reverts
@given(threads(), ANYWHERE, st.integers(0, 20))
def test_a_revert_restores_exactly_and_can_be_reverted(
    thread: Thread, path: tuple[str, ...], back: int
) -> None:
    """The path holds what it held at that place, other paths stay; and reverting the revert brings back everything."""
    before, to = fold(thread.changes), thread.place(back)
    just_before = thread.place(0)
    wanted = value_at(as_it_was(thread.changes, to), path)
    thread.now += 1
    thread.revert(path, to)
    reverted = fold(thread.changes)
    assert value_at(reverted, path) == wanted
    for key in before.keys() | reverted.keys():
        if path and key != path[0]:
            assert reverted.get(key) == before.get(key)
    thread.now += 1
    thread.revert(path, just_before)
    assert fold(thread.changes) == before


@given(threads(without=("revert",)), st.data())
def test_a_revert_of_everything_is_as_if_the_rest_had_not_been(thread: Thread, data: st.DataObject) -> None:
    to = thread.place(data.draw(st.integers(0, 20)))
    wanted = as_it_was(thread.changes, to)
    thread.now += 1
    thread.revert((), to)
    assert fold(thread.changes) == wanted


def test_a_turn_that_is_extracted_after_a_revert_belongs_to_what_it_went_back_to() -> None:
    """A place is one in the fold: what speaks for a time before it was there already."""
    changes = [stated(1, {"a": 1}, turn="t0001"), edit(2, put("a", 2)), edit(3, revert("", ("t0001~", 0, 0)))]
    assert fold(changes) == {"a": 1}
    assert fold([*changes, stated(4, {"b": 1}, turn="t0000")]) == {"a": 1, "b": 1}
    assert fold([*changes, stated(4, {"b": 1}, turn="t0002")]) == {"a": 1}


def test_a_revert_to_a_place_to_come_changes_nothing() -> None:
    assert fold([stated(1, {"a": 1}), edit(2, revert("a", after(9))), edit(3, put("b", 1))]) == {
        "a": 1,
        "b": 1,
    }


# --- generations
def test_the_newest_generation_counts_turn_by_turn() -> None:
    """A turn that it looked at counts by it, all others as before; people's edits stay; undone, all is as it was."""
    first = [
        stated(1, {"home": "Oslo", "wrong": 1}, turn="t0001"),
        stated(2, {"age": 7}, turn="t0002"),
        edit(3, put("name", "Ann"), turn="t0003"),
    ]
    made = [
        stated(4, {"home": "Bergen"}, turn="t0001", generation="one"),
        stated(5, {"home": "Rome"}, turn="t0001", generation="two"),
        stated(6, {"age": 8}, turn="t0002", generation="two"),
    ]
    one, two = (change(7, kind="replay", generation="one"), change(8, kind="replay", generation="two"))
    was = {"home": "Oslo", "wrong": 1, "age": 7, "name": "Ann"}
    assert fold([*first, *made]) == was, "not applied yet"
    assert fold([*first, *made, one]) == {"home": "Bergen", "age": 7, "name": "Ann"}
    assert fold([*first, *made, one, two]) == {"home": "Rome", "age": 8, "name": "Ann"}
    assert applied_generations([two, one]) == ["two", "one"]
    undo_two, undo_one = (change(9, kind="undo", generation="two"), change(10, kind="undo", generation="one"))
    assert fold([*first, *made, one, two, undo_two]) == {"home": "Bergen", "age": 7, "name": "Ann"}
    assert fold([*first, *made, one, two, undo_two, undo_one]) == was


def test_a_generation_may_find_that_a_turn_states_nothing() -> None:
    changes = [stated(1, {"a": 1}, turn="t0001"), change(2, turn="t0001", generation="one")]
    assert fold([*changes, change(3, kind="replay", generation="one")]) == {}


@given(threads(), st.data())
def test_a_generation_that_was_undone_leaves_no_trace(thread: Thread, data: st.DataObject) -> None:
    """Until it is applied nothing has changed; once it is undone everything told is what it was before."""
    before = fold_facts(thread.changes)
    count = len(thread.changes)
    found = data.draw(threads(max_size=6)).changes
    thread.now += 1
    thread.do(("again", [(number, made.events) for number, made in enumerate(found)]))
    made = thread.changes[count:]
    assert fold_facts(thread.changes[:-1] if made else thread.changes) == before
    if made:
        thread.do(("undo", 0))
        assert thread.changes[-1].generation == made[-1].generation, "the newest is undone first"
        assert fold_facts(thread.changes) == before


# --- at a time
@given(threads(max_size=20))
def test_what_was_recorded_by_a_time_is_what_was_known_then(thread: Thread) -> None:
    """At every tick the document was kept; later the fold gives the very same for that tick."""
    known = {0: fold([])}
    for count in range(1, len(thread.changes) + 1):
        appended = thread.changes[:count]
        known[int((appended[-1].recorded_at - at(0)).total_seconds() // 60)] = fold(appended)
    document = known[0]
    for tick in range(thread.now + 1):
        document = known.get(tick, document)
        assert fold(thread.changes, recorded_by=at(tick)) == document
        assert fold(thread.changes, recorded_by=at(tick + 0.5)) == document


@given(threads(max_size=20), st.integers(0, 22))
def test_what_had_been_said_by_a_time_is_the_fold_of_that(thread: Thread, tick: int) -> None:
    """Nothing said later counts or is told, whenever it was extracted."""
    counted = [dataclasses.replace(made, generation="") for made in counting(thread.changes)]
    said = [made for made in counted if made.said_at <= at(tick)]
    folded = fold_facts(thread.changes, as_of=at(tick))
    assert folded == fold_facts(said)
    assert all(record.said_at <= at(tick) and record.last_seen <= at(tick) for record in folded.records)
    assert fold(thread.changes, as_of=at(thread.now)) == fold(thread.changes)
