"""The words and patterns by which `recall.dates` reads times: names of months, seasons, holidays, units, numbers."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.english.words import MONTHS as ENGLISH_MONTHS
from memory_agent.text.english.words import WEEKDAYS
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MONTHS: Final = (
    {month.casefold(): number for number, month in enumerate(ENGLISH_MONTHS, start=1)}
    | {month[:3].casefold(): number for number, month in enumerate(ENGLISH_MONTHS, start=1)}
    | {"sept": 9}
)
SHORT_MONTHS: Final = word_set("jan feb mar apr jun jul aug sep sept oct nov dec")
# What is no other word, no first name and no planet: a month even without "in" before it.
CLEAR_MONTHS: Final = word_set("january february july september october november december")
FIRST_NAMES: Final = word_set("april may june august jan")
VERB_MONTHS: Final = word_set("may march mar")
_A_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))

SEASONS: Final = {"spring": 3, "summer": 6, "summertime": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The first month of each; it has three."""

LEADS_OF_ANY_MONTH: Final = word_set("in during last this next past previous since")
LEADS_OF_SEASONS: Final = LEADS_OF_ANY_MONTH | word_set("by until till before after for over of")
LEADS_OF_TIME: Final = LEADS_OF_ANY_MONTH | word_set(
    "by until till before after from between for over of and to"
)

RELATIVE: Final = {"last": -1, "previous": -1, "past": -1, "this": 0, "that": 0, "next": 1}


def _fixed(month: int, day: int, days: int = 1) -> Callable[[int], tuple[date, date]]:
    return lambda year: (date(year, month, day), date(year, month, day) + timedelta(days=days - 1))


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


HOLIDAYS: Final[dict[str, Callable[[int], tuple[date, date]]]] = {
    "christmas": _fixed(12, 24, 3),
    "xmas": _fixed(12, 24, 3),
    "christmas eve": _fixed(12, 24),
    "christmas day": _fixed(12, 25),
    "boxing day": _fixed(12, 26),
    "new year's eve": _fixed(12, 31),
    "new years eve": _fixed(12, 31),
    "new year's day": _fixed(1, 1),
    "new year's": _fixed(1, 1),
    "valentine's day": _fixed(2, 14),
    "valentines day": _fixed(2, 14),
    "valentine's": _fixed(2, 14),
    "halloween": _fixed(10, 31),
    "easter": _easter,
}
"""First and last day in a year. Those that most countries share; feasts by the moon are left out."""

_YEAR: Final = r"(?P<year>(?:19|20)\d{2})(?!\d|[.,:/-]\d)"
_DAY: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_TH: Final = r"(?:st|nd|rd|th)?"
_TO_LAST: Final = rf"(?:[ ]?(?:-|–|to|and|&)[ ]?(?P<last>{_DAY}){_TH})?"
ORDINALS: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}

