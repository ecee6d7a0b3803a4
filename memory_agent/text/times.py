"""Times named in a question, as spans of the calendar, and their match with a turn's time. All pure.

Own rules rather than a library: tried on running text, dateparser 1.5 and parsedatetime 2.6 return points instead of
spans, read "May I ask" as a month, miss "last weekend", and dateparser takes 1 to 6 ms a question.

Reads what the tables `times` of the languages tell. Seasons are those of the northern half of the earth, weeks begin on Monday, days in the time zone of `now`.
A question in which one full date stands tells its "last week" from that date ("last Friday, as of 20 March 2022").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

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

__all__ = ["LATER", "EventOffset", "TimeSpan", "relative_event", "span_match", "time_spans"]

LATER: Final = 3.0
"""After a span the fit falls so many times as slowly as before it: what happened is mostly told afterwards."""

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class EventOffset:
    """A time told from an event: `event` in the question's words, then from `least` to `most` after it (negative: before)."""

    event: str
    least: timedelta
    most: timedelta


def time_spans(
    question: str, *, now: datetime, known: tuple[datetime, datetime] | None = None
) -> tuple[TimeSpan, ...]:
    """The spans of time that `question` names, in its order, at most 24; empty if it names none.

    `now`: when it is asked; `known`: the time of the user's first and last turn. A time without a year ("in May") is
    every one of its kind within `known`, and without `known` (or outside of it) the last that began by `now`. Reads the
    first 2,000 characters; names nothing at a `now` outside of the years 1000 to 9000. Raises InvalidInput for times
    without a time zone.
    """
    checked_time("now", now)
    for time in known or ():
        checked_time("known", time)
    if not all(1000 < time.year < 9000 for time in (now, *(known or ()))):  # no offset may leave the calendar
        return ()
    first_last = (known[0].astimezone(now.tzinfo), known[1].astimezone(now.tzinfo)) if known else None
    text, frame = readable(question), Frame(now=now, known=first_last)
    if (told := _told_from_event(text)) is not None:
        text = _blanked(text, told[1], told[2])
    return tuple(dict.fromkeys(span for one in _find(text, frame) for span in one.spans))[:MAX_SPANS]


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
    told = (
        (text[one.at : one.to], one.spans[0]) for one in sorted(found, key=lambda one: one.at) if one.spans
    )
    return tuple((words, span) for words, span in told if not span.start <= today.start < span.end)[
        :_MOST_TOLD
    ]


_MOST_TOLD: Final = 3


def relative_event(question: str) -> EventOffset | None:
    """The event that `question` tells a time from ("two weeks before the wedding") and how far from it; None without.

    "two weeks before": 1.5 to 2.5 weeks; "the week before": up to 1.5 weeks; "shortly after": up to 3 days. An event
    without a distance ("after the wedding") or with one that is asked for ("how many days before") is none.
    """
    told = _told_from_event(readable(question))
    return None if told is None else told[0]


def span_match(
    times: NDArray[np.float64], spans: Sequence[TimeSpan], *, later: float = LATER
) -> NDArray[np.float32]:
    """Match of `times` (seconds since 1970, shape (n,)) with the nearest of `spans`: shape (n,), 0 to 1.

    1 from start to end; before it exp(-d / s), after it exp(-d / (later * s)), with d the distance to the span and
    s its length, at least a day. 0 without spans and for times that are not finite.
    """
    fit = np.zeros(times.shape, np.float64)
    usable = np.isfinite(times)
    at = np.where(usable, times, 0.0)
    for span in spans:
        start, end = span.start.timestamp(), span.end.timestamp()
        scale = max(end - start, _DAY.total_seconds())
        distance = np.maximum(start - at, 0.0) / scale + np.maximum(at - end, 0.0) / (later * scale)
        fit = np.maximum(fit, np.exp(-distance))
    matched: NDArray[np.float32] = np.where(usable, fit, 0.0).astype(np.float32)
    return matched


def _blanked(text: str, start: int, end: int) -> str:
    return f"{text[:start]}{'_' * (end - start)}{text[end:]}"


