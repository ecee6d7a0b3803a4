"""Which topic a turn joins, and what it does to the topic's embedding."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory_agent.domain import Topic
from memory_agent.text.subjects import subject_of
from memory_agent.topics.index import TopicIndex
from memory_agent.topics.projection import (
    MatchSettings,
    TurnSubject,
    chance_cosine,
    joined_embedding,
    match_topic,
    subject_beside,
    turn_vector,
    word_scores,
)

Vector = NDArray[np.float32]

SETTINGS = MatchSettings(similarity_threshold=0.6, continuation_bonus=0.3, short_turn_terms=4)
LONG, SHORT = SETTINGS.short_turn_terms, SETTINGS.short_turn_terms - 1
DIMENSION = 4
NOW = datetime(2026, 5, 1, tzinfo=UTC)
ROUNDING = 1e-3
"""Of float16 at lengths about 1."""


def at(cosine: float, axis: int = 1) -> Vector:
    """A unit vector with this cosine to the first axis, and the rest along another."""
    vector = np.zeros(DIMENSION, np.float32)
    vector[0], vector[axis] = cosine, np.sqrt(1 - cosine**2)
    return vector


AHEAD = at(1.0)


def topic(
    embedding: NDArray[Any], words: dict[str, int] | None = None, *, turns: int = 1, archived: bool = False
) -> Topic:
    return Topic(
        id="t",
        user_id="u",
        thread_id="h",
        created_at=NOW,
        last_access=NOW,
        access_count=turns - 1,
        embedding=embedding.astype(np.float16),
        words={word: (count, word) for word, count in (words or {}).items()},
        archived=archived,
    )


def turn(vector: Vector | None, size: int = LONG, **others: Any) -> TurnSubject:
    return TurnSubject(vector=vector, size=size, **others)


def test_a_vector_of_another_model_is_compared_with_none() -> None:
    """A move to another embedding model may end between the two."""
    assert match(turn(AHEAD), {"a": AHEAD}, None) == "a"
    assert match(turn(AHEAD, embedder="former"), {"a": AHEAD}, None) is None
    assert match(turn(np.ones(7, np.float32), embedder="former"), {"a": AHEAD}, "a") == "a"


def match(
    said: TurnSubject, embeddings: dict[str, Any], current: str | None, settings: MatchSettings = SETTINGS
) -> str | None:
    """The topic, where all that there is of them is an embedding."""
    return match_topic(
        said, among({name: topic(each) for name, each in embeddings.items()}), current, settings
    )


def among(topics: Mapping[str, Topic]) -> TopicIndex:
    """An index of these, in the order given."""
    return TopicIndex("", [replace(each, id=name) for name, each in topics.items()])


def scored(said: Iterable[str], topics: Sequence[Topic]) -> list[float]:
    """The word scores of topics with a direction, in their order."""
    ids = [str(place) for place in range(len(topics))]
    directed = [replace(each, embedding=AHEAD.astype(np.float16)) for each in topics]
    index = among(dict(zip(ids, directed, strict=True)))
    looked = index.directed((DIMENSION,), archived=True)
    scores = word_scores(said, index, looked)
    by_id = {
        i: score
        for each, found in zip(looked, scores, strict=True)
        for i, score in zip(each.ids, found, strict=True)
    }
    return [float(by_id[i]) for i in ids]


components = st.floats(-1, 1, width=16)
vectors = st.lists(components, min_size=DIMENSION, max_size=DIMENSION).map(lambda x: np.array(x, np.float32))
units = vectors.filter(lambda x: float(np.linalg.norm(x)) > 0.1).map(lambda x: x / np.linalg.norm(x))
embeddings = vectors.map(lambda x: (x / max(float(np.linalg.norm(x)), 1.0)).astype(np.float16)) | st.just(
    np.empty(0, np.float16)
)
words = st.dictionaries(st.sampled_from(["oven", "bread", "tax"]), st.integers(1, 9))
topics = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(topic, embeddings, words, turns=st.integers(1, 9), archived=st.booleans()),
)
settings = st.builds(
    MatchSettings,
    similarity_threshold=st.floats(-1, 2),
    continuation_bonus=st.floats(0, 1),
    short_turn_terms=st.integers(0, 6),
)
currents = st.none() | st.sampled_from("abcdefz")


# --- which topic ---------------------------------------------------------------------------------------------
NEAR: dict[str, tuple[int, dict[str, Vector], str | None, str | None]] = {
    "of two that are near enough, the nearer one": (
        LONG,
        {"far": at(0.65), "near": at(0.9, axis=2)},
        None,
        "near",
    ),
    "below the threshold nothing is joined": (LONG, {"far": at(0.59)}, None, None),
    "at the start there is nothing to join": (LONG, {}, None, None),
    "the talk is nearer by the bonus": (LONG, {"talk": at(0.35), "other": at(0.5, axis=2)}, "talk", "talk"),
    "which keeps a turn, and brings none": (LONG, {"talk": at(0.35), "other": at(0.5, axis=2)}, None, None),
    "0.9 against 0.5 + 0.3 goes back": (LONG, {"now": at(0.5), "then": at(0.9)}, "now", "then"),
    "0.9 against 0.7 + 0.3 stays": (LONG, {"now": at(0.7), "then": at(0.9)}, "now", "now"),
    "a short turn stays in the current topic": (SHORT, {"now": at(0.0), "then": at(0.1)}, "now", "now"),
    "a longer one opens one": (LONG, {"now": at(0.0), "then": at(0.1)}, "now", None),
    "a short turn may name an earlier topic": (SHORT, {"now": at(0.0), "then": at(0.8)}, "now", "then"),
    "without a current one it joins what is near": (SHORT, {"near": at(0.7)}, None, "near"),
    "or opens one": (SHORT, {"far": at(0.5)}, None, None),
    "a topic that is gone is no current one": (SHORT, {"near": at(0.7)}, "gone", "near"),
    "so every turn gets a topic": (SHORT, {"far": at(0.5)}, "gone", None),
    "what is near to a topic of everything is near to nothing": (
        LONG,
        {"all": at(0.9) * np.float32(0.1)},
        None,
        None,
    ),
}


def test_a_turn_joins_the_nearest_topic_above_the_threshold() -> None:
    """The topic of the turn before has a bonus, and short turns stay."""
    for name, (size, candidates, current, joins) in NEAR.items():
        assert match(turn(AHEAD, size), candidates, current) == joins, name


def test_an_archived_topic_has_to_be_surer() -> None:
    """By as much as the current one may be less sure; one that rests and is the current one goes on."""
    for cosine, expected in ((0.95, "old"), (0.85, None)):
        resting = {"old": topic(at(cosine), archived=True)}
        assert match_topic(turn(AHEAD), among(resting), None, SETTINGS) == expected


def test_what_a_language_gives_any_two_texts_does_not_count() -> None:
    """A model that hardly knows a language finds all of it alike."""
    topics = {"any": topic(at(0.7))}
    assert match_topic(turn(AHEAD, chance=0.1), among(topics), None, SETTINGS) == "any"
    assert match_topic(turn(AHEAD, chance=0.6), among(topics), None, SETTINGS) is None


def test_words_carry_where_vectors_say_nothing() -> None:
    """The more of a topic's turns have them and the fewer other topics, the more they count."""
    topics = {
        "bread": topic(at(0.1), {"rye": 3, "oven": 2, "like": 3}, turns=3),
        "tax": topic(at(0.1), {"refund": 2, "like": 2}, turns=3),
    }
    said = {"rye": "rye", "oven": "oven", "like": ""}
    assert match_topic(turn(AHEAD, words=said), among(topics), None, SETTINGS) == "bread"
    assert match_topic(turn(AHEAD, words={"like": ""}), among(topics), None, SETTINGS) is None
    rare, common, everywhere = (
        scored(
            [word], [topic(AHEAD, {"rye": 10, "pan": 1, "like": 10}, turns=10), topic(AHEAD, {"like": 1})]
        )[0]
        for word in ("rye", "pan", "like")
    )
    assert rare > common > everywhere > 0


