"""Facts without a language model: what a user plainly states about themselves, in English and Korean.

A wrong fact is worse than a missed one, so a sentence is passed over as soon as anything makes it doubtful: a
question, a condition, a wish, the past, somebody else's words, pasted text, a task to write or translate something,
or an object that only its context explains ("I love it"). `docs/patterns.md` lists the kinds and their precision.

Patterns match a plain form of a sentence (straight apostrophes, single blanks, quoted text as one `"`). Every
character of it knows its offset in the turn, so that a fact's quote is cut from the turn itself, word for word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import regex

from memory_agent.domain import StatedFact
from memory_agent.lazily import lazily
from memory_agent.text.languages import any_of, languages_with
from memory_agent.text.sentences import bounds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from memory_agent.text.tables import Table

EXTRACTOR_VERSION: Final = "8"
"""Changes with the rules, for the record of what extracted a fact."""
MAX_TEXT_CHARS: Final = 4_000
"""Longer turns are pasted documents, whose "I" is anybody."""
MAX_VALUE_CHARS: Final = 60
MAX_QUOTE_CHARS: Final = 240
"""A longer sentence is quoted by the clause that states the fact."""
_FOREIGN_TASK: Final = any_of("facts", "foreign_task", regex.IGNORECASE)
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
    return [] if found and _FOREIGN_TASK.search(text) else list(found.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A sentence in plain form. `number` counts the turn's sentences from 0, those that are not used included."""

    text: str
    plain: str
    offsets: Sequence[int]
    number: int
    asks: bool

    def has(self, parts: Collection[str]) -> bool:
        """True if one of these lower-case parts of words is in it: asked before a pattern that cannot do without, which takes longer."""
        folded = self.plain.casefold().replace("i̇", "i")  # of "İ", which patterns take for an i
        return any(map(folded.__contains__, parts))

    def quote(self, start: int, end: int) -> str:
        """The sentence as it stands in the turn, or the part from `start` to `end` of a long one."""
        last = len(self.plain.rstrip()) - 1
        title = self._quotation(last)
        whole = self.text[self.offsets[0] : title.end() if title else self.offsets[-1] + 1]
        if len(whole) <= MAX_QUOTE_CHARS:
            return whole
        return self.text[self.offsets[start] : self.offsets[end - 1] + 1].strip(" ,-–—")

    def quoted(self, at: int) -> str:
        """The words that the turn quotes where the plain form has one `"`; "" if that stands for code or an address."""
        said = self._quotation(at)
        return said[0][1:-1].strip(" ,.!*") if said and said[0][0] in _QUOTES else ""

    def _quotation(self, at: int) -> regex.Match[str] | None:
        """The part of the turn that the plain form has as one `"`."""
        return _NOT_SAID.match(self.text, self.offsets[at]) if self.plain[at] == '"' else None


# Bounded repeats keep what is never closed from being read to the end of the text again and again.
_NOT_SAID: Final = lazily(
    regex.compile,
    r"```.*?(?:```|\Z)|`[^`\n]{0,400}`|https?://\S+|\[[^\]\[\n]{0,400}\]|^[ \t]*>.*?$"
    # A speaker's name: a word or three that begin with a capital.
    r"|^[ \t]*(?!btw|fyi|note|update|ps\b)(?:(?-i:[\p{Lu}\p{Lo}])[\w.'-]{0,20}|user|assistant)"
    r"(?: (?-i:[\p{Lu}\p{Lo}])[\w.'-]{0,20}| \d+){0,2}:[ \t].*?$"
    r"|\"[^\"]*\"|“[^”“]*”|«[^»«]*»|「[^」「]*」|『[^』『]*』|(?<!\w)['‘][^'’\n]{2,400}['’](?!\w)"
    r"|(?<!\w)\*[^*\n]{1,400}\*(?!\w)",
    regex.DOTALL | regex.MULTILINE | regex.IGNORECASE,
)
_MAY_NOT_BE_SAID: Final = lazily(regex.compile, r"[`\[>:\"“«「『*]|(?<!\w)['‘]")
"""A sign that is in whatever `_NOT_SAID` matches, so that most texts need not be looked through."""
# What parts statements besides the ends of sentences.
_PARTS: Final = lazily(regex.compile, r"[;…\p{So}\uFE0F]|(?<=~)\s")
_QUOTES: Final = "\"“*'‘«"
_STRAIGHT: Final = str.maketrans("’‘´", "'''")
_RUN: Final = lazily(re.compile, r"\s+|\S+")
_BLANK: Final = (" ", "\n")


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """`text` without what is quoted, with single blanks; and the offset of each character in `text`."""
    may_quote = _MAY_NOT_BE_SAID.search(text) is not None
    if not may_quote and text == " ".join(text.split()):
        return text.translate(_STRAIGHT), range(len(text))
    runs: list[str] = []
    offsets: list[int] = []

    def put_blank(run: str, offset: int) -> None:
        blank = "\n" if "\n" in run else " "
        if not runs or runs[-1] not in _BLANK:
            runs.append(blank)
            offsets.append(offset)
        elif blank == "\n":
            runs[-1] = blank

    position = 0
    skipped = [match.span() for match in _NOT_SAID.finditer(text)] if may_quote else []
    for start, end in (*skipped, (len(text), len(text))):
        for run in _RUN.finditer(text, position, start):
            if run[0].isspace():
                put_blank(run[0], run.start())
            else:
                runs.append(run[0])
                offsets += range(*run.span())
        if start < end:
            put_blank(text[start:end], start)
            if "\n" not in text[start:end]:
                runs.append('"')
                offsets.append(start)
                put_blank(" ", start)
        position = end
    return "".join(runs).translate(_STRAIGHT), offsets


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a turn, questions included, in order."""
    plain, offsets = _plain(text)
    number = 0
    parted = plain if plain.isascii() and ";" not in plain and "~" not in plain else _PARTS.sub("\n", plain)
    for start, end in bounds(parted):
        kept = plain[start:end].rstrip("!.~?")
        if kept:
            own = offsets[start : start + len(kept)]
            yield Sentence(
                text=text, plain=kept, offsets=own, number=number, asks="?" in plain[end - 3 : end]
            )
            number += 1


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
