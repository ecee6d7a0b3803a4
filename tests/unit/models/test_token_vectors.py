"""Which tokens are a text's own, and how their vectors are kept."""

import numpy as np
import pytest

from memory_agent.errors import EmbedderError
from memory_agent.models.batching import (
    DIRECTIONS,
    MOST_TOKENS,
    own_tokens,
    principal_directions,
    sample_texts,
    token_vectors,
)


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


def test_only_the_first_tokens_have_vectors() -> None:
    """What a long turn is about is said at its beginning."""
    kept, spans = own_tokens([(n, n + 1) for n in range(300)], [1, *[0] * 299], prompt=0)
    assert kept == list(range(1, MOST_TOKENS + 1))
    assert len(spans) == MOST_TOKENS


def test_directions_are_those_in_which_vectors_lie_most() -> None:
    """At right angles to each other, the foremost first; cosines of vectors along them are those of the vectors themselves."""
    rng = np.random.default_rng(7)
    spread = np.zeros((500, 100), dtype=np.float32)
    spread[:, 40:60] = rng.normal(size=(500, 20))
    spread[:, 7] = 30.0 * rng.normal(size=500)
    directions = principal_directions(spread)
    assert directions.shape == (100, DIRECTIONS)
    assert directions.T @ directions == pytest.approx(np.eye(DIRECTIONS), abs=1e-5)
    assert int(np.abs(directions[:, 0]).argmax()) == 7
    spans = np.zeros((500, 2), dtype=np.int32)
    whole, along = token_vectors(spans, spread), token_vectors(spans, spread, directions)
    assert along.vectors.shape == (500, DIRECTIONS)
    wanted, found = (made.vectors.astype(np.float32) for made in (whole, along))
    assert found @ found.T == pytest.approx(wanted @ wanted.T, abs=5e-3)


def test_a_small_model_keeps_all_its_directions() -> None:
    """Also where its sample tells little, and for a vector that lies along none of those that it tells."""
    directions = principal_directions(np.eye(1, 8, dtype=np.float32))
    assert directions.shape == (8, 8)
    found = token_vectors(np.zeros((1, 2), dtype=np.int32), np.eye(8, dtype=np.float32)[3:4], directions)
    assert np.linalg.norm(found.vectors.astype(np.float32)) == pytest.approx(1, abs=1e-3)


def test_the_sample_is_of_the_vocabularys_words() -> None:
    """Whole words in the vocabulary's order, spread over it and over the texts; pieces, signs and numbers are none."""
    words = [
        f"w{'abcdefghij'[n // 100]}{'abcdefghij'[n // 10 % 10]}{'abcdefghij'[n % 10]}" for n in range(1_000)
    ]
    texts = sample_texts(["[CLS]", "##ing", "▁the", "12", "!", *words])
    assert [len(text.split()) for text in texts] == [96] * 4
    assert texts[0].split()[:2] == ["the", "waad"]
    assert sorted(" ".join(texts).split()) == sorted(["the", *words[:383]])
    assert sample_texts([]) == [""] * 4
