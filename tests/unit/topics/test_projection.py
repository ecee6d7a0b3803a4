"""What a topic is folded from: its turns, in order."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Role, Topic, Turn
from memory_agent.text.subjects import subject_of
from memory_agent.topics.index import WordCounts, title_of, with_words
from memory_agent.topics.projection import TurnSubject, emptied, folded
from tests.unit.search.builders import turn as stored_turn

NOW = datetime(2026, 5, 1, tzinfo=UTC)
EMPTY = Topic(id="1", user_id="u", thread_id="t", created_at=NOW, last_access=NOW)


def turn(seq: int, role: Role = "user", *, importance: float | None = None, text: str = "") -> Turn:
    at = NOW + timedelta(minutes=seq)
    content = text or f"What about number {seq}?"
    return stored_turn(seq, content, role=role, id=str(seq), timestamp=at, importance=importance)


def vector(
    *values: float, size: int = 5, words: Mapping[str, str] | None = None, embedder: str = "e"
) -> TurnSubject:
    made = np.array(values, dtype=np.float32)
    return TurnSubject(vector=made, embedder=embedder, size=size, words=words or {})


def test_the_first_user_turn_is_the_opener_and_later_ones_are_accesses() -> None:
    """An assistant's turn is neither."""
    topic = folded(EMPTY, [turn(1), turn(2, "assistant"), turn(3), turn(5)], {})
    assert (topic.opener, topic.access_count, topic.through) == ("What about number 1?", 2, 5)
    assert topic.created_at == NOW + timedelta(minutes=1)
    assert topic.last_access == NOW + timedelta(minutes=5)


def test_a_short_turn_does_not_move_the_embedding_unless_it_is_the_first() -> None:
    """A topic without an embedding could never be returned to."""
    vectors = {"1": vector(1, 0, size=0), "2": vector(0, 1, size=1)}
    short = [turn(1, text="hello"), turn(2, text="yes, the second one")]
    topic = folded(EMPTY, short, vectors)
    assert (topic.embedding.tolist(), topic.embedded, topic.access_count) == ([1, 0], 1, 1)


def test_an_archived_topic_that_gets_a_turn_is_back() -> None:
    """But one that is only made anew stays where it was."""
    archived = dataclasses.replace(folded(EMPTY, [turn(1)], {}), archived=True)
    assert not folded(archived, [turn(2)], {}).archived
    assert folded(emptied(archived), [turn(1)], {}).archived


@given(st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=20), st.data())
def test_folding_in_parts_is_folding_at_once(roles: list[Role], data: st.DataObject) -> None:
    """However a crash cut the work into pieces, the topic is the same."""
    turns = [turn(seq, role) for seq, role in enumerate(roles, start=1)]
    vectors = {
        t.id: vector(np.cos(t.seq), np.sin(t.seq), words={"common": "", f"w{t.seq % 5}": "a b"})
        for t in turns
    }
    cut = data.draw(st.integers(0, len(turns)))
    whole = folded(EMPTY, turns, vectors)
    parts = folded(
        folded(EMPTY, turns[:cut], vectors),
        turns[cut:],
        vectors,
    )
    assert np.array_equal(whole.embedding, parts.embedding)
    assert _figures(whole) == _figures(parts)


def _figures(topic: Topic) -> tuple[object, ...]:
    given_importance, embedded = topic.given_importance, topic.embedded
    times = (topic.created_at, topic.last_access)
    return (topic.opener, topic.access_count, topic.through, given_importance, embedded, *times)


def test_making_a_topic_anew_keeps_what_people_set() -> None:
    """Tags, votes, a set importance and what was merged into it stay; what came from turns goes."""
    topic = dataclasses.replace(
        folded(EMPTY, [turn(1, importance=0.9)], {"1": vector(1, 0)}),
        tags=("work",),
        votes=3,
        set_importance=0.7,
        absorbed=("x",),
    )
    fresh = emptied(topic)
    assert (fresh.tags, fresh.votes, fresh.set_importance, fresh.absorbed) == (("work",), 3, 0.7, ("x",))
    assert (fresh.title, fresh.opener, fresh.words, fresh.summary, fresh.through) == ("", "", {}, None, 0)
    assert (fresh.embedded, fresh.stale) == (0, True)
    assert fresh.embedding.size == 0


def with_turns(*texts: str, id: str = "1") -> Topic:  # noqa: A002 - the field's name
    subjects = {}
    turns = [turn(seq, text=text) for seq, text in enumerate(texts, start=1)]
    for said in turns:
        subjects[said.id] = TurnSubject(words=subject_of(said.content).words)
    return folded(dataclasses.replace(EMPTY, id=id), turns, subjects)


def test_a_title_is_made_of_phrases_that_the_topic_has_and_others_have_not() -> None:
    """Never of how it began; and of what it began with where no phrase is found."""
    code = with_turns(
        "Always format all code snippets in my answers, please.",
        "The nightly backup job on the host fails with exit code 23.",
        "The nightly backup job failed again, is it the exclude file?",
        "I changed the exclude file on the host.",
    )
    house = with_turns(
        "We want to rent a flat in Porto before the baby comes.",
        "The landlord of the flat on Rua da Boavista wants a deposit.",
        "Is the deposit for a flat in Porto usual?",
        id="2",
    )
    assert title_of(code, WordCounts.of([house])) == "nightly backup job, exclude file"
    assert title_of(house, WordCounts.of([code])) == "flat, Porto"
    # What another topic has as well tells less.
    other = with_turns("A flat and a garden in Porto.", id="3")
    assert title_of(house, WordCounts.of([code, other])) == "flat, deposit"
    korean = with_turns("제주도에서 렌터카를 빌리려고 해요.", "제주도의 숙소를 예약했어요.")
    assert title_of(korean, WordCounts.of([])) == "제주도, 렌터카"
    assert title_of(with_turns("Hi! How are you?"), WordCounts.of([])) == "Hi! How are you?"
    assert (
        title_of(with_turns("Wow, it keeps you going! How are you?"), WordCounts.of([]))
        == "it keeps you going"
    )
    chinese = with_turns("没关系，昨天我在准备攀岩用的装备，不知道选哪种。", "攀岩的装备很贵。")
    assert title_of(chinese, WordCounts.of([])) == "昨天我在准备攀岩用的装备"


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=9)), max_size=30))
def test_a_topics_words_are_counted_and_bounded(told: list[dict[str, str]]) -> None:
    """A word counts once a turn; what is kept of hundreds are those of most turns."""
    words: dict[str, tuple[int, str]] = {}
    for each in told:
        words = with_words(words, each)
    assert {word: count for word, (count, _) in words.items()} == Counter(
        word for each in told for word in each
    )
    for number in range(400):
        words = with_words(words, {"often": "", f"once{number}": ""})
    assert len(words) <= 384
    assert words["often"][0] == 400


def test_every_turn_with_a_vector_moves_the_embedding() -> None:
    """The first vector is the embedding, replies join as well; another model's embedding is replaced, not mixed."""
    vectors = {"1": vector(1, 0), "3": vector(0, 1), "4": vector(0, 1)}
    topic = folded(EMPTY, [turn(1), turn(2, "assistant")], vectors)
    assert topic.embedding.tolist() == [1, 0]
    assert (topic.embedded, topic.embedder) == (1, "e")
    moved = folded(topic, [turn(4, "assistant")], vectors)
    assert moved.embedding.tolist() == [0.5, 0.5]
    other = folded(topic, [turn(3)], {"3": vector(0, 1, 0, embedder="another")})
    assert (other.embedding.tolist(), other.embedded, other.embedder) == ([0, 1, 0], 1, "another")
