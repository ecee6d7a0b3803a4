"""Token vectors, one a word, in two bits a number, four of them in a byte."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory_agent.domain import TokenVectors
from memory_agent.search.late_interaction import is_readable, packed, token_bytes, unpacked, word_vectors


def directed(tokens: int, directions: int, seed: int) -> NDArray[np.float32]:
    """Random vectors of unit length."""
    vectors = np.random.default_rng(seed).normal(size=(tokens, directions))
    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


@given(tokens=st.integers(0, 20), directions=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_what_is_unpacked_is_what_was_packed(tokens: int, directions: int, seed: int) -> None:
    """Nearly the same way, of unit length; whole bytes for each token."""
    vectors = directed(tokens, directions, seed)
    codes = packed(vectors.astype(np.float16))
    assert is_readable(codes)
    assert len(codes) == 1 + tokens * token_bytes(directions)
    found = unpacked([codes], directions)
    assert found.shape == vectors.shape
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(tokens), abs=1e-5)
    assert ((found * vectors).sum(axis=1) > 0.5).all()


def test_cosines_stay() -> None:
    vectors = directed(300, 64, 1)
    found = unpacked([packed(vectors[:100]), packed(vectors[100:])], 64)
    assert (found * vectors).sum(axis=1).min() > 0.88
    assert np.abs(found @ vectors.T - vectors @ vectors.T).max() < 0.25


def test_codes_of_an_earlier_version_are_not_read() -> None:
    """Those took 26 bytes a token, whatever they began with."""
    assert not is_readable(b"")
    assert not any(is_readable(bytes([begin]) + bytes(26 * n - 1)) for begin in (0, 2) for n in (1, 2, 7))


def test_pieces_of_a_word_become_one_vector() -> None:
    """Signs stand alone, and tokens where nothing parts words; a token may begin with the blank before its word."""
    text = "Zebras go! 明日天気"
    spans = np.array([(0, 3), (3, 6), (6, 9), (9, 10), (11, 13), (13, 15)], dtype=np.int32)
    vectors = directed(len(spans), 8, 1)
    found = word_vectors(text, TokenVectors(spans=spans, vectors=vectors.astype(np.float16)))
    zebras = (vectors[0] + vectors[1]) / np.linalg.norm(vectors[0] + vectors[1])
    assert found == pytest.approx(np.vstack([zebras, vectors[2:]]), abs=1e-3)
    nothing = TokenVectors(spans=np.zeros((0, 2), np.int32), vectors=np.zeros((0, 8), np.float16))
    assert word_vectors("", nothing).shape == (0, 8)
