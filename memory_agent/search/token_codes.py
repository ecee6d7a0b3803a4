"""Token vectors, one a word, in two bits a number: what is kept of a turn for late interaction. Pure functions.

A number of a unit vector of n directions is some 1/sqrt(n), normally distributed: the four values that tell such numbers apart
best (Max, 1960) tell all that late interaction needs (docs/benchmarks.md). Four numbers are a byte.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import regex

from memory_agent.lazily import lazily
from memory_agent.text.scripts import CJK, UNSPACED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors

    Floats = NDArray[np.float32]

_WORD: Final = lazily(regex.compile, rf"(?:(?![{CJK}{UNSPACED}])[^\W_])+")
_FORM: Final = b"\x02"
"""What codes begin with. Those of schema 10 took 26 bytes a token and had no such mark."""
_BOUNDS: Final = np.array([-0.9816, 0.0, 0.9816], dtype=np.float32)
_VALUES: Final = np.array([-1.510, -0.4528, 0.4528, 1.510], dtype=np.float32)
"""In standard deviations."""
_SCALES: Final = np.array([0.75, 0.85, 1.0, 1.15, 1.3], dtype=np.float32)
"""Each vector is coded at the one of these lengths at which its code is nearest to it."""
_PLACES: Final = np.array([0, 2, 4, 6], dtype=np.uint8)
_IN_A_BYTE: Final = _VALUES[np.arange(256)[:, None] >> _PLACES & 3]
"""The four numbers of each byte."""


def word_vectors(text: str, tokens: TokenVectors) -> Floats:
    """Unit vectors, one for each word of the text: the mean of those of its pieces. A sign stands alone.

    So does a token of a script that puts no spaces between words, or of Hangul.
    """
    words = [word.span() for word in _WORD.finditer(text)]
    # A token's span may begin with the blank before its word.
    within = [bisect_right(words, end, key=lambda word: word[0] + 1) - 1 for _, end in tokens.spans.tolist()]
    of_word = [
        (at if at >= 0 and end <= words[at][1] else -1 - number)
        for number, (at, (_, end)) in enumerate(zip(within, tokens.spans.tolist(), strict=True))
    ]
    begins = [number for number, at in enumerate(of_word) if not number or at != of_word[number - 1]]
    vectors = np.asarray(tokens.vectors, dtype=np.float32)
    sums = np.add.reduceat(vectors, begins, axis=0) if begins else vectors
    means: Floats = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
    return means


def packed(vectors: NDArray[np.floating[Any]]) -> bytes:
    """Unit vectors of tokens, shape (tokens, directions): a mark and `token_bytes(directions)` for each token."""
    tokens, directions = vectors.shape
    spread = vectors.astype(np.float32) * np.float32(np.sqrt(directions))
    steps = np.searchsorted(_BOUNDS, _SCALES[:, None, None] * spread)
    values = _VALUES[steps]
    cosines = (values * spread).sum(axis=2) / np.sqrt((values * values).sum(axis=2))
    steps = steps[cosines.argmax(axis=0), np.arange(tokens)].astype(np.uint8)
    fours = np.pad(steps, ((0, 0), (0, -directions % 8))).reshape(tokens, token_bytes(directions), 4)
    body: bytes = np.bitwise_or.reduce(fours << _PLACES, axis=2).tobytes()
    return _FORM + body


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
