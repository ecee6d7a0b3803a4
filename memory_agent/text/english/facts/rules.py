"""The rules for English, sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.text.english.facts.life import family, life, pets
from memory_agent.text.english.facts.person import ages, introduction, names, occupations, places
from memory_agent.text.english.facts.tastes import favorites, no_more, tastes, times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Sentence

_RULES: Final = (names, ages, occupations, places, family, pets, life, times, tastes, no_more, favorites)


def english_facts(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """The facts that the sentences of one turn state."""
    yield from introduction(sentences)
    for sentence in sentences:
        for rule in _RULES:
            yield from rule(sentence)
