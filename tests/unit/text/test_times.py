"""Times that a question names become spans of the calendar, and turns are weighed by how near they are."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.times import (
    OUTSIDE,
    TimeSpan,
    civil_seconds,
    named_times,
    relative_event,
    span_match,
    time_spans,
    told_days,
)
from tests.unit.examples import examples, misses

NOW = datetime(2023, 6, 15, 12, 30, tzinfo=UTC)  # a Thursday
EXAMPLES = examples("text/times.toml")
KNOWN = (datetime(2021, 3, 1, tzinfo=UTC), datetime(2023, 2, 1, tzinfo=UTC))


def spans(question: str, *, now: datetime = NOW, known: tuple[datetime, datetime] | None = None) -> list[str]:
    """Spans as "first day/day after the last"."""
    return [
        f"{span.start:%Y-%m-%d}/{span.end:%Y-%m-%d}" for span in time_spans(question, now=now, known=known)
    ]


@pytest.mark.parametrize("kind", ["dates", "relative", "joined"])
def test_a_time_that_is_named_is_one_span(kind: str) -> None:
    """Dates of whole days, words told from `now`, and two times or an open end."""
    assert misses(EXAMPLES[kind], lambda question: ", ".join(spans(question))) == []


def test_what_only_looks_like_a_time_is_none() -> None:
    """Verbs, names, numbers, versions, habits and dates of an unknown order name no span."""
    assert [question for question in EXAMPLES["none"] if spans(question)] == []


def test_a_time_may_be_several_or_open() -> None:
    """By what is known of the user's turns, by the winter's two years, and by the date that another is told from.

    Without a year a month is every one within the known time, or else the last that began by `now`; "before" and "by"
    begin where the turns begin; what happened a week before a date may have been told on it.
    """
    early = (datetime(2023, 2, 1, tzinfo=UTC), datetime(2023, 3, 1, tzinfo=UTC))
    rows: list[list[Any]] = [
        ["Where was I in May?", KNOWN, ["2021-05-01/2021-06-01", "2022-05-01/2022-06-01"]],
        ["Who came at Christmas?", KNOWN, ["2021-12-24/2021-12-27", "2022-12-24/2022-12-27"]],
        ["Where was I in May?", early, ["2023-05-01/2023-06-01"]],
        ["Where was I in November?", early, ["2022-11-01/2022-12-01"]],
        ["Did I ski in winter 2022?", None, ["2021-12-01/2022-03-01", "2022-12-01/2023-03-01"]],
        ["What did I own before July 2021?", KNOWN, ["2021-03-01/2021-07-01"]],
        ["How many had I won by July 12, 2021?", KNOWN, ["2021-03-01/2021-07-13"]],
        ["How many had I won by July 12, 2021?", None, ["2021-07-12/2021-07-13"]],
        ["What did I do the week before 20 November 2022?", None, ["2022-11-13/2022-11-20", "2022-11-20/2022-11-21"]],
        ["What did I see on the Monday before October 19, 2022?", None, ["2022-10-17/2022-10-18", "2022-10-19/2022-10-20"]],
        ["Whom did I call last Friday, as told on 20 March 2022?", None, ["2022-03-18/2022-03-19", "2022-03-20/2022-03-21"]],
        ["What did I do on 31 April 2022?", None, ["2022-04-01/2022-05-01"]],
        ["What is in the log of 2022-04-31?", None, []],
        ["What did I do on 29 February 2023?", None, ["2023-02-28/2023-03-01"]],
        ["What was here 999 decades ago?", None, []],
    ]  # fmt: skip
    assert misses(rows, lambda question, known: spans(question, known=known)) == []


def test_days_are_those_of_the_time_zone_of_now() -> None:
    """Yesterday begins at midnight where `now` is, also when clocks change."""
    seoul = ZoneInfo("Asia/Seoul")
    (span,) = time_spans("What did I eat yesterday?", now=datetime(2023, 6, 15, 1, tzinfo=seoul))
    assert span.start == datetime(2023, 6, 13, 15, tzinfo=UTC)
    (span,) = time_spans("What did I own before July 2021?", now=NOW.astimezone(seoul), known=KNOWN)
    assert (span.start, span.start.tzinfo) == (KNOWN[0], seoul)  # though it came in another zone
    berlin = ZoneInfo("Europe/Berlin")
    (span,) = time_spans("What did I eat on 26 March 2023?", now=datetime(2023, 4, 1, tzinfo=berlin))
    assert span.end.timestamp() - span.start.timestamp() == timedelta(hours=23).total_seconds()


def test_a_time_told_from_an_event() -> None:
    """The event's words and the distance from it in days; the calendar has spans only for a date within the event."""
    day = timedelta(days=1)
    for question, event, least, most in EXAMPLES["from_an_event"]:
        offset = relative_event(question)
        assert offset is not None, question
        assert (offset.event, offset.least, offset.most) == (event, least * day, most * day), question
        assert spans(question) == [], question
    question = "What did I do two weeks before the wedding in May 2022?"
    offset = relative_event(question)
    assert offset is not None
    assert (offset.event, spans(question)) == ("the wedding in May 2022", ["2022-05-01/2022-06-01"])


def test_no_event_to_tell_a_time_from() -> None:
    """A date is no event, nor is a pronoun; without a distance there is nothing to tell."""
    assert [question for question in EXAMPLES["no_event"] if relative_event(question)] == []


