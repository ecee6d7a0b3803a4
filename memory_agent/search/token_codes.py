"""Token vectors in nine steps a number: what is kept of a turn's tokens for late interaction. Pure functions.

A number of a unit vector of n directions is some 1/sqrt(n): nine steps between -2.1 and 2.1 of that tell all that late interaction
needs (docs/benchmarks.md). Five of them are a number below 9**5, which fits in two bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_STEPS: Final = 4
"""On either side of 0."""
_LEVELS: Final = 2 * _STEPS + 1
_REACH: Final = 2.1
"""Standard deviations that are told apart; what lies beyond counts as so many."""
_TOGETHER: Final = 5
_PLACES: Final = _LEVELS ** np.arange(_TOGETHER)


def packed(vectors: NDArray[np.floating[Any]]) -> bytes:
    """Unit vectors of tokens, shape (tokens, directions): `token_bytes(directions)` for each token."""
    tokens, directions = vectors.shape
    scale = _STEPS * np.sqrt(max(directions, 1)) / _REACH
    steps = np.clip(np.rint(vectors.astype(np.float32) * scale), -_STEPS, _STEPS).astype(np.int64) + _STEPS
    fives = np.pad(steps, ((0, 0), (0, -directions % _TOGETHER)), constant_values=_STEPS)
    return (fives.reshape(tokens, -(-directions // _TOGETHER), _TOGETHER) @ _PLACES).astype("<u2").tobytes()


def token_bytes(directions: int) -> int:
    """Bytes of one token of so many directions."""
    return 2 * -(-directions // _TOGETHER)


def unpacked(codes: bytes, directions: int) -> Floats:
    """The inverse of `packed`, to the nearest step and at unit length: shape (tokens, directions)."""
    fives = np.frombuffer(codes, dtype="<u2").reshape(-1, max(token_bytes(directions) // 2, 1))
    told = np.take(_steps_of(), fives, axis=0).reshape(len(fives), _TOGETHER * fives.shape[1])
    steps = told[:, :directions].astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", steps, steps))
    vectors: Floats = steps / np.maximum(lengths, 1.0)[:, None]
    return vectors


@cache
def _steps_of() -> NDArray[np.int8]:
    """The five numbers that each code stands for: a table of 0.3 MB."""
    steps: NDArray[np.int8] = (np.arange(_LEVELS**_TOGETHER)[:, None] // _PLACES % _LEVELS - _STEPS).astype(
        np.int8
    )
    return steps