MONTH_DAY: Final = lazily(
    re.compile,
    rf"\b(?P<month>{_A_MONTH})\b\.?[ ](?:the[ ])?(?P<day>{_DAY}){_TH}\b{_TO_LAST}(?![\d%€$]|[.:,]\d\b|-\d)(?:,?[ ]?{_YEAR})?",
    re.IGNORECASE,
)
DAY_MONTH: Final = lazily(
    re.compile,
    rf"(?<![\w.,:/$€-])(?:(?P<day>{_DAY}){_TH}\.?{_TO_LAST}\.?(?:[ ]of)?|(?<=the[ ])(?P<word>{'|'.join(ORDINALS)})[ ]of)"
    rf"[ ]?(?P<month>{_A_MONTH})\b(?![ ](?:i|we|you|he|she|they|it|be|have|not)\b)\.?(?:,?[ ]?(?:of[ ])?{_YEAR})?",
    re.IGNORECASE,
)
BEFORE_LOWER_MONTH: Final = lazily(
    re.compile,
    r"\b(?:on|in|of|since|by|before|after|until|till|from|to|and|between|last|this|next|the|during)[ ]$",
    re.IGNORECASE,
)
_NOT_IN_NUMBER: Final = r"(?<![\w.,:/+-])"
ISO: Final = lazily(
    re.compile,
    rf"{_NOT_IN_NUMBER}(?P<year>(?:19|20)\d{{2}})(?:(?P<sep>[-/.])(?P<month>0?[1-9]|1[0-2])(?P=sep)(?P<day>{_DAY})"
    r"|-(?P<only>0[1-9]|1[0-2]))(?:T\d{2}:\d{2}(?::\d{2})?(?:\.\d{1,6})?Z?)?(?![\w/-]|\.\d)",
)
TWO_AND_YEAR: Final = lazily(
    re.compile,
    rf"{_NOT_IN_NUMBER}(?P<first>\d{{1,2}})(?P<sep>[./-])(?P<second>\d{{1,2}})(?P=sep)(?P<year>(?:19|20)\d{{2}})(?![\w/-]|\.\d)",
)

_NAMES: Final = "|".join(
    re.escape(name) for name in sorted({*MONTHS, *SEASONS, *HOLIDAYS}, key=len, reverse=True)
)
NAMED: Final = lazily(
    re.compile,
    rf"\b(?P<name>{_NAMES})\b(?!-\w)(?:'s(?=[ ](?:last|this|next)\b))?"
    rf"(?:,?[ ](?:(?:of|in)[ ])?(?:{_YEAR}|(?P<rel>last|this|that|next)[ ]year\b))?",
    re.IGNORECASE,
)
_PART: Final = (
    r"(?:early|late|mid|(?:beginning|start|end|middle)[ ](?:of|in)|(?:first|second)[ ]half[ ](?:of|in)"
    r"|(?:first|second|third|fourth|last)[ ]week[ ](?:of|in))"
)
BEFORE_NAME: Final = lazily(
    re.compile,
    rf"(?:\b(?P<lead>{'|'.join(sorted(LEADS_OF_TIME))})[ ](?:the[ ])?)?(?:\b(?P<part>{_PART})[ -](?:the[ ])?)?$",
    re.IGNORECASE,
)
PARTS: Final = {
    "early": (0.0, 1 / 3), "beginning": (0.0, 1 / 3), "start": (0.0, 1 / 3),
    "mid": (1 / 3, 2 / 3), "middle": (1 / 3, 2 / 3),
    "late": (2 / 3, 1.0), "end": (2 / 3, 1.0),
    "first half": (0.0, 0.5), "second half": (0.5, 1.0),
    "first week": (0.0, 0.25), "second week": (0.23, 0.5), "third week": (0.45, 0.75), "fourth week": (0.68, 1.0),
    "last week": (0.75, 1.0),
}  # fmt: skip
"""From which to which part of the span a word in front of it leads."""

# Not "in 2000 steps": a year is followed by no unit of something else.
_NO_UNIT: Final = (
    r"(?![ ]?(?:words?|steps?|miles?|km|meters?|metres?|dollars?|euros?|won|people|calories|hours?|minutes?|days?|pages?"
    r"|points?|feet|square|kg|lbs?|pounds?|times|%|°)\b)"
)
YEAR: Final = lazily(
    re.compile,
    rf"\b(?:(?P<part>early|late|mid|(?:beginning|start|end|middle)[ ]of|(?:first|second)[ ]half[ ]of)[ -])?"
    rf"(?P<lead>in|of|during|since|year|until|till|by|before|after|from|between|and|to|early|late|mid)[ -]"
    rf"(?:the[ ]year[ ])?{_YEAR}{_NO_UNIT}",
    re.IGNORECASE,
)

