"""Times named in a question, as spans of the calendar, and their match with a turn's time. All pure.

Own rules rather than a library: tried on running text, dateparser 1.5 and parsedatetime 2.6 return points instead of
spans, read "May I ask" as a month, miss "last weekend", and dateparser takes 1 to 6 ms a question.

Reads what the tables `times` of the languages tell. Seasons are those of the northern half of the earth, weeks begin on Monday, days in the time zone of `now`.
A question in which one full date stands tells its "last week" from that date ("last Friday, as of 20 March 2022").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from memory_agent.checks import checked_time
from memory_agent.text import time_spans as words
from memory_agent.text.languages import all_words, languages_with
from memory_agent.text.names import readable
from memory_agent.text.tables import table
from memory_agent.text.time_spans import (
    MAX_SPANS,
    READERS,
    Frame,
    Precision,
    TimeMention,
    TimeSpan,
    connects,
    resolved,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import regex
    from numpy.typing import NDArray

__all__ = ["EventOffset", "TimeSpan", "civil_seconds", "relative_event", "span_match", "time_spans"]

LATER: Final = 3.0
"""After a span the fit falls so many times as slowly as before it: what happened is mostly told afterwards."""

OUTSIDE: Final = 0.5
"""What lies outside of the span fits at most half as well as what lies in it."""
_DAY: Final = timedelta(days=1)
_LESS: Final = 0.8
"""The weight of what may be meant as well as what is likelier."""
_MOST_TOLD: Final = 8
_ABOUT: Final = timedelta(days=3)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class EventOffset:
    """A time told from an event: `event` in the question's words, then from `least` to `most` after it (negative: before)."""

    event: str
    least: timedelta
    most: timedelta


class NamedTimes(NamedTuple):
    """The spans of time that a text names, and the `words` that name them."""

    spans: tuple[TimeSpan, ...] = ()
    words: tuple[str, ...] = ()


def time_spans(
    question: str, *, now: datetime, known: tuple[datetime, datetime] | None = None
) -> tuple[TimeSpan, ...]:
    """The spans of `named_times`."""
    return named_times(question, now=now, known=known).spans


def named_times(
    question: str, *, now: datetime, known: tuple[datetime, datetime] | None = None, told: bool = False
) -> NamedTimes:
    """The times that `question` names, in its order, at most 24 spans; none if it names none.

    `now`: when it is asked; `known`: the time of the user's first and last turn. A time without a year ("in May") is
    every one of its kind within `known`, and without `known` (or outside of it) the last that began by `now`. Reads the
    first 2,000 characters; names nothing at a `now` outside of the years 1000 to 9000. `told`: it is no question, but was
    told at `now`, and a time without a year is the nearest of its kind. Raises InvalidInput for times without a time zone.
    """
    checked_time("now", now)
    for time in known or ():
        checked_time("known", time)
    if not all(1000 < time.year < 9000 for time in (now, *(known or ()))):  # no offset may leave the calendar
        return NamedTimes()
    first_last = (known[0].astimezone(now.tzinfo), known[1].astimezone(now.tzinfo)) if known else None
    text, frame = readable(question), Frame(now=now, known=first_last, told=told)
    if (from_event := _told_from_event(text)) is not None:
        text = _blanked(text, from_event[1], from_event[2])
    found = _find(text, frame)
    spans = tuple(dict.fromkeys(span for one in found for span in one.spans))[:MAX_SPANS]
    return NamedTimes(spans, tuple(text[one.at : one.to] for one in found if one.spans))


def told_days(text: str, said_at: datetime) -> tuple[int, ...]:
    """The first and the last day of each time that what was said at `said_at` tells of, one after the other, as numbers.

    The first `_MOST_TOLD` of them; see `date.toordinal`.
    """
    spans = named_times(text, now=said_at, told=True).spans
    days = dict.fromkeys(
        (span.start.toordinal(), (span.end - _DAY).toordinal()) for span in spans if span.weight == 1.0
    )
    return tuple(day for pair in list(days)[:_MOST_TOLD] for day in pair)


_READ_CHARS: Final = 1_000


