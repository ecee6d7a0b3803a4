"""Near-duplicates are told from what says something else."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory_agent.search.user_index import ResidentIndex
from memory_agent.search.vectors import ALIKE, repeats
from tests.unit.search.ranking import a_vector, make_row


def index_saying(said: Sequence[int | None]) -> tuple[ResidentIndex, list[str]]:
    """Turns that say these things (None: without a vector), and their ids."""
    rows = []
    for number, thing in enumerate(said):
        row = make_row(number, passages=0 if thing is None else 1)
        if thing is not None:
            row = replace(row, vectors=a_vector(thing)[None].astype(np.float16))
        rows.append(row)
    return ResidentIndex(rows, embedder="model"), [row.turn_id for row in rows]


def test_turns_without_a_vector_repeat_nothing() -> None:
    """Nor do turns that the index does not know, such as those that wait to be indexed."""
    index, ids = index_saying([None, None, 1])
    assert not index.repeats_among([*ids, "unknown", "unknown too"]).any()
    assert not ResidentIndex(embedder="model").repeats_among(["a", "b"]).any()


def test_a_chain_of_likenesses_is_not_one_repeat() -> None:
    """What resembles a repeat, but not what that repeats, says something of its own."""
    angle = 0.9 * np.arccos(ALIKE)
    vectors = np.array([[np.cos(n * angle), np.sin(n * angle)] for n in range(4)], dtype=np.float32)
    assert repeats(vectors).tolist() == [False, True, False, True]


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=20), st.randoms())
def test_in_any_order_the_first_to_say_a_thing_is_new(said: list[int | None], random: Random) -> None:
    index, ids = index_saying(said)
    order = list(range(len(said)))
    random.shuffle(order)
    things = [said[place] for place in order]
    is_repeat = [thing is not None and thing in things[:at] for at, thing in enumerate(things)]
    assert index.repeats_among([ids[place] for place in order]).tolist() == is_repeat


def of_whole_vectors(vectors: NDArray[np.float32]) -> list[bool]:
    """`repeats` as it is defined, pair by pair."""
    found: list[bool] = []
    for row, vector in enumerate(vectors):
        earlier = (other for other in range(row) if not found[other])
        found.append(any(float(vectors[other] @ vector) >= ALIKE for other in earlier))
    return found


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=60), st.integers(0, 2**32 - 1))
def test_what_is_looked_at_of_vectors_hides_no_repeat(said: list[tuple[int, int]], seed: int) -> None:
    """Whether some of their numbers tell the vectors apart or not: those of few things said often, and of many."""
    random = np.random.default_rng(seed)
    things = random.normal(size=(5, 96)).astype(np.float32)
    vectors = np.zeros((len(said), 96), dtype=np.float32)
    for row, (thing, apart) in enumerate(said):
        vector = things[thing] + (0.0, 0.01, 0.15, 0.5)[apart] * random.normal(size=96)
        vectors[row] = vector / np.linalg.norm(vector)
    assert repeats(vectors).tolist() == of_whole_vectors(vectors)
