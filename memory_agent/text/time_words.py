"""The words and patterns by which times are read, of all languages: their tables `times`, and what digits alone tell."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily
from memory_agent.text.languages import any_of, languages_with
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from memory_agent.text.languages import Language

# Units: days of each, from the shortest; months and years of the Gregorian calendar on average.
UNIT_DAYS: Final = {
    "hour": 1 / 24, "day": 1.0, "week": 7.0, "weekend": 7.0, "month": 30.436875, "year": 365.2425, "decade": 3652.425,
}  # fmt: skip

_NOT_IN_NUMBER: Final = r"(?<![\w.,:/+-])"
ISO: Final = lazily(
    regex.compile,
    rf"{_NOT_IN_NUMBER}(?P<year>(?:19|20)\d{{2}})(?:(?P<sep>[-/.])(?P<month>0?[1-9]|1[0-2])(?P=sep)(?P<day>0?[1-9]|[12]\d|3[01])"
    r"|-(?P<only>0[1-9]|1[0-2]))(?:T\d{2}:\d{2}(?::\d{2})?(?:\.\d{1,6})?Z?)?(?![\w/-]|\.\d)",
)
TWO_AND_YEAR: Final = lazily(
    regex.compile,
    rf"{_NOT_IN_NUMBER}(?P<first>\d{{1,2}})(?P<sep>[./-])(?P<second>\d{{1,2}})(?P=sep)(?P<year>(?:19|20)\d{{2}})(?![\w/-]|\.\d)",
)
EVENT: Final = lazily(regex.compile, r"[^?.!,;:\n_]{2,80}")
EVENT_END: Final = any_of("times", "patterns.event_end")
BEFORE_NAME, BEFORE_VERB_MONTH, PAST, HABIT, SINCE, _OPEN_END = (
    any_of("times", f"patterns.{name}", regex.IGNORECASE)
    for name in ["before_name", "before_verb_month", "past", "habit", "since", "open_end"]
)


def _easter(year: int) -> tuple[date, date]:
    """Easter Sunday and Monday, by the anonymous Gregorian computus (Meeus, Astronomical Algorithms, chapter 8)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    sunday = date(year, month, day + 1)
    return sunday, sunday + timedelta(days=1)


def _holiday(told: Any) -> Callable[[int], tuple[date, date]]:
    """The first and last day of a holiday in a year: of [month, day, how many days], or "easter"."""
    if told == "easter":
        return _easter
    month, day, days = told
    return lambda year: (date(year, month, day), date(year, month, day) + timedelta(days=days - 1))


def _pair(told: str) -> tuple[str, int]:
    unit, offset = told.split()
    return unit, int(offset)


_MEANINGS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "months": int,
    "short_months": int,
    "weekdays": int,
    "seasons": int,  # the first month of each; it has three
    "holidays": _holiday,
    "ordinals": int,
    "units": lambda unit: unit if unit in UNIT_DAYS else UNIT_DAYS[unit],
    "numbers": int,
    "vague": tuple,  # from how many to how many, about
    "distances": lambda told: (float(told[0]), str(told[1])),
    "periods": _pair,
    "parts": tuple,  # from which to which part of the span a word in front of it leads
    "leads": str,
}


@cache
def known(key: str) -> Mapping[str, Any]:
    """The words of all languages at a key, casefolded, with their meanings; of one that two have, that in the first."""
    found = {}
    for part in ("short_months", key) if key == "months" else (key,):
        for each in (table(language.name, "times") for language in reversed(languages_with("times"))):
            for word, value in each.items(part).items():
                try:
                    found[word.casefold()] = _MEANINGS[part](value)
                except (TypeError, ValueError, KeyError) as error:
                    where = f"{each.name}: {part}.{word}"
                    raise InvalidInput(f"{where} is {value!r}, which says no such thing") from error
    return found


@cache
def _patterns(key: str) -> tuple[tuple[Language, regex.Pattern[str]], ...]:
    key = f"patterns.{key}"
    return tuple(
        (each, table(each.name, "times").pattern(key, regex.IGNORECASE))
        for each in languages_with("times", key)
    )


def matches(key: str, text: str) -> Iterator[regex.Match[str]]:
    """Matches of the pattern `key` of any language in a text; where those of two match, the first one's alone."""
    taken: list[tuple[int, int]] = []
    low = text.casefold()
    for language, pattern in _patterns(key):
        for match in pattern.finditer(text) if language.may_be_in(low) else ():
            if all(match.end() <= start or end <= match.start() for start, end in taken):
                taken.append(match.span())
                yield match


def names_a_date(text: str, start: int) -> regex.Match[str] | None:
    """The first pattern of a date that holds in `text` from `start`."""
    keys = ("month_day", "day_month", "named", "year", "date")
    of_languages = (pattern for key in keys for _, pattern in _patterns(key))
    dates = (pattern.match(text, start) for pattern in (ISO, TWO_AND_YEAR, *of_languages))
    return next((found for found in dates if found), None)


def number(text: str) -> int | None:
    """A number in digits or words ("3", "two", "十二"); None for what is none or vague."""
    low, numbers = text.casefold(), known("numbers")
    if low.isdigit():
        return int(low)
    if low in numbers:
        return int(numbers[low])
    tens, ten, ones = low.partition("十")
    if ten and all(not part or part in numbers for part in (tens, ones)):
        return int(10 * numbers.get(tens, 1) + numbers.get(ones, 0))
    return None


def amount(text: str) -> tuple[float, float] | None:
    """From how many to how many `text` means: n - 1/2 to n + 1/2 for a number, wider for "a few"."""
    if vague := known("vague").get(text.casefold()):
        return vague[0] - 0.5, vague[1] + 0.5
    n = number(text)
    return None if n is None else (n - 0.5, n + 0.5)


def lead_of(word: str | None) -> str:
    """Meaning of a word that leads to a time, in the words of the rules: "past" is "last"."""
    low = (word or "").casefold()
    return str(known("leads").get(low, low))


def open_end(before: str, after: str) -> str:
    """ "since", "before", "after", "by" or "from" if the text before a time (or behind it) opens it so; else empty."""
    if SINCE.match(after):
        return "since"
    match = _OPEN_END.search(before)
    if match is None or match["unit"]:  # "two weeks before August": told from it, not open
        return ""
    return lead_of(match["lead"])
