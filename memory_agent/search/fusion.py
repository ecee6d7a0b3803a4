"""The formulas of ranking: BM25, min-max normalisation, and the weighted sum of a turn's signals. All pure.

BM25 as in Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the
non-negative idf that Lucene uses: ln(1 + (N - n + 0.5) / (n + 0.5)). The sum is the linear fusion of Bruch, Gai &
Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval" (2023), with more than two signals.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np

from memory_agent.text.subjects import everyday_sentences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


_HALF_SESSIONS: Final = 9
"""Of eleven sessions the words of a whole one count half."""
K1: Final = 1.2
B: Final = 0.75

Signal = Literal[
    "meaning",
    "meaning_around",
    "words",
    "words_around",
    "words_session",
    "person",
    "dates",
    "tells_when",
    "counts",
    "names",
    "of_self",
    "asks",
    "here",
    "detail",
]
SIGNALS: Final[tuple[Signal, ...]] = get_args(Signal)
"""What a turn is scored by; each in [0, 1], and what each is is in `docs/long_term.md`."""

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "meaning": 0.9,
        "meaning_around": 2.9,
        "words": 0.7,
        "words_around": 1.2,
        "words_session": 2.3,
        "person": 3.2,
        "dates": 4.1,
        "tells_when": 2.3,
        "counts": 0.9,
        "names": 2.4,
        "of_self": 0.6,
        "asks": -0.7,
        "here": 0.2,
        "detail": 2.7,
    }
)
"""Fitted on the four development sets (listwise softmax, L2, without one set at a time), rounded to where none of them is
at an edge; what each signal is worth on each of these is in `docs/benchmarks.md`."""

WEIGHTS_WITHOUT_DETAIL: Final[Mapping[str, float]] = MappingProxyType(
    {**WEIGHTS, "meaning": 1.7, "meaning_around": 3.2, "words": 1.3, "words_around": 1.9}
)
"""Where nothing is compared word by word, and for what is to be: `detail` tells much of what meaning and words do."""

SCALED: Final[frozenset[Signal]] = frozenset(
    {"meaning", "meaning_around", "words", "words_around", "words_session", "detail"}
)
"""Signals without bounds of their own: they are scaled to [0, 1] among the candidates of one question."""


_SHARPENED: Final = 4
"""The power of a meaning that stands in for words. Lower, and turns in other scripts push those of the question's own aside."""
_OF_WORDS: Final[tuple[Signal, ...]] = ("words", "words_around", "words_session")
_FULL_SHARE: Final = 0.5
"""A best turn with so much BM25 of what the question's words weigh counts whole. With less it shares a word by chance."""
_STANDS_IN: Final[tuple[tuple[Signal, Signal], ...]] = (
    ("meaning", "words"),
    ("meaning_around", "words_around"),
    ("words", "meaning"),
    ("words_around", "meaning_around"),
    ("words_session", "meaning_around"),
)
"""What stands in where a signal is unknown: words for the meaning of a turn without a vector, and meaning for the words of
one in another script than the question's, which can share none with it."""


def for_sessions(weights: Mapping[str, float], sessions: int) -> dict[str, float]:
    """The weights for a memory of so many sessions: the fewer there are, the less the words of a whole one tell.

    Of four long sessions the likeliest raises half of what is irrelevant; of fifty it tells where to look.
    """
    share = (sessions - 1) / (sessions + _HALF_SESSIONS) if sessions else 0.0
    return {**weights, "words_session": weights.get("words_session", 0.0) * share}


def inverse_document_frequency(rows: int, frequency: int) -> float:
    """idf of a term that `frequency` of `rows` rows hold; positive, falling in `frequency`."""
    return math.log1p((rows - frequency + 0.5) / (frequency + 0.5)) if rows >= frequency else 0.0


def bm25(counts: Floats, lengths: Floats, *, mean_length: float, idf: float) -> Floats:
    """One term's share of the BM25 score of each row.

    `counts`: how often the term occurs in each row, shape (n,); `lengths`: terms in each row, shape (n,).
    """
    norm = K1 * (1.0 - B + B * lengths / max(mean_length, 1e-9))
    scores: Floats = (idf * counts * (K1 + 1.0) / (counts + norm)).astype(np.float32)
    return scores


def min_max(values: Floats) -> Floats:
    """`values`, shape (n,), scaled to [0, 1] by the smallest and the largest; NaN becomes 0.

    Where all known values are the same there is nothing to scale by: 1 for what is above 0, else 0.
    """
    return _scaled(values, _unknown(values))


