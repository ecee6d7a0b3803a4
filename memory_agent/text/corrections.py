"""Corrections: what a turn says instead of an earlier one, and what it shows at a glance. Pure.

A turn gives another value for something ("pushed to Thursday"), takes it back ("not going with MEO any more"), or
answers what was left open ("We found it!"). Here a wrong mark does more harm than a missing one, so a value counts as
new only right beside a cue, and only against one of its kind with the same telling words around it.

A question for a time is more likely answered by a turn that tells one. The rules are few and coarse on purpose: they
only add to a score (`search.fusion`), and what each is worth is in `docs/benchmarks.md`. Names are told by their capitals, so scripts without them name nothing.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import regex

from memory_agent.domain import TurnFeatures
from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.languages import all_words, any_of
from memory_agent.text.sentences import bounds
from memory_agent.text.terms import count_terms
from memory_agent.text.time_spans import known

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Weight = Callable[[Collection[str]], float]


READ_CHARS: Final = 1_000
"""How much of a text is looked at, from its beginning: corrections come first, and are short."""
ALIKE: Final = 0.4
"""Cosine from which a turn that settles something answers one that left something open, whatever words they share."""
_SHORT_CHARS: Final = 100
"""Up to so long a sentence is about one thing, with the one before it."""
_BEFORE_CHARS, _BEHIND_CHARS = 80, 30
"""In a longer one, how far around a value it is said what it is of."""
_CUE_CHARS: Final = 25
"""How far behind its cue a new value begins at most; before one it ends at most half as far away."""
_MANY_DIGITS: Final = 3
"""From so many on two numbers without a unit can be of one thing, if they are of one size."""
_LEAST_TERMS: Final = 3

_DROPPED, _CHANGES, _CHANGED, _LEADS, _FOLLOWS, _CONTRAST, _OPEN, _SETTLED = (
    any_of("corrections", key, regex.IGNORECASE)
    for key in ("dropped", "changes", "changed", "leads", "follows", "contrast", "open", "settled")
)
# A number with its unit: the sign before it, what is attached to it (%, 월, pm), or the word behind. Not in a formula.
_NUMBER: Final = lazily(
    regex.compile,
    r"(?<![\p{L}\p{Nd}.,:/(=+*^_{-])(?P<sign>\p{Sc}?)(?P<n>\p{Nd}+(?:[.,:]\p{Nd}+)*)(?![\p{Nd}/)=^]| ?[=+×*])"
    r"(?:[ -]?(?P<unit>[%\p{Sc}]|\p{Hangul}|\p{L}+))?",
)
_CLOCK: Final = lazily(regex.compile, r"(?P<hour>[01]?[0-9]|2[0-3])(?::(?P<minute>[0-5][0-9]))?")
_YEAR: Final = lazily(regex.compile, r"(?:19|20)\p{Nd}\p{Nd}")
_DIGIT: Final = lazily(regex.compile, r"\p{Nd}")
_MONEY: Final = lazily(regex.compile, r"\p{Sc}")
_WORD: Final = lazily(regex.compile, r"\p{L}[\p{L}\p{M}]{2,}")
_ASKS: Final = lazily(regex.compile, r"[?？؟]\W*\Z")


class Value(NamedTuple):
    """A value that a turn names: `kind` (number, time, date, weekday), `unit` of a number ("" for none).

    `beside`: the words that may say what it is of; `is_new`: a cue says so; `changed`: one that names a change ("raised to").
    """

    kind: str
    unit: str
    text: str
    beside: str
    is_new: bool
    changed: bool


class Claims:
    """The claims of a turn, read from its first `READ_CHARS` characters; each when it is first asked for."""

    def __init__(self, text: str, language: str) -> None:
        """`language`: of terms in Latin script, see `count_terms`."""
        self._head = _head(text)
        self._stated = _stated(self._head)
        self._language = language

    @cached_property
    def values(self) -> list[Value]:
        """The values that are stated."""
        pairs = pairwise(("", *self._stated))
        return [value for before, sentence in pairs for value in _values(sentence, before, self._language)]

    @cached_property
    def terms(self) -> frozenset[str]:
        """The terms of all that is stated."""
        return frozenset(count_terms("\n".join(self._stated), self._language))

    @cached_property
    def dropped(self) -> list[frozenset[str]]:
        """The terms of each thing that is taken back."""
        gone = _DROPPED.finditer("\n".join(self._stated))
        return [frozenset(count_terms(match["what"], self._language)) for match in gone]

    @cached_property
    def settles(self) -> bool:
        """True if something is settled."""
        return _SETTLED.search(self._head) is not None

    @cached_property
    def opens(self) -> bool:
        """True if something is left open."""
        return not self.settles and _OPEN.search(self._head) is not None

    @cached_property
    def contrasts(self) -> bool:
        """True if the value that holds no longer may stand beside the one that does."""
        return _CONTRAST.search(self._head) is not None

    def terms_of(self, value: Value) -> frozenset[str]:
        """The terms of what stands beside one of the values, without its unit and signs that are others'."""
        signs = {other.unit for other in self.values if len(other.unit) == 1}
        return _telling(value.beside, self._language) - {value.unit} - signs


