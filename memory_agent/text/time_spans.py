"""Dates, months, seasons and holidays that a text names, as spans of the calendar, and their words.

Seasons are those of the northern half of the earth; days are those of the time zone of `Frame.now`.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

import regex

from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily
from memory_agent.text.languages import all_words, any_of, languages_with
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
LIKENED: Final = any_of("times", "patterns.likened", regex.IGNORECASE)
BEFORE_NAME, BEFORE_VERB_MONTH, PAST, HABIT, _SINCE, _OPEN_END = (
    any_of("times", f"patterns.{name}", regex.IGNORECASE)
    for name in ["before_name", "before_verb_month", "past", "habit", "since", "open_end"]
)
WITHIN_NEXT, WITHIN_LAST, BEFORE_NUMERIC, AROUND, AROUND_BEHIND, DAY_BESIDE, _BEFORE, _BY, JOINED = (
    any_of("times", f"patterns.{name}", regex.IGNORECASE)
    for name in [
        *("within_next", "within_last", "before_numeric", "around", "around_behind", "day_beside"),
        *("before_behind", "by_behind", "joined_behind"),
    ]
)
_TWO_ALONE: Final = lazily(
    regex.compile,
    rf"{_NOT_IN_NUMBER}(?P<first>\d{{1,2}})(?:/(?P<second>\d{{1,2}})|\.(?P<second>\d{{1,2}})\.)(?![A-Za-z\d_/-]|[./]\d)",
)


def _easter(year: int) -> date:
    """Easter Sunday, by the anonymous Gregorian computus (Meeus, Astronomical Algorithms, chapter 8)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    return date(year, month, day + 1)


def _holiday(told: Any) -> Callable[[int], tuple[date, date]]:
    """The first and last day of a holiday in a year: of [month, day, how many days]; of ["easter", days after it, how many]."""
    month, day, days = told

    def days_of(year: int) -> tuple[date, date]:
        first = _easter(year) + timedelta(days=day) if month == "easter" else date(year, month, day)
        return first, first + timedelta(days=days - 1)

    return days_of


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
    "nth": int,
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
    for lead, behind in (("since", _SINCE), ("before", _BEFORE), ("by", _BY)):
        if behind.match(after):
            return lead
    match = _OPEN_END.search(before)
    if match is None or match["unit"]:  # "two weeks before August": told from it, not open
        return ""
    return lead_of(match["lead"])


Precision = Literal["day", "weekend", "week", "month", "season", "year", "about", "range"]

