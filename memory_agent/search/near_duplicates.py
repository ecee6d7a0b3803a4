"""Near-duplicates: repetitions of a better result are moved behind the results that say something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memory_agent.search.user_index import ResidentIndex

ALIKE: Final = 0.98
"""From this cosine on two turns say the same."""


def behind_repeats(
    ranking: NDArray[np.intp], turn_ids: Sequence[str], index: ResidentIndex, *, most: int
) -> NDArray[np.intp]:
    """`ranking` with repeats among its first `most` moved behind the others of them, their order kept."""
    head = ranking[:most]
    is_repeat = repeats(index.vectors_of([turn_ids[position] for position in head]))
    if not is_repeat.any():
        return ranking
    return np.concatenate([head[~is_repeat], head[is_repeat], ranking[most:]])


def repeats(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Boolean mask of `vectors`, shape (n, dimension), unit length or zero: those that repeat an earlier one that repeats none."""
    alike = np.tril(vectors @ vectors.T >= ALIKE, k=-1)
    is_repeat = np.zeros(len(vectors), dtype=np.bool_)
    for row in np.flatnonzero(alike.any(axis=1)):
        is_repeat[row] = bool((alike[row] & ~is_repeat).any())
    return is_repeat