def _find(text: str, frame: Frame) -> list[TimeMention]:
    """The times in `text`, in order. Text that one reader has read is blanked for the next."""
    found: list[TimeMention] = []
    for read in READERS:
        text = _read(read, text, frame, found)
    found.sort(key=lambda one: one.at)
    found = resolved(found, text, frame)
    found += _shifted(found, text, frame)
    dates = [one for one in found if one.is_date and one.spans]
    told_from = replace(frame, now=dates[0].spans[0].start) if len(dates) == 1 else frame
    for read in (_ago, _within, _periods, _weekdays):
        text = _read(read, text, told_from, found)
    return _joined(sorted(found, key=lambda one: one.at), text, frame)


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
            days = _days_at(frame.now.date(), -told[1], -told[0])
            yield _mention(match, *_whole_days(frame, days, "about"))


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
        weekday = words.known("weekdays").get(match.groupdict().get("weekday") or "")
        yield _mention(match, _period(frame, unit, offset, weekday))


def _period(frame: Frame, unit: str, offset: int, weekday: int | None) -> TimeSpan:
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
    if weekday is None:
        return frame.days(monday, monday + 6 * _DAY, "week")
    return frame.days(monday + weekday * _DAY, monday + weekday * _DAY, "day")


def _is_past(text: str) -> bool:
    """True if what is asked happened, once: a weekday or weekend without more is then the last one."""
    return words.PAST.search(text) is not None and not words.HABIT.search(text)


def _mention(match: regex.Match[str], *spans: TimeSpan) -> TimeMention:
    return TimeMention(at=match.start(), to=match.end(), spans=spans)


@cache
def _by_tense() -> frozenset[str]:
    its = (table(each.name, "times").value("by_tense", str, "") for each in languages_with("times"))
    return frozenset(name for names in its for name in names.splitlines())


def _weekdays(text: str, frame: Frame) -> Iterator[TimeMention]:
    for match in words.matches("weekday", text):
        lead, weekday = words.lead_of(match["lead"]), words.known("weekdays")[match["day"].casefold()]
        if lead == "on" and not _is_past(text):
            continue
        today = frame.now.date()
        if lead == "next":
            day = _weekday_from(today, weekday, after=True)
        elif lead == "this":
            day = today + timedelta(days=weekday - today.weekday())
        else:
            day = _weekday_from(today, weekday, after=False)
        yield _mention(match, frame.days(day, day, "day"))


def _weekday_from(origin: date, weekday: int, *, after: bool) -> date:
    """The first such weekday after `origin`, or the last before it."""
    if after:
        return origin + timedelta(days=(weekday - origin.weekday() - 1) % 7 + 1)
    return origin - timedelta(days=(origin.weekday() - weekday - 1) % 7 + 1)


def _shifted(found: list[TimeMention], text: str, frame: Frame) -> list[TimeMention]:
    """ "Two weeks before May 3", "the Sunday after Christmas": added to the date, on which it may have been told."""
    shifted = []
    for match in words.matches("offset", text):
        named = next((one for one in found if 0 <= one.at - match.end() <= 4), None)
        if named is None or not match["unit"]:
            continue
        after = match["way"].casefold() in all_words("times", "after")
        spans: list[TimeSpan] = []
        for span in named.spans:
            origin = (span.end - _DAY if after else span.start).date()
            spans += _whole_days(frame, _days_from(origin, match, after=after), "about")
        shifted.append(_mention(match, *spans))
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
    for one in found:
        before = text[max(0, one.at - 24) : one.at]
        last = joined[-1] if joined else None
        if last and last.lead == "from" and connects(text, last, one):
            spans = tuple(
                TimeSpan(start=first.start, end=other.end, precision="range")
                for first, other in zip(last.spans, one.spans, strict=False)
                if first.start < other.end
            )
            joined[-1] = replace(last, to=one.to, spans=spans, lead="")
            continue
        lead = words.open_end(before, text[one.to : one.to + 4])
        joined.append(replace(one, spans=tuple(_opened(one.spans, lead, frame)), lead=lead))
    return joined


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