def told_from(text: str, *, said: datetime) -> tuple[tuple[str, TimeSpan], ...]:
    """The words of a turn that tell a time from the day on which it was `said`, as "yesterday" does, each with that time, at most 3.

    >>> from datetime import UTC
    >>> [(words, str(span.start.date())) for words, span in told_from("I met Ida last Friday.", said=datetime(2023, 5, 8, tzinfo=UTC))]
    [('last Friday', '2023-05-05')]
    """
    checked_time("said", said)
    if len(text) > _READ_CHARS or not 1000 < said.year < 9000:
        return ()
    frame, blanked = Frame(now=said), text
    found: list[TimeMention] = []
    for read in (_ago, _periods, _weekdays):
        blanked = _read(read, blanked, frame, found)
    today = frame.days(said.date(), said.date(), "day")
    found = [
        one for one in found if one.spans and not words.LIKENED.search(text[max(0, one.at - 24) : one.at])
    ]
    told = ((text[one.at : one.to], one.spans[0]) for one in sorted(found, key=lambda one: one.at))
    return tuple((words, span) for words, span in told if not span.start <= today.start < span.end)[
        :_MOST_EXPLAINED
    ]


_MOST_EXPLAINED: Final = 3


def relative_event(question: str) -> EventOffset | None:
    """The event that `question` tells a time from ("two weeks before the wedding") and how far from it; None without.

    "two weeks before": 1.5 to 2.5 weeks; "the week before": up to 1.5 weeks; "shortly after": up to 3 days. An event
    without a distance ("after the wedding") or with one that is asked for ("how many days before") is none.
    """
    told = _told_from_event(readable(question))
    return None if told is None else told[0]


def span_match(
    first: NDArray[np.float64], last: NDArray[np.float64], spans: Sequence[TimeSpan]
) -> NDArray[np.float32]:
    """Match of times, each from `first` up to `last`, with the nearest of `spans`: shape (n,), 0 to 1.

    Times are `civil_seconds`; one that is no longer than a moment has the same twice. Inside of the span it is 1. Outside it is
    at most OUTSIDE, before it times exp(-d / s), after it times exp(-d / (LATER * s)), with d the distance to the span and s its
    length, at least a day. What overlaps with the span lies between the two, by the share of it that is inside.
    """
    match = np.zeros(first.shape, np.float64)
    length = np.maximum(last - first, 1.0)
    for span in spans:
        start, end = civil_seconds(span.start), civil_seconds(span.end)
        scale = max(end - start, _DAY.total_seconds())
        # A moment counts as a second.
        inside = np.clip(np.minimum(first + length, end) - np.maximum(first, start), 0.0, None) / length
        distance = np.maximum(start - last, 0.0) / scale + np.maximum(first - end, 0.0) / (LATER * scale)
        fit = np.where(inside > 0.0, OUTSIDE + (1.0 - OUTSIDE) * inside, OUTSIDE * np.exp(-distance))
        match = np.maximum(match, span.weight * fit)
    return match.astype(np.float32)


def civil_seconds(time: datetime) -> float:
    """What a clock and a calendar on the wall show at `time`, as seconds since they showed 1970."""
    return (time.replace(tzinfo=UTC) - _EPOCH).total_seconds()


def _blanked(text: str, start: int, end: int) -> str:
    return f"{text[:start]}{'_' * (end - start)}{text[end:]}"


def _find(text: str, frame: Frame) -> list[TimeMention]:
    """The times in `text`, in order. Text that one reader has read is blanked for the next."""
    found: list[TimeMention] = []
    for read in READERS:
        text = _read(read, text, frame, found)
    found = resolved(sorted(found, key=_place), text, frame)
    dates = [one for one in found if one.is_date and one.spans]
    told_from = replace(frame, now=dates[0].spans[0].start) if len(dates) == 1 else frame
    found, text = _narrowed(found, text, frame)
    for read in (_ago, _within, _periods, _days_alone):
        text = _read(read, text, told_from, found)
    found, text = _narrowed(sorted(found, key=_place), text, frame)
    text = _read(_weekdays, text, told_from, found)
    found.sort(key=_place)
    return _joined(_shifted(found, text, frame), text, frame)


def _place(one: TimeMention) -> int:
    return one.at


def _read(
    reader: Callable[[str, Frame], Iterator[TimeMention]], text: str, frame: Frame, found: list[TimeMention]
) -> str:
    for one in list(reader(text, frame)):
        found.append(one)
        text = _blanked(text, one.at, one.to)
    return text


# Times told from others


def _ago(text: str, frame: Frame) -> Iterator[TimeMention]:
    """ "Two weeks ago": half a week before to half a week after it; "three days ago" is that day."""
    for match in words.matches("ago", text):
        told = _distance(match)
        if told is not None:
            about = _days_at(frame.now.date(), -told[1], -told[0])
            middle = _days_at(frame.now.date(), *(2 * [-(told[0] + told[1]) / 2]))
            is_week = round(told[1] - told[0]) == words.UNIT_DAYS["week"]
            yield _mention(match, *_with_middle(frame, about, middle if is_week else None))


