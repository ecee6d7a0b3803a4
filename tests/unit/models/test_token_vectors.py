"""Which tokens are a text's own, and how their vectors are kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import EmbedderError
from memory_agent.models.token_vectors import TextCache, bytes_of, own_tokens, token_vectors

if TYPE_CHECKING:
    from memory_agent.domain import TokenVectors


def tokens(count: int) -> TokenVectors:
    return token_vectors(np.zeros((count, 2), dtype=np.int32), np.ones((count, 8), dtype=np.float32))


def size(text: str, count: int) -> int:
    return count * (8 * 2 + 2 * 4) + sys.getsizeof(text)


def test_a_text_s_own_tokens_have_spans_in_the_text() -> None:
    """[CLS] and [SEP] are told by the tokenizer, not by their name; the prompt's tokens go, and empty ones stand for nothing.

    A token that reaches over the prompt's end begins with the text. No tokens have two columns as well.
    """
    cases: list[tuple[list[tuple[int, int]], list[int], int, list[int], list[list[int]]]] = [
        ([(0, 0), (0, 2), (3, 5), (0, 0)], [1, 0, 0, 1], 0, [1, 2], [[0, 2], [3, 5]]),
        ([(0, 0), (0, 5), (5, 6), (5, 9), (9, 9), (10, 12)], [1, *[0] * 5], 7, [3, 5], [[0, 2], [3, 5]]),
        ([], [], 0, [], []),
        ([(0, 0), (0, 0)], [1, 1], 0, [], []),
    ]
    for offsets, special, prompt, own, places in cases:
        kept, spans = own_tokens(offsets, special, prompt=prompt)
        assert (kept, spans.tolist()) == (own, places)
        assert spans.dtype == np.int32
        assert spans.shape == (len(own), 2)


def test_vectors_become_unit_float16_that_nobody_writes_to() -> None:
    """Whatever their length was; zeros and numbers that are none are errors, not results."""
    found = token_vectors(np.array([[0, 1]], dtype=np.int32), np.array([[3, 4]], dtype=np.float32))
    assert found.vectors.dtype == np.float16
    assert found.vectors[0].tolist() == pytest.approx([0.6, 0.8], abs=1e-3)
    for array in (found.spans, found.vectors):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 7
    for wrong in (0.0, np.nan, np.inf):
        with pytest.raises(EmbedderError, match="zero or not finite"):
            token_vectors(np.zeros((2, 2), dtype=np.int32), np.full((2, 3), wrong, dtype=np.float32))


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 20)), max_size=60), st.integers(0, 3_000))
def test_the_cache_knows_its_size(puts: list[tuple[str, int]], most: int) -> None:
    """What it says that it keeps is what it keeps, never more than it may, also when texts come again."""
    cache = TextCache(most, bytes_of)
    counts: dict[str, int] = {}
    for text, count in puts:
        cache.put(text, tokens(count))
        if size(text, count) <= most:
            counts[text] = count
        kept = [text for text in counts if cache.get(text) is not None]
        assert cache.size == sum(size(text, counts[text]) for text in kept) <= most
        assert len(cache) == len(kept)
    cache.clear()
    assert len(cache) == cache.size == 0
