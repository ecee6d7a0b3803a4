"""Token vectors in four bits a number: what is kept of a turn's tokens for late interaction. Pure functions.

A number of a unit vector of n directions is some 1/sqrt(n): 15 steps between -2.5 and 2.5 of that tell all that late interaction
needs (docs/benchmarks.md), in a quarter of the room that float16 takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_STEPS: Final = 7
"""On either side of 0."""
_REACH: Final = 2.5
"""Standard deviations that are told apart; what lies beyond counts as so many."""


def packed(vectors: NDArray[np.floating[Any]]) -> bytes:
    """Unit vectors of tokens, shape (tokens, directions): half a byte for each number, whole bytes for each token."""
    tokens, directions = vectors.shape
    scale = _STEPS * np.sqrt(max(directions, 1)) / _REACH
    steps = np.clip(np.rint(vectors.astype(np.float32) * scale), -_STEPS, _STEPS).astype(np.int8) + 8
    halves = np.pad(steps.astype(np.uint8), ((0, 0), (0, directions % 2))).reshape(
        tokens, (directions + 1) // 2, 2
    )
    codes: NDArray[np.uint8] = halves[:, :, 0] << 4 | halves[:, :, 1]
    return codes.tobytes()


def unpacked(codes: bytes, directions: int) -> Floats:
    """The inverse of `packed`, to the nearest step and at unit length: shape (tokens, directions)."""
    both = np.frombuffer(codes, dtype=np.uint8).reshape(-1, (directions + 1) // 2)
    halves = np.stack([both >> 4, both & 15], axis=2).reshape(len(both), 2 * both.shape[1])[:, :directions]
    steps = halves.astype(np.float32) - 8.0
    vectors: Floats = steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1.0)
    return vectors