def _with_middle(
    frame: Frame, about: tuple[date, date] | None, middle: tuple[date, date] | None
) -> Iterator[TimeSpan]:
    """The days about a time, behind the likeliest of them."""
    if middle is not None:
        yield from _whole_days(frame, middle, "day")
    for span in _whole_days(frame, about, "about"):
        yield replace(span, weight=_LESS if middle is not None else 1.0)


def _distance(match: regex.Match[str]) -> tuple[float, float] | None:
    """From how many to how many days a match tells, by its number and unit."""
    if match["word"]:
        n, unit_of_word = words.known("distances")[match["word"].casefold()]
        return _days_of((n - 0.5, n + 0.5), unit_of_word)
    amount = words.amount(match["n"])
    return None if amount is None else _days_of(amount, words.known("units")[match["unit"].casefold()])


def _days_of(amount: tuple[float, float], unit: str) -> tuple[float, float]:
    if unit == "day":  # that day, not from noon to noon
        return amount[0] + 0.5, amount[1] - 0.5
    return amount[0] * words.UNIT_DAYS[unit], amount[1] * words.UNIT_DAYS[unit]


def _days_at(origin: date, least: float, most: float) -> tuple[date, date] | None:
    """The days so many days after `origin` (negative: before); None outside of what a calendar holds."""
    try:
        return origin + timedelta(days=round(least)), origin + timedelta(days=round(most))
    except OverflowError:
        return None


def _whole_days(frame: Frame, days: tuple[date, date] | None, precision: Precision) -> tuple[TimeSpan, ...]:
    if days is None or not 1 < days[0].year <= days[1].year < 9999:
        return ()
    return (frame.days(*days, "day" if days[0] == days[1] else precision),)


def _within(text: str, frame: Frame) -> Iterator[TimeMention]:
    """ "In the past two weeks": until now."""
    for match in words.matches("within", text):
        amount = words.amount(match["n"] or "1")
        if amount is not None:
            length = (amount[1] - 0.5) * words.UNIT_DAYS[words.known("units")[match["unit"].casefold()]]
            days = _days_at(frame.now.date(), -length, 0)
            yield _mention(match, *_whole_days(frame, days, "range"))
    for match in words.matches("other_day", text):
        days = _days_at(frame.now.date(), -10, -1)
        yield _mention(match, *_whole_days(frame, days, "about"))


def _periods(text: str, frame: Frame) -> Iterator[TimeMention]:
    """ "Last week", "yesterday", "this year", and a weekday of such a week ("上周五")."""
    for match in words.matches("period", text):
        word = match["period"].casefold()
        unit, offset = words.known("periods")[word]
        if word in _by_tense():
            if not _is_past(text):
                continue
            offset = 0 if frame.now.weekday() >= 5 else -1
        yield _mention(match, _period(frame, unit, offset))


def _period(frame: Frame, unit: str, offset: int) -> TimeSpan:
    today = frame.now.date()
    if unit == "month":
        return frame.months(today.year, today.month + offset, 1, "month")
    if unit == "year":
        return frame.months(today.year + offset, 1, 12, "year")
    if unit == "day":
        return frame.days(today + offset * _DAY, today + offset * _DAY, "day")
    monday = today + timedelta(days=7 * offset - today.weekday())
    if unit == "weekend":
        return frame.days(monday + 5 * _DAY, monday + 6 * _DAY, "weekend")
    return frame.days(monday, monday + 6 * _DAY, "week")


def _is_past(text: str) -> bool:
    """True if what is asked happened, once: a weekday or weekend without more is then the last one."""
    return words.PAST.search(text) is not None and not words.HABIT.search(text)


def _mention(match: regex.Match[str], *spans: TimeSpan) -> TimeMention:
    return TimeMention(at=match.start(), to=match.end(), spans=spans)


@cache
def _by_tense() -> frozenset[str]:
    its = (table(each.name, "times").value("by_tense", str, "") for each in languages_with("times"))
    return frozenset(name for names in its for name in names.splitlines())