MAX_SPANS: Final = 24
_RELATIVE: Final = {"last": -1, "this": 0, "next": 1}
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSpan:
    """From `start` up to but not including `end`, both aware; `precision`: what the question named.

    `weight`: how likely it is what was meant, against others of the question.
    """

    start: datetime
    end: datetime
    precision: Precision
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """Reference times: `now`, and the first and last time of the user's turns if they are known."""

    now: datetime
    known: tuple[datetime, datetime] | None = None
    told: bool = False
    """Somebody tells of a time at `now`: without a year it is the nearest of its kind; else it is asked for, and past."""

    def at(self, year: int, month: int, day: int) -> datetime:
        return datetime(year, month, day, tzinfo=self.now.tzinfo)

    def days(self, first: date, last: date, precision: Precision) -> TimeSpan:
        """Whole days from `first` to `last`, both included."""
        end = last + _DAY
        start = self.at(first.year, first.month, first.day)
        return TimeSpan(start=start, end=self.at(end.year, end.month, end.day), precision=precision)

    def months(self, year: int, month: int, count: int, precision: Precision) -> TimeSpan:
        """`count` months from `month` on, which may lie outside of 1 to 12."""
        first, end = 12 * year + month - 1, 12 * year + month - 1 + count
        start = self.at(first // 12, first % 12 + 1, 1)
        return TimeSpan(start=start, end=self.at(end // 12, end % 12 + 1, 1), precision=precision)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeMention:
    """A time named from `at` up to `to` of the text: its spans, or how to make one once its year is known."""

    at: int
    to: int
    spans: tuple[TimeSpan, ...] = ()
    of_year: Callable[[int], TimeSpan] | None = None
    years: tuple[int, ...] = ()
    lead: str = ""
    is_date: bool = False
    weekday: int | None = None
    """Of a weekday that nothing but the tense tells which one it is."""


def _numeric(text: str, frame: Frame) -> Iterator[TimeMention]:
    """2023-05-08, 2023/5/8, 2023-05, 8.5.2023 and, where only one order is possible, 05/18/2023."""
    for match in ISO.finditer(text):
        yield from _dated(match, frame, match["year"], int(match["month"] or match["only"]), match["day"])
    for match in TWO_AND_YEAR.finditer(text):
        first, second = int(match["first"]), int(match["second"])
        if first > 12 or first == second or match["sep"] == ".":
            yield from _dated(match, frame, match["year"], second, match["first"])
        elif second > 12:
            yield from _dated(match, frame, match["year"], first, match["second"])


def _day_and_month(text: str, frame: Frame) -> Iterator[TimeMention]:
    """3/14, 14/3 and 3/3, where one order is possible in the whole text; 3/5 in Chinese characters, kana and Hangul."""
    pairs = [(match, int(match["first"]), int(match["second"])) for match in _TWO_ALONE.finditer(text)]
    orders = {first > 12 for _, first, second in pairs if (first > 12) != (second > 12)}
    if not text.isascii():
        orders = orders or {False}
    for match, first, second in pairs:
        leads = not text.isascii() or BEFORE_NUMERIC.search(text[max(0, match.start() - 16) : match.start()])
        if (leads or len(pairs) > 1) and (len(orders) == 1 or first == second):
            day, month = (first, second) if True in orders else (second, first)
            yield from _dated(match, frame, None, month, str(day))


def _weeks(text: str, frame: Frame) -> Iterator[TimeMention]:
    """Weeks by their number: "week 11", 2026-W11."""
    for match in matches("week", text):
        week, year = int(match["week"]), match.groupdict().get("year")
        if 1 <= week <= 53:

            def of_year(year: int, week: int = week) -> TimeSpan:
                monday = date.fromisocalendar(year, 1, 1) + timedelta(weeks=week - 1)
                return frame.days(monday, monday + 6 * _DAY, "week")

            years = (int(year),) if year else ()
            yield TimeMention(at=match.start(), to=match.end(), of_year=of_year, years=years)


def _month_and_day(text: str, frame: Frame) -> Iterator[TimeMention]:
    months = known("months")
    for match in matches("month_day", text):
        name = match["month"]
        before = text[max(0, match.start() - 16) : match.start()]
        if name in all_words("times", "verb_months") and not BEFORE_VERB_MONTH.search(before):
            continue
        month = months[name.casefold()]
        day = match["day"] or str(known("ordinals")[match["word"].casefold()])
        yield from _dated(match, frame, match["year"], month, day, match["last"])
    for match in matches("day_month", text):
        month = months[match["month"].casefold()]
        day = match["day"] or str(known("ordinals")[match["word"].casefold()])
        yield from _dated(match, frame, match["year"], month, day, match["last"])


def _dates(text: str, frame: Frame) -> Iterator[TimeMention]:
    """Dates of languages that write the year first, of which the rest may be missing: 작년 5월, 5月3日."""
    for match in matches("date", text):
        year = match["year"]
        if match["rel"]:
            year = str(frame.now.year + known("periods")[match["rel"]][1])
        lead = lead_of(match["lead"])
        if month := match["month"]:
            day = match["day"] and str(number(match["day"]) or "")
            last = match.groupdict().get("last")
            yield from _dated(match, frame, year, number(month) or 0, day, last, lead)
        elif match["name"]:
            yield _by_name(match, frame, match["name"].casefold(), year, lead)
        elif match["year"]:
            yield _a_year(match, frame)


def _dated(
    match: regex.Match[str],
    frame: Frame,
    year: str | None,
    month: int,
    day: str | None,
    last: str | None = None,
    lead: str = "",
) -> Iterator[TimeMention]:
    """A day, several days of one month, or a month; nothing for what no calendar has (the 31st of April)."""
    first_day, last_day = int(day or 0), int(last or 0)
    if not 1 <= month <= 12 or first_day > monthrange(2000, month)[1]:
        return

    def of_year(year: int) -> TimeSpan:
        if not first_day:
            return frame.months(year, month, 1, "month")
        most = monthrange(year, month)[1]
        first = date(year, month, min(first_day, most))
        if last_day > first_day:
            return frame.days(first, date(year, month, min(last_day, most)), "range")
        return frame.days(first, first, "day")

    years = (int(year),) if year else ()
    is_date = bool(years and first_day and not last_day)
    at, to = match.span()
    yield TimeMention(at=at, to=to, of_year=of_year, years=years, lead=lead, is_date=is_date)


def _named(text: str, frame: Frame) -> Iterator[TimeMention]:
    """Months, seasons and holidays by name, with or without a year."""
    for match in matches("named", text):
        start = max(0, match.start() - 40)
        before = BEFORE_NAME.search(text[start : match.start()])
        lead = lead_of(before["lead"]) if before else ""
        part = (before and before["part"]) or ""
        year = match["year"]
        if match["rel"]:
            year = str(frame.now.year + _RELATIVE[lead_of(match["rel"])])
        if _is_time(match["name"], lead, part, year):
            yield _by_name(match, frame, match["name"].casefold(), year, lead)


def _is_time(name: str, lead: str, part: str, year: str | None) -> bool:
    """True if a name that may mean something else ("May", "fall", "Mars") stands for a time here."""
    low = name.casefold()
    if year or part or low in known("holidays") or low in all_words("times", "clear_months"):
        return True
    if low not in known("months"):
        return lead in all_words("times", "leads_of_seasons")
    if low in known("short_months") and name.islower():
        return False
    a_name = low in all_words("times", "given_names")
    return lead in all_words("times", "leads_of_months" if a_name else "leads_of_times")


def _by_name(
    match: regex.Match[str],
    frame: Frame,
    name: str,
    year: str | None,
    lead: str = "",
) -> TimeMention:
    months, seasons = known("months"), known("seasons")

    def of_year(year: int) -> TimeSpan:
        if name in months:
            return frame.months(year, months[name], 1, "month")
        if name in seasons:
            return frame.months(year, seasons[name], 3, "season")
        first, last = known("holidays")[name](year)
        return frame.days(first, last, "day")

    years: tuple[int, ...] = (int(year),) if year else ()
    if year and seasons.get(name) == 12:  # "winter 2023" began in that year or ended in it
        years = (int(year) - 1, int(year))
    return TimeMention(at=match.start(), to=match.end(), of_year=of_year, years=years, lead=lead)


def _years(text: str, frame: Frame) -> Iterator[TimeMention]:
    for match in matches("year", text):
        yield _a_year(match, frame)


def _a_year(match: regex.Match[str], frame: Frame) -> TimeMention:
    year = int(match["year"])
    span = frame.months(year, 1, 12, "year")
    return TimeMention(at=match.start("year"), to=match.end(), spans=(span,), years=(year,))


def connects(text: str, one: TimeMention, other: TimeMention, *, spans: bool = True) -> bool:
    """True if nothing but a word such as "and" or "to" stands between two times; without `spans` one such as "to"."""
    return text[one.to : other.at].strip().casefold() in all_words(
        "times", "connectors" if spans else "spanning"
    )


def _with_years_of_others(found: list[TimeMention], text: str) -> Iterator[TimeMention]:
    """In "between June 3 and June 9, 2023" the first date takes the year of the second."""
    for one, after in pairwise(found):
        takes = not one.years and after.years and after.of_year and connects(text, one, after)
        yield replace(one, years=after.years) if takes else one
    yield from found[-1:]


def _resolved(one: TimeMention, frame: Frame) -> TimeMention:
    """`one` with its spans: of its years, or, where it has none, of those that its lead or what is known tells."""
    if one.of_year is None:
        return one
    if one.years:
        return replace(one, spans=tuple(map(one.of_year, one.years)))
    now = frame.now
    near = [one.of_year(year) for year in range(max(now.year - 2, 1), min(now.year + 2, 9998) + 1)]
    if one.lead == "last":
        spans = [span for span in near if span.end <= now][-1:]
    elif one.lead == "next":
        spans = [span for span in near if span.start > now][:1]
    elif one.lead == "this":
        spans = [span for span in near if span.start.year == now.year]
    elif frame.told:
        spans = [min(near, key=lambda span: max(span.start - now, now - span.end))]
    else:
        spans = list(_within_known(one.of_year, frame)) or [span for span in near if span.start <= now][-1:]
    return replace(one, spans=tuple(spans))


def _within_known(of_year: Callable[[int], TimeSpan], frame: Frame) -> Iterator[TimeSpan]:
    if frame.known is None:
        return
    first, last = frame.known
    for year in range(max(first.year - 1, last.year - MAX_SPANS, 1), min(last.year + 1, 9998) + 1):
        span = of_year(year)
        if span.start <= last and span.end > first:
            yield span


READERS: Final = (_weeks, _numeric, _month_and_day, _dates, _day_and_month, _named, _years)
"""Each finds times in a text; to be asked in this order, what one has read blanked for the next."""


def resolved(found: list[TimeMention], text: str, frame: Frame) -> list[TimeMention]:
    """`found`, in the order of the text, with spans for the times whose year it doesn't tell."""
    return [_resolved(one, frame) for one in _with_years_of_others(found, text)]
