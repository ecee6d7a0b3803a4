"""Facts without a language model: what a user plainly states about themselves, in English and Korean.

A wrong fact is worse than a missed one, so a sentence is passed over as soon as anything makes it doubtful: a
question, a condition, a wish, the past, somebody else's words, pasted text, a task to write or translate something,
or an object that only its context explains ("I love it"). `docs/patterns.md` lists the kinds and their precision.

Patterns match a plain form of a sentence (straight apostrophes, single blanks, quoted text as one `"`). Every
character of it knows its offset in the turn, so that a fact's quote is cut from the turn itself, word for word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import regex

from memory_agent.domain import StatedFact
from memory_agent.text.cues import Sentence, sentences
from memory_agent.text.languages import any_of, languages_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memory_agent.text.tables import Table

EXTRACTOR_VERSION: Final = "8"
"""Changes with the rules, for the record of what extracted a fact."""
MAX_TEXT_CHARS: Final = 4_000
"""Longer turns are pasted documents, whose "I" is anybody."""
MAX_VALUE_CHARS: Final = 60
_PLAY: Final = any_of("cues", "turn.play", regex.IGNORECASE)
Op = Literal["add", "update", "retract"]


def extract_facts(text: str) -> list[StatedFact]:
    """The facts that `text` states about its author, in the order of its sentences; [] if none is certain enough.

    `turn_id` is left to the caller. Each `quote` is a span of `text`; what is said twice is given once.
    """
    if len(text) > MAX_TEXT_CHARS:
        return []
    own = list(sentences(text))
    found: dict[tuple[object, ...], StatedFact] = {}
    for fact in (fact for language in languages_with("facts") for fact in language.facts(own)):
        if not isinstance(fact.value, str) or 0 < len(fact.value) <= MAX_VALUE_CHARS:
            found.setdefault((fact.op, fact.path, fact.value), fact)
    return [] if found and _PLAY.search(text) else list(found.values())


def stated(
    sentence: Sentence,
    at: regex.Match[str] | tuple[int, int],
    path: str,
    value: Any,
    confidence: float,
    op: Op = "add",
) -> StatedFact:
    """The fact that a sentence states in its part `at`; `path`: with dots."""
    quote = sentence.quote(*(at if isinstance(at, tuple) else at.span()))
    return StatedFact(op=op, path=tuple(path.split(".")), value=value, quote=quote, confidence=confidence)


class TableOfFacts:
    """The facts that a language's table `facts` finds: each `[[fact]]` a pattern with the group `value`, and a path.

    With a group `kin` in the pattern the name of that relative goes onto the path; what `unless` matches in a sentence
    undoes all of its facts.
    """

    def __init__(self, its: Table, kin: Mapping[str, str]) -> None:
        self._unless = its.pattern("unless", regex.IGNORECASE)
        self._kin = kin
        self._rules = [
            (
                each.pattern("pattern"),
                each.value("path"),
                each.value("confidence", float, 0.85),
            )
            for each in its.parts("fact")
        ]

    def __call__(self, sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
        for sentence in sentences:
            if sentence.asks or self._unless.search(sentence.plain):
                continue
            for pattern, path, confidence in self._rules:
                for match in pattern.finditer(sentence.plain):
                    relative = match.groupdict().get("kin")
                    whose = f".{self._kin[relative.casefold()]}" if relative else ""
                    yield stated(sentence, match, path + whose, match["value"], confidence)