def _days_alone(text: str, frame: Frame) -> Iterator[TimeMention]:
    """ "On the 5th": the last such day, or, where it is told, the nearest."""
    for match in words.matches("month_day_alone", text):
        today, number = frame.now.date(), int(match["day"])
        months = (frame.months(today.year, today.month + ahead, 1, "month") for ahead in (-2, -1, 0, 1))
        days = [day for month in months if (day := _day_of(month, number)) is not None]
        if frame.told:
            yield _mention(match, min(days, key=lambda day: abs(day.start - frame.now)))
        else:
            yield _mention(match, *[day for day in days if day.start <= frame.now][-1:])


def _weekdays(text: str, frame: Frame) -> Iterator[TimeMention]:
    for match in words.matches("weekday", text):
        lead, weekday = words.lead_of(match["lead"]), words.known("weekdays")[match["day"].casefold()]
        is_past = _is_past(text)
        alone = lead in ("on", "")
        opened = alone and words.open_end(text[max(0, match.start() - 24) : match.start()], "")
        if alone and not (is_past or opened or (frame.told and lead)):
            continue
        today = frame.now.date()
        if lead == "next" or (alone and frame.told and not is_past):
            day = _weekday_from(today, weekday, after=True)
        elif lead == "this":
            day = today + timedelta(days=weekday - today.weekday())
        else:
            day = _weekday_from(today, weekday, after=False)
        if match.groupdict().get("before_last"):
            day -= timedelta(weeks=1)
        one = _mention(match, frame.days(day, day, "day"))
        yield replace(one, weekday=weekday if alone else None)


def _weekday_from(origin: date, weekday: int, *, after: bool) -> date:
    """The first such weekday after `origin`, or the last before it."""
    if after:
        return origin + timedelta(days=(weekday - origin.weekday() - 1) % 7 + 1)
    return origin - timedelta(days=(origin.weekday() - weekday - 1) % 7 + 1)


def _narrowed(found: list[TimeMention], text: str, frame: Frame) -> tuple[list[TimeMention], str]:
    """The mentions, and the text, with each that is told more closely as that: "the first Monday of March", "3월 초"."""
    narrowed: list[TimeMention] = []
    for one in found:
        for is_behind in (False, True):
            match = (
                words.WITHIN_LAST.match(text[one.to : one.to + 32])
                if is_behind
                else words.WITHIN_NEXT.search(text[: one.at], max(0, one.at - 48))
            )
            spans = [] if match is None else [_within_span(match, span, frame) for span in one.spans]
            closer = tuple(span for span in spans if span is not None)
            if match is not None and closer:
                at, to = (one.at, one.to + match.end()) if is_behind else (match.start(), one.to)
                one = replace(one, at=at, to=to, spans=closer)
                text = _blanked(text, at, to)
        narrowed.append(one)
    return narrowed, text


def _within_span(match: regex.Match[str], span: TimeSpan, frame: Frame) -> TimeSpan | None:
    """The time within `span` that the words before it or behind it tell; None if it has no such."""
    given = {name: value.casefold() for name, value in match.groupdict().items() if value}
    nth = _nth(given["nth"]) if "nth" in given else None
    if "weekday" in given:
        return _weekday_in(span, words.known("weekdays")[given["weekday"]], nth, frame)
    if "day_word" in given:
        return _day_of(span, words.known("ordinals")[given["day_word"]])
    if "day" in given:
        return _day_of(span, int(given["day"]))
    if "part" in given:
        return _part(span, given["part"])
    unit = words.known("units")[given["unit"]]
    return _around(span, unit, frame) if nth is None else _nth_of(span, nth, unit, given.get("count", "1"))


def _nth(word: str) -> int:
    digits = word.rstrip("stndrh")
    return int(digits) if digits.isdigit() else int(words.known("nth")[word])


def _weekday_in(span: TimeSpan, weekday: int, nth: int | None, frame: Frame) -> TimeSpan | None:
    """The nth such weekday of a span (-1: the last), or the only one of a week or a day."""
    first = _weekday_from(span.start.date() - _DAY, weekday, after=True)
    last = _weekday_from(span.end.date(), weekday, after=False)
    if nth is None and (span.end - span.start).days > 8:
        return None
    day = last if nth == -1 else first + timedelta(weeks=(nth or 1) - 1)
    return frame.days(day, day, "day") if span.start.date() <= day < span.end.date() else None


def _day_of(month: TimeSpan, number: int) -> TimeSpan | None:
    start = month.start + (number - 1) * _DAY
    if not 28 <= (month.end - month.start).days <= 31 or start >= month.end:
        return None
    return TimeSpan(start=start, end=start + _DAY, precision="day")