@lru_cache(maxsize=2_048)
def claims_of(text: str, language: str) -> Claims:
    """The claims of a turn that searches come upon again and again."""
    return Claims(text, language)


def corrects(text: str) -> bool:
    """True if a turn may replace an earlier one: it names a new value, takes something back, or settles it.

    >>> corrects("Actually Luso Van offered 3,100."), corrects("We found it!"), corrects("Actually I'm fine.")
    (True, True, False)
    """
    head = _head(text)
    if _DROPPED.search(head) or _SETTLED.search(head):
        return True
    low = head.casefold()
    names_a_value = _DIGIT.search(head) or any(day in low for day in known("weekdays"))
    if not names_a_value or not any(cue.search(head) for cue in (_LEADS, _CHANGES, _FOLLOWS, _CHANGED)):
        return False
    return any(is_new for sentence in _stated(head) for *_, is_new, _ in _found(sentence))


def replaces(later: Claims, earlier: Claims, weight: Weight, *, least: float, alike: float) -> float:
    """The weight of the terms by which `later` says what holds instead of something in `earlier`; 0 if it doesn't.

    `weight`: how telling terms are together, such as the sum of their idf; `least`: what those that both have must
    weigh beside the values (half of it beside one that was changed, if the turns share as much); `alike`: the cosine of the
    two turns, 0 where it is unknown.
    """
    told = [
        shared
        for gone in later.dropped
        if (shared := weight(gone & earlier.terms)) >= max(least, weight(gone) / 2)
    ]
    if later.settles and earlier.opens and len(earlier.terms) >= _LEAST_TERMS:
        shared = weight(later.terms & earlier.terms)
        told += [shared] if shared >= least else [least] if alike >= ALIKE else []
    restated = frozenset[tuple[str, str]]()
    if not later.contrasts:
        restated = frozenset((value.kind, value.text) for value in later.values)
    for new in (value for value in later.values if value.is_new):
        for old in earlier.values:
            if _instead(new, old) and (old.kind, old.text) not in restated:
                shared = weight(later.terms_of(new) & earlier.terms_of(old))
                enough = least
                # Of what else is measured, a chat has many: two response times in milliseconds are of two things.
                dated = new.kind != "number" or _MONEY.fullmatch(new.unit)
                if dated and new.changed and weight(later.terms & earlier.terms) >= least:
                    enough = least / 2
                told += [shared] if shared >= enough else []
    return max(told, default=0.0)


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


def _stated(text: str) -> list[str]:
    """The sentences of a text; of "I've moved it to May, is that fine?" the last clause alone asks."""
    sentences = (text[start:end] for start, end in bounds(text))
    return [sentence.rpartition(",")[0] if _ASKS.search(sentence) else sentence for sentence in sentences]


def _values(sentence: str, before: str, language: str) -> Iterator[Value]:
    """The values of a sentence; `before`: the sentence before it."""
    for start, end, kind, unit, text, is_new, changed in _found(sentence):
        if len(sentence) <= _SHORT_CHARS:
            beside = f"{before[-_SHORT_CHARS:]} {sentence}"
        else:
            beside = sentence[max(0, start - _BEFORE_CHARS) : end + _BEHIND_CHARS]
        term = next(iter(count_terms(unit, language)), "") if unit.isalpha() else unit
        yield Value(kind, term, text, beside, is_new, changed)


def _found(sentence: str) -> Iterator[tuple[int, int, str, str, str, bool, bool]]:
    """Start, end, kind, unit and text of each value, whether it is new, and whether a change is named.

    New is the first one behind a cue, one right before a cue, and one right behind a new one.
    """
    leads, changes = ([match.end() for match in cue.finditer(sentence)] for cue in (_LEADS, _CHANGES))
    follows, changed = ([match.start() for match in cue.finditer(sentence)] for cue in (_FOLLOWS, _CHANGED))
    was_new, was_changed, last = False, False, 0
    for start, end, kind, unit, text in sorted([*_numbers(sentence), *_weekdays(sentence)]):

        def beside(
            before: list[int], behind: list[int], first: int = last, at: int = start, to: int = end
        ) -> bool:
            return any(first <= cue <= at <= cue + _CUE_CHARS for cue in before) or any(
                to <= cue <= to + _CUE_CHARS // 2 for cue in behind
            )

        goes_on = start <= last + 2
        was_changed = beside(changes, changed) or (was_changed and goes_on)
        was_new = was_changed or beside(leads, follows) or (was_new and goes_on)
        last = end
        yield start, end, kind, unit, text, was_new, was_changed


