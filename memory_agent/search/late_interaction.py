"""Late interaction: a question and a turn compared word by word, each as the model reads it where it stands. Pure.

MaxSim of Khattab & Zaharia, "ColBERT" (2020), with a model that was not trained for it: each token of the question
takes its best cosine with a token of the turn, and the rarer its word is, the more it counts.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.lazily import lazily
from memory_agent.search.fusion import inverse_document_frequency
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors
    from memory_agent.search.postings import CollectionStatistics

    Floats = NDArray[np.float32]

_RUN: Final = lazily(re.compile, r"\S+")
BESIDE: Final = 0.9
"""A token found in the turn before or after counts so much of one found in the turn itself."""


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
