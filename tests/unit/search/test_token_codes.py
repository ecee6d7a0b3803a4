"""Token vectors in nine steps a number, five of them in two bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.search.token_codes import packed, token_bytes, unpacked


@given(tokens=st.integers(0, 20), directions=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_what_is_unpacked_is_what_was_packed(tokens: int, directions: int, seed: int) -> None:
    """Nearly the same way, of unit length; whole bytes for each token."""
    vectors = np.random.default_rng(seed).normal(size=(tokens, directions)).astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    codes = packed(vectors.astype(np.float16))
    assert len(codes) == tokens * token_bytes(directions)
    found = unpacked(codes, directions)
    assert found.shape == vectors.shape
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(tokens), abs=1e-5)
    assert ((found * vectors).sum(axis=1) > 0.85).all()


def test_a_vector_along_one_direction_keeps_it() -> None:
    """Its number lies further out than any step, and its length is 1 all the same."""
    assert unpacked(packed(-np.eye(256, dtype=np.float32)), 256) == pytest.approx(-np.eye(256))


def test_cosines_stay() -> None:
    vectors = np.random.default_rng(1).normal(size=(300, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = unpacked(packed(vectors), 64)
    assert np.abs(found @ vectors.T - vectors @ vectors.T).max() < 0.15
