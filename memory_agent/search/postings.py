"""Inverted index of terms, and BM25 of a turn, of a turn with its neighbours, and of its whole session.

Grows row by row: a new row costs its own terms, whatever is there already. Statistics of sessions are kept up with it.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memory_agent.search.fusion import bm25, inverse_document_frequency

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionStatistics:
    """Collection statistics for BM25: rows, mean terms per row, rows that hold each term."""

    rows: int
    mean_length: float
    frequency: Mapping[str, int]

    def weight(self, terms: Iterable[str], *, most: float = math.inf) -> float:
        """The sum of the idf of `terms`; those that no row holds weigh the most, and all together as `most` of these."""
        idfs = (inverse_document_frequency(self.rows, self.frequency.get(term, 0)) for term in terms)
        return min(sum(idfs), most * inverse_document_frequency(self.rows, 0))

    def joined(self, other: CollectionStatistics) -> CollectionStatistics:
        """The statistics of both collections together; they have no row in common."""
        rows = self.rows + other.rows
        words = self.mean_length * self.rows + other.mean_length * other.rows
        frequency = dict(self.frequency)
        for term, held in other.frequency.items():
            frequency[term] = frequency.get(term, 0) + held
        return CollectionStatistics(rows=rows, mean_length=words / max(rows, 1), frequency=frequency)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Layout:
    """Positions of rows, shape (n,) each: row before and after in the session (-1: none), and the session's number."""

    before: NDArray[np.intp]
    after: NDArray[np.intp]
    session: NDArray[np.intp]
    sessions: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Lengths:
    """Terms in each turn, in it with those beside it, and in its whole session, and the means of the last two."""

    of: Layout
    turn: Floats
    around: Floats
    mean_around: float
    session: Floats
    mean_session: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WordScores:
    """BM25 of each row, shape (n,): of the turn, of it with the turns before and after, of its whole session."""

    turn: Floats
    around: Floats
    session: Floats


class Postings:
    """Rows by term. Positions are handed in from 0 upwards."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[array[int], array[int]]] = {}
        self._length = array("f")
        self._lengths: _Lengths | None = None
        self._words = 0.0
        self.posted = 0

    def __len__(self) -> int:
        return len(self._length)

    @property
    def nbytes(self) -> int:
        """About how much memory they take, in bytes."""
        return 8 * self.posted + 200 * len(self._of)

    @property
    def lengths(self) -> Floats:
        """Terms in each row, shape (n,)."""
        return np.array(self._length, dtype=np.float32)

    def add(self, terms: Mapping[str, int], length: int) -> None:
        """The next row: its terms with their counts, and how many words that are."""
        position = len(self._length)
        self._length.append(length)
        self._words += length
        for term, occurrences in terms.items():
            posting = self._of.get(term)
            if posting is None:
                posting = self._of[term] = (array("i"), array("i"))
            posting[0].append(position)
            posting[1].append(occurrences)
        self.posted += len(terms)

    def statistics(self, terms: Iterable[str]) -> CollectionStatistics:
        """The statistics of the rows that are here."""
        held = {term: len(self._of[term][0]) for term in terms if term in self._of}
        return CollectionStatistics(
            rows=len(self), mean_length=self._words / max(len(self), 1), frequency=held
        )

    def held_by(self, positions: NDArray[np.intp], terms: Iterable[str]) -> list[list[str]]:
        """The terms among `terms` that each row at `positions` holds, in the order of `terms`."""
        held: list[list[str]] = [[] for _ in positions]
        wanted = positions.astype(np.intc)
        for term in terms:
            if term in self._of:
                rows = np.frombuffer(self._of[term][0], dtype=np.intc)  # rising
                at = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
                for i in np.flatnonzero(rows[at] == wanted).tolist():
                    held[i].append(term)
        return held

    def scores(self, terms: Iterable[str], layout: Layout, of: CollectionStatistics) -> WordScores:
        """BM25 of every row for `terms`, by the statistics of the whole collection (sessions: by those here)."""
        size, all_of = len(self), self._lengths_in(layout)
        turn, around = np.zeros(size, np.float32), np.zeros(size, np.float32)
        by_session = np.zeros(layout.sessions, np.float32)
        for term in terms:
            if term not in self._of:
                continue
            # Copies, not views: a view would forbid the arrays to grow while it lives.
            rows = np.array(self._of[term][0], dtype=np.intp)
            counts = np.array(self._of[term][1], dtype=np.float32)
            idf = inverse_document_frequency(of.rows, of.frequency.get(term, len(rows)))
            turn[rows] += bm25(counts, all_of.turn[rows], mean_length=of.mean_length, idf=idf)
            near, near_counts = _with_neighbours(rows, counts, layout, size)
            around[near] += bm25(near_counts, all_of.around[near], mean_length=all_of.mean_around, idf=idf)
            held = _by_session(counts, layout.session[rows], layout)
            here = np.flatnonzero(held)
            session_idf = inverse_document_frequency(layout.sessions, len(here))
            by_session[here] += bm25(
                held[here], all_of.session[here], mean_length=all_of.mean_session, idf=session_idf
            )
        if layout.sessions < 2:
            by_session[:] = 0.0  # the only session tells no turn from another
        return WordScores(turn=turn, around=around, session=by_session[layout.session])

    def _lengths_in(self, layout: Layout) -> _Lengths:
        """Made once for a layout."""
        if self._lengths is None or self._lengths.of is not layout:
            turn = self.lengths
            around = turn + _at(turn, layout.before) + _at(turn, layout.after)
            session = _by_session(turn, layout.session, layout)
            self._lengths = _Lengths(
                of=layout,
                turn=turn,
                around=around,
                mean_around=float(around.mean()) if len(turn) else 0.0,
                session=session,
                mean_session=float(session.mean()) if layout.sessions else 0.0,
            )
        return self._lengths


def _by_session(values: Floats, session: NDArray[np.intp], layout: Layout) -> Floats:
    """The sums of `values` by the session that each is of."""
    return np.bincount(session, weights=values, minlength=layout.sessions).astype(np.float32)


def _at(values: Floats, positions: NDArray[np.intp]) -> Floats:
    """`values` at `positions`, 0 where there is none (-1)."""
    found: Floats = np.where(positions >= 0, values[positions], 0.0).astype(np.float32)
    return found


def _with_neighbours(
    rows: NDArray[np.intp], counts: Floats, layout: Layout, size: int
) -> tuple[NDArray[np.intp], Floats]:
    """The rows that hold a term or stand beside one that does, and how often it occurs in the three together."""
    before, after = layout.before[rows], layout.after[rows]
    has_before, has_after = before >= 0, after >= 0
    touched = np.concatenate([rows, before[has_before], after[has_after]])
    given = np.concatenate([counts, counts[has_before], counts[has_after]])
    if (
        len(touched) < size // 50
    ):  # a rare term, of which a long question has many, must not cost a look at all rows
        few, place = np.unique(touched, return_inverse=True)
        return few, np.bincount(place, weights=given, minlength=len(few)).astype(np.float32)
    summed = np.bincount(touched, weights=given, minlength=size).astype(np.float32)
    near = np.flatnonzero(summed)
    return near, summed[near]
