"""Which topic a turn joins, and what it does to the topic's embedding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.topics.matching import (
    MatchSettings,
    joined_embedding,
    match_topic,
    turn_terms,
    turn_vector,
    without_direction,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

SETTINGS = MatchSettings(similarity_threshold=0.6, continuation_bonus=0.3, short_turn_terms=4)
LONG, SHORT = SETTINGS.short_turn_terms, SETTINGS.short_turn_terms - 1
DIMENSION = 4
ROUNDING = 1e-3
"""Of float16 at lengths about 1."""


def at(cosine: float, axis: int = 1) -> Vector:
    """A unit vector with this cosine to the first axis, and the rest along another."""
    vector = np.zeros(DIMENSION, np.float32)
    vector[0], vector[axis] = cosine, np.sqrt(1 - cosine**2)
    return vector


AHEAD = at(1.0)

components = st.floats(-1, 1, width=16)
vectors = st.lists(components, min_size=DIMENSION, max_size=DIMENSION).map(lambda x: np.array(x, np.float32))
units = vectors.filter(lambda x: float(np.linalg.norm(x)) > 0.1).map(lambda x: x / np.linalg.norm(x))
embeddings = vectors.map(lambda x: x.astype(np.float16)) | st.just(np.empty(0, np.float16))
topics = st.dictionaries(st.sampled_from("abcdef"), embeddings)
settings = st.builds(
    MatchSettings,
    similarity_threshold=st.floats(-1, 1),
    continuation_bonus=st.floats(0, 1),
    short_turn_terms=st.integers(0, 6),
)
currents = st.none() | st.sampled_from("abcdefz")


def cosine(one: NDArray[Any], other: NDArray[Any]) -> float | None:
    """In float64; None if one of them is zero or empty."""
    if one.shape != other.shape:
        return None
    a, b = one.astype(np.float64), other.astype(np.float64)
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if min(np.linalg.norm(a), np.linalg.norm(b)) > 1e-5 else None


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
    "an archived topic is no current one": (SHORT, {"near": at(0.7)}, "archived", "near"),
    "so every turn gets a topic": (SHORT, {"far": at(0.5)}, "archived", None),
    "the length of an embedding does not matter": (LONG, {"mean": at(0.9) * np.float32(0.01)}, None, "mean"),
}


def test_a_turn_joins_the_nearest_topic_above_the_threshold() -> None:
    """The topic of the turn before has a bonus, and short turns stay."""
    for name, (terms, candidates, current, joins) in NEAR.items():
        assert match_topic(AHEAD, terms, candidates, current, SETTINGS) == joins, name


@pytest.mark.parametrize(
    "vector", [None, np.zeros(DIMENSION, np.float32), np.full(DIMENSION, np.nan, np.float32)]
)
def test_a_turn_without_a_direction_stays_where_the_talk_is(vector: Vector | None) -> None:
    """However many words it has, for nothing says that it is about something else."""
    assert match_topic(vector, 50, {"now": AHEAD}, "now", SETTINGS) == "now"
    assert match_topic(vector, 50, {"now": AHEAD}, "archived", SETTINGS) is None


def test_topics_without_a_direction_are_never_matched() -> None:
    """Not even where everything else points away; but a short turn may stay in one."""
    anything = replace(SETTINGS, similarity_threshold=-1.0)
    for nothing in (np.zeros(DIMENSION, np.float16), np.empty(0, np.float16)):
        candidates: dict[str, Any] = {"empty": nothing, "away": -AHEAD}
        assert match_topic(AHEAD, LONG, candidates, "empty", anything) == "away"
        assert match_topic(AHEAD, LONG, {"empty": nothing}, "empty", anything) is None
        assert match_topic(AHEAD, SHORT, candidates, "empty", SETTINGS) == "empty"


def test_of_equal_topics_the_current_one_wins_and_then_the_lesser_id() -> None:
    """So that a rerun decides alike."""
    no_bonus = replace(SETTINGS, continuation_bonus=0.0)
    assert match_topic(AHEAD, LONG, {"b": AHEAD, "a": AHEAD}, None, no_bonus) == "a"
    assert match_topic(AHEAD, LONG, {"b": AHEAD, "a": AHEAD}, "b", no_bonus) == "b"


@given(units, st.integers(0, 10), topics, currents, settings, st.randoms())
def test_what_is_joined_is_the_best_and_near_enough_in_whichever_order(
    vector: Vector,
    terms: int,
    candidates: dict[str, Any],
    current: str | None,
    chosen: MatchSettings,
    order: Any,
) -> None:
    """Nothing is joined below the threshold but the current topic: with its bonus, or by a short turn.

    No other topic has a clearly higher score, and none that is clearly near enough is passed over. Two stores may list
    topics differently.
    """
    joined = match_topic(vector, terms, candidates, current, chosen)
    shuffled = list(candidates.items())
    order.shuffle(shuffled)
    assert match_topic(vector, terms, dict(shuffled), current, chosen) == joined
    cosines = {topic_id: cosine(vector, embedding) for topic_id, embedding in candidates.items()}
    scores = {
        topic_id: found + (chosen.continuation_bonus if topic_id == current else 0.0)
        for topic_id, found in cosines.items()
        if found is not None
    }
    best = max(scores.values(), default=-np.inf)
    if best > chosen.similarity_threshold + ROUNDING:
        assert joined is not None
        assert scores[joined] >= best - ROUNDING
    if joined is None:
        assert current not in candidates or terms >= chosen.short_turn_terms
    else:
        near = scores.get(joined, -np.inf) >= chosen.similarity_threshold - ROUNDING
        assert near or (joined == current and terms < chosen.short_turn_terms)


@given(st.none() | vectors, topics.filter(bool), settings, st.data())
def test_a_short_turn_never_opens_a_topic_while_there_is_one(
    vector: Vector | None, candidates: dict[str, Any], chosen: MatchSettings, data: st.DataObject
) -> None:
    """Whatever its vector, or without one."""
    current = data.draw(st.sampled_from(sorted(candidates)))
    assert match_topic(vector, chosen.short_turn_terms - 1, candidates, current, chosen) in candidates


# --- embeddings ----------------------------------------------------------------------------------------------
def joined(vectors_in_order: Sequence[Vector], recent: int | None = 5) -> NDArray[np.float16]:
    """A topic's embedding after these vectors."""
    embedding = None
    for count, vector in enumerate(vectors_in_order):
        embedding = joined_embedding(embedding, count, vector, recent=recent)
    assert embedding is not None
    return embedding


