"""Token vectors of a text: its own first tokens, along the directions of their model that tell the most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import TokenVectors
from memory_agent.errors import EmbedderError
from memory_agent.products import product

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Hidden = tuple[NDArray[np.int32], Floats]
    """Spans of tokens in their text, shape (tokens, 2), and their vectors, shape (tokens, dimension), as a model gives them."""

MOST_TOKENS: Final = 128
"""Tokens of a text that have vectors: what a long turn is about is said at its beginning (docs/benchmarks.md)."""
DIRECTIONS: Final = 64
"""Numbers of a token vector at most, of the model's 384 or more: with so many late interaction finds the same turns."""

_SAMPLE_TEXTS: Final = 4
_SAMPLE_WORDS: Final = 96
_LEAST_LETTERS: Final = 3


def own_tokens(
    offsets: Sequence[tuple[int, int]], special: Sequence[int], *, prompt: int
) -> tuple[list[int], NDArray[np.int32]]:
    """The first MOST_TOKENS tokens of the text behind `prompt` characters, and their spans in the text.

    `special`: 1 for each token that the model adds, as the tokenizer says. Tokens of the prompt, and tokens that stand
    for no character (some tokenizers begin with one), are left out; one that reaches from the prompt into the text
    begins with the text.
    """
    own = [
        n
        for n, ((start, end), added) in enumerate(zip(offsets, special, strict=True))
        if not added and end > max(start, prompt)
    ][:MOST_TOKENS]
    spans = np.array([offsets[n] for n in own], dtype=np.int32).reshape(len(own), 2) - np.int32(prompt)
    return own, np.maximum(spans, 0)


def sample_texts(vocabulary: Iterable[str]) -> list[str]:
    """Texts of the words in a model's vocabulary, in its order, which is by frequency: what its directions are told by.

    The same for the same model, in any language that it knows.
    """
    bare = (piece.lstrip("▁Ġ") for piece in vocabulary)
    words = [piece for piece in bare if len(piece) >= _LEAST_LETTERS and piece.isalpha()]
    count = _SAMPLE_TEXTS * _SAMPLE_WORDS
    chosen = words[:: max(len(words) // (2 * count), 1)][:count]
    return [" ".join(chosen[n::_SAMPLE_TEXTS]) for n in range(_SAMPLE_TEXTS)]


def principal_directions(vectors: Floats) -> Floats:
    """The directions in which unit vectors, shape (n, dimension), lie most: shape (dimension, DIRECTIONS or fewer).

    Eigenvectors of their second moments, those of the largest eigenvalues first. Their signs are chosen, so that two machines
    with the same model have the same ones.
    """
    unit = _unit(vectors)
    _, directions = np.linalg.eigh(unit.T.astype(np.float64) @ unit.astype(np.float64))
    found = directions[:, ::-1][:, :DIRECTIONS]
    signs = np.sign(np.linspace(1.0, 2.0, len(found)) @ found)
    turned: Floats = (found * np.where(signs == 0.0, 1.0, signs)).astype(np.float32)
    return turned


def token_vectors(
    spans: NDArray[np.int32], vectors: Floats, directions: Floats | None = None
) -> TokenVectors:
    """`vectors`, shape (tokens, dimension), of any length, as the port wants them: unit length, float16, read-only.

    `directions`: those that they are told by, see `principal_directions`; None: as they are. Raises EmbedderError for a
    vector that is zero or not finite.
    """
    unit = _unit(vectors)
    if directions is not None:
        along = product(unit, directions.T)
        unit = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-6)
    found = TokenVectors(spans=spans, vectors=unit.astype(np.float16))
    for array in (found.spans, found.vectors):  # shared between callers
        array.setflags(write=False)
    return found


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbedderError("the model gave a token a vector that is zero or not finite")
    unit: Floats = vectors / lengths
    return unit
