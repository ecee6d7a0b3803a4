"""A summary without a language model: what people tell, quoted sentence by sentence, who said it before each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.errors import InvalidInput
from memory_agent.text.quotes import quotes_of, says_again, terms_of
from memory_agent.text.sentences import MAX_SENTENCE_CHARS, bounds, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUMMARY_VERSION: Final = "2"
"""Changes with the rules, for the record of what made a summary."""
MIN_CHARS: Final = 80
"""The shortest limit of a summary that still holds a name and a few words."""
MAX_WHO_CHARS: Final = 40
_NO_PEOPLE: Final = ("assistant", "tool", "system")
"""Whose words are not quoted: an assistant's are mostly written for somebody."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Line:
    text: str
    weight: float
    terms: frozenset[str]


def extractive_summary(
    previous: str | None, turns: Sequence[tuple[str, str]], *, max_chars: int = 1200
) -> str:
    """At most `max_chars` characters of what `previous` (an earlier summary) and people in `turns` (who, text) tell.

    One line a sentence, "who: sentence", whole and in the order in which they were said; the weightiest as `text.quotes`
    weighs them, each once. Where too much is said, the lines of `previous` and the new ones are sure of half of the room
    each, so that no batch, however long, wipes out the start. Empty where nothing is told. Equal input gives equal output.

    Raises InvalidInput if `max_chars` is less than `MIN_CHARS`.
    """
    if max_chars < MIN_CHARS:
        raise InvalidInput(f"max_chars is {max_chars}; a summary needs at least {MIN_CHARS} characters")
    old, new = list(_lines_of(previous or "")), [line for who, text in turns for line in _quoted(who, text)]
    kept = [*_best(old, max_chars // 2, ())]
    kept += _best(new, max_chars - _size(kept), kept)
    kept += _best([line for line in old if line not in kept], max_chars - _size(kept), kept)
    chosen = set(map(id, kept))
    return "\n".join(line.text for line in (*old, *new) if id(line) in chosen)


def _best(lines: Sequence[_Line], room: int, said: Sequence[_Line]) -> Iterator[_Line]:
    """The weightiest of `lines` that fit in `room` characters, without those that say again what is `said`."""
    terms = [line.terms for line in said]
    for line in sorted(lines, key=lambda line: -line.weight):
        if len(line.text) + 1 <= room and not says_again(line.terms, terms):
            room -= len(line.text) + 1
            terms.append(line.terms)
            yield line


def _size(lines: Sequence[_Line]) -> int:
    return sum(len(line.text) + 1 for line in lines)


def _lines_of(previous: str) -> Iterator[_Line]:
    """The lines of an earlier summary; a paragraph, as a language model writes them, by its sentences."""
    for line in previous.splitlines():
        whole = " ".join(line.split())
        parts = [(0, len(whole))] if len(whole) <= MAX_SENTENCE_CHARS else bounds(whole)
        for start, end in parts:
            if text := whole[start:end]:
                weight = max((quote.weight for quote in quotes_of(text)), default=0.0)
                yield _Line(text=text, weight=weight, terms=terms_of(text))


def _quoted(who: str, text: str) -> Iterator[_Line]:
    if who.startswith(_NO_PEOPLE):
        return
    label = f"{shortened(who, MAX_WHO_CHARS)}: " if who else ""
    for quote in quotes_of(text):
        yield _Line(text=label + quote.text, weight=quote.weight, terms=terms_of(quote.text))
