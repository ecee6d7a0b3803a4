"""Topic matching: the topic a turn belongs to, and the topic's embedding that follows its turns. All pure.

A turn is held against each topic by meaning and by words:

    u·e - chance + sum of idf(w) share(w) / (share(w) + 0.1) over its words / (sum of idf(w) + 2)

with u the turn's unit vector; e the topic's embedding, a mean of unit vectors, so that u·e is the mean cosine with the
topic's recent turns and a topic of everything is near to nothing; chance the cosine that the model gives any two texts
of the turn's language; share(w) the part of the topic's turns that have the word; idf(w) = log((topics + 1) / topics with w).
A vector alone cannot part what a model hardly knows (Korean for an English model), words alone miss paraphrases.

It joins the best topic that reaches a threshold. The topic of the turn before has a bonus, since people mostly go on with
what they are talking about; an archived one has to be surer by as much. A turn with next to no content of its own ("yes, the
second one") never opens a topic: its subject is in the turns around it.

Figures behind every constant: `docs/topics.md`, measured by `python -m benchmarks.topics`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.products import product
from memory_agent.topics.index import LEAST_NORM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.topics.index import Directed, TopicIndex

RECENT_VECTORS: Final = 5
"""A vector that joins a topic weighs at least one part in so many of its embedding."""

_HALF_SHARE: Final = 0.1
"""A word that one in ten of a topic's turns has counts half as much as one that all have."""
_PRIOR_WORDS: Final = 2.0
"""In units of idf: one word that two short turns share is no proof."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchSettings:
    """Thresholds for joining a topic.

    `similarity_threshold`: the score from which a turn joins a topic; `continuation_bonus`: what the score with the topic of the turn
    before has more, and that with an archived one less; `short_turn_terms`: a turn with fewer words of its own
    (`Subject.size`) opens no topic while there is one to stay in.
    """

    similarity_threshold: float = 0.35
    continuation_bonus: float = 0.15
    short_turn_terms: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnSubject:
    """Subject and vector of a turn, by which it is matched.

    `vector`: of unit length, shape (dimension,), or None for a turn without one; `chance`: the cosine that two texts of its
    language have that have nothing to do with each other; `words`: as in `Subject`; `size`: the same. `embedder`: the
    fingerprint of the model that the vector is of, which may have changed since.
    """

    vector: NDArray[np.float32] | None = None
    embedder: str = ""
    chance: float = 0.0
    words: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


def match_topic(
    turn: TurnSubject,
    among: TopicIndex,
    current: str | None,
    settings: MatchSettings,
    *,
    archived: bool = True,
) -> str | None:
    """The id of the topic that a turn joins; None: it opens one.

    `among`: the thread's topics, those that rest only with `archived`. `current`: the topic of the turn before; one that is not
    among them (none yet) counts as none: even a short turn then joins the best topic above the threshold or opens one,
    because every turn has a topic. A turn without a direction (no vector, zeros, another model's) stays in the current topic. Of equal
    topics the current one wins, then the lesser id, in whatever order they came.
    """
    staying = current if current is not None and among.offers(current, archived=archived) else None
    unit = None if turn.vector is None or turn.embedder != among.embedder else _unit(turn.vector)
    if unit is None:
        return staying
    best: list[tuple[float, bool, str]] = []
    for topics, scores in topic_scores(unit, turn, among, archived=archived):
        if among.is_archived(topics.ids[0]):
            scores -= settings.continuation_bonus
        if staying in topics.places:
            scores[topics.places[staying]] += settings.continuation_bonus
        best += [
            (-float(scores[place]), topics.ids[place] != staying, topics.ids[place])
            for place in np.flatnonzero(scores == scores.max())
        ]
    if best and -min(best)[0] >= settings.similarity_threshold:
        return min(best)[2]
    return staying if turn.size < settings.short_turn_terms else None


def topic_scores(
    unit: NDArray[np.float32], turn: TurnSubject, among: TopicIndex, *, archived: bool
) -> list[tuple[Directed, NDArray[np.float64]]]:
    """Topics that have an embedding, with the score of the turn, of unit vector `unit`, with each of them.

    Active ones, and with `archived` behind them those that rest.
    """
    looked = among.directed(unit.shape, archived=archived)
    overlaps = word_scores(turn.words, among, looked)
    return [
        (topics, (product(topics.embeddings, unit) - turn.chance).astype(np.float64) + overlap)
        for topics, overlap in zip(looked, overlaps, strict=True)
    ]


def word_scores(
    words: Iterable[str], among: TopicIndex, looked: Sequence[Directed]
) -> list[NDArray[np.float64]]:
    """Shares of the words that each of the topics has that are looked at, in [0, 1): the second part of the formula above."""
    sums, all_of_it = [[0.0] * len(topics.ids) for topics in looked], _PRIOR_WORDS
    count = sum(len(topics.ids) for topics in looked)
    all_places, users_turns = [topics.places for topics in looked], among.users_turns
    for word in words:
        told = among.having(word)
        having = [
            [
                (place, turns / users_turns[topic_id])
                for topic_id, turns in told.items()
                if (place := places.get(topic_id)) is not None
            ]
            for places in all_places
        ]
        idf = math.log((count + 1) / max(sum(map(len, having)), 1))
        all_of_it += idf
        for found, shares in zip(sums, having, strict=True):
            for place, share in shares:
                found[place] += idf * share / (share + _HALF_SHARE)
    return [np.array(found) / all_of_it for found in sums]


def joined_embedding(
    embedding: NDArray[np.floating[Any]] | None, count: int, vector: NDArray[np.floating[Any]]
) -> NDArray[np.float16]:
    """A topic's embedding after `vector` joined the `count` vectors in it, shape (dimension,), of length at most 1.

    e + w (v - e) with v the unit vector and w = max(1 / (count + 1), 1 / RECENT_VECTORS): the plain mean of the first
    few vectors, then an exponentially weighted one. A vector without a direction changes nothing. `embedding` is not
    looked at while `count` is 0.
    """
    before = None if embedding is None or count <= 0 else embedding.astype(np.float32)
    unit = _unit(vector)
    if unit is None:
        unit = np.zeros(vector.shape, np.float32) if before is None else before
    if before is None:
        return unit.astype(np.float16)
    weight = max(1.0 / (count + 1), 1.0 / RECENT_VECTORS)
    joined: NDArray[np.float16] = (before + weight * (unit - before)).astype(np.float16)
    return joined


def turn_vector(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float32] | None:
    """One unit vector for a turn: the mean of its passages, `vectors` of shape (passages, dimension).

    None for a turn without passages, or whose passages cancel out.
    """
    return None if len(vectors) == 0 else _unit(vectors.astype(np.float32).mean(axis=0))


def without_direction(
    vector: NDArray[np.floating[Any]], direction: NDArray[np.floating[Any]]
) -> NDArray[np.float32]:
    """`vector` less its part along `direction`, not scaled again; both of shape (dimension,).

    A turn of a named speaker is embedded as "speaker: text", and the name outweighs the subject: all that one person
    says looks alike. Taking out the direction of the vector of "speaker:" undoes that.
    """
    given: NDArray[np.float32] = vector.astype(np.float32)
    unit = _unit(direction)
    return given if unit is None else given - float(given @ unit) * unit


def chance_cosine(vector: NDArray[np.floating[Any]], everyday: Iterable[NDArray[np.floating[Any]]]) -> float:
    """The mean cosine of a unit `vector`, shape (dimension,), with unrelated sentences of the nearest language; 0 without any.

    `everyday`: for each language the unit vectors of its sentences, shape (sentences, dimension).
    """
    return max((float((vectors @ vector).mean()) for vectors in everyday), default=0.0)


def _unit(vector: NDArray[np.floating[Any]]) -> NDArray[np.float32] | None:
    """`vector` at length 1; None if it has no direction."""
    given = vector.astype(np.float32)
    norm = float(np.linalg.norm(given))
    if not np.isfinite(norm) or norm < LEAST_NORM:
        return None
    unit: NDArray[np.float32] = given / norm
    return unit
