"""The words of a turn that say what it is about, cut so that their forms meet: for telling a change of subject."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.languages import all_words, languages_with, plain_any_of, stop_words
from memory_agent.text.sentences import sentences_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.text.sentences import Sentence

_WORD: Final = lazily(re.compile, r"[가-힣]+|[^\W\d_]{2,}(?:'[a-z]+)?")
_HANGUL_STEM = 2
_LATIN_STEM = 5


@cache
def _function_words() -> frozenset[str]:
    return frozenset[str]().union(*(stop_words(each.name) for each in languages_with("words", "fillers")))


@lru_cache(maxsize=8)
def content_stems(text: str) -> frozenset[str]:
    """The distinct content words of a turn: the first five letters of each, two syllables of a Korean word.

    Function words, greetings and fillers don't count, nor do code, links and quoted speech.

    >>> sorted(content_stems("Hi, I am planning a trip to Japan"))
    ['japan', 'plann', 'trip']
    """
    stems: set[str] = set()
    fillers, stop = all_words("words", "fillers"), _function_words()
    for sentence in sentences_of(text):
        for word in _WORD.findall(sentence.low):
            if "가" <= word[0] <= "힣":
                stem = word[:_HANGUL_STEM]
                if len(stem) == _HANGUL_STEM and stem not in fillers:
                    stems.add(stem)
            elif word not in stop and word not in fillers:
                stems.add(word[:_LATIN_STEM])
    return frozenset(stems)


_BEGINS: Final = plain_any_of("words", "refers.begins")
_WITHIN: Final = plain_any_of("words", "refers.within")
_EDITS: Final = plain_any_of("words", "refers.edits")
_OFFERS: Final = plain_any_of("words", "refers.offers")
_OFFER_CHARS = 60


def refers_back(sentences: Sequence[Sentence]) -> bool:
    """True if a turn takes up what was said before it: by its first words, a pronoun, or an order about the thing at hand."""
    first = sentences[0].low
    if _BEGINS.match(first) or _EDITS.match(first):
        return True
    return any(_WITHIN.search(sentence.low) for sentence in sentences[:2])


def offers_help(sentence: Sentence) -> bool:
    """True if a question only asks what the other wants: "How can I help?", "What's on your mind?"."""
    return sentence.asks and len(sentence.low) <= _OFFER_CHARS and _OFFERS.search(sentence.low) is not None
