"""What a text shows at a glance, for search: whether it asks, tells a time, counts, speaks of its speaker, names things.

A question for a time is more likely answered by a turn that tells one. The rules are few and coarse on purpose: they
only add to a score (`recall.fuse`), and what each is worth is in `docs/benchmarks.md`. English, with Korean, Japanese
and Chinese where the script decides; names are told by their capitals, so scripts without them name nothing.
"""

from __future__ import annotations

from typing import Final

import regex

from memory_agent.domain import Signs
from memory_agent.lazily import lazily
from memory_agent.text.english.words import MONTHS, WEEKDAYS

READ_CHARS: Final = 4_000
"""How much of a text is looked at, from its beginning."""

_ASKS: Final = lazily(regex.compile, r"[?？؟]\W*\Z")
# "May" is a verb too.
_DATES: Final = "|".join(name for name in (*MONTHS, *WEEKDAYS) if name != "May").casefold()
_TIME: Final = lazily(
    regex.compile,
    rf"""\b(?:yesterday|today|tonight|tomorrow|last|next|ago|recently|just|since|{_DATES}|\d{{4}}
    |(?:years?|months?|weeks?|weekends?)
    |this\ (?:morning|afternoon|evening|spring|summer|autumn|fall|winter)
    |for\ (?:\w+\ )?days?)\b
    |\d\ ?[年月日년월일]|昨日|昨天|今日|今天|明日|明天|先週|先月|去年|来週|上周|上星期|上个月|下周|어제|오늘|내일|지난|작년|다음\ ?[주달해]|[년달주일]\ ?전""",
    regex.VERBOSE | regex.IGNORECASE,
)
_NUMBER: Final = lazily(
    regex.compile,
    r"""\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twice|once|couple|few|several|dozen|first|second|third)\b
    |\p{Nd}|[一二三四五六七八九十百千]\p{Han}|[한두세네몇]\ ?[번개명마리살]""",
    regex.VERBOSE | regex.IGNORECASE,
)
_SELF: Final = lazily(
    regex.compile,
    r"\b(?:i|my|me|mine|we|our|us)\b|(?<!\p{Hangul})(?:나|내|저|제|우리)(?:[는도가를의]|희)?(?!\p{Hangul})|私|僕|俺|我",
    regex.IGNORECASE,
)
# A capital that no sentence's beginning explains; "I" alone names nobody.
_NAME: Final = lazily(regex.compile, r"(?<![.!?:\n]\s)(?<!\A)(?<![\p{L}\p{N}'’])\p{Lu}[\p{L}\p{M}]+")
_MOST_NAMES: Final = 3


def signs_of(text: str) -> Signs:
    """The signs of one turn's text, of which the first `READ_CHARS` characters are read and the end for a question.

    >>> signs_of("We flew to Lisbon last week.")
    Signs(asks=False, tells_when=True, counts=False, of_self=True, names=1)
    """
    head = text[:READ_CHARS]
    names = 0
    for _ in _NAME.finditer(head):
        names += 1
        if names == _MOST_NAMES:
            break
    return Signs(
        asks=_ASKS.search(text[-40:]) is not None,
        tells_when=_TIME.search(head) is not None,
        counts=_NUMBER.search(head) is not None,
        of_self=_SELF.search(head) is not None,
        names=names,
    )
