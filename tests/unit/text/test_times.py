"""Times that a question names become spans of the calendar, and turns are weighed by how near they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import InvalidInput
from memory_agent.text import time_words
from memory_agent.text.times import TimeSpan, relative_event, span_match, time_spans

NOW = datetime(2023, 6, 15, 12, 30, tzinfo=UTC)  # a Thursday
KNOWN = (datetime(2021, 3, 1, tzinfo=UTC), datetime(2023, 2, 1, tzinfo=UTC))


def spans(question: str, *, now: datetime = NOW, known: tuple[datetime, datetime] | None = None) -> list[str]:
    """Spans as "first day/day after the last"."""
    return [
        f"{span.start:%Y-%m-%d}/{span.end:%Y-%m-%d}" for span in time_spans(question, now=now, known=known)
    ]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did I do on 8 May 2023?", "2023-05-08/2023-05-09"),
        ("What did I do on May 8, 2023?", "2023-05-08/2023-05-09"),
        ("What did I do on May 8th?", "2023-05-08/2023-05-09"),
        ("Who came on the 8th of May?", "2023-05-08/2023-05-09"),
        ("Who came on the first of May?", "2023-05-01/2023-05-02"),
        ("who came on may 8?", "2023-05-08/2023-05-09"),
        ("What is in the log of 2023-05-08?", "2023-05-08/2023-05-09"),
        ("What is in the log of 2023/5/8?", "2023-05-08/2023-05-09"),
        ("What is in the log of 2023-05-08T10:00?", "2023-05-08/2023-05-09"),
        ("What was due in 2023-05?", "2023-05-01/2023-06-01"),
        ("What happened on 05/18/2023?", "2023-05-18/2023-05-19"),
        ("What happened on 18/05/2023?", "2023-05-18/2023-05-19"),
        ("What happened on 8.5.2023?", "2023-05-08/2023-05-09"),
        ("Who visited in May 2022?", "2022-05-01/2022-06-01"),
        ("Who visited in May of 2022?", "2022-05-01/2022-06-01"),
        ("Who visited in May last year?", "2022-05-01/2022-06-01"),
        ("What did I buy in 2022?", "2022-01-01/2023-01-01"),
        ("What did I buy in early 2022?", "2022-01-01/2022-05-03"),
        ("What did I buy in late July 2022?", "2022-07-22/2022-08-01"),
        ("Where did we go in summer 2022?", "2022-06-01/2022-09-01"),
        ("Where did we go in the summer of 2022?", "2022-06-01/2022-09-01"),
        ("Who sang at Christmas 2021?", "2021-12-24/2021-12-27"),
        ("What did we eat on New Year's Eve?", "2022-12-31/2023-01-01"),
        ("Who wrote on Valentine’s Day?", "2023-02-14/2023-02-15"),
        ("Did we paint eggs at Easter 2023?", "2023-04-09/2023-04-11"),
        ("2023년 5월 8일에 뭐 했지?", "2023-05-08/2023-05-09"),
        ("2023년 5월에 뭐 했지?", "2023-05-01/2023-06-01"),
        ("5월 8일에 누굴 만났지?", "2023-05-08/2023-05-09"),
        ("2023年5月8日に何をした？", "2023-05-08/2023-05-09"),
        ("2023年5月8号我做了什么？", "2023-05-08/2023-05-09"),
        ("2022年我买了什么？", "2022-01-01/2023-01-01"),
        ("十二月我去了哪里？", "2022-12-01/2023-01-01"),
    ],
)
def test_a_date_is_a_span_of_whole_days(question: str, expected: str) -> None:
    """A day, month, year, season or holiday that is named is that span."""
    assert spans(question) == [expected]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did I eat yesterday?", "2023-06-14/2023-06-15"),
        ("What did I eat last night?", "2023-06-14/2023-06-15"),
        ("What did I eat the day before yesterday?", "2023-06-13/2023-06-14"),
        ("What did I do last week?", "2023-06-05/2023-06-12"),
        ("What did I cook last weekend?", "2023-06-10/2023-06-12"),
        ("Who came over the weekend, when I was ill?", "2023-06-10/2023-06-12"),
        ("What have I spent this month?", "2023-06-01/2023-07-01"),
        ("What did I spend last month?", "2023-05-01/2023-06-01"),
        ("Where did I live last year?", "2022-01-01/2023-01-01"),
        ("Where did I go last summer?", "2022-06-01/2022-09-01"),
        ("What did I do last May?", "2023-05-01/2023-06-01"),
        ("What did I do last June?", "2022-06-01/2022-07-01"),
        ("What is planned for next July?", "2023-07-01/2023-08-01"),
        ("Who called three days ago?", "2023-06-12/2023-06-13"),
        ("Who called two weeks ago?", "2023-05-28/2023-06-06"),
        ("Who called a few days ago?", "2023-06-09/2023-06-14"),
        ("Who moved three months ago?", "2023-02-28/2023-04-01"),
        ("How often did I run in the last 2 weeks?", "2023-06-01/2023-06-16"),
        ("How often did I run in the past few days?", "2023-06-09/2023-06-16"),
        ("Where did I go last Friday?", "2023-06-09/2023-06-10"),
        ("Who did I meet on Sunday?", "2023-06-11/2023-06-12"),
        ("What did I see the other day?", "2023-06-05/2023-06-15"),
        ("지난주에 뭐 했어?", "2023-06-05/2023-06-12"),
        ("어제 누구 만났지?", "2023-06-14/2023-06-15"),
        ("지난달에 얼마 썼지?", "2023-05-01/2023-06-01"),
        ("작년에 어디 갔었지?", "2022-01-01/2023-01-01"),
        ("3일 전에 뭐 샀지?", "2023-06-12/2023-06-13"),
        ("이틀 전에 뭐 샀지?", "2023-06-13/2023-06-14"),
        ("지난 5월에 어디 갔지?", "2023-05-01/2023-06-01"),
        ("작년 여름에 어디 갔지?", "2022-06-01/2022-09-01"),
        ("지난주 금요일에 뭐 했지?", "2023-06-09/2023-06-10"),
        ("先週どこに行った？", "2023-06-05/2023-06-12"),
        ("昨日誰に会った？", "2023-06-14/2023-06-15"),
        ("先月いくら使った？", "2023-05-01/2023-06-01"),
        ("去年どこに住んでいた？", "2022-01-01/2023-01-01"),
        ("3日前に何を買った？", "2023-06-12/2023-06-13"),
        ("上周我去了哪里？", "2023-06-05/2023-06-12"),
        ("上星期五我见了谁？", "2023-06-09/2023-06-10"),
        ("我上周一起去的地方是哪里？", "2023-06-05/2023-06-12"),
        ("昨天吃了什么？", "2023-06-14/2023-06-15"),
        ("上个月花了多少钱？", "2023-05-01/2023-06-01"),
        ("三天前我做了什么？", "2023-06-12/2023-06-13"),
    ],
)
def test_a_relative_time_is_told_from_now(question: str, expected: str) -> None:
    """Words such as "last week" are spans told from `now`."""
    assert spans(question) == [expected]


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "May I ask what I said?",
        "What may I eat?",
        "Which of the 8 may I take?",
        "Did they march on Rome, and who marched?",
        "Was I second?",
        "Who was the second to come?",
        "What do I usually do on Sunday?",
        "Which shop is open on Sundays?",
        "What did Will do with 5 apples and 12 monkeys?",
        "Is my number 010-2023-0508 or 555-2022?",
        "Do I use Python 3.11 or 3.12.1?",
        "Did I walk home in 2000 steps?",
        "Did April tell June about it?",
        "Who works on Mars?",
        "Did I fall off the horse?",
        "Which spring rolls did I like?",
        "What happened on 05/08/2023?",
        "How many days ago was the fair?",
        "What did I learn at first?",
        "월요일마다 뭐 하지?",
        "나는 몇 개월 동안 배웠지?",
    ],
)
def test_what_only_looks_like_a_time_is_none(question: str) -> None:
    """Verbs, names, numbers, versions, habits and dates of an unknown order name no span."""
    assert spans(question) == []


def test_a_month_without_a_year_is_every_one_within_the_known_time() -> None:
    """With the time of the first and last turn, "in May" is each May in between."""
    assert spans("Where was I in May?", known=KNOWN) == ["2021-05-01/2021-06-01", "2022-05-01/2022-06-01"]
    assert spans("Who came at Christmas?", known=KNOWN) == [
        "2021-12-24/2021-12-27",
        "2022-12-24/2022-12-27",
    ]


def test_a_month_outside_the_known_time_is_the_last_one() -> None:
    """Where the known time holds no such month, it is the last that began by `now`."""
    known = (datetime(2023, 2, 1, tzinfo=UTC), datetime(2023, 3, 1, tzinfo=UTC))
    assert spans("Where was I in May?", known=known) == ["2023-05-01/2023-06-01"]
    assert spans("Where was I in November?", known=known) == ["2022-11-01/2022-12-01"]


def test_a_named_winter_may_have_begun_or_ended_in_its_year() -> None:
    """ "Winter 2022" is both winters that touch the year."""
    assert spans("Did I ski in winter 2022?") == ["2021-12-01/2022-03-01", "2022-12-01/2023-03-01"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did I do between August 3 and August 9, 2022?", "2022-08-03/2022-08-10"),
        ("What did I do between August 3 and 9, 2022?", "2022-08-03/2022-08-10"),
        ("What did I do from March to May 2022?", "2022-03-01/2022-06-01"),
        ("What have I learnt since March?", "2023-03-01/2023-06-15"),
        ("3월부터 뭘 배웠지?", "2023-03-01/2023-06-15"),
        ("What happened after May 8, 2023?", "2023-05-09/2023-06-15"),
    ],
)
def test_two_times_or_an_open_end_make_one_span(question: str, expected: str) -> None:
    """ "Between" and "from … to" join two times; "since" and "after" reach until now."""
    assert spans(question) == [expected]


def test_before_a_time_begins_with_the_first_known_turn() -> None:
    """ "Before" and "by" begin where the turns begin; without that they are the time itself."""
    assert spans("What did I own before July 2021?", known=KNOWN) == ["2021-03-01/2021-07-01"]
    assert spans("How many had I won by July 12, 2021?", known=KNOWN) == ["2021-03-01/2021-07-13"]
    assert spans("How many had I won by July 12, 2021?") == ["2021-07-12/2021-07-13"]


def test_a_time_before_a_date_comes_with_the_date_itself() -> None:
    """What happened a week before a date may have been told on it."""
    assert spans("What did I do the week before 20 November 2022?") == [
        "2022-11-13/2022-11-20",
        "2022-11-20/2022-11-21",
    ]
    assert spans("What did I see on the Monday before October 19, 2022?") == [
        "2022-10-17/2022-10-18",
        "2022-10-19/2022-10-20",
    ]


def test_a_relative_time_beside_a_date_is_told_from_the_date() -> None:
    """ "Last Friday, as told on 20 March 2022" is the Friday before that day."""
    assert spans("Whom did I call last Friday, as told on 20 March 2022?") == [
        "2022-03-18/2022-03-19",
        "2022-03-20/2022-03-21",
    ]


def test_days_are_those_of_the_time_zone_of_now() -> None:
    """Yesterday begins at midnight where `now` is, also when clocks change."""
    seoul = ZoneInfo("Asia/Seoul")
    (span,) = time_spans("What did I eat yesterday?", now=datetime(2023, 6, 15, 1, tzinfo=seoul))
    assert span.start == datetime(2023, 6, 13, 15, tzinfo=UTC)
    berlin = ZoneInfo("Europe/Berlin")
    (span,) = time_spans("What did I eat on 26 March 2023?", now=datetime(2023, 4, 1, tzinfo=berlin))
    assert span.end.timestamp() - span.start.timestamp() == timedelta(hours=23).total_seconds()


def test_every_span_is_in_the_zone_of_now() -> None:
    """Also one that begins with the first known turn, whose time came in another zone."""
    seoul = ZoneInfo("Asia/Seoul")
    (span,) = time_spans("What did I own before July 2021?", now=NOW.astimezone(seoul), known=KNOWN)
    assert span.start == KNOWN[0]
    assert span.start.tzinfo is seoul


def test_times_without_a_zone_are_refused() -> None:
    """Naive datetimes raise an error that names them."""
    with pytest.raises(InvalidInput, match="now"):
        time_spans("yesterday?", now=datetime(2023, 6, 15))  # noqa: DTZ001
    with pytest.raises(InvalidInput, match="known"):
        time_spans("yesterday?", now=NOW, known=(NOW, datetime(2023, 6, 15)))  # noqa: DTZ001


def test_no_calendar_holds_an_impossible_day() -> None:
    """For the 31st of April its month stands; the 29th of February is the 28th in other years than leap years."""
    assert spans("What did I do on 31 April 2022?") == ["2022-04-01/2022-05-01"]
    assert spans("What is in the log of 2022-04-31?") == []
    assert spans("What did I do on 29 February 2023?") == ["2023-02-28/2023-03-01"]
    assert spans("What was here 999 decades ago?") == []


def test_easter_moves_as_it_does() -> None:
    """Easter falls on the right days (years from published calendars)."""
    assert [
        time_words.known().holidays["easter"](year)[0].isoformat() for year in (2000, 2019, 2024, 2038)
    ] == [
        "2000-04-23",
        "2019-04-21",
        "2024-03-31",
        "2038-04-25",
    ]


@pytest.mark.parametrize(
    ("question", "event", "least", "most"),
    [
        ("Who did I see two weeks before the wedding?", "the wedding", -17.5, -10.5),
        ("What did I eat the day after her birthday party?", "her birthday party", 0, 1.5),
        ("The week before I moved to Oslo, did I call?", "I moved to Oslo", -10.5, 0),
        ("Three days after the fair did I call Ann?", "the fair", 2.5, 3.5),
        ("What did I do right after the garden party?", "the garden party", 0, 3),
        ("Who left on the same day as the storm?", "the storm", -1, 1),
        ("결혼식 2주 전에 뭐 했지?", "결혼식", -17.5, -10.5),
        ("여행 이틀 후에 뭐 했지?", "여행", 1.5, 2.5),
        ("結婚式の3日前に何をした？", "結婚式", -3.5, -2.5),
        ("我婚礼前两天做了什么？", "婚礼", -2.5, -1.5),
    ],
)
def test_a_time_told_from_an_event(question: str, event: str, least: float, most: float) -> None:
    """The event's words and the distance from it in days; the calendar has no span for it."""
    offset = relative_event(question)
    assert offset is not None
    assert (offset.event, offset.least, offset.most) == (
        event,
        timedelta(days=least),
        timedelta(days=most),
    )
    assert spans(question) == []


