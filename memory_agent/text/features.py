"""Surface features of a text, for search: questions, times, numbers, first person, names, corrections.

A question for a time is more likely answered by a turn that tells one. The rules are few and coarse on purpose: they
only add to a score (`search.fusion`), and what each is worth is in `docs/benchmarks.md`. Names are told by their capitals, so scripts without them name nothing.
"""

from __future__ import annotations

from typing import Final

import regex

from memory_agent.domain import TurnFeatures
from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.corrections import corrects
from memory_agent.text.languages import any_of

READ_CHARS: Final = 4_000
"""How much of a text is looked at, from its beginning."""

_ASKS: Final = lazily(regex.compile, r"[?？؟]\W*\Z")
_TIME: Final = any_of("times", "signs.time", regex.IGNORECASE)
_NUMBER: Final = any_of("times", "signs.number", regex.IGNORECASE, within=r"\p{Nd}|%s")
_SELF: Final = any_of("words", "self", regex.IGNORECASE)
# A capital that no sentence's beginning explains; "I" alone names nobody.
_NAME: Final = lazily(regex.compile, r"(?<![.!?:\n]\s)(?<!\A)(?<![\p{L}\p{N}'’])\p{Lu}[\p{L}\p{M}]+")
_MOST_NAMES: Final = 3


def asks(text: str) -> bool:
    """True if a text ends with a question."""
    return _ASKS.search(text[-40:]) is not None


def counts(text: str) -> bool:
    """True if a text gives a number."""
    return _NUMBER.search(text[:READ_CHARS]) is not None


def of_self(text: str) -> bool:
    """True if a text speaks of its speaker."""
    return _SELF.search(text[:READ_CHARS]) is not None


def names_in(text: str) -> list[str]:
    """Words that are written like a name: with a capital that no sentence's beginning explains."""
    return _NAME.findall(text)


@kept_by_text(8_192)
def features_of(text: str) -> TurnFeatures:
    """The signs of one turn's text, of which the first `READ_CHARS` characters are read and the end for a question.

    >>> features_of("We flew to Lisbon last week.")
    TurnFeatures(asks=False, tells_when=True, counts=False, of_self=True, names=1, corrects=False)
    """
    head = text[:READ_CHARS]
    names = 0
    for _ in _NAME.finditer(head):
        names += 1
        if names == _MOST_NAMES:
            break
    return TurnFeatures(
        asks=asks(text),
        tells_when=_TIME.search(head) is not None,
        counts=counts(text),
        of_self=of_self(text),
        names=names,
        corrects=corrects(text),
    )
