"""Facts without a language model: what a user plainly states about themselves, in English and Korean.

A wrong fact is worse than a missed one, so a sentence is passed over as soon as anything makes it doubtful: a
question, a condition, a wish, the past, somebody else's words, pasted text, a task to write or translate something,
or an object that only its context explains ("I love it"). `docs/patterns.md` lists the kinds and their precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

if TYPE_CHECKING:
    from memory_agent.domain import StatedFact

EXTRACTOR_VERSION: Final = "2"
"""Changes with the rules, for the record of what extracted a fact."""

MAX_TEXT_CHARS: Final = 4_000
"""Longer turns are pasted documents, whose "I" is anybody."""

__all__ = ["EXTRACTOR_VERSION", "MAX_TEXT_CHARS", "extract_facts"]


def extract_facts(text: str) -> list[StatedFact]:
    """The facts that `text` states about its author, in the order of its sentences; [] if none is certain enough.

    `turn_id` is left to the caller. Each `quote` is a span of `text`; what is said twice is given once.
    """
    # Here, since the rules of the languages need this package's sentences.
    from memory_agent.text.languages import any_of, languages_with
    from memory_agent.text.patterns.common import MAX_VALUE_CHARS, sentences

    if len(text) > MAX_TEXT_CHARS or any_of("facts", "foreign_task", regex.IGNORECASE).search(text):
        return []
    own = list(sentences(text))
    found: dict[tuple[object, ...], StatedFact] = {}
    for fact in (fact for language in languages_with("facts") for fact in language.facts(own)):
        if not isinstance(fact.value, str) or 0 < len(fact.value) <= MAX_VALUE_CHARS:
            found.setdefault((fact.op, fact.path, fact.value), fact)
    return list(found.values())
