"""Late interaction: the best turns of a search compared with the question word by word, as the model reads them.

MaxSim of Khattab & Zaharia, "ColBERT" (2020), with a model that was not trained for it: each token of the question takes its
best cosine with a token of the turn, and the rarer its word is, the more it counts. The turns' tokens were kept when they were
indexed (`token_codes`), so it costs one read of the shortlist's.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import regex

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.lazily import lazily
from memory_agent.ports import known_scripts, tokens_by
from memory_agent.products import product
from memory_agent.search.fusion import inverse_document_frequency
from memory_agent.text.terms import CJK, UNSPACED, count_terms
from memory_agent.text.writing import is_read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors
    from memory_agent.ports import DocumentStore, Embedder
    from memory_agent.search.postings import CollectionStatistics

    Floats = NDArray[np.float32]


_WORD: Final = lazily(regex.compile, rf"(?:(?![{CJK}{UNSPACED}])[^\W_])+")
_FORM: Final = b"\x02"
"""What codes begin with. Those of schema 10 took 26 bytes a token and had no such mark."""
_BOUNDS: Final = np.array([-0.9816, 0.0, 0.9816], dtype=np.float32)
_VALUES: Final = np.array([-1.510, -0.4528, 0.4528, 1.510], dtype=np.float32)
"""In standard deviations."""
_SCALES: Final = np.array([0.75, 0.85, 1.0, 1.15, 1.3], dtype=np.float32)
"""Each vector is coded at the one of these lengths at which its code is nearest to it."""
_PLACES: Final = np.array([0, 2, 4, 6], dtype=np.uint8)
_IN_A_BYTE: Final = _VALUES[np.arange(256)[:, None] >> _PLACES & 3]
"""The four numbers of each byte."""


def word_vectors(text: str, tokens: TokenVectors) -> Floats:
    """Unit vectors, one for each word of the text: the mean of those of its pieces. A sign stands alone.

    So does a token of a script that puts no spaces between words, or of Hangul.
    """
    words = [word.span() for word in _WORD.finditer(text)]
    # A token's span may begin with the blank before its word.
    within = [bisect_right(words, end, key=lambda word: word[0] + 1) - 1 for _, end in tokens.spans.tolist()]
    of_word = [
        (at if at >= 0 and end <= words[at][1] else -1 - number)
        for number, (at, (_, end)) in enumerate(zip(within, tokens.spans.tolist(), strict=True))
    ]
    begins = [number for number, at in enumerate(of_word) if not number or at != of_word[number - 1]]
    vectors = np.asarray(tokens.vectors, dtype=np.float32)
    sums = np.add.reduceat(vectors, begins, axis=0) if begins else vectors
    means: Floats = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
    return means


def packed(vectors: NDArray[np.floating[Any]]) -> bytes:
    """Unit vectors of tokens, shape (tokens, directions): a mark and `token_bytes(directions)` for each token."""
    tokens, directions = vectors.shape
    spread = vectors.astype(np.float32) * np.float32(np.sqrt(directions))
    steps = np.searchsorted(_BOUNDS, _SCALES[:, None, None] * spread)
    values = _VALUES[steps]
    cosines = (values * spread).sum(axis=2) / np.sqrt((values * values).sum(axis=2))
    steps = steps[cosines.argmax(axis=0), np.arange(tokens)].astype(np.uint8)
    fours = np.pad(steps, ((0, 0), (0, -directions % 8))).reshape(tokens, token_bytes(directions), 4)
    body: bytes = np.bitwise_or.reduce(fours << _PLACES, axis=2).tobytes()
    return _FORM + body


def is_readable(codes: bytes) -> bool:
    """True for codes that `packed` made; those of an earlier version are made anew by a rebuild."""
    return codes[:1] == _FORM and len(codes) % 2 == 1  # those of before were of an even length


def token_bytes(directions: int) -> int:
    """Bytes of one token of so many directions: an even number."""
    return 2 * -(-directions // 8)


def tokens_in(codes: bytes, directions: int) -> int:
    """How many tokens there are in codes that `packed` made."""
    return (len(codes) - len(_FORM)) // token_bytes(directions)


def unpacked(codes: Iterable[bytes], directions: int) -> Floats:
    """The inverse of `packed`, to the nearest value and at unit length: all tokens, shape (tokens, directions)."""
    joined = b"".join(each[len(_FORM) :] for each in codes)
    fours = np.frombuffer(joined, dtype=np.uint8).reshape(-1, max(token_bytes(directions), 1))
    numbers = np.take(_IN_A_BYTE, fours, axis=0).reshape(len(fours), 4 * fours.shape[1])[:, :directions]
    lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
    vectors: Floats = numbers / np.maximum(lengths, np.float32(1e-6))[:, None]
    return vectors


SHORTLIST: Final = 50
"""Turns that are looked at again, at most; what the first stage put behind them stays behind."""
_RUN: Final = lazily(re.compile, r"\S+")
_REST_OF_WORD: Final = 50
"""Characters behind the last token that the word it begins may have."""
BESIDE: Final = 0.8
"""A token found in the turn before or after counts so much of one found in the turn itself."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shortlist:
    """The best turns of the first stage, best first, of one user.

    `names`: of people in the question; `statistics`: of its terms; `before` and `after`: the places in `turn_ids` of the turns
    beside each in its session, shape (turns,), -1 where it is not among them.
    """

    query: str
    names: Sequence[str]
    statistics: CollectionStatistics
    user_id: str
    turn_ids: Sequence[str]
    before: NDArray[np.intp]
    after: NDArray[np.intp]


