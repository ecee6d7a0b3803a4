"""A saved document is carried on by the changes after it, or folded anew: the outcome is the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import FactEvent, FactsDocument
from memory_agent.facts.fold import fold, followed
from tests.unit.facts.builders import change
from tests.unit.facts.histories import Thread, threads


@given(threads(), st.integers(0, 14))
def test_a_document_carried_on_is_the_fold_of_everything(thread: Thread, saved: int) -> None:
    """At whichever change it was saved; where that can't be, nothing is claimed."""
    before, after = thread.changes[:saved], thread.changes[saved:]
    document = FactsDocument(
        facts=fold(before), through=len(before), at=max((made.at for made in before), default="")
    )
    updated = followed(document, after)
    if updated is not None:
        assert updated.facts == fold(thread.changes)
        assert updated.through == len(thread.changes)
        assert updated.at == max((made.at for made in thread.changes), default="")


def test_later_turns_and_edits_need_no_fold_of_the_rest() -> None:
    """The usual case: what is new was said last."""
    document = FactsDocument(facts={"name": "Ann", "likes": ["tea"]}, through=2, at="t0002")
    later = [
        change(4, FactEvent(op="set", path=("name",), value="ANN"), kind="edit"),
        change(3, FactEvent(op="add", path=("likes",), value="jazz")),
    ]
    updated = followed(document, later)
    assert updated is not None
    assert updated.facts == {"name": "ANN", "likes": ["tea", "jazz"]}
    assert (updated.through, updated.at) == (4, "t0004")
    # A turn that waited for its extraction, a revert and a replay each go back to what is folded already.
    late = change(3, FactEvent(op="set", path=("name",), value="Eve"), turn="t0001")
    revert = change(3, FactEvent(op="revert", path=("name",), to=("t0001", 1, 0)), kind="edit")
    replay = change(3, kind="replay", generation="g")
    assert [followed(document, [made]) for made in (late, revert, replay)] == [None, None, None]
