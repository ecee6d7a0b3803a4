"""Corrections: what one turn says instead of what an earlier one did. Pure.

A turn gives another value for something ("pushed to Thursday"), takes it back ("not going with MEO any more"), or
answers what was left open ("We found it!"). Here a wrong mark does more harm than a missing one, so a value counts as
new only right beside a cue, and only against one of its kind with the same telling words around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import regex

from memory_agent.lazily import lazily
from memory_agent.text.languages import any_of
from memory_agent.text.sentences import bounds
from memory_agent.text.terms import count_terms
from memory_agent.text.time_words import known

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    Weight = Callable[[Collection[str]], float]
    Found = tuple[int, int, str, str, str]  # start, end, kind, unit, text

READ_CHARS: Final = 1_000
"""How much of a text is looked at, from its beginning: corrections come first, and are short."""
ALIKE: Final = 0.4
"""Cosine from which a turn that settles something answers one that left something open, whatever words they share."""
_BEFORE_CHARS, _BEHIND_CHARS = 180, 60
"""How far around the former value the words are looked for that say what it is of."""
_NEAR_CHARS: Final = 35
_CUE_CHARS: Final = 25
"""How far behind its cue a new value begins at most; before one it ends at most half as far away."""
_SHORT_CHARS: Final = 100
"""Up to so long a sentence is about one thing, however many clauses it has."""
_MANY_DIGITS: Final = 3
"""From so many on two numbers without a unit can be of one thing, if they are of one size."""
_LEAST_TERMS: Final = 3

_DROPPED, _LEADS, _FOLLOWS, _CONTRAST, _OPEN, _SETTLED = (
    any_of("corrections", key, regex.IGNORECASE)
    for key in ("dropped", "leads", "follows", "contrast", "open", "settled")
)
# A number with its unit: the sign before it, what is attached to it (%, 월, pm), or the word behind. Not in a formula.
_NUMBER: Final = lazily(
    regex.compile,
    r"(?<![\p{L}\p{Nd}.,:/(=+*^_{-])(?P<sign>\p{Sc}?)(?P<n>\p{Nd}+(?:[.,:]\p{Nd}+)*)(?![\p{Nd}/)=^]| ?[=+×*])"
    r"(?:[ -]?(?P<unit>[%\p{Sc}]|\p{Hangul}|\p{L}+))?",
)
_YEAR: Final = lazily(regex.compile, r"(?:19|20)\p{Nd}\p{Nd}")
_WORD: Final = lazily(regex.compile, r"\p{L}[\p{L}\p{M}]{2,}")
_ASKS: Final = lazily(regex.compile, r"[?？؟]\W*\Z")
_CLAUSE_END: Final = lazily(regex.compile, r"[,;:](?=\s)")


class Value(NamedTuple):
    """A value that a turn names: `kind` (number, date, weekday), `unit` of a number ("" for none).

    `clause`: the terms of its clause and the one before; `around`: of all that may say what it is of; `near`: of what
    stands beside it; `is_new`: a cue says so.
    """

    kind: str
    unit: str
    text: str
    clause: frozenset[str]
    around: frozenset[str]
    near: frozenset[str]
    is_new: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """The claims of a turn: `values`, the `terms` of all it states, and those of each thing that it takes back (`dropped`).

    `opens`, `settles`: something is left open, or settled; `contrasts`: the value that holds no longer may stand in it.
    """

    values: tuple[Value, ...]
    terms: frozenset[str]
    dropped: tuple[frozenset[str], ...]
    opens: bool
    settles: bool
    contrasts: bool


def corrects(text: str) -> bool:
    """True if a turn has a cue that it may replace an earlier one.

    >>> corrects("Actually Luso Van offered 3,100."), corrects("We found it!"), corrects("What a day!")
    (True, True, False)
    """
    head = _head(text)
    return any(cue.search(head) for cue in (_LEADS, _FOLLOWS, _DROPPED, _SETTLED))


def claims_of(text: str, language: str) -> Claims:
    """The claims of a turn's first `READ_CHARS` characters. `language`: of terms in Latin script, see `count_terms`."""
    head = _head(text)
    sentences = (head[start:end] for start, end in bounds(head))
    # Of "I've moved it to May, is that fine?" the last clause alone asks.
    stated = [sentence.rpartition(",")[0] if _ASKS.search(sentence) else sentence for sentence in sentences]
    return Claims(
        values=tuple(
            value
            for before, sentence in pairwise(("", *stated))
            for value in _values(sentence, before, language)
        ),
        terms=frozenset(term for sentence in stated for term in count_terms(sentence, language)),
        dropped=tuple(
            frozenset(count_terms(match["what"], language))
            for sentence in stated
            for match in _DROPPED.finditer(sentence)
        ),
        opens=_OPEN.search(head) is not None,
        settles=_SETTLED.search(head) is not None,
        contrasts=_CONTRAST.search(head) is not None,
    )