def test_the_first_vector_is_the_embedding() -> None:
    """At length 1, whatever was there before."""
    first = joined_embedding(np.full(DIMENSION, np.nan, np.float16), 0, 3 * at(0.6))
    np.testing.assert_allclose(first, at(0.6), atol=ROUNDING)
    assert first.dtype == np.float16


def test_up_to_the_recent_ones_an_embedding_is_the_mean() -> None:
    """The plain mean of unit vectors."""
    few = [at(0.1), at(0.5), at(0.9), at(0.3, axis=2)]
    np.testing.assert_allclose(joined(few), np.mean(few, axis=0), atol=ROUNDING)


def test_a_long_topic_follows_the_talk() -> None:
    """After hundreds of turns about one thing, twenty about another decide; in the plain mean they would not."""
    talk = [at(0.0)] * 300 + [AHEAD] * 20
    assert joined(talk)[0] > 0.95
    assert joined(talk, recent=None)[0] < 0.1


@pytest.mark.parametrize("nothing", [np.zeros(DIMENSION, np.float32), np.full(DIMENSION, np.inf, np.float32)])
def test_a_vector_without_a_direction_changes_nothing(nothing: Vector) -> None:
    """And as the first one makes an embedding that nothing matches."""
    np.testing.assert_array_equal(
        joined_embedding(at(0.5).astype(np.float16), 3, nothing), at(0.5).astype(np.float16)
    )
    np.testing.assert_array_equal(joined_embedding(None, 0, nothing), np.zeros(DIMENSION))


@given(st.lists(units, min_size=1, max_size=30), st.none() | st.integers(1, 10))
def test_an_embedding_stays_among_its_vectors(given_vectors: list[Vector], recent: int | None) -> None:
    """Finite, no longer than 1, and in each component between the least and the greatest: a weighted mean."""
    embedding = joined(given_vectors, recent)
    slack = ROUNDING * len(given_vectors)
    assert np.isfinite(embedding).all()
    assert np.linalg.norm(embedding.astype(np.float32)) <= 1 + slack
    assert (embedding >= np.min(given_vectors, axis=0) - slack).all()
    assert (embedding <= np.max(given_vectors, axis=0) + slack).all()


def test_a_turn_has_the_mean_of_its_passages() -> None:
    """At length 1; a turn without passages, or whose passages cancel out, has no vector."""
    found = turn_vector(np.stack([at(0.0), AHEAD]).astype(np.float16))
    assert found is not None
    np.testing.assert_allclose(found, at(np.sqrt(0.5)), atol=ROUNDING)
    assert turn_vector(np.empty((0, DIMENSION), np.float16)) is None
    assert turn_vector(np.stack([AHEAD, -AHEAD])) is None


@given(vectors, units)
def test_without_a_direction_nothing_is_left_along_it(vector: Vector, direction: Vector) -> None:
    """And nothing is added elsewhere."""
    left = without_direction(vector, 7 * direction)
    assert abs(float(left @ direction)) < ROUNDING
    assert np.linalg.norm(left) <= np.linalg.norm(vector) + ROUNDING


def test_without_no_direction_a_vector_stays_as_it_is() -> None:
    """A speaker's name that has no vector takes nothing away."""
    np.testing.assert_array_equal(without_direction(at(0.3), np.zeros(DIMENSION)), at(0.3))


# --- content terms -------------------------------------------------------------------------------------------
SHORT_REPLIES = """👍|...|no|ok thanks!|haha|sounds good|yes, the second one|no no no no no|그래 좋아|감사합니다|응 그걸로 해줘|ㅋㅋㅋㅋ|
好的，第二个|はい、二番目でお願いします|ありがとうございます|ใช่ อันที่สอง|да, второй|ja, das zweite"""
SUBJECTS = """Can you recommend a vegetarian lasagna recipe?|에베레스트 산의 높이는 얼마나 되나요?|珠穆朗玛峰有多高？|
来月、京都に旅行するのでホテルを探しています。|ภูเขาเอเวอเรสต์สูงเท่าไหร่|Мы переезжаем в Казань следующим летом"""


def test_short_replies_are_short_and_questions_with_a_subject_are_not() -> None:
    """In any script, also where words aren't parted by spaces."""
    enough = MatchSettings().short_turn_terms
    assert [text for text in ["", *SHORT_REPLIES.split("|")] if turn_terms(text) >= enough] == []
    assert [text for text in SUBJECTS.split("|") if turn_terms(text) < enough] == []


@given(st.text(max_size=50), st.text(max_size=50))
def test_more_words_are_no_fewer_terms(text: str, more: str) -> None:
    """And saying a thing twice adds nothing."""
    assert 0 <= turn_terms(text) <= turn_terms(f"{text}\n{more}") <= turn_terms(text) + turn_terms(more)
    assert turn_terms(f"{text}\n{text}") == turn_terms(text)
