"""Topics that are alike, and surely one. All pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.products import product

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import Topic

GROWN_TOGETHER: Final = 0.7
"""The cosine of their meaning from which topics may be one: turns of one subject have some .3 with each other."""
_SURE_WORDS: Final = 0.2
"""The cosine of their words from which they are merged: a model that hardly knows a language finds all of it alike."""


def grown_together(topics: Sequence[Topic], *, least: float = GROWN_TOGETHER) -> list[tuple[Topic, Topic]]:
    """Pairs of topics whose embeddings have a cosine of at least `least`, nearest first."""
    by_model: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        if topic.embedded and topic.embedding.any():
            by_model[topic.embedder].append(topic)
    pairs = []
    for alike in by_model.values():
        matrix = np.stack([topic.embedding.astype(np.float32) for topic in alike])
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        cosines = np.triu(product(matrix, matrix), k=1)
        near = np.argwhere(np.triu(cosines >= least, k=1))
        pairs += [(alike[i], alike[j], float(cosines[i, j])) for i, j in near]
    return [(one, other) for one, other, _ in sorted(pairs, key=lambda pair: -pair[2])]


def surely_one(topics: Sequence[Topic]) -> list[tuple[Topic, Topic]]:
    """Pairs of topics that are one by meaning and by words, the later with the earlier one; each topic at most once.

    Never two that somebody has split.
    """
    having = Counter(word for topic in topics for word in topic.words)
    idf = {word: math.log((len(topics) + 1) / count) for word, count in having.items()}
    taken: set[str] = set()
    pairs = []
    for one, other in grown_together(topics):
        early, late = sorted((one, other), key=lambda topic: (topic.created_at, topic.id))
        split = {*one.parted, *other.parted}.intersection((*one.turns_of, *other.turns_of))
        if split or not taken.isdisjoint((one.id, other.id)) or _words_alike(one, other, idf) < _SURE_WORDS:
            continue
        taken |= {one.id, other.id}
        pairs.append((late, early))
    return pairs


def _words_alike(one: Topic, other: Topic, idf: Mapping[str, float]) -> float:
    """The cosine of the topics' words, each weighing as often as it is said times idf."""
    weights = [
        {word: turns * idf[word] for word, (turns, _) in topic.words.items()} for topic in (one, other)
    ]
    product = sum(weight * weights[1].get(word, 0.0) for word, weight in weights[0].items())
    norms = math.prod(math.hypot(*each.values()) for each in weights)
    return product / norms if norms else 0.0