@pytest.mark.parametrize(
    "vector", [None, np.zeros(DIMENSION, np.float32), np.full(DIMENSION, np.nan, np.float32)]
)
def test_a_turn_without_a_direction_stays_where_the_talk_is(vector: Vector | None) -> None:
    """However many words it has, for nothing says that it is about something else."""
    assert match(turn(vector, 50), {"now": AHEAD}, "now") == "now"
    assert match(turn(vector, 50), {"now": AHEAD}, "gone") is None


def test_of_equal_topics_the_current_one_wins_and_then_the_lesser_id() -> None:
    """So that a rerun decides alike."""
    no_bonus = replace(SETTINGS, continuation_bonus=0.0)
    assert match(turn(AHEAD), {"b": AHEAD, "a": AHEAD}, None, no_bonus) == "a"
    assert match(turn(AHEAD), {"b": AHEAD, "a": AHEAD}, "b", no_bonus) == "b"


@given(units, words, st.floats(-0.5, 0.9), st.integers(0, 10), topics, currents, settings, st.randoms())
def test_what_is_joined_does_not_depend_on_the_order_of_topics(
    vector: Vector,
    said: dict[str, int],
    chance: float,
    size: int,
    candidates: dict[str, Topic],
    current: str | None,
    chosen: MatchSettings,
    order: Any,
) -> None:
    """Two stores may list topics differently. And a higher threshold never makes a turn join where it did not before."""
    subject = turn(vector, size, words=dict.fromkeys(said, ""), chance=chance)
    joined = match_topic(subject, among(candidates), current, chosen)
    shuffled = list(candidates.items())
    order.shuffle(shuffled)
    assert match_topic(subject, among(dict(shuffled)), current, chosen) == joined
    assert joined is None or joined in candidates
    higher = replace(chosen, similarity_threshold=chosen.similarity_threshold + 0.1)
    if joined is None:
        assert match_topic(subject, among(candidates), current, higher) is None