WEEKDAY_NUMBERS: Final = {
    name: number
    for names in (
        " ".join(WEEKDAYS).casefold(),
        "월 화 수 목 금 토 일",
        "月 火 水 木 金 土 日",
        "一 二 三 四 五 六 天",
    )
    for number, name in enumerate(names.split())
}
_A_WEEKDAY: Final = "|".join(name for name in WEEKDAY_NUMBERS if name.isascii())
WEEKDAY: Final = lazily(
    re.compile,
    rf"\b(?P<lead>last|this[ ]past|this|past|next|on)[ ](?P<day>{_A_WEEKDAY})\b(?!'s)",
    re.IGNORECASE,
)
PAST: Final = lazily(re.compile, r"\b(?:did|was|were|had|didn't|wasn't|weren't)\b", re.IGNORECASE)
HABIT: Final = lazily(
    re.compile, r"\b(?:usually|always|every|each|normally|typically|often|used to|regularly)\b", re.IGNORECASE
)

# Units: days of each, from the shortest; months and years of the Gregorian calendar on average.
UNIT_DAYS: Final = {
    "hour": 1 / 24, "day": 1.0, "week": 7.0, "weekend": 7.0, "month": 30.436875, "year": 365.2425, "decade": 3652.425,
}  # fmt: skip
_UNIT_WORDS: Final = {
    "hour": "hour hours 시간 時間 小时 小時 个小时 個小時",
    "day": "day days night nights evening morning 일 날 日 天",
    "week": "week weeks 주 주일 週間 周 週 个星期 個星期 个礼拜 個禮拜 星期",
    "weekend": "weekend weekends",
    "month": "month months 달 개월 ヶ月 か月 カ月 ヵ月 个月 個月",
    "year": "year years 년 해 年",
    "decade": "decade decades",
}
UNITS: Final = {word: unit for unit, names in _UNIT_WORDS.items() for word in names.split()}


def _alternatives(names: Iterable[str], *, ascii_only: bool | None = None) -> str:
    """The names as alternatives of a pattern, the longest first; Latin or Asian ones only, if asked."""
    chosen = [name for name in names if ascii_only is None or (name[0] < "ᄀ") == ascii_only]
    return "|".join(re.escape(name) for name in sorted(chosen, key=len, reverse=True))


_NUMBER_WORDS: Final = (
    "zero", "a an one 一 한", "two 二 两 兩 두", "three 三 세", "four 四 네", "five 五 다섯", "six 六 여섯", "seven 七 일곱",
    "eight 八 여덟", "nine 九 아홉", "ten 十 열", "eleven", "twelve",
)  # fmt: skip
_NUMBERS: Final = {word: value for value, names in enumerate(_NUMBER_WORDS) for word in names.split()}
_VAGUE: Final = {
    "few": (2, 6), "several": (3, 8), "some": (2, 8), "couple": (2, 3),
    "몇": (2, 6), "数": (2, 6), "數": (2, 6), "几": (2, 6), "幾": (2, 6),
}  # fmt: skip
"""From how many to how many such a word means, about."""
_LATIN_NUMBER: Final = rf"(?:\d{{1,3}}|(?:a[ ])?(?:few|couple(?:[ ]of)?)|{_alternatives({*_NUMBERS, *_VAGUE} - {'few', 'couple'}, ascii_only=True)})"
_LATIN_UNIT: Final = _alternatives(UNITS, ascii_only=True)
_ASIAN_NUMBER: Final = rf"(?:\d{{1,3}}|[一二三四五六七八九十]{{1,3}}|{_alternatives({*_NUMBERS, *_VAGUE} - set('一二三四五六七八九十'), ascii_only=False)})"
_ASIAN_UNIT: Final = _alternatives(UNITS, ascii_only=False)

