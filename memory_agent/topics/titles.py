"""Titles of topics: their telling phrases, those that many of a topic's turns have and few other topics. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_agent.lazily import lazily
from memory_agent.text.subjects import keys_of, likely_phrase, shared_phrase, subject_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from memory_agent.domain import Topic

TITLE_CHARS: Final = 80
_CLAUSE_END: Final = lazily(re.compile, r"[.!?…,;:]+(?:\s+|$)|[。！？，；：]+")
_TITLE_WORDS: Final = 5
_OPENING: Final = 1.25
"""What opens a topic is what it is mostly about; replies to it bring their own words."""
_SECOND: Final = 0.5
"""A second phrase tells at least half as much as the first."""
_MOST_WORDS: Final = 256
"""Words that a topic keeps: with 64, returns of long subjects are missed; those that few turns had go first."""
_ROOM: Final = 128
"""So many more before the rest is dropped, so that words which come now are not always the first to go."""

Words = dict[str, tuple[int, str]]
"""Word -> the users' turns that had it, and the noun phrase in which it stands in all of them ("" without one)."""


def with_words(words: Mapping[str, tuple[int, str]], told: Mapping[str, str]) -> Words:
    """A topic's words after one more turn, with `told` as in `Subject.words`."""
    joined = dict(words)
    for word, phrase in told.items():
        turns, before = joined.get(word, (0, ""))
        joined[word] = (turns + 1, _better(before, phrase, words) if before and phrase else before or phrase)
    if len(joined) > _MOST_WORDS + _ROOM:
        later = {word: place for place, word in enumerate(joined)}
        kept = set(sorted(joined, key=lambda word: (-joined[word][0], -later[word]))[:_MOST_WORDS])
        joined = {word: joined[word] for word in joined if word in kept}
    return joined


def _better(before: str, phrase: str, words: Mapping[str, tuple[int, str]]) -> str:
    """Of two phrases of one word: the words that they share if these are several, else the one whose words more turns have."""
    if len(shared := shared_phrase(before, phrase).split()) > 1:
        return " ".join(shared)
    return max(before, phrase, key=lambda each: sum(words.get(part, (0, ""))[0] for part in keys_of(each)))


class WordCounts(NamedTuple):
    """The words of some topics: how many topics there are, and how many of them have a word."""

    topics: int
    having: Callable[[str], int]

    @classmethod
    def of(cls, topics: Iterable[Topic]) -> WordCounts:
        """Counted anew."""
        given = list(topics)
        counts = Counter(word for topic in given for word in topic.words)
        return cls(topics=len(given), having=counts.__getitem__)


def title_of(topic: Topic, beside: WordCounts) -> str:
    """The most telling noun phrase of the users' turns, as "marathon training plan", and another where there is room; else
    what the opener is likely about, or its first clause.

    A word tells by its turns times log(1 + topics / topics that have the word), over the topic and those `beside` it,
    which are other ones; a phrase by the words of its own.
    """
    opening = set(subject_of(topic.opener).words)
    told = {
        word: (_OPENING if word in opening else 1.0)
        * turns
        * math.log(1 + (beside.topics + 1) / (1 + beside.having(word)))
        for word, (turns, _) in topic.words.items()
    }
    weights = {
        phrase: _weight([told.get(key, 0.0) for key in keys_of(phrase)])
        for _, phrase in topic.words.values()
        if phrase
    }
    chosen: list[str] = []
    for phrase in sorted(
        weights, key=lambda phrase: -weights[phrase]
    ):  # of equal ones the first that was said
        known = {key for each in chosen for key in keys_of(each)}
        words = sum(len(each.split()) for each in (*chosen, phrase))
        if chosen and (words > _TITLE_WORDS or weights[phrase] < _SECOND * weights[chosen[0]]):
            continue
        if known.isdisjoint(keys_of(phrase)):
            chosen.append(phrase)
        if len(chosen) == 2:
            break
    return (", ".join(chosen) or likely_phrase(topic.opener))[:TITLE_CHARS] or _telling_clause(
        topic.opener, told
    )


def _weight(told: list[float]) -> float:
    return sum(told) / math.sqrt(max(len(told), 1))


def _telling_clause(opener: str, told: Mapping[str, float]) -> str:
    """The most telling clause of an opener that has words with a content of their own, of equal ones the first; the whole
    opener if none has.
    """
    clauses = [clause.strip(" \"'“”‘’()*#-–—") for clause in _CLAUSE_END.split(opener)]
    subjects = {clause: subject_of(clause) for clause in clauses}
    return max(
        (clause for clause in subjects if subjects[clause].size),
        key=lambda clause: _weight([told.get(word, 0.0) for word in subjects[clause].words]),
        default=opener,
    )


def opener_of(content: str) -> str:
    """The first 80 characters of a message, on one line."""
    return " ".join(content[: 10 * TITLE_CHARS].split())[:TITLE_CHARS] or "…"
