"""Topic matching: the topic a turn belongs to, and the topic's embedding that follows its turns. All pure.

A turn joins the topic whose embedding has the highest cosine with the turn's vector, if that reaches a threshold; the
topic of the turn before gets a bonus first, since people mostly go on with what they are talking about. A turn with
next to no content of its own ("yes, the second one") never opens a topic: its subject is in the turns around it.

A topic's embedding is the mean of its first vectors and from then on an exponentially weighted one, so that it follows
a conversation that moves on. Figures behind every constant: `docs/topics.md`, measured by `python -m benchmarks.topics`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import regex

from memory_agent.lazily import lazily
from memory_agent.text.languages import stop_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

RECENT_VECTORS: Final = 5
"""A vector that joins a topic weighs at least one part in so many of its embedding."""

# What is shorter has no direction to speak of; float16 keeps nothing smaller than 6e-8 either.
_LEAST_NORM: Final = 1e-6

_HAN_CHARS_PER_WORD: Final = 2
_UNSPACED_CHARS_PER_WORD: Final = 5
_JAPANESE: Final = r"\p{Han}\p{Hiragana}\p{Katakana}々〆ー"
_WORD: Final = lazily(
    regex.compile,
    rf"""(?P<han>[\p{{Han}}々〆]+) | (?P<hiragana>\p{{Hiragana}}+) | [\p{{Katakana}}ー]+
    | (?P<unspaced>(?:(?=[\p{{Thai}}\p{{Lao}}\p{{Khmer}}\p{{Myanmar}}])[\p{{L}}\p{{N}}\p{{M}}])+)
    | (?:(?![{_JAPANESE}\p{{Thai}}\p{{Lao}}\p{{Khmer}}\p{{Myanmar}}])[\p{{L}}\p{{N}}\p{{M}}])+(?:['’][\p{{L}}\p{{M}}]+)*""",
    regex.VERBOSE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchSettings:
    """Thresholds for joining a topic. The defaults suit all-MiniLM-L6-v2; cosines of other models lie elsewhere.

    `similarity_threshold`: the cosine from which a turn joins a topic; `continuation_bonus`: what is added to the
    cosine with the topic of the turn before, both when it is held against the threshold and against other topics;
    `short_turn_terms`: a turn with fewer content terms (`turn_terms`) opens no topic while there is one to stay in.
    """

    similarity_threshold: float = 0.6
    continuation_bonus: float = 0.3
    short_turn_terms: int = 4


def match_topic(
    vector: NDArray[np.float32] | None,
    terms: int,
    candidates: Mapping[str, NDArray[np.floating[Any]]],
    current: str | None,
    settings: MatchSettings,
) -> str | None:
    """The id of the topic that a turn joins; None: it opens one.

    `vector`: shape (dimension,), or None for a turn without one; `terms`: its content terms (`turn_terms`);
    `candidates`: embeddings by topic id, shape (dimension,), of any length; one without a direction (zeros, or empty: no
    vector yet) is never near; `current`: the topic of the turn before.
    A `current` that is no candidate (none yet, archived meanwhile) counts as none: even a short turn then joins the
    best topic above the threshold or opens one, because every turn has a topic and a guess below the threshold would
    be no better. A turn without a direction (no vector, or zeros) stays in the current topic. Of equal topics the
    current one wins, then the lesser id, whatever the order of `candidates`.
    """
    staying = current if current is not None and current in candidates else None
    direction = None if vector is None else _unit(vector)
    if direction is None:
        return staying
    scores = _cosines(direction, candidates)
    if staying in scores:
        scores[staying] += settings.continuation_bonus
    best = max(scores, key=lambda topic_id: (scores[topic_id], topic_id == staying), default=None)
    if best is not None and scores[best] >= settings.similarity_threshold:
        return best
    return staying if terms < settings.short_turn_terms else None


def joined_embedding(
    embedding: NDArray[np.floating[Any]] | None,
    count: int,
    vector: NDArray[np.floating[Any]],
    *,
    recent: int | None = RECENT_VECTORS,
) -> NDArray[np.float16]:
    """A topic's embedding after `vector` joined the `count` vectors in it, shape (dimension,), of length at most 1.

    e + w (v - e) with v the unit vector and w = max(1 / (count + 1), 1 / recent): the plain mean of the first `recent`
    vectors, then an exponentially weighted one. `recent=None`: the plain mean of all. A vector without a direction
    changes nothing. `embedding` is not looked at while `count` is 0.
    """
    before = None if embedding is None or count <= 0 else embedding.astype(np.float32)
    unit = _unit(vector)
    if unit is None:
        unit = np.zeros(vector.shape, np.float32) if before is None else before
    if before is None:
        return unit.astype(np.float16)
    weight = max(1.0 / (count + 1), 1.0 / recent if recent else 0.0)
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


def turn_terms(text: str) -> int:
    """The number of distinct words with a content of their own in `text`, about; for `MatchSettings.short_turn_terms`.

    English function words don't count, nor does hiragana, which mostly writes Japanese grammar. Where words aren't
    parted by spaces they are taken to have two characters (Chinese characters) or five (Thai, Lao, Khmer, Burmese).
    Unlike `count_terms`, whose bigrams make many terms of one Korean word.

    >>> turn_terms("yes, the second one"), turn_terms("그래 좋아"), turn_terms("👍")
    (3, 2, 0)
    """
    return len(set(_words(unicodedata.normalize("NFKC", text).casefold())))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match.group().replace("’", "'")
        if match["hiragana"] or word in stop_words("english"):
            continue
        size = len(word)
        if match["han"]:
            size = _HAN_CHARS_PER_WORD
        elif match["unspaced"]:
            size = _UNSPACED_CHARS_PER_WORD
        yield from (word[start : start + size] for start in range(0, len(word), size))


def _cosines(
    unit: NDArray[np.float32], candidates: Mapping[str, NDArray[np.floating[Any]]]
) -> dict[str, float]:
    """Cosine of `unit` with each candidate that has a direction, by id in the order of ids."""
    # By id: a product's last bits depend on the row, and the order of a mapping must not decide a topic.
    ids = sorted(topic_id for topic_id, embedding in candidates.items() if embedding.shape == unit.shape)
    if not ids:
        return {}
    embeddings = np.stack([candidates[topic_id] for topic_id in ids]).astype(np.float32)
    norms = np.linalg.norm(embeddings, axis=1)
    usable = np.isfinite(norms) & (norms >= _LEAST_NORM)
    products = embeddings[usable] @ unit / norms[usable]
    known = (topic_id for topic_id, has_one in zip(ids, usable, strict=True) if has_one)
    return dict(zip(known, products.tolist(), strict=True))


def _unit(vector: NDArray[np.floating[Any]]) -> NDArray[np.float32] | None:
    """`vector` at length 1; None if it has no direction."""
    given = vector.astype(np.float32)
    norm = float(np.linalg.norm(given))
    if not np.isfinite(norm) or norm < _LEAST_NORM:
        return None
    unit: NDArray[np.float32] = given / norm
    return unit