def _nth_of(span: TimeSpan, nth: int, unit: str, count: str) -> TimeSpan | None:
    """The nth day, week or weekend of a span, or the first or last few of them."""
    length = round(words.UNIT_DAYS[unit]) * (words.number(count) or 1) * _DAY
    if unit == "weekend":
        saturday = _weekday_from(span.start.date() - _DAY, 5, after=True) - span.start.date()
        start = span.start + saturday + (nth - 1) * timedelta(weeks=1)
        if nth == -1:
            start = span.start + (_weekday_from(span.end.date() - _DAY, 5, after=False) - span.start.date())
        end = start + 2 * _DAY
    elif nth == -1:
        start, end = span.end - length, span.end
    else:
        start = span.start + (nth - 1) * length
        end = min(start + length, span.end)
    if not span.start <= start < end:
        return None
    return TimeSpan(start=start, end=end, precision="day" if length == _DAY else "range")


def _around(span: TimeSpan, unit: str, frame: Frame) -> TimeSpan | None:
    """The week or weekend that a day is in."""
    if span.end - span.start > _DAY or unit not in ("week", "weekend"):
        return None
    monday = span.start.date() - timedelta(days=span.start.weekday())
    return frame.days(monday + (5 * _DAY if unit == "weekend" else 0 * _DAY), monday + 6 * _DAY, "week")


def _part(span: TimeSpan, part: str) -> TimeSpan:
    """The part of `span` that "early" or "the end of" leads to. A month's thirds are of ten days, and what is left."""
    first, last = words.known("parts")[part.removesuffix(" of").removesuffix(" in")]
    days = (span.end - span.start).days
    parts = min(days, 30) if 28 <= days <= 31 else days
    start, end = span.start + round(first * parts) * _DAY, span.start + round(last * parts) * _DAY
    return TimeSpan(start=start, end=span.end if last == 1.0 else max(end, start + _DAY), precision="about")


def _shifted(found: list[TimeMention], text: str, frame: Frame) -> list[TimeMention]:
    """ "Two weeks before May 3", "the Sunday after Christmas": put before the date, on which it may have been told."""
    shifted: list[TimeMention] = []
    for one in found:
        spans: list[TimeSpan] = []
        match = next((each for each in words.matches("offset", text) if 0 <= one.at - each.end() <= 4), None)
        beside = words.DAY_BESIDE.match(text[one.to : one.to + 12])
        for span in one.spans:
            if match is not None and match["unit"]:
                after = match["way"].casefold() in all_words("times", "after")
                origin = (span.end - _DAY if after else span.start).date()
                spans += _whole_days(frame, _days_from(origin, match, after=after), "about")
            elif beside is not None:
                day = (span.start - _DAY if beside["before"] else span.end).date()
                spans += _whole_days(frame, (day, day), "day")
        if spans:
            spans += [replace(span, weight=_LESS) for span in one.spans]
        shifted.append(replace(one, spans=tuple(spans)) if spans else one)
    return shifted


def _days_from(origin: date, match: regex.Match[str], *, after: bool) -> tuple[date, date] | None:
    unit, n = match["unit"].casefold(), match["n"].casefold()
    weekdays, units = words.known("weekdays"), words.known("units")
    if unit in weekdays or units[unit] == "weekend":
        day = _weekday_from(origin, weekdays.get(unit, 5), after=after)
        return day, day if unit in weekdays else day + _DAY
    unit = units[unit]
    least, most = _days_of(words.amount(n) or (0.0, 0.0), unit)
    if n in all_words("times", "definite"):  # the week before: all of it
        least, most = 1.0, words.UNIT_DAYS[unit]
    return _days_at(origin, least, most) if after else _days_at(origin, -most, -least)


def _joined(found: list[TimeMention], text: str, frame: Frame) -> list[TimeMention]:
    """With the spans that "between … and …", "since", "after", "before" and "by" make of the times they stand with."""
    joined: list[TimeMention] = []
    last: TimeMention | None = None
    for one in found:
        before, behind = text[max(0, one.at - 24) : one.at], text[one.to : one.to + 12]
        opened = last is not None and (last.lead == "from" or words.JOINED.match(behind) is not None)
        if last is not None and last.spans and one.spans and connects(text, last, one, spans=opened):
            joined[-1] = replace(last, to=one.to, spans=tuple(_from_to(last, one)), lead="")
            last = None
            continue
        lead = words.open_end(before, behind)
        last = replace(one, lead=lead)
        spans = _opened(one.spans, lead, frame)
        if words.AROUND.search(before) or words.AROUND_BEHIND.match(behind):
            spans = _widened(one.spans)
        joined.append(replace(last, spans=tuple(spans)))
    return joined


