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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.errors import EmbedderError
from memory_agent.products import product

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import PassageVector, Scope, Similar
    from memory_agent.ports import RowStore

    Floats = NDArray[np.float32]


_LEAST: Final = 1e-6
_MOST: Final = 127
"""Steps of a row's largest number."""
_BLOCK: Final = 512
_FEW: Final = 8
"""Of fewer passages than every eighth the products are made one by one."""
_NOTHING: Final[NDArray[np.float32]] = np.empty((0, 1), dtype=np.float32)


class Vectors:
    """Passages of rows, a byte a number as in the store; a row without any has no cosine. `room`: passages to have room for at first."""

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._numbers: NDArray[np.int8] = np.empty((0, 0), dtype=np.int8)
        self._steps: Floats = np.empty(0, dtype=np.float32)
        self._dimension = 0  # not known yet
        self._packed = 0  # passages
        self._fresh: list[Floats] = []  # of the last rows, not packed yet
        self._passages = 0
        self._first = array("q")
        self._count = array("i")
        self._length = array("f")  # of the mean of a row's passages, which is shorter than they are
        self._with_before = array("f")  # cosine with the row before, in the order in which rows came
        self._before = array("i")
        self._around: _Around | None = None

    def __len__(self) -> int:
        return len(self._count)

    @property
    def nbytes(self) -> int:
        """Memory of the vectors, in bytes."""
        return self._numbers.nbytes + self._steps.nbytes + sum(given.nbytes for given in self._fresh)

    def add(self, vectors: NDArray[np.floating[Any]] | None, *, before: int) -> None:
        """The next row. `vectors`: its passages, shape (passages, dimension), unit length; `before`: see `TurnOrder.add`."""
        self.check(vectors)
        given = _NOTHING if vectors is None or not len(vectors) else vectors.astype(np.float32, copy=False)
        if len(given):
            self._dimension = given.shape[1]
        self._first.append(self._passages)
        self._count.append(len(given))
        self._before.append(before)
        self._fresh.append(given)
        self._passages += len(given)
        mean = self._mean(len(self) - 1)
        length = math.sqrt(float(mean @ mean))
        self._length.append(length)
        with_before = 0.0
        if len(given) and before >= 0 and self._count[before]:
            with_before = float(mean @ self._mean(before)) / max(length * self._length[before], _LEAST)
        self._with_before.append(with_before)
        if len(self._fresh) >= _BLOCK:
            self._pack()

    def check(self, vectors: NDArray[np.floating[Any]] | None) -> None:
        """Raise EmbedderError for vectors of another dimension than those here."""
        if vectors is not None and len(vectors) and self._dimension not in (0, vectors.shape[1]):
            raise EmbedderError(
                f"a turn's vectors have {vectors.shape[1]} numbers, those of the user's turns before {self._dimension}, under one"
                " `fingerprint`: an embedder of other vectors needs another; rebuild_index (or `memory-agent rebuild`) embeds all anew"
            )

    def cosines(self, gist: Floats | None, before: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Of each row, NaN without a vector, the cosine of `gist` with its best passage, and with that, it alone or with the row before.

        `before`: the same array as long as there is no other row.
        """
        if gist is None or not self._passages:
            unknown = np.full(len(self), np.nan, dtype=np.float32)
            return unknown, unknown
        self._pack()
        products, all_of = self._products(gist), self._around_in(before)
        meaning, alone = all_of.best(products), all_of.means(products)
        # A long turn may be about something in one passage alone, which its mean says little of.
        return meaning, np.fmax(meaning, all_of.together(alone))

    def nearest(self, query: Floats | None, positions: Sequence[int] | NDArray[np.intp]) -> Floats:
        """The cosine of `query` with the best passage of each of these rows, NaN for -1 and without a vector."""
        self._pack()
        count, first = self._passages_of(positions)
        found = np.full(len(count), np.nan, dtype=np.float32)
        has = np.flatnonzero(count)
        if query is None or not len(has):
            return found
        ends = np.cumsum(count[has])
        begins = ends - count[has]
        passages = np.arange(ends[-1]) + np.repeat(first[has] - begins, count[has])
        if _FEW * len(passages) < self._passages:
            products = product(self._numbers[passages] * self._steps[passages, None], query)
        else:
            products = self._products(query)[passages]
        found[has] = np.maximum.reduceat(products, begins)
        return found

    def of(self, positions: Sequence[int]) -> Floats:
        """The mean vectors of rows at unit length, shape (len(positions), dimension); zeros for -1 and without vectors."""
        self._pack()
        found = np.zeros((len(positions), self._numbers.shape[1]), dtype=np.float32)
        count, first = self._passages_of(positions)
        single = np.flatnonzero(count == 1)
        found[single] = self._numbers[first[single]] * self._steps[first[single], None]
        for i in np.flatnonzero(count > 1).tolist():
            found[i] = self._mean(positions[i]) / max(self._length[positions[i]], _LEAST)
        return found

    def _passages_of(
        self, positions: Sequence[int] | NDArray[np.intp]
    ) -> tuple[NDArray[np.intc], NDArray[np.int64]]:
        """How many passages each of these rows has, none for -1, and where they begin."""
        at = np.array(positions, dtype=np.intp)
        if not self._passages:
            return np.zeros(len(at), np.intc), at
        # The views live no longer than this: while there is one, an array cannot grow.
        count, first = np.frombuffer(self._count, np.intc)[at], np.frombuffer(self._first, np.int64)[at]
        return np.where(at >= 0, count, 0), first

    def _products(self, question: Floats) -> Floats:
        """The product of each passage with the question, by blocks that stay in the processor's cache while they are read."""
        products = np.empty(self._passages, dtype=np.float32)
        block = np.empty((min(_BLOCK, self._passages), self._numbers.shape[1]), dtype=np.float32)
        for start in range(0, self._passages, _BLOCK):
            end = min(start + _BLOCK, self._passages)
            some = block[: end - start]
            some[...] = self._numbers[start:end]
            products[start:end] = product(some, question)
        products *= self._steps[: self._passages]
        return products

    def _around_in(self, before: NDArray[np.intp]) -> _Around:
        """What the order of rows alone decides, made once for it."""
        if self._around is None or self._around.before is not before:
            count = np.array(self._count, dtype=np.intc)
            has = count > 0
            has_before = (before >= 0) & has & has[before]
            cosine = self._cosines_with(before)
            self._around = _Around(
                before=before,
                rows=None if has.all() else np.flatnonzero(has),
                first=np.array(self._first, dtype=np.intp)[has] if self._passages > has.sum() else None,
                count=count[has],
                length=np.maximum(np.array(self._length, dtype=np.float32)[has], _LEAST),
                has_before=has_before,
                divisor=np.sqrt(np.maximum(np.where(has_before, 2.0 + 2.0 * cosine, 1.0), _LEAST)),
            )
        return self._around

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
        fresh = position - (len(self) - len(self._fresh))
        if fresh >= 0:
            given = self._fresh[fresh]
        else:
            first, count = self._first[position], self._count[position]
            given = self._numbers[first : first + count] * self._steps[first : first + count, None]
        mean: Floats = given[0] if len(given) == 1 else given.mean(axis=0) if len(given) else _NOTHING[:, 0]
        return mean

    def _pack(self) -> None:
        """Pack the last rows, in room that doubles so that appends stay cheap. What a store gave loses nothing: there it is in steps already."""
        some = [given for given in self._fresh if len(given)]
        if not some:
            self._fresh = []
            return
        given = np.concatenate(some)
        if self._passages > len(self._numbers):
            room = max(self._passages, self._room, 2 * len(self._numbers))
            numbers, steps = (
                np.empty((room, given.shape[1]), dtype=np.int8),
                np.empty(room, dtype=np.float32),
            )
            numbers[: self._packed] = self._numbers[: self._packed] if self._packed else 0
            steps[: self._packed] = self._steps[: self._packed]
            self._numbers, self._steps = numbers, steps
        to = slice(self._packed, self._passages)
        self._steps[to] = np.maximum(np.abs(given).max(axis=1), np.finfo(np.float32).tiny) / np.float32(_MOST)
        self._numbers[to] = np.rint(given / self._steps[to, None])
        self._packed = self._passages
        self._fresh = []  # only now: what could not be packed for want of memory is packed next time


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Around:
    """What the order of rows alone decides of their cosines.

    `rows`: those that have vectors (None: all), and of these `first`, where the passages of each begin (None: each has one), their
    `count` and the `length` of their mean; of all rows `has_before`, if there is a vector before, and `divisor`.
    """

    before: NDArray[np.intp]
    rows: NDArray[np.intp] | None
    first: NDArray[np.intp] | None
    count: NDArray[np.intc]
    length: Floats
    has_before: NDArray[np.bool_]
    divisor: Floats

    def best(self, of_passages: Floats) -> Floats:
        """Of each row its best passage's."""
        return self._of_all(
            of_passages if self.first is None else np.maximum.reduceat(of_passages, self.first)
        )

    def means(self, of_passages: Floats) -> Floats:
        """Of each row alone, by its mean."""
        mean = of_passages if self.first is None else np.add.reduceat(of_passages, self.first) / self.count
        return self._of_all((mean / self.length).astype(np.float32))

    def together(self, alone: Floats) -> Floats:
        """The better of `alone` and of the cosine of each row together with the one before it."""
        both = (alone + np.where(self.has_before, alone[self.before], np.float32(0.0))) / self.divisor
        around: Floats = np.maximum(alone, both)
        return around

    def _of_all(self, values: Floats) -> Floats:
        if self.rows is None:
            return values
        found = np.full(len(self.before), np.nan, dtype=np.float32)
        found[self.rows] = values
        return found


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
    apart = squares[:, None] + squares[None, :] - 2.0 * product(some, some)
    later, earlier = _pairs(apart <= 2.0 - 2.0 * ALIKE + _LEAST)
    if len(later) > _PAIRS_EACH * len(vectors):
        later, earlier = _pairs(product(vectors, vectors) >= ALIKE)
    else:
        alike = np.einsum("ij,ij->i", vectors[later], vectors[earlier]) >= ALIKE
        later, earlier = later[alike], earlier[alike]
    for row, other in zip(later.tolist(), earlier.tolist(), strict=True):
        is_repeat[row] |= not is_repeat[other]  # by rising row, so that those before it are decided
    return is_repeat


def _pairs(alike: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Later and earlier of the pairs in a mask of shape (n, n), by rising later."""
    later, earlier = np.divmod(np.flatnonzero(alike), len(alike))  # `nonzero` takes several times as long
    below = later > earlier
    return later[below], earlier[below]


class RowVectors:
    """`VectorIndex` over the search rows of a store. It keeps nothing, so there is nothing to fill, to lose or to erase."""

    def __init__(self, store: RowStore, *, fingerprint: Callable[[], str]) -> None:
        """`fingerprint`: gives that of the embedder, "" until it is known."""
        self._store = store
        self._fingerprint = fingerprint

    @property
    def losses(self) -> int:
        """See `VectorIndex.losses`."""
        return 0

    async def place(self, user_id: str) -> str:
        """See `VectorIndex.place`."""
        return ""

    async def open(self) -> None:
        """See `VectorIndex.open`."""

    async def close(self) -> None:
        """See `VectorIndex.close`."""

    async def ping(self) -> None:
        """See `VectorIndex.ping`."""

    async def upsert(self, user_id: str, passages: Sequence[PassageVector]) -> None:
        """See `VectorIndex.upsert`: the rows have them."""

    async def query(self, scope: Scope, vector: NDArray[np.float32], *, limit: int) -> list[Similar]:
        """See `VectorIndex.query`; exact."""
        return await self._store.nearest_turns(scope, vector, embedder=self._fingerprint(), limit=limit)

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`: they go with their rows."""
        return 0

    async def clear(self, user_id: str) -> None:
        """See `VectorIndex.clear`."""

    async def turn_ids(self, user_id: str, *, searched: bool = False) -> set[str]:
        """See `VectorIndex.turn_ids`: none but those that the rows have."""
        return set()