def _telling(text: str, language: str) -> frozenset[str]:
    """The terms of a text without numbers, months, contractions ("I'm"), and the first word of each cue."""
    without = text
    for cue in (_FOLLOWS, _CHANGED):
        without = cue.sub(" ", without)
    for cue in (_LEADS, _CHANGES):
        without = cue.sub(lambda match: match[0].partition(" ")[2], without)
    months = known("months")
    return frozenset(
        term
        for term in count_terms(without, language)
        if not term[0].isdigit() and "'" not in term and term not in months
    )


def _numbers(sentence: str) -> Iterator[tuple[int, int, str, str, str]]:
    months = known("months")
    for match in _NUMBER.finditer(sentence):
        text, unit = match["n"].replace(",", ""), (match["sign"] or match["unit"] or "").casefold()
        if not match["sign"] and _YEAR.fullmatch(text):
            continue
        if minutes := _minutes(text, unit):
            yield match.start(), match.end("n"), "time", "", minutes
            continue
        unit = "" if unit in all_words("words", "stop", "fillers") else unit
        before = sentence[: match.start()].casefold().rsplit(maxsplit=1)[-1:]
        month = next((word for word in (unit, *before) if word in months), None)
        if month is None:
            yield match.start(), match.end("n"), "number", unit, text
        elif month == unit:
            yield match.start(), match.end(), "date", "", f"{text} {month}"
        else:
            yield match.start() - len(month) - 1, match.end("n"), "date", "", f"{text} {month}"


def _minutes(text: str, unit: str) -> str:
    """The minute of the day of a time by the clock, such as "14:00", or "2" before "pm"; "" of anything else."""
    clock = _CLOCK.fullmatch(text)
    halves = [unit in all_words("corrections", half) for half in ("forenoon", "afternoon")]
    if clock is None or not (clock["minute"] or any(halves)):
        return ""
    hour, minute = int(clock["hour"]), int(clock["minute"] or 0)
    return str((hour % 12 + 12 * halves[1] if any(halves) else hour) * 60 + minute)


def _weekdays(sentence: str) -> Iterator[tuple[int, int, str, str, str]]:
    weekdays = known("weekdays")
    for match in _WORD.finditer(sentence):
        day = match[0].casefold().removesuffix("s")
        if day in weekdays:
            yield match.start(), match.end(), "weekday", "", day


SIGN_CHARS: Final = 4_000
"""How much of a text is looked at, from its beginning."""

_TIME: Final = any_of("times", "signs.time", regex.IGNORECASE)
_SIGN_NUMBER: Final = any_of("times", "signs.number", regex.IGNORECASE, within=r"\p{Nd}|%s")
_SELF: Final = any_of("words", "self", regex.IGNORECASE)
# A capital that no sentence's beginning explains; "I" alone names nobody.
_NAME: Final = lazily(regex.compile, r"(?<![.!?:\n]\s)(?<!\A)(?<![\p{L}\p{N}'’])\p{Lu}[\p{L}\p{M}]+")
_MOST_NAMES: Final = 3


def asks(text: str) -> bool:
    """True if a text ends with a question."""
    return _ASKS.search(text[-40:]) is not None


def counts(text: str) -> bool:
    """True if a text gives a number."""
    return _SIGN_NUMBER.search(text[:SIGN_CHARS]) is not None


def of_self(text: str) -> bool:
    """True if a text speaks of its speaker."""
    return _SELF.search(text[:SIGN_CHARS]) is not None


def names_in(text: str) -> list[str]:
    """Words that are written like a name: with a capital that no sentence's beginning explains."""
    return _NAME.findall(text)


@kept_by_text(8_192)
def features_of(text: str) -> TurnFeatures:
    """The signs of one turn's text, of which the first `SIGN_CHARS` characters are read and the end for a question.

    >>> features_of("We flew to Lisbon last week.")
    TurnFeatures(asks=False, tells_when=True, counts=False, of_self=True, names=1, corrects=False)
    """
    head = text[:SIGN_CHARS]
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
