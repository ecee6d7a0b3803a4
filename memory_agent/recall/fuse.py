"""The formulas of ranking: BM25, min-max normalisation, and the weighted sum of two signals. All pure.

BM25 as in Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the
non-negative idf that Lucene uses: ln(1 + (N - n + 0.5) / (n + 0.5)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1: Final = 1.2
B: Final = 0.75
WORDS_WEIGHT: Final = 0.5
"""Share of the word score in the sum; from 0.3 to 0.7 little changes (figures in `docs/benchmarks.md`)."""


def inverse_document_frequency(rows: int, frequency: int) -> float:
    """idf of a term that `frequency` of `rows` rows hold; positive, falling in `frequency`."""
    return math.log1p((rows - frequency + 0.5) / (frequency + 0.5)) if rows >= frequency else 0.0


def bm25(
    counts: NDArray[np.float32], lengths: NDArray[np.float32], *, mean_length: float, idf: float
) -> NDArray[np.float32]:
    """One term's share of the BM25 score of each row.

    `counts`: how often the term occurs in each row, shape (n,); `lengths`: terms in each row, shape (n,).
    """
    norm = K1 * (1.0 - B + B * lengths / max(mean_length, 1e-9))
    scores: NDArray[np.float32] = (idf * counts * (K1 + 1.0) / (counts + norm)).astype(np.float32)
    return scores


def min_max(values: NDArray[np.float32], *, floor: float | None = None) -> NDArray[np.float32]:
    """`values` scaled to [0, 1]; NaN becomes 0. `floor` replaces the smallest value as the zero point.

    Where all values are the same there is nothing to scale by: 1 for all above the floor (or without one), else 0.
    """
    known = values[~np.isnan(values)]
    if known.size == 0:
        return np.zeros_like(values)
    low = float(known.min()) if floor is None else floor
    high = float(known.max())
    if high <= low:
        flat = 1.0 if floor is None else 0.0
        return np.where(np.isnan(values), 0.0, flat).astype(np.float32)
    scaled: NDArray[np.float32] = np.nan_to_num((values - low) / (high - low), nan=0.0).clip(0.0, 1.0)
    return scaled.astype(np.float32)


def fuse(
    similarity: NDArray[np.float32], words: NDArray[np.float32], *, min_similarity: float
) -> NDArray[np.float32]:
    """Scores in [0, 1] of n candidates, NaN for those that are no result.

    `similarity`: cosine of each candidate, NaN where it has no vector; `words`: BM25, 0 where no word matches.
    A candidate that no word supports needs a cosine of at least `min_similarity`.
    """
    if np.isnan(similarity).all():
        scores = min_max(words, floor=0.0)
    else:
        scores = WORDS_WEIGHT * min_max(words, floor=0.0) + (1.0 - WORDS_WEIGHT) * min_max(similarity)
    unsupported = (words <= 0.0) & ~(similarity >= min_similarity)
    return np.where(unsupported, np.nan, scores).astype(np.float32)


def best_first(scores: NDArray[np.float32]) -> NDArray[np.intp]:
    """Positions of the results (not NaN), highest score first; of equal scores the later position first."""
    results = np.flatnonzero(~np.isnan(scores))
    order = np.lexsort((-results, -scores[results]))
    return results[order]