def _scaled(values: Floats, unknown: NDArray[np.bool_] | None) -> Floats:
    known = values if unknown is None else values[~unknown]
    if known.size == 0:
        return np.zeros_like(values)
    low, high = float(known.min()), float(known.max())
    if high <= low:
        return np.where(values > 0.0, 1.0, 0.0).astype(np.float32)
    scaled: Floats = ((values - low) / (high - low)).clip(0.0, 1.0)
    return _filled(scaled, unknown)


def _unknown(values: Floats) -> NDArray[np.bool_] | None:
    """Mask of what is NaN; None without any, as is the rule."""
    mask = np.isnan(values)
    return mask if mask.any() else None


def _filled(values: Floats, unknown: NDArray[np.bool_] | None) -> Floats:
    """`values`, 0 where they are unknown."""
    return values if unknown is None else np.where(unknown, np.float32(0.0), values)


def normalised(values: Mapping[Signal, Floats], *, weight_of_words: float = 0.0) -> dict[Signal, Floats]:
    """Each signal of n candidates in [0, 1], unknown values (NaN) as 0.

    Where some have a vector and others not yet, their words stand in for the meaning of these: a turn that was just
    said must not rank below its neighbours for that alone. So does meaning for words. `weight_of_words`: the idf of the
    question's terms; where the best turn holds little of it, words count as much less (0: not looked at).
    """
    unknown = {signal: _unknown(given) for signal, given in values.items()}
    scaled = {
        signal: (_scaled if signal in SCALED else _filled)(given, unknown[signal])
        for signal, given in values.items()
    }
    whole = dict(scaled)
    for signal, instead in _STANDS_IN:
        lacking = unknown.get(signal)
        if lacking is not None and instead in values and not lacking.all():
            # What words say of one turn in twenty, meaning says a little of all of them.
            stand_in = scaled[instead] if instead in _OF_WORDS else scaled[instead] ** _SHARPENED
            whole[signal] = np.where(lacking, stand_in, scaled[signal]).astype(np.float32)
    for by_words in _OF_WORDS if weight_of_words else ():
        if by_words in values:
            best, lacking = float(np.fmax.reduce(values[by_words], initial=0.0)), unknown[by_words]
            reach = np.float32(min(best / (_FULL_SHARE * weight_of_words), 1.0))
            given = reach * whole[by_words]
            whole[by_words] = given if lacking is None else np.where(lacking, whole[by_words], given)
    return whole


def fuse(values: Mapping[Signal, Floats], weights: Mapping[str, float]) -> Floats:
    """Scores in [0, 1] of n candidates: sum of weight x value over the weights' positive sum; below 0 it is 0.

    `values`: normalised signals, shape (n,) each; those that say nothing of any candidate (all 0) do not count, so
    that a question without dates is not scored as one whose dates nothing fits. A signal without a weight is left out.
    """
    total = np.zeros(len(next(iter(values.values()), ())), dtype=np.float32)
    most = 0.0
    for signal, weight in heard_weights(values, weights).items():
        total += np.float32(weight) * values[signal]
        most += max(weight, 0.0)
    scores: Floats = (total / np.float32(most)).clip(0.0, 1.0) if most else total.clip(0.0, 1.0)
    return scores


def heard_weights(values: Mapping[Signal, Floats], weights: Mapping[str, float]) -> dict[Signal, float]:
    """The weights of the signals that `fuse` counts."""
    return {
        signal: weight
        for signal, given in values.items()
        if (weight := weights.get(signal, 0.0)) and given.any()
    }


def contributions(
    values: Mapping[Signal, Floats], heard: Mapping[Signal, float], positions: Sequence[int]
) -> list[dict[str, float]]:
    """The share of each signal in the scores of the candidates at `positions`, the greatest first; their sum is the score.

    `heard`: see `heard_weights`.
    """
    most = sum(weight for weight in heard.values() if weight > 0.0) or 1.0
    columns = [
        values[signal][positions].astype(np.float64) * weight / most for signal, weight in heard.items()
    ]
    rows = np.stack(columns, axis=1).tolist() if columns else [()] * len(positions)
    return [
        dict(
            sorted((pair for pair in zip(heard, row, strict=True) if pair[1]), key=lambda pair: -abs(pair[1]))
        )
        for row in rows
    ]


def best_first(scores: Floats, *, most: int | None = None) -> NDArray[np.intp]:
    """Positions of the results (not NaN), highest score first; of equal scores the later position first. `most`: no more of them."""
    least = np.nan
    if most is not None and len(scores) > most > 0:
        # To find the least that may be among them takes a fraction of putting all in order. NaN is behind all numbers.
        least = -np.partition(-scores, most - 1)[most - 1]
    results = np.flatnonzero(~np.isnan(scores) if np.isnan(least) else scores >= least)
    order = np.lexsort((-results, -scores[results]))
    return results[order][:most]


