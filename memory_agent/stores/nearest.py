"""The turns nearest to a vector among stored rows, shown page by page. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.domain import Similar
from memory_agent.products import product
from memory_agent.stores.codec import unpack_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

PAGE_ROWS: Final = 4_096
"""Rows of a page: some 6 ms each, in between others read."""
_STEP_BYTES: Final = 4


class Nearest:
    """The best `limit` of all rows that were taken, by the cosine of their nearest passage with a vector of unit length."""

    def __init__(self, vector: NDArray[np.float32], *, limit: int) -> None:
        self._vector = np.asarray(vector, dtype=np.float32)
        self._limit = limit
        self._ids: list[Any] = []
        self._similarity = np.empty(0, dtype=np.float32)

    def take(self, rows: Sequence[tuple[Any, bytes, int]]) -> None:
        """Take rows: id, packed vectors (`pack_vectors`), number of passages. Raises ValueError for those of another dimension."""
        single = [row for row in rows if row[2] == 1]
        longer = [row for row in rows if row[2] > 1]
        found = [self._of_single([packed for _, packed, _ in single])]
        found += [np.max(self._cosines(packed, passages), keepdims=True) for _, packed, passages in longer]
        ids = [*self._ids, *(row[0] for row in single), *(row[0] for row in longer)]
        similarity = np.concatenate([self._similarity, *found])
        best = np.argsort(-similarity, kind="stable")[: self._limit]
        self._ids, self._similarity = [ids[place] for place in best], similarity[best]

    def found(self, named: Callable[[Any], str]) -> list[Similar]:
        """The nearest first; `named`: gives the turn's id of a row's."""
        nearest = zip(self._ids, np.clip(self._similarity, -1.0, 1.0), strict=True)
        return [Similar(turn_id=named(row_id), similarity=float(cosine)) for row_id, cosine in nearest]

    def _of_single(self, packed: Sequence[bytes]) -> NDArray[np.float32]:
        """The cosines of rows of one passage each, in one product."""
        size = _STEP_BYTES + len(self._vector)
        if any(len(one) != size for one in packed):
            raise ValueError(self._refusal(next(len(one) for one in packed if len(one) != size)))
        rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(-1, size)
        steps = rows[:, :_STEP_BYTES].copy().view("<f4")[:, 0]
        cosines: NDArray[np.float32] = (
            product(rows[:, _STEP_BYTES:].view(np.int8).astype(np.float32), self._vector) * steps
        )
        return cosines

    def _cosines(self, packed: bytes, passages: int) -> NDArray[np.float32]:
        vectors = unpack_vectors(packed, passages)
        if vectors.shape[1] != len(self._vector):
            raise ValueError(self._refusal(len(packed) // passages))
        cosines: NDArray[np.float32] = product(vectors, self._vector)
        return cosines

    def _refusal(self, size: int) -> str:
        return f"the vector has {len(self._vector)} numbers, those of the rows {size - _STEP_BYTES}"
