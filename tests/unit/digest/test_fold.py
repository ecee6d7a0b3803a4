"""What turns leave behind: bounded, in order, and the same however they are added."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.digest.fold import MAX_RANGES, MAX_TOPICS, Analysis, Digest, analyse, fold
from memory_agent.domain import Compression, TopicRanges, Turn
from tests.unit.search.builders import START, turn

LINES = (
    "We have decided to take the train to Porto.", "Let's go with Postgres.", "I trust you.", "I'm so happy!",
    "I am really scared of the exam!", "I always keep my promises.", "*smiles warmly* Of course.", "ok",
    "Why is the sky blue?", "```py\ndef area(r):\n    return 3 * r * r\n```",
    "By the way, my name is Ann and I live in Bergen.",
)  # fmt: skip


def analysed(turns: Sequence[Turn]) -> list[tuple[Turn, Analysis]]:
    return [(t, analyse(t)) for t in turns]


said = st.lists(
    st.tuples(st.sampled_from(LINES), st.sampled_from(("user", "assistant")), st.sampled_from("ABC")),
    max_size=25,
).map(
    lambda them: [
        turn(i, text, role=role, topic_id=topic)  # type: ignore[arg-type]
        for i, (text, role, topic) in enumerate(them, start=1)
    ]
)


@given(said, st.lists(st.integers(0, 25), max_size=3))
def test_turns_added_in_parts_leave_what_they_leave_together(turns: list[Turn], cuts: list[int]) -> None:
    """Also if a part is added twice: what is known already is passed over."""
    them = analysed(turns)
    whole = fold(Digest(), them)
    digest = Digest()
    for end in (*sorted(cuts), len(them)):
        digest = fold(digest, them[:end])
    assert digest == whole
    assert (whole.turns, whole.tokens) == (len(turns), sum(turn.tokens for turn in turns))
    assert whole.through == (turns[-1].seq if turns else 0)


@given(said)
@settings(max_examples=20)
def test_a_digest_is_bounded_and_in_order(turns: list[Turn]) -> None:
    many = [turn(i, f"{turns[i % len(turns)].content} {i}" if turns else "x") for i in range(1, 120)]
    digest = fold(Digest(), analysed(many), most_tokens=500)
    assert sum(len(each.text) / 4 for each in digest.moments) <= 500
    assert [each.seq for each in digest.moments] == sorted(each.seq for each in digest.moments)


def test_the_weightiest_moments_stay_and_what_is_said_again_counts_once() -> None:
    small = [turn(i, f"My dog Rex likes lamp {i}.") for i in range(1, 6)]
    decided = [turn(i, f"We have decided to take train {i} to Porto on 3 May.") for i in range(6, 26)]
    digest = fold(Digest(), analysed([*small, *decided]), most_tokens=20 * 19)
    assert {m.seq for m in digest.moments} == {t.seq for t in decided}
    again = [turn(i, "We have decided to move to Oslo.") for i in (1, 2)]
    assert [m.seq for m in fold(Digest(), analysed(again)).moments] == [2]


def test_the_turns_of_a_topic_are_ranges_that_an_answer_does_not_break() -> None:
    """One turn between two of a topic belongs to it; topics are ordered by their last turn, and bounded."""
    of = ["A", None, "A", "B", "B", "A"]
    turns = [turn(i, "x", topic_id=topic) for i, topic in enumerate(of, start=1)]
    assert fold(Digest(), analysed(turns)).topics == (
        TopicRanges(topic_id="B", ranges=((4, 5),)),
        TopicRanges(topic_id="A", ranges=((1, 3), (6, 6))),
    )
    many = [turn(i, "x", topic_id=f"{i % 20}") for i in range(1, 1_000)]
    topics = fold(Digest(), analysed(many)).topics
    assert [topic.topic_id for topic in topics] == [f"{i % 20}" for i in range(1_000 - MAX_TOPICS, 1_000)]
    assert {len(topic.ranges) for topic in topics} == {MAX_RANGES}


def test_a_callers_importance_and_code_make_moments() -> None:
    """Whatever the words; below the least importance nothing is one."""
    turns = [
        turn(1, "ok"),
        dataclasses.replace(turn(2, "ok"), importance=0.9),
        turn(3, "```py\nprint(1)\n```", role="assistant"),
        turn(4, "I was by the lake with Caroline and Melanie, 12 days."),
        turn(5, "I was by the lake with Caroline and Melanie, 12 days.", role="assistant"),
    ]
    digest = fold(Digest(), analysed(turns))
    found = {m.seq: m.code for m in digest.moments}
    assert found == {2: False, 3: True, 4: False}  # of a user's, names and numbers tell facts


def test_a_compressions_record_is_a_digest() -> None:
    """What it derived, to go on from; none is the empty digest."""
    digest = fold(Digest(), analysed([turn(i, text) for i, text in enumerate(LINES, start=1)]))
    names = {field.name for field in dataclasses.fields(digest)} - {"tokens", "asked"}
    derived: dict[str, Any] = {name: getattr(digest, name) for name in names}
    record = Compression(
        **derived, id="c", user_id="u", thread_id="t", session_id=None, number=1, at=START, reason="asked", after_seq=0,
        tokens_before=digest.tokens, tokens_after=1, made_by="x", summary=(), preserved=(), covers=(),
    )  # fmt: skip
    assert Digest.of(record) == digest
    assert Digest.of(None) == Digest()
