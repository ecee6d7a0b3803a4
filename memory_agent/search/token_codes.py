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
    # Both halves of a byte in one look, as two numbers that are moved as one.
    steps = _STEPS_OF.view(np.float64).ravel()[both].view(np.float32)[:, :directions]
    lengths = np.sqrt(np.einsum("ij,ij->i", steps, steps))
    vectors: Floats = steps / np.maximum(lengths, 1.0)[:, None]
    return vectors


_STEPS_OF: Final = np.stack(
    [np.arange(256, dtype=np.float32) // 16 - 8.0, np.arange(256, dtype=np.float32) % 16 - 8.0], axis=1
).astype(np.float32)
"""What the halves of each byte stand for, shape (256, 2)."""
