"""From the vectors of a text's tokens to the vector of the text. Pure functions, as sentence-transformers defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def pool(tokens: Floats, mask: NDArray[np.int64], modes: Sequence[str]) -> Floats:
    """`tokens`, shape (texts, length, dimension), pooled to shape (texts, len(modes) · dimension).

    `mask`, shape (texts, length): 1 for a text's own tokens, 0 for the padding behind them. Every text has a token.
    """
    return np.concatenate([POOLING_MODES[mode](tokens, mask) for mode in modes], axis=1)


def _mean(tokens: Floats, mask: NDArray[np.int64]) -> Floats:
    return _sum(tokens, mask) / _lengths(mask)


def _mean_sqrt_len(tokens: Floats, mask: NDArray[np.int64]) -> Floats:
    roots: Floats = np.sqrt(_lengths(mask))
    return _sum(tokens, mask) / roots


def _weighted_mean(tokens: Floats, mask: NDArray[np.int64]) -> Floats:
    """Token number n, counted from 1, weighs n."""
    weights = mask * np.arange(1, mask.shape[1] + 1)
    return _sum(tokens, weights) / _lengths(weights)


def _max(tokens: Floats, mask: NDArray[np.int64]) -> Floats:
    masked: Floats = np.where(mask[:, :, None] > 0, tokens, np.float32(-np.inf)).max(axis=1)
    return masked


def _first(tokens: Floats, mask: NDArray[np.int64]) -> Floats:
    return tokens[:, 0]


def _last(tokens: Floats, mask: NDArray[np.int64]) -> Floats:
    last: Floats = tokens[np.arange(len(tokens)), mask.sum(axis=1) - 1]
    return last


def _sum(tokens: Floats, weights: NDArray[np.int64]) -> Floats:
    # A product of matrices: it makes no weighted copy of the tokens.
    summed: Floats = (weights[:, None, :].astype(np.float32) @ tokens)[:, 0]
    return summed


def _lengths(weights: NDArray[np.int64]) -> Floats:
    lengths: Floats = weights.sum(axis=1, keepdims=True).astype(np.float32)
    return lengths


POOLING_MODES: Final[dict[str, Callable[[Floats, NDArray[np.int64]], Floats]]] = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}
"""The ways of pooling that are understood, by sentence-transformers' names."""