WORDS = [
    "since", "before", "between", "and", "from", "to", "by", "last", "next", "this", "in", "on", "the",
    "two", "few", "days", "weeks", "May", "8", "31", "2023", "summer", "Friday", "ago", "week", "after",
    "Christmas", "지난", "3월", "부터", "上周", "三", "天", "前", "wedding", ",", "12/13/2022",
]  # fmt: skip


TEXTS = st.text(max_size=300) | st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


@given(TEXTS, st.datetimes(timezones=st.just(UTC)))
def test_any_text_has_spans_that_end_after_they_begin(question: str, now: datetime) -> None:
    for known in ((now, now), KNOWN):
        found = time_spans(question, now=now, known=known)
        assert len(found) <= 24
        assert all(span.start < span.end for span in found)
    relative_event(question)


def test_only_the_first_2000_characters_are_read() -> None:
    assert spans("a " * 1_000 + "yesterday") == []
    for word in ("two weeks before ", "1 may ", "in the last ", "지난 ", "二", "é", "12/12/2022 "):
        time_spans(word * (100_000 // len(word)), now=NOW, known=KNOWN)
        relative_event(word * (100_000 // len(word)))


DAY_SPAN = TimeSpan(
    start=datetime(2023, 5, 8, tzinfo=UTC), end=datetime(2023, 5, 9, tzinfo=UTC), precision="day"
)


def seconds(*days: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Times so many days after the day began."""
    return DAY_SPAN.start.timestamp() + 86_400 * np.array(days, np.float64)


def test_the_fit_is_one_inside_and_falls_more_slowly_afterwards() -> None:
    """Half at most outside: times exp(-1) one length before the span, and three lengths after it."""
    at = seconds(0, 0.5, -1, 1, 4, 2)
    fit = span_match(at, at, [DAY_SPAN])
    assert fit.dtype == np.float32
    half = OUTSIDE
    assert fit.tolist() == pytest.approx(
        [1, 1, half * np.exp(-1), half, half * np.exp(-1), half * np.exp(-1 / 3)]
    )


def test_what_overlaps_fits_by_the_share_that_is_inside() -> None:
    """A day of a week that is told of fits less well than the day, and better than any time beside it."""
    fit = span_match(seconds(0, -3, 1), seconds(1, 4, 2), [DAY_SPAN])
    assert fit.tolist() == pytest.approx([1, OUTSIDE + (1 - OUTSIDE) / 7, OUTSIDE])


@given(st.lists(st.floats(-1e11, 1e11), min_size=1, max_size=20), st.floats(0, 1e7))
def test_the_fit_is_bounded_and_falls_with_distance(times: list[float], length: float) -> None:
    """Nothing outside fits as well as anything inside."""
    at = np.sort(np.array(times, np.float64))
    fit = span_match(at, at + length, [DAY_SPAN])
    assert np.all((fit >= 0) & (fit <= 1))
    before, after = at + length < civil_seconds(DAY_SPAN.start), at >= civil_seconds(DAY_SPAN.end)
    assert np.all(np.diff(fit[before]) >= 0)
    assert np.all(np.diff(fit[after]) <= 0)
    assert np.all(fit[before | after] <= OUTSIDE)
    assert np.all(fit[~(before | after)] >= OUTSIDE)


TOLD: list[tuple[str, list[str]]] = [
    ("My dentist appointment is tomorrow at 9.", ["2023-06-16/2023-06-16"]),
    ("Yesterday I ate trout.", ["2023-06-14/2023-06-14"]),
    ("The concert is on 12 July.", ["2023-07-12/2023-07-12"]),
    ("The concert was on 12 May.", ["2023-05-12/2023-05-12"]),
    ("We met on Friday at the pool.", ["2023-06-09/2023-06-09"]),
    ("See you on Friday.", ["2023-06-16/2023-06-16"]),
    ("Mum's visit is on the 20th.", ["2023-06-20/2023-06-20"]),
    ("I'm going to Rome next week.", ["2023-06-19/2023-06-25"]),
    ("I was born on 3 May 1990.", ["1990-05-03/1990-05-03"]),
    ("내일 치과 예약이 있어.", ["2023-06-16/2023-06-16"]),
    ("Dinner was trout.", []),
    ("I run on Mondays.", []),
]


def test_what_is_told_names_the_nearest_days() -> None:
    """Of a time that a question would look for in the past a message may tell before it comes."""
    found = [
        [
            f"{date.fromordinal(first)}/{date.fromordinal(last)}"
            for first, last in batched(told_days(text, NOW))
        ]
        for text, _ in TOLD
    ]
    assert found == [expected for _, expected in TOLD]


def test_of_many_days_that_are_told_the_first_eight_are_kept() -> None:
    said = "We meet on " + ", ".join(f"{day} July 2023" for day in range(3, 14))
    assert len(batched(told_days(said, NOW))) == 8


def batched(days: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(zip(days[::2], days[1::2], strict=True))


@given(TEXTS, st.datetimes(timezones=st.just(UTC)))
def test_any_text_tells_of_days_that_the_calendar_has(text: str, said_at: datetime) -> None:
    assert all(first <= last for first, last in batched(told_days(text, said_at)))


def test_times_are_told_apart_from_the_rest() -> None:
    """The words that name them, as they stand in the question."""
    named = named_times("What did I eat on the first Monday of May, and what yesterday?", now=NOW)
    assert named.words == ("first Monday of May", "yesterday")
