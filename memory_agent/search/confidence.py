"""Confidence: the probability that a turn is evidence for a question, beside the score, which only orders. All pure.

Three grounds, each of which can only raise it: how near the turn is in meaning, seen from what the embedder gives
things that have nothing to do with each other; how much of what the question's words weigh it shares; and how far it
stands out among all that was searched. A logistic model adds them up: four numbers, fitted on three sets of conversations.

Embedders differ: of two sentences about different things one says 0.1, another 0.7, and a model for English finds any
two sentences in Korean alike. So a cosine says little before it is known what the question's cosine with anything in
its language is: its background, measured with a few sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

SHARPNESS: Final = 20.0
"""Of the softmax that says how far a turn stands out: a score higher by 0.05 stands out e times as much. Held-out
likelihood is the same from 15 to 25."""
TRUST: Final = 20.0
"""So many turns of a memory outweigh what the embedder's background says of the cosine of unrelated things."""
MOST_SHARED: Final = 1.5
"""BM25 above this multiple of the words' weight comes from repetition, which says no more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficients:
    """Of the logistic model: `constant` + `nearness` x + `words` y + `lead` z is the log of the odds."""

    constant: float
    nearness: float
    words: float
    lead: float


BY_MEANING: Final = Coefficients(constant=-2.0, nearness=3.7, words=1.0, lead=0.58)
"""For turns that have a vector."""
BY_WORDS: Final = Coefficients(constant=-1.6, nearness=0.0, words=2.4, lead=0.58)
"""For turns without: not indexed yet, or with the embedder down."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Grounds:
    """The inputs of the confidence in each of n turns, shape (n,) each.

    `nearness`: 0 is unrelated, 1 the same, NaN without a vector; `words`: share of the weight of the question's words
    that the turn, and it with those beside it, holds; `lead`: log of its share among all turns searched, at most 0.
    """

    nearness: Floats
    words: Floats
    lead: Floats


def unrelated(meaning: Floats, *, background: float, whole: bool) -> float:
    """The cosine of the question with turns that have nothing to do with it: what most of the turns have.

    In a small memory the embedder's `background` says so. `whole`: `meaning` is of all turns; candidates, chosen for
    being near, say nothing of it.
    """
    known = meaning[~np.isnan(meaning)] if whole else meaning[:0]
    return float((TRUST * background + known.sum(dtype=np.float64)) / (TRUST + len(known)))


def grounds(
    scores: Floats,
    meaning: Floats,
    words: Floats,
    words_around: Floats,
    *,
    weight_of_words: float,
    unrelated_cosine: float,
    at: Sequence[int] | slice = slice(None),
) -> Grounds:
    """The grounds of n turns from `scores` in [0, 1], raw cosines (NaN without a vector) and raw BM25 scores.

    `weight_of_words`: the sum of the idf of all words of the question, those that no turn holds included; `at`: positions of the n
    turns among all, of which `scores` are.
    """
    room = max(1.0 - unrelated_cosine, 1e-3)
    shared = np.minimum(words / max(weight_of_words, 1e-6), MOST_SHARED)
    shared_around = np.minimum(words_around / max(weight_of_words, 1e-6), MOST_SHARED)
    sharp = SHARPNESS * scores.astype(np.float64)
    top = sharp.max(initial=0.0)
    return Grounds(
        nearness=((meaning - unrelated_cosine) / room).clip(-1.0, 1.0).astype(np.float32),
        words=((shared + shared_around) / 2.0).astype(np.float32),
        lead=(sharp[at] - top - np.log(np.exp(sharp - top).sum() or 1.0)).astype(np.float32),
    )


def confidence(given: Grounds) -> Floats:
    """The probability, from 0 to 1, that each turn is evidence for the question."""
    by_meaning = _log_odds(BY_MEANING, np.nan_to_num(given.nearness, nan=0.0), given)
    by_words = _log_odds(BY_WORDS, np.zeros_like(given.nearness), given)
    odds = np.where(np.isnan(given.nearness), by_words, by_meaning)
    probable: Floats = (1.0 / (1.0 + np.exp(-odds))).astype(np.float32)
    return probable


def _log_odds(fitted: Coefficients, nearness: Floats, given: Grounds) -> Floats:
    odds: Floats = (
        fitted.constant + fitted.nearness * nearness + fitted.words * given.words + fitted.lead * given.lead
    )
    return odds


# --- background ----------------------------------------------------------------------------------------------
EVERYDAY: Final[Mapping[str, tuple[str, ...]]] = {
    "english": (
        "I finally finished knitting the green scarf.",
        "The invoice for March is still unpaid.",
        "We saw two foxes near the river last night.",
        "My sister plays the cello in an orchestra.",
        "The soup needs a little more pepper.",
    ),
    "german": (
        "Ich habe endlich den grünen Schal fertig gestrickt.",
        "Die Rechnung für März ist noch offen.",
        "Wir haben gestern Nacht am Fluss zwei Füchse gesehen.",
        "Meine Schwester spielt Cello in einem Orchester.",
        "An die Suppe muss noch etwas Pfeffer.",
    ),
    "french": (
        "J'ai enfin fini de tricoter l'écharpe verte.",
        "La facture de mars n'est toujours pas payée.",
        "Nous avons vu deux renards près de la rivière.",
        "Ma sœur joue du violoncelle dans un orchestre.",
        "Il manque un peu de poivre dans la soupe.",
    ),
    "spanish": (
        "Por fin terminé de tejer la bufanda verde.",
        "La factura de marzo sigue sin pagar.",
        "Anoche vimos dos zorros cerca del río.",
        "Mi hermana toca el violonchelo en una orquesta.",
        "A la sopa le falta un poco de pimienta.",
    ),
    "russian": (
        "Я наконец довязала зелёный шарф.",
        "Счёт за март всё ещё не оплачен.",
        "Вчера ночью мы видели у реки двух лис.",
        "Моя сестра играет на виолончели в оркестре.",
        "В суп надо добавить немного перца.",
    ),
    "korean": (
        "초록색 목도리를 드디어 다 떴어.",
        "3월 청구서가 아직 미납이야.",
        "어젯밤에 강가에서 여우 두 마리를 봤어.",
        "언니는 오케스트라에서 첼로를 연주해.",
        "국에 후추를 조금 더 넣어야겠어.",
    ),
    "japanese": (
        "緑のマフラーをやっと編み終えた。",
        "三月分の請求書はまだ払っていない。",
        "昨日の夜、川のそばで狐を二匹見た。",
        "姉はオーケストラでチェロを弾いている。",
        "スープにもう少し胡椒が要る。",
    ),
    "chinese": (
        "我终于织完了那条绿围巾。",
        "三月的账单还没有付。",
        "昨晚我们在河边看见两只狐狸。",
        "我姐姐在乐团里拉大提琴。",
        "汤里还要再放一点胡椒。",
    ),
}
"""Sentences that hardly any question is about."""


class Background:
    """The mean vector of each language's sentences, shape (languages, dimension)."""

    def __init__(self, vectors: Floats) -> None:
        """`vectors`: of all sentences of `EVERYDAY`, in its order, unit length."""
        ends = np.cumsum([len(sentences) for sentences in EVERYDAY.values()])
        self._means = np.stack([part.mean(axis=0) for part in np.split(vectors, ends[:-1])])

    def of(self, question: Floats) -> float:
        """The question's mean cosine with the sentences of the language that it is most alike: its own, as a rule."""
        return float((self._means @ question).max())
