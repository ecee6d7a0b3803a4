"""A second look at the best turns of a search, which costs more than all turns could have. Optional, bounded in time.

Late interaction compares a question and a turn word by word, each as the model reads it where it stands: MaxSim of
Khattab & Zaharia, "ColBERT" (2020), with a model that was not trained for it. Each token of the question takes its best
cosine with a token of the turn, and the rarer its word is, the more it counts.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from memory_agent.errors import BackendError
from memory_agent.lazily import lazily
from memory_agent.search.fusion import inverse_document_frequency
from memory_agent.text.terms import count_terms
from memory_agent.text.writing import is_read

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors, Turn
    from memory_agent.ports import Embedder
    from memory_agent.search.postings import CollectionStatistics

    Floats = NDArray[np.float32]

SHORTLIST: Final = 50
"""Turns that are looked at again, at most; what the first stage put behind them stays behind."""
MOST_CHARS: Final = 12_000
"""How much text is looked at again: about 90 turns of a chat, or 10 long answers; time goes with it."""
_RUN: Final = lazily(re.compile, r"\S+")
BESIDE: Final = 0.9
"""A token found in the turn before or after counts so much of one found in the turn itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The best turns of the first stage, best first. `names`: of people in the question; `statistics`: of its terms."""

    query: str
    names: Sequence[str]
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
    """Turns compared with the question word by word, by the vectors of the embedder's tokens."""

    def __init__(self, embedder: Embedder, *, language: str) -> None:
        self._embedder = embedder
        self._language = language

    async def score(self, shortlist: Shortlist) -> Floats | None:
        """See `SecondStage.score`; None where the embedder has no vectors of tokens, or does not read the question."""
        turns, query = shortlist.turns, shortlist.query[:MOST_CHARS]
        if not is_read(query, self._embedder.scripts):
            return None
        asked, read = await asyncio.gather(
            self._embedder.embed_tokens([query], purpose="query"),
            self._embedder.embed_tokens([turn.content[:MOST_CHARS] for turn in turns], purpose="document"),
        )
        if asked is None or read is None:
            return None
        weights = token_weights(
            query, asked[0], shortlist.statistics, language=self._language, without=shortlist.names
        )
        matches = await asyncio.to_thread(token_matches, asked[0], read)
        return detail(matches, weights, *beside(turns))


def beside(turns: Sequence[Turn]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The positions in `turns` of the turn before and after each in its session, -1 where it is not among them."""
    at = {(turn.thread_id, turn.session_id, turn.seq): i for i, turn in enumerate(turns)}
    places = [
        [at.get((turn.thread_id, turn.session_id, turn.seq + step), -1) for turn in turns] for step in (-1, 1)
    ]
    return np.array(places[0], dtype=np.intp), np.array(places[1], dtype=np.intp)


# --- late interaction ----------------------------------------------------------------------------------------
def token_matches(question: TokenVectors, turns: Sequence[TokenVectors]) -> Floats:
    """The best cosine of each token of the question in each turn: shape (len(turns), tokens of the question), 0 or more."""
    asked = np.asarray(question.vectors, dtype=np.float32)
    found = np.zeros((len(turns), len(asked)), dtype=np.float32)
    for row, turn in enumerate(turns):
        if len(turn.vectors) and len(asked):
            found[row] = (np.asarray(turn.vectors, dtype=np.float32) @ asked.T).max(axis=0).clip(0.0)
    return found


def token_weights(
    text: str,
    question: TokenVectors,
    statistics: CollectionStatistics,
    *,
    language: str,
    without: Collection[str] = (),
) -> Floats:
    """Weights of the tokens of the question `text`, shape (tokens,): the idf of the word it is part of.

    0 for function words, punctuation and the names `without`, for which who spoke stands.
    """
    names = {term for name in without for term in count_terms(name, language)}
    weight_of: dict[str, float] = {}
    weights = np.zeros(len(question.spans), dtype=np.float32)
    for token, word in enumerate(_words_around(text, question.spans)):
        if word not in weight_of:
            terms = [term for term in count_terms(word, language) if term not in names]
            idfs = [
                inverse_document_frequency(statistics.rows, statistics.frequency.get(term, 0))
                for term in terms
            ]
            weight_of[word] = max(idfs, default=0.0)
        weights[token] = weight_of[word]
    return weights


def detail(matches: Floats, weights: Floats, before: NDArray[np.intp], after: NDArray[np.intp]) -> Floats:
    """Late-interaction score of each turn, its neighbours counting too, shape (turns,), 0 to 1.

    `matches`: see `token_matches`; `before`, `after`: rows of `matches` that stand beside each turn, -1 for none.
    """
    beside = np.maximum(_rows(matches, before), _rows(matches, after))
    best = np.maximum(matches, np.float32(BESIDE) * beside)
    scores: Floats = (best @ weights / max(float(weights.sum()), 1e-6)).astype(np.float32)
    return scores


def _rows(matches: Floats, places: NDArray[np.intp]) -> Floats:
    found: Floats = np.where((places >= 0)[:, None], matches[places], 0.0).astype(np.float32)
    return found


def _words_around(text: str, spans: NDArray[np.int32]) -> list[str]:
    """The word of `text` that each token is part of: the run without white space around it, or the runs it covers."""
    runs = [match.span() for match in _RUN.finditer(text)]
    words = []
    for start, end in spans.tolist():
        # A span may begin with the blank before its word.
        first = bisect_right(runs, start, key=lambda run: run[1])
        last = bisect_left(runs, end, key=lambda run: run[0])
        words.append(text[runs[first][0] : runs[last - 1][1]] if first < last else "")
    return words