AGO: Final = lazily(
    re.compile,
    rf"\b(?P<n>{_LATIN_NUMBER})[ ](?P<unit>{_LATIN_UNIT})[ ](?:ago|back)\b"
    rf"|\b(?P<half>half a year ago)\b",
    re.IGNORECASE,
)
ASIAN_AGO: Final = lazily(
    re.compile,
    rf"(?<![\d.])(?P<n>{_ASIAN_NUMBER})[ ]?(?P<unit>{_ASIAN_UNIT})[ ]?(?:정도|쯤|ほど|くらい|ぐらい|多)?[ ]?(?:전(?![체부화자혀])|前|以前|之前)"
    r"|(?P<word>하루|이틀|사흘|나흘|열흘|일주일|보름|며칠|半年)[ ]?(?:전(?![체부])|前|以前|之前)",
)
WORDS_AGO: Final = {
    "하루": (1, "day"), "이틀": (2, "day"), "사흘": (3, "day"), "나흘": (4, "day"), "열흘": (10, "day"), "일주일": (1, "week"),
    "보름": (15, "day"), "며칠": (4, "day"), "半年": (6, "month"), "half a year ago": (6, "month"),
}  # fmt: skip
WITHIN: Final = lazily(
    re.compile,
    rf"\b(?:(?:the|these)[ ])?(?:last|past|previous)[ ](?P<n>{_LATIN_NUMBER})[ ](?P<unit>{_LATIN_UNIT})\b"
    r"|\b(?:the|this)[ ](?:last|past)[ ](?P<unit2>week|month|year)\b(?![ ]of)"
    rf"|(?:지난|최근|過去|过去|最近|近)[ ]?(?P<n3>{_ASIAN_NUMBER})[ ]?(?P<unit3>{_ASIAN_UNIT})",
    re.IGNORECASE,
)

_PERIOD_WORDS: Final = {
    ("day", 0): "today|tonight|this morning|this afternoon|this evening|오늘|今日|今天",
    (
        "day",
        -1,
    ): "yesterday|last night|어제|어젯밤|昨日|きのう|昨夜|昨晩|昨天|昨晚",
    ("day", -2): "the day before yesterday|그저께|그제|一昨日|おととい|前天",
    ("day", 1): "tomorrow|내일|明日|明天",
    ("day", 2): "the day after tomorrow|모레|明後日|后天|後天",
    (
        "week",
        0,
    ): "this week|이번 주|이번주|今週|本周|本週|这周|這週|这个星期|這個星期",
    (
        "week",
        -1,
    ): "last week|previous week"
    "|지난주|지난 주|저번 주|저번주|先週|上周|上週|上星期|上个星期|上個星期|上礼拜|上个礼拜",
    ("week", -2): "the week before last|지지난주|지지난 주|先々週|上上周|上上週",
    ("week", 1): "next week|다음 주|다음주|来週|下周|下週|下个星期",
    ("weekend", 0): "this weekend|the weekend|이번 주말|今週末|这周末|這週末|本周末",
    (
        "weekend",
        -1,
    ): "last weekend|this past weekend|past weekend|previous weekend"
    "|지난주말|지난 주말|저번 주말|先週末|上周末|上週末|上个周末",
    ("weekend", 1): "next weekend|다음 주말|来週末|下周末",
    ("month", 0): "this month|이번 달|이번달|今月|这个月|這個月|本月",
    (
        "month",
        -1,
    ): "last month|previous month|지난달|지난 달|저번 달|저번달|先月|上个月|上個月|上月",
    ("month", -2): "the month before last|지지난달|先々月|上上个月",
    ("month", 1): "next month|다음 달|다음달|来月|下个月|下個月|下月",
    ("year", 0): "this year|올해|今年",
    (
        "year",
        -1,
    ): "last year|previous year|작년|지난해|去年|昨年",
    ("year", -2): "the year before last|재작년|一昨年|前年",
    ("year", 1): "next year|내년|来年|來年|明年",
}
PERIODS: Final = {word: period for period, names in _PERIOD_WORDS.items() for word in names.split("|")}
PERIOD: Final = lazily(
    re.compile,
    # 一起 after 上周 is no Monday.
    rf"\b(?P<latin>{_alternatives(PERIODS, ascii_only=True)})\b(?!'s[ ]eve)"
    rf"|(?P<asian>{_alternatives(PERIODS, ascii_only=False)})"
    r"(?:[ ]?[の的]?(?P<weekday>[一二三四五六天](?![起直样樣些个個般])|日(?=[我你他她去的]|$)|[月火水木金土日](?=曜)|[월화수목금토일](?=요일)))?",
    re.IGNORECASE,
)
THE_OTHER_DAY: Final = lazily(
    re.compile, r"\bthe other (?:day|night|week)\b|엊그제|この前|前几天|前幾天", re.IGNORECASE
)