def test_an_event_may_hold_a_date() -> None:
    """The date of an event is a span of its own, beside the distance from it."""
    question = "What did I do two weeks before the wedding in May 2022?"
    offset = relative_event(question)
    assert offset is not None
    assert offset.event == "the wedding in May 2022"
    assert spans(question) == ["2022-05-01/2022-06-01"]


@pytest.mark.parametrize(
    "question",
    [
        "What did I do before the wedding?",
        "How many days before the fair did I call?",
        "Was it two days before Christmas?",
        "Was it two days before May 5, 2023?",
        "What did I do the day before yesterday?",
        "What did I do a week before that?",
        "What did I do two weeks ago?",
        "내가 3일 전에 뭐 먹었지?",
        "",
    ],
)
def test_no_event_to_tell_a_time_from(question: str) -> None:
    """A date is no event, nor is a pronoun; without a distance there is nothing to tell."""
    assert relative_event(question) is None


@given(st.text(max_size=300))
def test_any_text_has_spans_that_end_after_they_begin(question: str) -> None:
    """Whatever is asked: no error, at most 24 spans, each of some length."""
    found = time_spans(question, now=NOW, known=KNOWN)
    assert len(found) <= 24
    assert all(span.start < span.end for span in found)
    relative_event(question)


WORDS = sorted(
    frozenset(
        [
            "since",
            "before",
            "between",
            "and",
            "from",
            "to",
            "by",
            "last",
            "next",
            "this",
            "in",
            "on",
            "the",
            "two",
            "few",
            "days",
            "weeks",
            "May",
            "8",
            "31",
            "2023",
            "summer",
            "Friday",
            "ago",
            "week",
            "after",
            "Christmas",
            "지난",
            "3월",
            "부터",
            "上周",
            "三",
            "天",
            "前",
            "wedding",
            ",",
            "12/13/2022",
        ]
    )
)


