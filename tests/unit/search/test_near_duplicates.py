"""Near-duplicates stand behind what says something else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.search.user_index import ResidentIndex, behind_repeats
from memory_agent.search.vectors import ALIKE, repeats
from tests.unit.search.ranking import a_vector, make_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


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
    turn_ids = [*ids, "unknown", "unknown too"]
    assert behind_repeats(np.arange(5), turn_ids, index, most=5).tolist() == [0, 1, 2, 3, 4]
    assert behind_repeats(np.arange(2), ["a", "b"], ResidentIndex(embedder="model"), most=2).tolist() == [
        0,
        1,
    ]


def test_a_chain_of_likenesses_is_not_one_repeat() -> None:
    """What resembles a repeat, but not what that repeats, says something of its own."""
    angle = 0.9 * np.arccos(ALIKE)
    vectors = np.array([[np.cos(n * angle), np.sin(n * angle)] for n in range(4)], dtype=np.float32)
    assert repeats(vectors).tolist() == [False, True, False, True]


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=20), st.integers(0, 25), st.randoms())
def test_none_is_lost(said: list[int | None], most: int, random: Random) -> None:
    """The ranking holds the same turns as before; each group keeps its order."""
    index, ids = index_saying(said)
    ranking = np.arange(len(said))
    random.shuffle(ranking)  # type: ignore[arg-type]
    got = behind_repeats(ranking, ids, index, most=most).tolist()
    assert sorted(got) == list(range(len(said)))
    assert got[most:] == ranking[most:].tolist()
    head = ranking[:most].tolist()
    things = [said[place] for place in head]
    is_repeat = [thing is not None and thing in things[:at] for at, thing in enumerate(things)]
    behind = sorted(range(len(head)), key=lambda at: is_repeat[at])
    assert got[:most] == [head[at] for at in behind]
