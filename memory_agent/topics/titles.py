"""Titles of topics: their telling phrases, those that many of a topic's turns have and few other topics. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from memory_agent.text.subjects import shared_phrase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from memory_agent.domain import Topic

TITLE_CHARS: Final = 80
_PHRASES: Final = 3
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
        joined[word] = (turns + 1, shared_phrase(before, phrase) if before and phrase else before or phrase)
    if len(joined) > _MOST_WORDS + _ROOM:
        later = {word: place for place, word in enumerate(joined)}
        kept = set(sorted(joined, key=lambda word: (-joined[word][0], -later[word]))[:_MOST_WORDS])
        joined = {word: joined[word] for word in joined if word in kept}
    return joined


def title_of(topic: Topic, beside: Iterable[Topic]) -> str:
    """Up to three phrases, the most telling first, as "rye bread, oven, Ines"; the opener where there are none.

    A phrase counts by its word's turns times log(1 + topics / topics that have the word), over the topic and those `beside` it.
    """
    others = [each for each in beside if each.id != topic.id]
    weights = {
        word: turns * math.log(1 + (len(others) + 1) / (1 + sum(word in each.words for each in others)))
        for word, (turns, phrase) in topic.words.items()
        if phrase
    }
    chosen: list[str] = []
    for word in sorted(weights, key=lambda word: -weights[word]):  # of equal ones the first that was said
        phrase = topic.words[word][1]
        known = {part for each in chosen for part in each.casefold().split()}
        if known.isdisjoint(phrase.casefold().split()):
            chosen.append(phrase)
        if len(chosen) == _PHRASES:
            break
    return ", ".join(chosen)[:TITLE_CHARS] or topic.opener


def opener_of(content: str) -> str:
    """The first 80 characters of a message, on one line."""
    return " ".join(content[: 10 * TITLE_CHARS].split())[:TITLE_CHARS] or "…"
