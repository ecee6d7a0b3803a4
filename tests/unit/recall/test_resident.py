"""The resident index against a plain reference, and the cache's bounds."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.domain import SearchRow
from memory_agent.recall.fuse import K1, B
from memory_agent.recall.resident import CollectionStatistics, ResidentIndex, RowFilter

if TYPE_CHECKING:
    from numpy.typing import NDArray

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["apple", "bear", "cloud", "door", "egg"]


def unit(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """`values` with each row scaled to length 1."""
    scaled: NDArray[np.float32] = values / np.linalg.norm(values, axis=-1, keepdims=True)
    return scaled.astype(np.float32)


def make_row(
    number: int,
    *,
    passages: int,
    terms: dict[str, int],
    thread: str = "t",
    role: str = "user",
    embedder: str = "model",
) -> SearchRow:
    """A row whose vectors follow from its number."""
    random = np.random.default_rng(number)
    return SearchRow(
        turn_id=f"turn{number}",
        user_id="u",
        thread_id=thread,
        seq=number,
        role=role,  # type: ignore[arg-type]  # the tests' own literals
        timestamp=START + timedelta(hours=number),
        vectors=unit(random.normal(size=(passages, 8)).astype(np.float32)).astype(np.float16),
        terms=terms,
        length=sum(terms.values()),
        embedder=embedder,
        language="english",
        index_seq=number + 1,
    )


rows_strategy = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.dictionaries(st.sampled_from(WORDS), st.integers(1, 4), max_size=4),
        st.sampled_from("ab"),
    ),
    min_size=1,
    max_size=25,
)


def reference(
    rows: list[SearchRow], query: NDArray[np.float32], terms: list[str]
) -> dict[str, tuple[float, float]]:
    """Cosine and BM25 of each row, by loops."""
    frequency = Counter(term for row in rows for term in row.terms)
    mean = sum(row.length for row in rows) / len(rows)
    answer = {}
    for row in rows:
        cosine = max(float(vector.astype(np.float32) @ query) for vector in row.vectors)
        words = 0.0
        for term in terms:
            if term in row.terms:
                idf = math.log(1 + (len(rows) - frequency[term] + 0.5) / (frequency[term] + 0.5))
                norm = K1 * (1 - B + B * row.length / mean)
                words += idf * row.terms[term] * (K1 + 1) / (row.terms[term] + norm)
        answer[row.turn_id] = (cosine, words)
    return answer


@given(rows_strategy, st.lists(st.sampled_from(WORDS), unique=True), st.integers(0, 25))
@settings(deadline=None)
def test_signals_equal_the_reference(
    given_rows: list[tuple[int, dict[str, int], str]], terms: list[str], loaded: int
) -> None:
    """Built at once or extended bit by bit, cosine (best passage) and BM25 are those of the loops."""
    rows = [make_row(i, passages=p, terms=t, thread=th) for i, (p, t, th) in enumerate(given_rows)]
    query = unit(np.random.default_rng(7).normal(size=8).astype(np.float32))
    index = ResidentIndex(rows[:loaded], embedder="model")
    for row in rows[loaded:]:
        assert index.extend([row])
    got = index.signals(query=query, terms=terms, where=RowFilter())
    expected = reference(rows, query, terms)
    assert index.head == len(rows)
    assert set(got.turn_ids) == set(expected)
    for turn_id, similarity, words in zip(got.turn_ids, got.similarity, got.words, strict=True):
        assert similarity == pytest.approx(expected[turn_id][0], abs=1e-3)
        assert words == pytest.approx(expected[turn_id][1], abs=1e-4)


@given(rows_strategy, st.lists(st.sampled_from(WORDS), unique=True, min_size=1))
@settings(deadline=None)
def test_candidates_with_the_whole_collections_statistics_score_as_in_the_whole(
    given_rows: list[tuple[int, dict[str, int], str]], terms: list[str]
) -> None:
    """A user too large to keep: an index over some rows gives them the scores that all rows would give."""
    rows = [make_row(i, passages=1, terms=t) for i, (_, t, _) in enumerate(given_rows)]
    whole = ResidentIndex(rows, embedder="model")
    statistics = CollectionStatistics(
        rows=len(rows),
        mean_length=sum(row.length for row in rows) / len(rows),
        frequency=Counter(term for row in rows for term in row.terms),
    )
    some = ResidentIndex(rows[::2], embedder="model").signals(
        query=None, terms=terms, where=RowFilter(), statistics=statistics
    )
    of_all = whole.signals(query=None, terms=terms, where=RowFilter())
    by_id = dict(zip(of_all.turn_ids, of_all.words.tolist(), strict=True))
    for turn_id, words in zip(some.turn_ids, some.words.tolist(), strict=True):
        assert words == pytest.approx(by_id[turn_id], abs=1e-4)


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (RowFilter(thread_id="a"), {0, 2, 4}),
        (RowFilter(thread_id="nobody"), set()),
        (RowFilter(since=START + timedelta(hours=2)), {2, 3, 4, 5}),
        (RowFilter(until=START + timedelta(hours=2)), {0, 1}),
        (RowFilter(role="assistant"), {3}),
        (RowFilter(thread_id="b", role="assistant", since=START), {3}),
    ],
)
def test_filters_exclude(where: RowFilter, kept: set[int]) -> None:
    """Only rows of the thread, the time and the role asked for are candidates."""
    rows = [
        make_row(
            i,
            passages=1 + i % 2,
            terms={"egg": 1},
            thread="ab"[i % 2],
            role="assistant" if i == 3 else "user",
        )
        for i in range(6)
    ]
    got = ResidentIndex(rows, embedder="model").signals(query=None, terms=["egg"], where=where)
    assert set(got.turn_ids) == {f"turn{i}" for i in kept}
    assert len(got.words) == len(got.similarity) == len(kept)


def test_stubs_and_replaced_rows_need_a_fresh_load() -> None:
    """An erased row is not taken in by extending, and is left out when loading; so is a row's older reading."""
    rows = [make_row(i, passages=1, terms={}) for i in range(3)]
    stub = SearchRow(
        turn_id="turn1",
        user_id="u",
        thread_id="t",
        seq=1,
        role="user",
        timestamp=START,
        vectors=np.empty((0, 0), dtype=np.float16),
        terms={},
        length=0,
        embedder="",
        language="",
        index_seq=9,
        erased=True,
    )
    index = ResidentIndex(rows, embedder="model")
    assert not index.extend([stub])
    assert not index.extend([make_row(7, passages=1, terms={}), rows[0]])
    assert len(index) == 3
    reloaded = ResidentIndex([*rows, stub], embedder="model")
    assert len(reloaded) == 2
    assert reloaded.head == 9


def test_vectors_of_another_model_are_not_compared() -> None:
    """Rows embedded by another model (of another dimension even) are found by word, without a similarity."""
    query = unit(np.random.default_rng(7).normal(size=8).astype(np.float32))
    rows = [
        make_row(i, passages=1 + i, terms={"egg": 1}, embedder="model" if i % 2 else "other")
        for i in range(4)
    ]
    got = ResidentIndex(rows, embedder="model").signals(query=query, terms=["egg"], where=RowFilter())
    assert np.isnan(got.similarity).tolist() == [True, False, True, False]
    assert (got.words > 0).all()
    strangers = ResidentIndex(rows, embedder="third")
    assert strangers.foreign == 4
    assert np.isnan(strangers.signals(query=query, terms=[], where=RowFilter()).similarity).all()


def test_an_empty_index_answers_nothing() -> None:
    """No rows, no candidates, head 0."""
    index = ResidentIndex(embedder="model")
    got = index.signals(query=np.ones(8, dtype=np.float32), terms=["egg"], where=RowFilter())
    assert (len(index), index.head, list(got.turn_ids), len(got.words)) == (0, 0, [], 0)
