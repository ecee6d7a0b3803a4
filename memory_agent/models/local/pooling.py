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


def _mean(tokens: Floats, weights: NDArray[np.int64], *, root: bool = False) -> Floats:
    """The weighted sum of the tokens over the weights' sum, or over its root."""
    # A product of matrices: it makes no weighted copy of the tokens.
    summed: Floats = (weights[:, None, :].astype(np.float32) @ tokens)[:, 0]
    length: Floats = weights.sum(axis=1, keepdims=True).astype(np.float32)
    if root:
        length = np.sqrt(length)
    return summed / length


POOLING_MODES: Final[dict[str, Callable[[Floats, NDArray[np.int64]], Floats]]] = {
    "cls": lambda tokens, _: tokens[:, 0],
    "max": lambda tokens, mask: np.where(mask[:, :, None] > 0, tokens, np.float32(-np.inf)).max(axis=1),
    "mean": _mean,
    "mean_sqrt_len_tokens": lambda tokens, mask: _mean(tokens, mask, root=True),
    # Token number n, counted from 1, weighs n.
    "weightedmean": lambda tokens, mask: _mean(tokens, mask * np.arange(1, mask.shape[1] + 1)),
    "lasttoken": lambda tokens, mask: tokens[np.arange(len(tokens)), mask.sum(axis=1) - 1],
}
"""The ways of pooling that are understood, by sentence-transformers' names."""