SHARPNESS: Final = 20.0
"""Of the softmax that says how far a turn stands out: a score higher by 0.05 stands out e times as much. Held-out
likelihood is the same from 15 to 25."""
TRUST: Final = 20.0
"""So many turns of a memory outweigh what the embedder's background says of the cosine of unrelated things."""
FEW_TURNS: Final = 100
"""The best of half as many unrelated turns is half as often so near by chance. Of the sets, none of which is so small, parts were tried."""
MOST_SHARED: Final = 1.5
"""BM25 above this multiple of the words' weight comes from repetition, which says no more."""


def unrelated(meaning: Floats, *, background: float, whole: bool) -> float:
    """The cosine of the question with turns that have nothing to do with it: what most of the turns have.

    In a small memory the embedder's `background` says so. `whole`: `meaning` is of all turns; candidates, chosen for
    being near, say nothing of it.
    """
    known = meaning[~np.isnan(meaning)] if whole else meaning[:0]
    return float((TRUST * background + known.sum(dtype=np.float64)) / (TRUST + len(known)))


def nearness(meaning: Floats, unrelated_cosine: float) -> Floats:
    """`meaning`, cosines of shape (n,), so that 0 is unrelated and 1 the same; NaN without a vector."""
    near: Floats = ((meaning - unrelated_cosine) / max(1.0 - unrelated_cosine, 1e-3)).clip(-1.0, 1.0)
    return near


def shared(words: Floats, weight_of_words: float) -> Floats:
    """Raw BM25 scores as shares of the weight of the question's words, those that no turn holds included: 0 to `MOST_SHARED`."""
    share: Floats = np.minimum(np.nan_to_num(words) / max(weight_of_words, 1e-6), MOST_SHARED)
    return share


def leads(scores: Floats, but: NDArray[np.bool_] | None = None) -> Floats:
    """How far each of n turns stands out: the log of its share among all, at most 0. Both arrays have the shape (n,).

    `scores`: in [0, 1], NaN for what is no result. `but`: turns that say nothing new, and take nothing from the others' shares.
    """
    sharp = SHARPNESS * np.nan_to_num(scores).astype(np.float64)
    counted = sharp if but is None else sharp[~but]
    top = counted.max(initial=0.0)
    found: Floats = np.minimum(sharp - top - np.log(np.exp(counted - top).sum() or 1.0), 0.0).astype(
        np.float32
    )
    return found


def chance_of_any(
    *,
    nearest: float | None = None,
    detail: float | None = None,
    words: float | None = None,
    turns: int = FEW_TURNS,
) -> float:
    """The chance that anything that was said answers the question, 0 to 1: "none of this" is an answer, too.

    Of the best turn: `nearest`, its `nearness`; `detail`, its late-interaction score, None where there is none; `words`, where there are
    no vectors: its share of the question's words, with the turns beside it (see `shared`). `turns`: it is the best of so many.
    """
    if nearest is None:
        return _logistic(-2.8 + 3.4 * (words or 0.0))
    odds = -9.0 + 22.4 * nearest if detail is None else -12.3 + 18.0 * nearest + 8.8 * detail
    return _logistic(odds + math.log(FEW_TURNS / min(max(turns, 1), FEW_TURNS)))


def confidence(any_chance: float, shared_words: Floats, lead: Floats) -> Floats:
    """The probability, 0 to 1, that each of n turns is evidence for the question: that there is any, and that this is some.

    `any_chance`: see `chance_of_any`; `shared_words`: the mean of `shared` alone and with the turns beside it, shape (n,);
    `lead`: see `leads`. Both logistic models are fitted on the questions of the four development sets; the first also on small talk,
    on questions that anybody might ask, and on questions of other conversations, none of which has evidence.
    """
    odds = -0.12 + 0.90 * shared_words + 0.72 * lead
    probable: Floats = (any_chance / (1.0 + np.exp(-odds))).astype(np.float32)
    return probable


def _logistic(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds))


class Background:
    """The mean vector of each language's everyday sentences, shape (languages, dimension)."""

    def __init__(self, vectors: Floats) -> None:
        """`vectors`: of all `everyday_sentences`, in their order, unit length."""
        ends = np.cumsum([len(sentences) for sentences in everyday_sentences().values()])
        self._means = np.stack([part.mean(axis=0) for part in np.split(vectors, ends[:-1])])

    def of(self, question: Floats) -> float:
        """The question's mean cosine with the sentences of the language that it is most alike: its own, as a rule."""
        return float((self._means @ question).max())
