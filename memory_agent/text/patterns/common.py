"""The author's own sentences of a turn and their positions, shared by all languages' fact patterns.

Patterns match a plain form of a sentence (straight apostrophes, single blanks, quoted text as one `"`). Every
character of it knows its offset in the turn, so that a fact's quote is cut from the turn itself, word for word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import regex

from memory_agent.domain import StatedFact
from memory_agent.lazily import lazily
from memory_agent.text.languages import any_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memory_agent.text.tables import Table

MAX_VALUE_CHARS: Final = 60
MAX_QUOTE_CHARS: Final = 240
"""A longer sentence is quoted by the clause that states the fact."""


Op = Literal["add", "update", "retract"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A sentence in plain form. `number` counts the turn's sentences from 0, those that are not used included."""

    text: str
    plain: str
    offsets: Sequence[int]
    number: int
    asks: bool

    def quote(self, start: int, end: int) -> str:
        """The sentence as it stands in the turn, or the part from `start` to `end` of a long one."""
        whole = self.text[self.offsets[0] : self.offsets[-1] + 1]
        if len(whole) <= MAX_QUOTE_CHARS:
            return whole
        return self.text[self.offsets[start] : self.offsets[end - 1] + 1].strip(" ,-–—")


# Bounded repeats keep what is never closed from being read to the end of the text again and again.
_NOT_SAID: Final = lazily(
    regex.compile,
    r"```.*?(?:```|\Z)|`[^`\n]{0,400}`|https?://\S+|\[[^\]\[\n]{0,400}\]|^[ \t]*>.*?$"
    r"|^[ \t]*(?!btw|fyi)[\w .'-]{1,30}:[ \t].*?$"
    r"|\"[^\"]*\"|“[^”“]*”|«[^»«]*»|「[^」「]*」|『[^』『]*』|(?<!\w)['‘][^'’\n]{2,400}['’](?!\w)"
    r"|(?<!\w)\*[^*\n]{1,400}\*(?!\w)",
    regex.DOTALL | regex.MULTILINE | regex.IGNORECASE,
)
_SENTENCE_END: Final = any_of(
    "words",
    "abbreviations",
    within=r"(?<!\b(?:%s|\p{Lu}))\.+(?=\s|$|\p{So})"
    r"|(?<=[!?…~])\s|\n+|;|…|(?<=!)(?!!)|[\p{So}\uFE0F]+",
)
_STRAIGHT: Final = {"’": "'", "‘": "'", "´": "'"}


def _plain(text: str) -> tuple[str, list[int]]:
    """`text` without what is quoted, with single blanks; and the offset of each character in `text`."""
    characters: list[str] = []
    offsets: list[int] = []

    def put(character: str, offset: int) -> None:
        blank = character.isspace()
        if blank and characters and characters[-1] in " \n":
            if character == "\n":
                characters[-1] = "\n"
            return
        characters.append(character if not blank or character == "\n" else " ")
        offsets.append(offset)

    position = 0
    for skipped in _NOT_SAID.finditer(text):
        for offset in range(position, skipped.start()):
            put(_STRAIGHT.get(text[offset], text[offset]), offset)
        if skipped.end() > skipped.start():
            for character in "\n" if "\n" in skipped[0] else ' " ':
                put(character, skipped.start())
        position = skipped.end()
    for offset in range(position, len(text)):
        put(_STRAIGHT.get(text[offset], text[offset]), offset)
    return "".join(characters), offsets


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a turn, questions included, in order."""
    plain, offsets = _plain(text)
    start = number = 0
    ends = [(end.start(), end.end()) for end in _SENTENCE_END.finditer(plain)]
    for stop, after in [*ends, (len(plain), len(plain))]:
        part = plain[start:stop]
        asks = part.rstrip(" \n").endswith("?")
        left = len(part) - len(part.lstrip(" \n"))
        kept = part.strip(" \n").rstrip("!.~?")
        if kept:
            first = start + left
            yield Sentence(
                text=text,
                plain=kept,
                offsets=offsets[first : first + len(kept)],
                number=number,
                asks=asks,
            )
            number += 1
        start = after


def stated(
    sentence: Sentence,
    span: tuple[int, int],
    path: tuple[str, ...],
    value: Any,
    confidence: float,
    op: Op = "add",
) -> StatedFact:
    """The fact that a sentence states in its part `span`."""
    return StatedFact(
        op=op,
        path=path,
        value=value,
        quote=sentence.quote(*span),
        confidence=confidence,
    )


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
                tuple(each.value("path").split(".")),
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
                    whose = (self._kin[relative.casefold()],) if relative else ()
                    yield stated(sentence, match.span(), path + whose, match["value"], confidence)