def _from_to(first: TimeMention, other: TimeMention) -> Iterator[TimeSpan]:
    """From one time to another. Of two weekdays the one that only the tense tells is that which is nearest to the other."""
    for one, end in zip(first.spans, other.spans, strict=False):
        start = one
        days = (start.start - end.start) // timedelta(weeks=1) + 1
        if days > 0 and first.weekday is not None:
            start = replace(one, start=one.start - timedelta(weeks=days), end=one.end - timedelta(weeks=days))
        elif days > 0 and other.weekday is not None:
            end = replace(end, end=end.end + timedelta(weeks=days))
        if start.start < end.end:
            yield TimeSpan(start=start.start, end=end.end, precision="range")


def _widened(spans: tuple[TimeSpan, ...]) -> Iterator[TimeSpan]:
    """ "Around 10 March": that day, or a few before or after it."""
    yield from spans
    for span in spans:
        by = max((span.end - span.start) / 2, _ABOUT)
        yield TimeSpan(start=span.start - by, end=span.end + by, precision="about", weight=_LESS)


def _opened(spans: tuple[TimeSpan, ...], lead: str, frame: Frame) -> Iterator[TimeSpan]:
    """Since a time: until now; before a time: from the first turn, if that is known."""
    if lead in ("since", "after") and spans:
        start = spans[-1].start if lead == "since" else spans[-1].end
        if start < frame.now:
            yield TimeSpan(start=start, end=frame.now, precision="range")
            return
    for span in spans:
        end = span.start if lead == "before" else span.end
        if lead in ("before", "by") and frame.known is not None and frame.known[0] < end:
            yield TimeSpan(start=frame.known[0], end=end, precision="range")
        else:
            yield span


# Times told from events


def _told_from_event(text: str) -> tuple[EventOffset, int, int] | None:
    """The event and distance that `text` tells, and where what tells the distance begins and ends.

    An event may hold a date of its own ("the wedding in May 2022"), which is to be read as one.
    """
    units = words.known("units")
    for match in words.matches("offset", text):
        event = _event_at(text, match.end())
        if event and match["soon"]:
            return _offset(event, (0.0, 3.0), match), *match.span()
        if event and match["unit"].casefold() in units:
            definite = match["n"].casefold() in all_words("times", "definite")
            least, most = (0.0, 1.5) if definite else words.amount(match["n"]) or (0.0, 0.0)
            length = words.UNIT_DAYS[units[match["unit"].casefold()]]
            return _offset(event, (least * length, most * length), match), *match.span()
    for match in words.matches("same", text):
        if event := _event_at(text, match.end()):
            either = timedelta(days=words.UNIT_DAYS[units[match["unit"].casefold()]])
            return EventOffset(event=event, least=-either, most=either), *match.span()
    return _told_after_event(text)


def _told_after_event(text: str) -> tuple[EventOffset, int, int] | None:
    """The same in languages that name the event first: 파티 이틀 전."""
    for match in words.matches("event", text):
        amount = words.amount(match["n"] or "")
        if match.groupdict().get("word"):
            n, unit = words.known("distances")[match["word"]]
            amount = (n - 0.5, n + 0.5)
        elif amount is not None:
            unit = words.known("units")[match["unit"]]
        if amount is not None and match["event"] not in all_words("times", "no_event"):
            days = (amount[0] * words.UNIT_DAYS[unit], amount[1] * words.UNIT_DAYS[unit])
            return _offset(match["event"], days, match), *match.span()
    return None


def _event_at(text: str, start: int) -> str | None:
    """The event's words from `start` on; None for a pronoun or a date."""
    match = words.EVENT.match(text, start)
    if match is None:
        return None
    event = words.EVENT_END.sub("", match.group()).rstrip()
    bare = event.casefold().removeprefix("the ")
    periods = words.known("periods")
    no_event = not bare or bare.split()[0] in all_words("times", "no_event")
    if no_event or bare in periods or event.casefold() in periods:
        return None
    named = words.names_a_date(event, len(event) - len(bare))
    whole = named is not None and (
        "year" not in named.groupdict() or named.end() == len(event) or named["year"]
    )
    return None if whole else event


def _offset(event: str, days: tuple[float, float], match: regex.Match[str]) -> EventOffset:
    after = match["way"].casefold() in all_words("times", "after")
    least, most = days if after else (-days[1], -days[0])
    return EventOffset(event=event, least=timedelta(days=least), most=timedelta(days=most))
