"""A second look at the best turns of a search, which costs more than all turns could have. Optional, bounded in time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from memory_agent.errors import BackendError
from memory_agent.search.late_interaction import detail, token_matches, token_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Turn
    from memory_agent.ports import Embedder, Reranker
    from memory_agent.search.postings import CollectionStatistics

    Floats = NDArray[np.float32]

SHORTLIST: Final = 50
"""Turns that are looked at again, at most; what the first stage put behind them stays behind."""
MOST_CHARS: Final = 12_000
"""How much text is looked at again: about 90 turns of a chat, or 10 long answers; time goes with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The best turns of the first stage, best first. `persons`: whom the question names; `statistics`: of its terms."""

    query: str
    persons: Sequence[str]
    statistics: CollectionStatistics
    turns: Sequence[Turn]


class SecondStage(Protocol):
    """Scores a shortlist again."""

    async def score(self, shortlist: Shortlist) -> Floats | None:
        """Relevance of each turn, shape (turns,), any range; None if this cannot tell. Raises BackendError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondLook:
    """A second stage, and how it is used: on SHORTLIST turns at most, for `seconds`; `weights` for the sum with it."""

    stage: SecondStage
    weights: Mapping[str, float]
    seconds: float

    async def score(self, shortlist: Shortlist, degraded: list[str]) -> Floats | None:
        """See `SecondStage.score`; None also when it failed or took too long, which `degraded` then names."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self.stage.score(shortlist)
        except (BackendError, TimeoutError):
            degraded.append("second_stage")
            return None


def within_chars(turns: Sequence[Turn], limit: int = MOST_CHARS) -> Sequence[Turn]:
    """The first turns that together have at most `limit` characters; at least one."""
    total = 0
    for number, turn in enumerate(turns):
        total += len(turn.content)
        if total > limit:
            return turns[: max(number, 1)]
    return turns


class LateInteraction:
    """Turns compared with the question word by word (`recall.late`), by the vectors of the embedder's tokens."""

    def __init__(self, embedder: Embedder, *, language: str) -> None:
        self._embedder = embedder
        self._language = language

    async def score(self, shortlist: Shortlist) -> Floats | None:
        """See `SecondStage.score`; None where the embedder has no vectors of tokens."""
        turns, query = shortlist.turns, shortlist.query[:MOST_CHARS]
        asked, read = await asyncio.gather(
            self._embedder.embed_tokens([query], purpose="query"),
            self._embedder.embed_tokens([turn.content[:MOST_CHARS] for turn in turns], purpose="document"),
        )
        if asked is None or read is None:
            return None
        weights = token_weights(
            query,
            asked[0],
            shortlist.statistics,
            language=self._language,
            without=shortlist.persons,
        )
        matches = await asyncio.to_thread(token_matches, asked[0], read)
        return detail(matches, weights, *beside(turns))


class Reranking:
    """Turns scored together with the question by a model made for it: a cross-encoder, or a language model."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker

    async def score(self, shortlist: Shortlist) -> Floats | None:
        """See `SecondStage.score`."""
        texts = [
            (f"{turn.speaker}: {turn.content}" if turn.speaker else turn.content)[:MOST_CHARS]
            for turn in shortlist.turns
        ]
        return await self._reranker.rerank(shortlist.query, texts)


def beside(turns: Sequence[Turn]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The positions in `turns` of the turn before and after each in its session, -1 where it is not among them."""
    at = {(turn.thread_id, turn.session_id, turn.seq): i for i, turn in enumerate(turns)}
    places = [
        [at.get((turn.thread_id, turn.session_id, turn.seq + step), -1) for turn in turns] for step in (-1, 1)
    ]
    return np.array(places[0], dtype=np.intp), np.array(places[1], dtype=np.intp)