CJK_YEARS: Final = {
    word: offset
    for word, (unit, offset) in PERIODS.items()
    if unit == "year" and not word.isascii() and word[0] >= "ᄀ"
}
_CJK_SEASON_WORDS: Final = {
    "spring": "春天 春季 春 봄", "summer": "夏天 夏季 夏 여름", "autumn": "秋天 秋季 秋 가을", "winter": "冬天 冬季 冬 겨울",
    "christmas": "クリスマス 圣诞节 聖誕節 圣诞 크리스마스 성탄절", "new year's eve": "大晦日 跨年夜", "new year's day": "元旦 元日 새해 첫날",
    "valentine's day": "バレンタイン 情人节 情人節 발렌타인데이 밸런타인데이", "halloween": "ハロウィン 万圣节 할로윈 핼러윈",
}  # fmt: skip
CJK_NAMES: Final = {word: name for name, names in _CJK_SEASON_WORDS.items() for word in names.split()}
_CJK_MONTH: Final = r"(?:\d{1,2}|十[一二]?|[一二三四五六七八九])"
_CJK_DAY: Final = r"(?:\d{1,2}|三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九])"
CJK_DATE: Final = lazily(
    re.compile,
    rf"(?:(?<![\d.,])(?P<year>(?:19|20)\d{{2}})[ ]?[年년](?![前전間间])|(?P<rel>{_alternatives(CJK_YEARS)}))[ ]?[の的]?[ ]?"
    rf"(?:(?P<month>{_CJK_MONTH})[ ]?[月월](?!曜|요)(?:[ ]?(?P<day>{_CJK_DAY})[ ]?[日号號일])?|(?P<name>{_alternatives(CJK_NAMES)}))?"
    rf"|(?P<lead>지난|この前の|上个|上個)?[ ]?(?:(?<![\d.,一二三四五六七八九十])(?P<month2>{_CJK_MONTH})[ ]?[月월](?!曜|요)"
    rf"(?:[ ]?(?P<day2>{_CJK_DAY})[ ]?[日号號일])?|(?<![가-힣])(?P<name2>{_alternatives(name for name in CJK_NAMES if len(name) > 1 or name == '봄')})(?![가-힣]{{3}}))",
)


def number(text: str) -> int | None:
    """A number in digits or words ("3", "two", "a couple of", "十二"); None for what is none or vague."""
    low = text.casefold().removeprefix("a ").removesuffix(" of") if len(text) > 2 else text.casefold()
    if low.isdigit():
        return int(low)
    if low in _NUMBERS:
        return _NUMBERS[low]
    tens, ten, ones = low.partition("十")
    if ten and all(not part or part in _NUMBERS for part in (tens, ones)):
        return 10 * _NUMBERS.get(tens, 1) + _NUMBERS.get(ones, 0)
    return None


def amount(text: str) -> tuple[float, float] | None:
    """From how many to how many `text` means: n - 1/2 to n + 1/2 for a number, wider for "a few"."""
    low = text.casefold().removeprefix("a ").removesuffix(" of") if len(text) > 2 else text.casefold()
    if low in _VAGUE:
        least, most = _VAGUE[low]
    elif (n := number(low)) is not None:
        least = most = n
    else:
        return None
    return least - 0.5, most + 0.5


