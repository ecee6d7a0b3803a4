"""What texts hold, and whether a claim about them names somebody, a number or a day that they don't.

Pure.

A language model's summary reads well whether it is true or not; what it may not do is bring in what nobody said.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.languages import all_words, any_of, languages, stop_words
from memory_agent.text.quotes import terms_of
from memory_agent.text.terms import folded, normalized
from memory_agent.text.time_spans import ISO, TWO_AND_YEAR, known, matches, number
from memory_agent.text.times import time_spans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_ONE_DAY: Final = timedelta(days=1)
_READ_CHARS: Final = 2_000  # of a text at a time, as `time_spans` does
_LEAST_COUNT: Final = 2
"""In words; "one" and "first" seldom count anything."""

_WORD: Final = lazily(regex.compile, r"[\p{L}\p{N}][\p{L}\p{M}\p{N}]*")
_CAPITAL: Final = lazily(regex.compile, r"\p{Lu}")
_NUMERAL: Final = lazily(regex.compile, r"\d+(?:[.,:]\d+)*(?P<thousands>k\b)?", regex.IGNORECASE)
_THOUSANDS: Final = lazily(regex.compile, r",(?=\d{3}(?!\d))")
_BEGINS: Final = lazily(regex.compile, r"(?:^|[.!?:;…→>\n]|(?:^|\s)[-*•])\s*$")
"""What stands before the first word of a sentence, which has a capital whatever it is."""
_ORDINARY: Final = lazily(
    regex.compile,
    r"\w{3,}(?:tions?|sions?|ments?|ness|fully|ously|ability|ingly|edly)|(?:un|dis)\w{4,}ed",
)
"""No name ends so."""
_VERB: Final = any_of("nouns", "verbs", regex.IGNORECASE)

Day = tuple[int, int, int | None]
"""Month, day, and year where it is told."""


class Evidence:
    """What texts tell: their `terms`, and their words, numbers and days, each in one form."""

    def __init__(self) -> None:
        self.terms = set[str]()
        self._forms = set[str]()

    def add(self, text: str, at: datetime | None = None) -> None:
        """`at`: when it was said, by which its "yesterday" is a day."""
        text = normalized(text)
        self.terms |= terms_of(text)
        for word in {_fold(match[0]) for match in _WORD.finditer(text) if not match[0].isdecimal()}:
            self._forms.update((word, str(_counts().get(word, word))))
        for match in _NUMERAL.finditer(text):
            whole = _plain(match[0])
            self._forms.update((whole, *whole.split(".")))
            if match["thousands"]:
                self._forms.add(f"{_plain(match[0][:-1])}000")
        days = [day for _, day in _days_in(text)]
        if at is not None:
            parts = (text[start : start + _READ_CHARS] for start in range(0, len(text), _READ_CHARS))
            spans = [span for part in parts for span in time_spans(part, now=at)]
            for told in (at, *(span.start for span in spans if span.end - span.start <= _ONE_DAY)):
                days.append((told.month, told.day, told.year))
                self._forms.add(str(told.year))
                # The calendar's words for it may stand in a claim, whatever the text calls it.
                for key, value in (("months", told.month), ("weekdays", told.weekday())):
                    self._forms.update(word for word, which in known(key).items() if which == value)
        for month, day, year in days:
            self._forms.update((f"{month}-{day}", f"{month}-{day}-{year}"))

    def missing(self, claim: str) -> str:
        """The first day, number or name of `claim` that is in none of the texts; empty without one."""
        things = self._things(normalized(claim))
        return next((said for said, forms in things if forms.isdisjoint(self._forms)), "")

    def _things(self, text: str) -> Iterator[tuple[str, set[str]]]:
        """Each day, number and name of a text, with the forms of which one must have been told."""
        days = [*_days_in(text)]
        for match, (month, day, year) in days:
            date = f"{month}-{day}"
            yield match[0], {date} if year is None else {f"{date}-{year}", f"{date}-None"}
        for match in _NUMERAL.finditer(text):
            if not any(found.start() <= match.start() < found.end() for found, _ in days):
                yield match[0], {_plain(match[0])}
        for match in _WORD.finditer(text):
            word = _fold(match[0])
            if (count := _counts().get(word, 0)) >= _LEAST_COUNT:
                yield match[0], {word, str(count)}
            begins = _BEGINS.search(text, 0, match.start()) is not None
            if _CAPITAL.search(match[0]) and not (begins and self._is_ordinary(word)):
                yield match[0], {word, f"{word}s", word.removesuffix("s")}

    def _is_ordinary(self, word: str) -> bool:
        """True for a word that would be written small within a sentence."""
        return (
            word in _small_words()
            or _ORDINARY.fullmatch(word) is not None
            or _VERB.fullmatch(word) is not None
            or terms_of(word) <= self.terms
        )


def _days_in(text: str) -> Iterator[tuple[regex.Match[str], Day]]:
    """The days of the calendar that a text writes out, and where."""
    for match in ISO.finditer(text):
        if match["day"]:
            yield match, (int(match["month"]), int(match["day"]), int(match["year"]))
    for match in TWO_AND_YEAR.finditer(text):
        first, second = int(match["first"]), int(match["second"])
        day, month = (
            (first, second) if second <= 12 and (match["sep"] == "." or first > 12) else (second, first)
        )
        yield match, (month, day, int(match["year"]))
    for key in ("month_day", "day_month", "date"):
        for match in matches(key, text):
            if match["day"] and match["month"]:
                month = number(match["month"]) or known("months")[match["month"].casefold()]
                yield match, (month, number(match["day"]) or 0, int(match["year"]) if match["year"] else None)


def _plain(numeral: str) -> str:
    """A number without what is written one way or another: "1,450.00" as "1450", "06:30" as "6.30"."""
    parts = _THOUSANDS.sub("", numeral).replace(",", ".").replace(":", ".").split(".")
    return ".".join([parts[0].lstrip("0") or "0", *parts[1:]]).removesuffix(".00").casefold()


def _fold(word: str) -> str:
    return folded(word.casefold())


@functools.cache
def _counts() -> dict[str, int]:
    """The words of numbers, and of numbers of order."""
    return {_fold(word): value for key in ("ordinals", "numbers") for word, value in known(key).items()}


@functools.cache
def _small_words() -> frozenset[str]:
    stops = (stop_words(language.name) for language in languages())
    return frozenset(all_words("words", "fillers", "small_talk")).union(*stops)


@functools.cache
def calendar_terms() -> frozenset[str]:
    """Months and days of the week, as search terms."""
    return terms_of(" ".join((*known("months"), *known("weekdays"))))