@given(st.none() | vectors, topics.filter(bool), settings, st.data())
def test_a_short_turn_never_opens_a_topic_while_there_is_one(
    vector: Vector | None, candidates: dict[str, Topic], chosen: MatchSettings, data: st.DataObject
) -> None:
    """Whatever its vector, or without one."""
    current = data.draw(st.sampled_from(sorted(candidates)))
    short = turn(vector, chosen.short_turn_terms - 1)
    assert match_topic(short, among(candidates), current, chosen) in candidates


def test_the_chance_of_a_turn_is_that_of_the_nearest_language() -> None:
    """The mean cosine with its sentences; none without any."""
    assert chance_cosine(AHEAD, [np.stack([at(0.2), at(0.4)]), np.stack([at(0.8)])]) == pytest.approx(0.8)
    assert chance_cosine(AHEAD, []) == 0.0


# --- embeddings ----------------------------------------------------------------------------------------------
def joined(vectors_in_order: Sequence[Vector]) -> NDArray[np.float16]:
    embedding = None
    for count, vector in enumerate(vectors_in_order):
        embedding = joined_embedding(embedding, count, vector)
    assert embedding is not None
    return embedding


def test_a_long_topic_follows_the_talk() -> None:
    """After hundreds of turns about one thing, twenty about another decide."""
    talk = [at(0.0)] * 300 + [AHEAD] * 20
    assert joined(talk)[0] > 0.95


def test_a_turn_has_the_mean_of_its_passages() -> None:
    """At length 1; a turn without passages, or whose passages cancel out, has no vector."""
    found = turn_vector(np.stack([at(0.0), AHEAD]).astype(np.float16))
    assert found is not None
    np.testing.assert_allclose(found, at(np.sqrt(0.5)), atol=ROUNDING)
    assert turn_vector(np.empty((0, DIMENSION), np.float16)) is None
    assert turn_vector(np.stack([AHEAD, -AHEAD])) is None


def test_a_turn_that_names_nothing_itself_opens_no_topic() -> None:
    """It says "it" of what was said before. One that has a noun of its own does, and so does one that says much."""
    for text in ("And how long does it take?", "They were delicious!", "그건 얼마나 걸려요?"):
        assert subject_beside(text).size == 0
        assert subject_beside(text).words == subject_of(text).words
    for text in ("Is it safe to eat mussels in summer?", "My knee hurts.", "자전거 체인이 미끄러져요."):
        assert subject_beside(text) == subject_of(text)
