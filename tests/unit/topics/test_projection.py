"""What a topic is folded from: its turns, in order."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Role, Topic, Turn
from memory_agent.topics.projection import emptied, folded, title_of
from tests.unit.search.builders import turn as stored_turn

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOW = datetime(2026, 5, 1, tzinfo=UTC)
EMPTY = Topic(id="1", user_id="u", thread_id="t", created_at=NOW, last_access=NOW)


def turn(seq: int, role: Role = "user", *, importance: float | None = None, text: str = "") -> Turn:
    at = NOW + timedelta(minutes=seq)
    content = text or f"What about number {seq}?"
    return stored_turn(seq, content, role=role, id=str(seq), timestamp=at, importance=importance)


def vector(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def test_the_first_user_turn_titles_the_topic_and_later_ones_are_accesses() -> None:
    """An assistant's turn is neither."""
    topic = folded(EMPTY, [turn(1), turn(2, "assistant"), turn(3), turn(5)], {}, embedder="e", least_terms=1)
    assert (topic.title, topic.access_count, topic.through) == ("What about number 1?", 2, 5)
    assert topic.created_at == NOW + timedelta(minutes=1)
    assert topic.last_access == NOW + timedelta(minutes=5)


def test_the_highest_importance_of_its_turns_is_the_topics() -> None:
    """A turn without one neither raises nor lowers it."""
    for importances, expected in (
        ((None, None), None),
        ((0.1, None), 0.1),
        ((None, 0.9, 0.2), 0.9),
        ((0.0,), 0.0),
    ):
        turns = [turn(seq, importance=given) for seq, given in enumerate(importances, start=1)]
        assert folded(EMPTY, turns, {}, embedder="e", least_terms=1).given_importance == expected


def test_every_turn_with_a_vector_moves_the_embedding() -> None:
    """The first vector is the embedding, replies join as well; another model's embedding is replaced, not mixed."""
    vectors = {"1": vector(1, 0), "3": vector(0, 1), "4": vector(0, 1)}
    topic = folded(EMPTY, [turn(1), turn(2, "assistant")], vectors, embedder="e", least_terms=1)
    assert topic.embedding.tolist() == [1, 0]
    assert (topic.embedded, topic.embedder) == (1, "e")
    moved = folded(topic, [turn(4, "assistant")], vectors, embedder="e", least_terms=1)
    assert moved.embedding.tolist() == [0.5, 0.5]
    other = folded(topic, [turn(3)], vectors, embedder="another", least_terms=1)
    assert (other.embedding.tolist(), other.embedded, other.embedder) == ([0, 1], 1, "another")


def test_a_short_turn_does_not_move_the_embedding_unless_it_is_the_first() -> None:
    """A topic without an embedding could never be returned to."""
    vectors = {"1": vector(1, 0), "2": vector(0, 1)}
    short = [turn(1, text="hello"), turn(2, text="yes, the second one")]
    topic = folded(EMPTY, short, vectors, embedder="e", least_terms=4)
    assert (topic.embedding.tolist(), topic.embedded, topic.access_count) == ([1, 0], 1, 1)


def test_an_archived_topic_that_gets_a_turn_is_back() -> None:
    """But one that is only made anew stays where it was."""
    archived = dataclasses.replace(folded(EMPTY, [turn(1)], {}, embedder="e", least_terms=1), archived=True)
    assert not folded(archived, [turn(2)], {}, embedder="e", least_terms=1).archived
    assert folded(emptied(archived), [turn(1)], {}, embedder="e", least_terms=1).archived


@given(st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=20), st.data())
def test_folding_in_parts_is_folding_at_once(roles: list[Role], data: st.DataObject) -> None:
    """However a crash cut the work into pieces, the topic is the same."""
    turns = [turn(seq, role) for seq, role in enumerate(roles, start=1)]
    vectors = {t.id: vector(np.cos(t.seq), np.sin(t.seq)) for t in turns}
    cut = data.draw(st.integers(0, len(turns)))
    whole = folded(EMPTY, turns, vectors, embedder="e", least_terms=1)
    parts = folded(
        folded(EMPTY, turns[:cut], vectors, embedder="e", least_terms=1),
        turns[cut:],
        vectors,
        embedder="e",
        least_terms=1,
    )
    assert np.array_equal(whole.embedding, parts.embedding)
    assert _figures(whole) == _figures(parts)


def _figures(topic: Topic) -> tuple[object, ...]:
    given_importance, embedded = topic.given_importance, topic.embedded
    times = (topic.created_at, topic.last_access)
    return (topic.title, topic.access_count, topic.through, given_importance, embedded, *times)


def test_making_a_topic_anew_keeps_what_people_set() -> None:
    """Tags, votes, a set importance and what was merged into it stay; what came from turns goes."""
    topic = dataclasses.replace(
        folded(EMPTY, [turn(1, importance=0.9)], {"1": vector(1, 0)}, embedder="e", least_terms=1),
        tags=("work",),
        votes=3,
        set_importance=0.7,
        absorbed=("x",),
    )
    fresh = emptied(topic)
    assert (fresh.tags, fresh.votes, fresh.set_importance, fresh.absorbed) == (("work",), 3, 0.7, ("x",))
    assert (fresh.title, fresh.summary, fresh.through, fresh.embedded, fresh.stale) == ("", None, 0, 0, True)
    assert fresh.embedding.size == 0


def test_a_title_is_one_line_of_80_characters() -> None:
    """Line breaks become spaces; a text of nothing but blanks still has a title."""
    assert title_of("Where\n\nis  my\tbike?") == "Where is my bike?"
    assert title_of("x" * 500) == "x" * 80
    assert title_of("\u200b \n") == "\u200b"
