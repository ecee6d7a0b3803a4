"""Token vectors in two bits a number: what is kept of a turn's words for late interaction. Pure functions.

A number of a unit vector of n directions is some 1/sqrt(n), normally distributed: the four values that tell such numbers apart
best (Max, 1960) tell all that late interaction needs (docs/benchmarks.md). Four numbers are a byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_FORM: Final = b"\x02"
"""What codes begin with. Those of schema 10 took 26 bytes a token and had no such mark."""
_BOUNDS: Final = np.array([-0.9816, 0.0, 0.9816], dtype=np.float32)
_VALUES: Final = np.array([-1.510, -0.4528, 0.4528, 1.510], dtype=np.float32)
"""In standard deviations."""
_PLACES: Final = np.array([0, 2, 4, 6], dtype=np.uint8)
_IN_A_BYTE: Final = _VALUES[np.arange(256)[:, None] >> _PLACES & 3]
"""The four numbers of each byte."""


def packed(vectors: NDArray[np.floating[Any]]) -> bytes:
    """Unit vectors of tokens, shape (tokens, directions): a mark and `token_bytes(directions)` for each token."""
    tokens, directions = vectors.shape
    spread = vectors.astype(np.float32) * np.float32(np.sqrt(directions))
    steps = np.searchsorted(_BOUNDS, spread).astype(np.uint8)
    fours = np.pad(steps, ((0, 0), (0, -directions % 8))).reshape(tokens, token_bytes(directions), 4)
    return _FORM + np.bitwise_or.reduce(fours << _PLACES, axis=2).tobytes()


def is_readable(codes: bytes) -> bool:
    """True for codes that `packed` made; those of an earlier version are made anew by a rebuild."""
    return codes[:1] == _FORM and len(codes) % 2 == 1  # those of before were of an even length


def token_bytes(directions: int) -> int:
    """Bytes of one token of so many directions: an even number."""
    return 2 * -(-directions // 8)


def tokens_in(codes: bytes, directions: int) -> int:
    """How many tokens there are in codes that `packed` made."""
    return (len(codes) - len(_FORM)) // token_bytes(directions)


def unpacked(codes: Iterable[bytes], directions: int) -> Floats:
    """The inverse of `packed`, to the nearest value and at unit length: all tokens, shape (tokens, directions)."""
    joined = b"".join(each[len(_FORM) :] for each in codes)
    fours = np.frombuffer(joined, dtype=np.uint8).reshape(-1, max(token_bytes(directions), 1))
    numbers = _IN_A_BYTE[fours].reshape(len(fours), 4 * fours.shape[1])[:, :directions]
    lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
    vectors: Floats = numbers / np.maximum(lengths, np.float32(1e-6))[:, None]
    return vectors
