"""Repeats: what one text says again of another. Pure."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import regex

from memory_agent.text.corrections import corrects
from memory_agent.text.features import names_in
from memory_agent.text.languages import any_of
from memory_agent.text.subjects import content_words, subject_of

_LEAST_WORDS: Final = 6
"""Content words; of fewer one more or less says something else."""
_MOST_NEW: Final = 0.25
T = TypeVar("T")

_REFUSES: Final = any_of("words", "refuses", regex.IGNORECASE)


class Told(Generic[T]):
    """Texts that were told, found by their content words."""

    def __init__(self) -> None:
        self._told: list[tuple[T, frozenset[str]]] = []
        self._holding: dict[str, list[int]] = {}

    def add(self, told: T, words: frozenset[str]) -> None:
        """Note a text of these content words."""
        for word in words:
            self._holding.setdefault(word, []).append(len(self._told))
        self._told.append((told, words))

    def like(self, words: frozenset[str]) -> list[T]:
        """Texts with nearly all of these content words: `repeats` reads them then."""
        if len(words) < _LEAST_WORDS:
            return []
        held = [its for word in words if (its := self._holding.get(word))]
        new, most_new = len(words) - len(held), int(_MOST_NEW * len(words))
        if new > most_new:
            return []
        # One that has nearly all has one of any few.
        near = (self._told[at] for at in set().union(*sorted(held, key=len)[: most_new + 1 - new]))
        return [told for told, others in near if _may_repeat(words, others)]


def _may_repeat(words: frozenset[str], others: frozenset[str]) -> bool:
    return len(words) >= _LEAST_WORDS and len(words - others) <= _MOST_NEW * len(words)


def repeats(text: str, other: str) -> bool:
    """True if a text says nothing that another doesn't: it has nearly no other words, none of them a noun, name or number, refuses as much
    and corrects nothing.

    >>> told = "We take the children to Ida at the tram museum in Bern on Monday."
    >>> [repeats(f"On Monday we take the children to {whom}, the tram museum in Bern.", told) for whom in ("Ida", "Bo")]
    [True, False]
    """
    words, others = content_words(text), content_words(other)
    if not _may_repeat(words, others):
        return False
    new = words - others
    # Of a script that hides which words are nouns any may be one.
    if any(not word.isascii() or any(map(str.isdigit, word)) for word in new):
        return False
    nouns = subject_of(text).words if new else {}
    if any(nouns.get(word) for word in new):
        return False
    if any(name not in other for name in names_in(text)):
        return False
    refused, refused_too = (len(_REFUSES.findall(each)) for each in (text, other))
    return refused == refused_too and not corrects(text)