_WAY: Final = r"(?P<way>before|after|prior[ ]to|following)"
OFFSET: Final = lazily(
    re.compile,
    rf"\b(?:(?P<n>{_LATIN_NUMBER}|the|that|one)[ ](?P<unit>{_LATIN_UNIT}|{_A_WEEKDAY})|(?P<soon>right|shortly|soon|just|immediately))[ ]{_WAY}[ ]",
    re.IGNORECASE,
)
SAME: Final = lazily(
    re.compile, r"\b(?:the[ ])?same[ ](?P<unit>day|week|weekend|month|year)[ ](?:as|of)[ ]", re.IGNORECASE
)
ASIAN_OFFSET: Final = lazily(
    re.compile,
    rf"(?P<ja>[\w]{{2,20}})の(?P<n>{_ASIAN_NUMBER})(?P<unit>{_ASIAN_UNIT})(?P<way>前|後)"
    rf"|(?:^|[\s,，])(?:我们|我|你|他|她|在){{0,3}}(?P<zh>(?![我你他她在])[㐀-鿿]{{2,10}}?)(?P<way2>前|后|後)(?P<n2>{_ASIAN_NUMBER})(?P<unit2>{_ASIAN_UNIT})"
    rf"|(?P<ko>[가-힣]{{1,10}}[기식]|[가-힣]{{0,10}}(?:파티|여행|시험|면접|회의|결혼|수술|졸업|이사|휴가|축제|행사|대회|공연|발표|생일))[ ]"
    rf"(?:(?P<n3>{_ASIAN_NUMBER})[ ]?(?P<unit3>{_ASIAN_UNIT})|(?P<word>하루|이틀|사흘|나흘|열흘|일주일|보름))[ ]?(?P<way3>전|후|뒤)",
)
EVENT: Final = lazily(re.compile, r"[^?.!,;:\n_]{2,80}")
EVENT_END: Final = lazily(
    re.compile,
    r"[ ](?:(?:did|do|does|was|were|is|are|has|have|had|will|would|could|can|should)[ ]"
    r"(?:(?i:i|you|we|he|she|it|they|my|the|there)|[A-Z]\w{1,30})\b|(?:what|where|who|when|how|why|which)\b).{0,80}$",
)
NO_EVENT: Final = word_set(
    "that this it then now him me us them you yesterday today tomorrow last next ago 我 我们 你 他 她 それ その これ 从"
)
DEFINITE: Final = word_set("the that one")
AFTER: Final = word_set("after following 後 后 후 뒤")
CONNECTORS: Final = word_set("and to until till through or - – , &")

_OPEN_END: Final = lazily(
    re.compile,
    r"(?:(?P<unit>_|\bdays?|nights?|weeks?|weekends?|months?|years?|[a-z]{3,6}day)[ ])?"
    r"\b(?P<lead>since|before|after|until|till|by|between|from)[ ](?:the[ ])?$",
    re.IGNORECASE,
)
_SINCE: Final = ("부터", " 이후", "から", "以来", "以來", "以降", "开始", "開始")
_OPEN_LEADS: Final = {
    "until": "by",
    "till": "by",
    "between": "from",
}


def open_end(before: str, after: str) -> str:
    """ "since", "before", "after", "by" or "from" if the text before a time (or behind it) opens it so; else empty."""
    if after.startswith(_SINCE):
        return "since"
    match = _OPEN_END.search(before)
    if match is None or match["unit"]:  # "two weeks before August": told from it, not open
        return ""
    lead = match["lead"].casefold()
    return _OPEN_LEADS.get(lead, lead)


def first_group(match: re.Match[str], name: str) -> str:
    """What the first group of `name`, `name`2, `name`3 … took that took anything; empty if none did."""
    return next(
        (text for group, text in match.groupdict().items() if text and group.rstrip("23") == name), ""
    )
