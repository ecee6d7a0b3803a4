"""Background similarity of an embedder: the cosine of unrelated sentences, measured once.

Embedders differ: of two sentences about different things one says 0.1, another 0.7, and a model for English finds any
two sentences in Korean alike. So a cosine says little before it is known what the question's cosine with anything
in its language is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

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
