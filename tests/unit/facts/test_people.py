"""Whose a fact is: nothing that one person says touches what is known of another."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import InvalidInput
from memory_agent.facts.fold import addressed, document_of, fold, fold_facts, person_key, subject_of
from tests.unit.facts.builders import add, change, edit, put, remove, retract, revert, stated
from tests.unit.facts.histories import Thread, threads

SPEAKERS = ("user", "Ann", "ANN ", "Bo")


@given(threads(speakers=SPEAKERS, max_size=20), st.sampled_from(SPEAKERS))
def test_what_several_people_say_gives_each_what_they_say_alone(thread: Thread, name: str) -> None:
    """Document and history: turns, edits, reverts, late and repeated extractions of others make no difference."""
    key = person_key(name)
    alone = [
        dataclasses.replace(
            made, events=tuple(event for event in made.events if person_key(event.subject) == key)
        )
        for made in thread.changes
    ]
    together, by_themselves = fold_facts(thread.changes), fold_facts(alone)
    assert document_of(together.people, name) == document_of(by_themselves.people, name)
    assert [record for record in together.records if person_key(record.subject) == key] == [
        *by_themselves.records
    ]


def test_the_document_is_keyed_by_name_once_there_are_several() -> None:
    """One person's looks as if nobody else could come; a name is spelled as it was first; the unnamed is the user."""
    nurse = change(1, put("job", "nurse", subject="Ann"))
    pilot = change(2, put("job", "pilot", subject="Bo"), add("likes", "steak", subject="Bo"))
    again = change(3, put("home", "Berlin", subject=" ANN"))
    nobody = change(4, put("job", "cook"))
    assert fold([nurse]) == {"job": "nurse"}
    assert fold([nurse, again]) == {"job": "nurse", "home": "Berlin"}
    both = {"Ann": {"job": "nurse", "home": "Berlin"}, "Bo": {"job": "pilot", "likes": ["steak"]}}
    assert fold([nurse, pilot, again]) == both
    assert fold([nurse, pilot, again, nobody]) == {**both, "user": {"job": "cook"}}
    gone = edit(5, dataclasses.replace(retract("job"), subject="user"))
    assert fold([nurse, nobody, gone]) == {"Ann": {"job": "nurse"}}, "it stays keyed"
    assert [record.subject for record in fold_facts([nurse, pilot]).records] == ["Ann", "Bo", "Bo"]


def test_edits_of_nobody_in_particular_find_whom_they_are_about() -> None:
    """Made before anybody was known: of who speaks first, unless people have named somebody else before."""
    zone = edit(1, put("time_zone", "UTC"))
    ann, bo = (change(seq, put("job", "nurse", subject=name)) for seq, name in ((2, "Ann"), (3, "Bo")))
    assert fold([zone]) == {"time_zone": "UTC"}
    assert fold([zone, ann]) == {"time_zone": "UTC", "job": "nurse"}
    assert fold([zone, ann, bo]) == {"Ann": {"time_zone": "UTC", "job": "nurse"}, "Bo": {"job": "nurse"}}
    assert fold([zone, stated(2, {"job": "cook"}), bo])["user"] == {"time_zone": "UTC", "job": "cook"}
    named = edit(2, put("job", "pilot", subject="Bo"))
    assert fold([zone, named, bo]) == {"user": {"time_zone": "UTC"}, "Bo": {"job": "nurse"}}
    assert [addressed(people, None) for people in ((), ("Ann",), ("user",), ("Ann", "user"))] == [
        "", "Ann", "", "user"
    ]  # fmt: skip
    assert (addressed(("Ann",), " Bo "), addressed(("Ann",), "\u200b")) == ("Bo", "user")
    with pytest.raises(InvalidInput, match="pass one of 'Ann', 'Bo'"):
        addressed(("Ann", "Bo"), None)


def test_a_revert_goes_back_for_one_person() -> None:
    """Also of the whole document, and of several threads."""
    said = [
        change(1, put("job", "nurse", subject="Ann"), thread="a"),
        change(2, put("job", "pilot", subject="Bo"), thread="a"),
        change(3, put("job", "cook", subject="Ann"), thread="a"),
        change(4, add("likes", "tea", subject="Bo"), thread="a"),
    ]
    back = edit(5, dataclasses.replace(revert("", ("t0002", 2, 0)), subject="ann"), thread="a")
    other = change(6, remove("likes", "tea"), put("job", "judge", subject="bo"), thread="b")
    assert fold([*said, back]) == {"Ann": {"job": "nurse"}, "Bo": {"job": "pilot", "likes": ["tea"]}}
    assert fold([*said, back, other]) == {"Ann": {"job": "nurse"}, "Bo": {"job": "judge", "likes": ["tea"]}}


@pytest.mark.parametrize("name", ["An\u200bn", "\ufeffAnn", "Ann\u2060", "A\u00adnn", "\u202eAnn"])
def test_what_cannot_be_seen_makes_nobody_else(name: str) -> None:
    """Of one who is called the same to the eye; joiners, which tell Persian words apart, do."""
    assert subject_of(name) == "Ann"
    assert subject_of("می\u200cخواهم") == "می\u200cخواهم"