@given(st.lists(st.sampled_from(WORDS), max_size=14), st.datetimes(timezones=st.just(UTC)))
def test_any_mix_of_time_words_at_any_time_is_understood(chosen: list[str], now: datetime) -> None:
    """Words of times in any order and at any time of the calendar raise no error."""
    for span in time_spans(" ".join(chosen), now=now, known=(now, now)):
        assert span.start < span.end
    relative_event(" ".join(chosen))


def test_only_the_first_2000_characters_are_read() -> None:
    """A time behind them is not found, and a very long question is no burden."""
    assert spans("a " * 1_000 + "yesterday") == []
    for word in ("two weeks before ", "1 may ", "in the last ", "지난 ", "二", "é", "12/12/2022 "):
        time_spans(word * (100_000 // len(word)), now=NOW, known=KNOWN)
        relative_event(word * (100_000 // len(word)))


DAY_SPAN = TimeSpan(
    start=datetime(2023, 5, 8, tzinfo=UTC), end=datetime(2023, 5, 9, tzinfo=UTC), precision="day"
)
MONTH_SPAN = TimeSpan(
    start=datetime(2023, 3, 1, tzinfo=UTC), end=datetime(2023, 4, 1, tzinfo=UTC), precision="month"
)


def seconds(*days: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Times so many days after the day began."""
    return DAY_SPAN.start.timestamp() + 86_400 * np.array(days, np.float64)


def test_the_fit_is_one_inside_and_falls_more_slowly_afterwards() -> None:
    """exp(-1) one length before the span, and three lengths after it."""
    fit = span_match(seconds(0, 0.5, 1, -1, 4, 2), [DAY_SPAN])
    assert fit.dtype == np.float32
    assert fit.tolist() == pytest.approx([1, 1, 1, np.exp(-1), np.exp(-1), np.exp(-1 / 3)])


def test_the_nearest_span_counts() -> None:
    """With two spans a turn fits as well as with the better one."""
    times = seconds(-60, -3, 0, 30)
    both = span_match(times, [DAY_SPAN, MONTH_SPAN])
    each = [span_match(times, [span]) for span in (DAY_SPAN, MONTH_SPAN)]
    np.testing.assert_array_equal(both, np.maximum(*each))


def test_nothing_fits_without_spans_or_without_a_time() -> None:
    """Zeros without spans and for times that are not finite; empty for no times."""
    assert span_match(seconds(0, 1), []).tolist() == [0, 0]
    assert span_match(np.array([np.nan, np.inf]), [DAY_SPAN]).tolist() == [0, 0]
    assert span_match(np.array([], np.float64), [DAY_SPAN]).shape == (0,)


@given(st.lists(st.floats(-1e11, 1e11), min_size=1, max_size=20), st.floats(1, 10))
def test_the_fit_is_bounded_and_falls_with_distance(times: list[float], later: float) -> None:
    """Between 0 and 1; never rising away from the span, on either side."""
    at = np.sort(np.array(times, np.float64))
    fit = span_match(at, [DAY_SPAN], later=later)
    assert np.all((fit >= 0) & (fit <= 1))
    before, after = at <= DAY_SPAN.start.timestamp(), at >= DAY_SPAN.end.timestamp()
    assert np.all(np.diff(fit[before]) >= 0)
    assert np.all(np.diff(fit[after]) <= 0)
