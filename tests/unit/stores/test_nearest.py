"""The turns nearest to a vector, among rows shown page by page."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.stores.codec import Nearest, pack_vectors, unpack_vectors


@given(
    st.integers(0, 2**32 - 1), st.lists(st.integers(1, 3), max_size=40), st.integers(0, 12), st.integers(1, 9)
)
def test_pages_change_nothing(seed: int, passages: list[int], limit: int, page: int) -> None:
    made = np.random.default_rng(seed)
    vector = made.standard_normal(8).astype(np.float32)
    vector /= np.linalg.norm(vector)
    rows = []
    for number, count in enumerate(passages):
        vectors = made.standard_normal((count, 8)).astype(np.float32)
        rows.append((f"t{number}", *pack_vectors(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))))
    nearest = Nearest(vector, limit=limit)
    for start in range(0, len(rows), page):
        nearest.take(rows[start : start + page])
    found = nearest.found(str)
    true = sorted(
        (float((unpack_vectors(packed, count) @ vector).max()) for _, packed, count in rows), reverse=True
    )
    assert [one.similarity for one in found] == pytest.approx(true[:limit], abs=1e-5)
    assert len({one.turn_id for one in found}) == len(found) == min(limit, len(rows))


@pytest.mark.parametrize("passages", [1, 2])
def test_rows_of_another_dimension_are_refused(passages: int) -> None:
    packed, count = pack_vectors(np.ones((passages, 4), dtype=np.float32))
    with pytest.raises(ValueError, match="the vector has 8 numbers, those of the rows 4"):
        Nearest(np.ones(8, dtype=np.float32), limit=1).take([("t", packed, count)])