def replaces(later: Claims, earlier: Claims, weight: Weight, *, least: float, alike: float) -> float:
    """The weight of the terms by which `later` says what holds instead of something in `earlier`; 0 if it doesn't.

    `weight`: how telling terms are together, such as the sum of their idf; `least`: what those that both have must
    weigh; `alike`: the cosine of the two turns, 0 where it is unknown.
    """
    dropped = (weight(gone & earlier.terms) for gone in later.dropped)
    told = [
        told
        for told, gone in zip(dropped, later.dropped, strict=True)
        if told >= max(least, weight(gone) / 2)
    ]
    if later.settles and earlier.opens and not earlier.settles and len(earlier.terms) >= _LEAST_TERMS:
        shared = weight(later.terms & earlier.terms)
        told += [shared] if shared >= least else [least] if alike >= ALIKE else []
    restated = frozenset[tuple[str, str]]()
    if not later.contrasts:
        restated = frozenset((value.kind, value.text) for value in later.values)
    told += [
        _told_of_both(new, old, weight, least)
        for new in later.values
        if new.is_new
        for old in earlier.values
        if _instead(new, old) and (old.kind, old.text) not in restated
    ]
    return max(told, default=0.0)


def _told_of_both(new: Value, old: Value, weight: Weight, least: float) -> float:
    """How telling the terms beside both values are, if the two turns share enough; else 0."""
    units = {new.unit, old.unit}
    near = weight((new.near & old.near) - units)
    return near if near >= least / 2 and weight((new.clause & old.around) - units) >= least else 0.0


def _instead(new: Value, old: Value) -> bool:
    """True if the two are different values of one kind."""
    if new.kind != old.kind or new.text == old.text:
        return False
    if new.kind != "number" or (new.unit and new.unit == old.unit):
        return True
    if new.unit and old.unit:
        return False
    return len(new.text) == len(old.text) >= _MANY_DIGITS and (new.text + old.text).isdigit()


def _head(text: str) -> str:
    return text[:READ_CHARS].replace("’", "'")


def _values(sentence: str, before: str, language: str) -> Iterator[Value]:
    """The values of a sentence; `before`: the sentence before it, which often says what they are of."""
    found = sorted([*_numbers(sentence, language), *_weekdays(sentence)])
    if not found:
        return
    clauses = _clauses(sentence)
    are_new = _new_ones([(start, end) for start, end, *_ in found], sentence)
    for (start, end, kind, unit, text), is_new in zip(found, are_new, strict=True):
        number = next(i for i, (_, clause_end) in enumerate(clauses) if start < clause_end)
        clause = sentence[clauses[max(0, number - 1)][0] : clauses[number][1]]
        around = f"{before} {sentence[: start + _BEHIND_CHARS]}"[-(_BEFORE_CHARS + _BEHIND_CHARS) :]
        is_short = len(sentence) <= _SHORT_CHARS
        near = sentence if is_short else sentence[max(0, start - _NEAR_CHARS) : end + _NEAR_CHARS]
        clause_terms, around_terms, near_terms = (_telling(part, language) for part in (clause, around, near))
        yield Value(kind, unit, text, clause_terms, around_terms, near_terms, is_new)


def _new_ones(spans: Sequence[tuple[int, int]], sentence: str) -> list[bool]:
    """Of each value whether it is new: the first one behind a cue, right before one, or right behind a new one."""
    leads = [match.end() for match in _LEADS.finditer(sentence)]
    follows = [match.start() for match in _FOLLOWS.finditer(sentence)]
    new: list[bool] = []
    last = 0
    for start, end in spans:
        is_led = any(last <= cue <= start <= cue + _CUE_CHARS for cue in leads)
        is_followed = any(end <= cue <= end + _CUE_CHARS // 2 for cue in follows)
        new.append(is_led or is_followed or (bool(new) and new[-1] and start <= last + 2))
        last = end
    return new


def _clauses(sentence: str) -> list[tuple[int, int]]:
    ends = [match.end() for match in _CLAUSE_END.finditer(sentence)] if len(sentence) > _SHORT_CHARS else []
    return list(pairwise((0, *ends, len(sentence) + 1)))


def _telling(text: str, language: str) -> frozenset[str]:
    """The terms of a text without numbers, months, contractions ("I'm"), and the first word of each cue."""
    without = _LEADS.sub(lambda match: match[0].partition(" ")[2], _FOLLOWS.sub(" ", text))
    months = known("months")
    return frozenset(
        term
        for term in count_terms(without, language)
        if not term[0].isdigit() and "'" not in term and term not in months
    )


def _numbers(sentence: str, language: str) -> Iterator[Found]:
    months = known("months")
    for match in _NUMBER.finditer(sentence):
        text, unit = match["n"].replace(",", ""), (match["sign"] or match["unit"] or "").casefold()
        if not match["sign"] and _YEAR.fullmatch(text):
            continue
        before = sentence[: match.start()].casefold().rsplit(maxsplit=1)[-1:]
        month = next((word for word in (unit, *before) if word in months), None)
        if month is None:
            unit = next(iter(count_terms(unit, language)), "") if unit.isalpha() else unit
            yield match.start(), match.end("n"), "number", unit, text
        elif month == unit:
            yield match.start(), match.end(), "date", "", f"{text} {month}"
        else:
            yield match.start() - len(month) - 1, match.end("n"), "date", "", f"{text} {month}"


def _weekdays(sentence: str) -> Iterator[Found]:
    weekdays = known("weekdays")
    for match in _WORD.finditer(sentence):
        day = match[0].casefold().removesuffix("s")
        if day in weekdays:
            yield match.start(), match.end(), "weekday", "", day
