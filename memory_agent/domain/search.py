"""What search needs of a turn, and what it brings back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain.base import Role
    from memory_agent.domain.turns import Turn


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SearchRow:
    """What search needs of one turn, kept apart from its text.

    `vectors`: float16, shape (passages, dimension), unit length; long turns have several passages.
    `terms`: normalised term -> how often it occurs, and the entities that the turn names (`Entity.term` -> 1);
    `length`: how many words that are, without the entities.
    `embedder`: the fingerprint of what made the vectors, `language`: the stemmer's; rows made otherwise than the
    current settings say are searched by what still fits, until they are made anew.
    `index_seq`: rises with every change of the user's rows; 0 until stored.
    `erased`: a stub that tells other processes to drop the turn from memory; it has no vectors and no terms.
    """

    turn_id: str
    user_id: str
    thread_id: str
    seq: int
    role: Role
    timestamp: datetime
    vectors: NDArray[np.float16]
    terms: Mapping[str, int]
    length: int
    embedder: str
    language: str
    index_seq: int = 0
    erased: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TermCandidates:
    """Rows that hold some of the asked terms, for users too large to keep resident.

    `rows` and `mean_length` (terms per row, over a recent sample) describe the user's whole collection;
    `frequency` says in how many of the user's rows each term occurs; `turn_ids` are the candidates in scope.
    """

    rows: int
    mean_length: float
    frequency: Mapping[str, int]
    turn_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassageVector:
    """One passage of a turn for the vector index. `vector`: float32, shape (dimension,), unit length."""

    turn_id: str
    passage: int
    thread_id: str
    timestamp: datetime
    vector: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Similar:
    """A turn found by meaning: the cosine of its nearest passage with the query."""

    turn_id: str
    similarity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Recollection:
    """A turn that search brought back. `score` in [0, 1] orders one answer's results, and only those.

    `why` holds the signals behind the score: `similarity` (cosine, absent without a vector), `words` (BM25),
    and both after normalisation.
    """

    turn: Turn
    score: float
    why: Mapping[str, float]

    @property
    def text(self) -> str:
        return self.turn.content

    @property
    def topic_id(self) -> str | None:
        """The topic of the turn; None until it is known."""
        return self.turn.topic_id
