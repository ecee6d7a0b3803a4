"""The vectors of a user's turns in one matrix, and the cosines of a question with a turn and with it and the turn before.

What was said before often says what a turn is about. The vector of both together is their sum at unit length; with
c = cosine of the question with each turn and d = cosine of the two turns, its cosine is (c0 + c1) / sqrt(2 + 2 d).
So one number a turn (d) stands in for a second embedding of "previous turn + turn", at the same recall (figures in
`docs/benchmarks.md`). Where the turn alone, or one of its passages, is nearer, that cosine counts: people change the subject, and what was said
before is then no reason against a turn.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_LEAST: Final = 1e-6


class Vectors:
    """Passages of rows; a row without any has no cosine. `room`: passages to have room for at first."""

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._matrix: Floats = np.empty((0, 0), dtype=np.float32)
        self._passages = 0
        self._first = array("q")
        self._count = array("i")
        self._length = array("f")  # of the mean of a row's passages, which is shorter than they are
        self._with_before = array("f")  # cosine with the row before, in the order in which rows came
        self._before = array("i")
        self._without = 0

    def __len__(self) -> int:
        return len(self._count)

    @property
    def nbytes(self) -> int:
        """Memory of the matrix, in bytes."""
        return self._matrix.nbytes

    def add(self, vectors: NDArray[np.floating[Any]] | None, *, before: int) -> None:
        """The next row. `vectors`: its passages, shape (passages, dimension), unit length; `before`: see `TurnOrder.add`."""
        count = 0 if vectors is None else len(vectors)
        self._first.append(self._passages)
        self._count.append(count)
        self._before.append(before)
        if vectors is None or not count:
            self._without += 1
            self._length.append(0.0)
            self._with_before.append(0.0)
            return
        self._reserve(self._passages + count, vectors.shape[1])
        self._matrix[self._passages : self._passages + count] = vectors
        self._passages += count
        position = len(self._count) - 1
        mean = self._mean(position)
        length = math.sqrt(float(mean @ mean))
        self._length.append(length)
        with_before = 0.0
        if before >= 0 and self._count[before]:
            with_before = float(mean @ self._mean(before)) / max(length * self._length[before], _LEAST)
        self._with_before.append(with_before)

    def cosines(
        self, query: Floats | None, gist: Floats | None, before: NDArray[np.intp]
    ) -> tuple[Floats, Floats, Floats]:
        """Of each row, NaN without a vector: `query` with its best passage, `gist` with it, `gist` with it alone or with the row before."""
        unknown = np.full(len(self), np.nan, dtype=np.float32)
        if query is None or not self._passages:
            return unknown, unknown, unknown
        rows, count = self._rows()
        first = None if self._passages == len(rows) else np.array(self._first, dtype=np.intp)[rows]
        matrix = self._matrix[: self._passages]
        # One product for each vector: with both at once the library is ten times slower.
        of_query = matrix @ query
        of_gist = of_query if gist is None else matrix @ gist
        similarity, meaning, alone = unknown, unknown.copy(), unknown.copy()
        similarity[rows], meaning[rows] = _best(of_query, first), _best(of_gist, first)
        mean = of_gist if first is None else np.add.reduceat(of_gist, first) / count
        alone[rows] = mean / np.maximum(np.array(self._length, dtype=np.float32)[rows], _LEAST)
        # A long turn may be about something in one passage alone, which its mean says little of.
        return similarity, meaning, np.fmax(meaning, self._around(alone, before)).astype(np.float32)

    def of(self, positions: Sequence[int]) -> Floats:
        """The mean vectors of rows at unit length, shape (len(positions), dimension); zeros for -1 and without vectors."""
        found = np.zeros((len(positions), self._matrix.shape[1]), dtype=np.float32)
        at = np.array(positions, dtype=np.intp)
        count = np.append(np.array(self._count, dtype=np.intc), 0)[at]  # none for -1
        single = np.flatnonzero(count == 1)
        found[single] = self._matrix[np.array(self._first, dtype=np.intp)[at[single]]]
        for i in np.flatnonzero(count > 1).tolist():
            found[i] = self._mean(positions[i]) / max(self._length[positions[i]], _LEAST)
        return found

    def _rows(self) -> tuple[NDArray[np.intp], NDArray[np.intc]]:
        """The rows that have vectors, and how many passages each of them has."""
        count = np.array(self._count, dtype=np.intc)
        rows = np.flatnonzero(count)
        return rows, count[rows]

    def _around(self, alone: Floats, before: NDArray[np.intp]) -> Floats:
        """The better of `alone` and of the cosine of each row together with the one before it."""
        has_before = (before >= 0) & ~np.isnan(np.where(before >= 0, alone[before], np.nan))
        cosine = self._cosines_with(before)
        together = (alone + np.where(has_before, alone[before], 0.0)) / np.sqrt(
            np.maximum(np.where(has_before, 2.0 + 2.0 * cosine, 1.0), _LEAST)
        )
        around: Floats = np.maximum(alone, together).astype(np.float32)
        return around

    def _cosines_with(self, before: NDArray[np.intp]) -> Floats:
        """The cosine of each row with the one before it; made again where another row came in between."""
        known = np.array(self._before, dtype=np.intp)
        for position in np.flatnonzero(known != before):
            other, cosine = int(before[position]), 0.0
            if other >= 0 and self._count[position] and self._count[other]:
                lengths = self._length[position] * self._length[other]
                cosine = float(self._mean(int(position)) @ self._mean(other)) / max(lengths, _LEAST)
            self._before[position] = other
            self._with_before[position] = cosine
        return np.array(self._with_before, dtype=np.float32)

    def _mean(self, position: int) -> Floats:
        first, count = self._first[position], self._count[position]
        mean: Floats = self._matrix[first]
        if count > 1:
            mean = self._matrix[first : first + count].mean(axis=0)
        return mean

    def _reserve(self, passages: int, dimension: int) -> None:
        """Room for `passages` vectors, doubling so that appends stay cheap."""
        if passages <= len(self._matrix):
            return
        room = max(passages, self._room, 2 * len(self._matrix))
        grown = np.empty((room, dimension), dtype=np.float32)
        grown[: self._passages] = self._matrix[: self._passages] if self._passages else 0.0
        self._matrix = grown


def _best(of_passages: Floats, first: NDArray[np.intp] | None) -> Floats:
    """Of each row its best passage's; `first`: where each row's passages begin, None where each has one."""
    if first is None:
        return of_passages
    best: Floats = np.maximum.reduceat(of_passages, first)
    return best


# --- near-duplicates -----------------------------------------------------------------------------------------
ALIKE: Final = 0.98
"""From this cosine on two turns say the same."""


_LOOKED_AT: Final = 48
"""Numbers of a vector that tell nearly all pairs apart; the product of whole vectors takes eight times as long."""
_PAIRS_EACH: Final = 8
"""Of more pairs for each vector than this the whole product is made after all."""


def repeats(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Boolean mask of `vectors`, shape (n, dimension), unit length or zero: those that repeat an earlier one that repeats none."""
    is_repeat = np.zeros(len(vectors), dtype=np.bool_)
    # |a - b|^2 = 2 - 2 cos for whole vectors, and no less than over some of their numbers.
    some = vectors[:, :_LOOKED_AT]
    squares = np.einsum("ij,ij->i", some, some)
    apart = squares[:, None] + squares[None, :] - 2.0 * (some @ some.T)
    later, earlier = np.nonzero(np.tril(apart <= 2.0 - 2.0 * ALIKE + _LEAST, k=-1))
    if len(later) > _PAIRS_EACH * len(vectors):
        later, earlier = np.nonzero(np.tril(vectors @ vectors.T >= ALIKE, k=-1))
    else:
        alike = np.einsum("ij,ij->i", vectors[later], vectors[earlier]) >= ALIKE
        later, earlier = later[alike], earlier[alike]
    for row, other in zip(later.tolist(), earlier.tolist(), strict=True):
        is_repeat[row] |= not is_repeat[other]  # by rising row, so that those before it are decided
    return is_repeat