class LateInteraction:
    """Turns compared with the question word by word."""

    def __init__(self, store: DocumentStore, embedder: Embedder, *, language: str) -> None:
        self._store = store
        self._embedder = embedder
        self._language = language

    async def score(self, shortlist: Shortlist) -> Floats | None:
        """Late-interaction score of each turn, shape (turns,), 0 to 1, NaN for one whose tokens weren't kept.

        None where that is so of half or more, of which the others are no measure; where the embedder has no vectors of the
        question's tokens, does not read it, or is down.
        """
        embedder = self._embedder
        if not is_read(shortlist.query, known_scripts(embedder)):
            return None
        try:
            asked = await tokens_by(embedder, [shortlist.query], purpose="query")
        except (EmbedderUnavailable, EmbedderError):
            return None  # the question has no vector either, and the search has said so
        if asked is None or not len(asked[0].spans):
            return None
        stored = await self._store.token_codes(
            shortlist.user_id, shortlist.turn_ids, embedder=embedder.fingerprint
        )
        codes = {turn_id: kept for turn_id, kept in stored.items() if is_readable(kept)}
        if 2 * len(codes) <= len(shortlist.turn_ids):
            return None  # as after an upgrade: the few that have some would be the best, whatever they say
        question, known = asked[0], [turn_id in codes for turn_id in shortlist.turn_ids]
        weights = token_weights(
            shortlist.query, question, shortlist.statistics, language=self._language, without=shortlist.names
        )
        matches = token_matches(question, [codes.get(turn_id, b"") for turn_id in shortlist.turn_ids])
        scores = detail(matches, weights, shortlist.before, shortlist.after)
        found: Floats = np.where(known, scores, np.nan).astype(np.float32)
        return found


def token_matches(question: TokenVectors, turns: Sequence[bytes]) -> Floats:
    """The best cosine of each token of the question in each turn: shape (len(turns), tokens of the question), 0 or more.

    `turns`: packed token vectors; a turn without any matches nothing.
    """
    asked = np.asarray(question.vectors, dtype=np.float32)
    found = np.zeros((len(turns), len(asked)), dtype=np.float32)
    if not asked.size:
        return found
    directions = asked.shape[1]
    counts = [tokens_in(codes, directions) if codes else 0 for codes in turns]
    spoken = [row for row, count in enumerate(counts) if count]
    if not spoken:
        return found
    begins = np.cumsum([0, *(counts[row] for row in spoken[:-1])])
    cosines = product(unpacked([turns[row] for row in spoken], directions), asked)
    found[spoken] = np.maximum.reduceat(cosines, begins, axis=0).clip(0.0)
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
    # No product of OpenBLAS: for so few columns it has warned of an invalid value where each one was finite.
    scores: Floats = ((best * weights).sum(axis=1) / max(float(weights.sum()), 1e-6)).astype(np.float32)
    return scores


def _rows(matches: Floats, places: NDArray[np.intp]) -> Floats:
    found: Floats = np.where((places >= 0)[:, None], matches[places], 0.0).astype(np.float32)
    return found


def _words_around(text: str, spans: NDArray[np.int32]) -> list[str]:
    """The word of `text` that each token is part of: the run without white space around it, or the runs it covers."""
    bounds = spans.tolist()
    # A pasted page may be far longer than what the model reads of it.
    read = text[: max((end for _, end in bounds), default=0) + _REST_OF_WORD]
    runs = [match.span() for match in _RUN.finditer(read)]
    words = []
    for start, end in bounds:
        # A span may begin with the blank before its word.
        first = bisect_right(runs, start, key=lambda run: run[1])
        last = bisect_left(runs, end, key=lambda run: run[0])
        words.append(text[runs[first][0] : runs[last - 1][1]] if first < last else "")
    return words
