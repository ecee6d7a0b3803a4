"""Which Korean sentences ask, with or without a question mark: by their endings."""

from __future__ import annotations

import re
from typing import Final

from memory_agent.lazily import lazily
from memory_agent.text.word_set import word_set

_READ: Final = 120
_END_CHARS: Final = 12
_LAST: Final = frozenset("요니냐야데지죠임라때해내래까돼라어했")
_REQUEST_CUES: Final = ("줘", "주", "줄", "달라", "궁금", "물어", "여쭤")
_TAIL: Final = lazily(re.compile, r"[^가-힣a-z0-9]+$")
_BIEUP, _RIEUL, _NIEUN = (
    17,
    8,
    4,
)  # the place of a final consonant among the 28 of a Hangul syllable (Unicode 3.12)
_WHAT: Final = ("뭐", "뭘", "무엇을")
_SPACES: Final = ("", " ")
_ENDINGS: Final = frozenset(
    (
        *word_set(
            "는가요 인가요 던가요 는지요 을까 을까요 일까 일까요 느냐 뭔데 뭔가요 어때 어때요 어떠세요 어떤가요"
        ),
        *(f"왜{space}{end}" for space in _SPACES for end in word_set("이래 이래요 그래 그래요 저래")),
        *(
            f"{stem}니"
            for stem in word_set(
                "했 었 았 였 겠 있 없 됐 갔 왔 봤 셨 하 먹 좋 괜찮 싫 맞 되 아프 그렇 어떻 모르 알"
            )
        ),
        *(
            f"{word}{end}"
            for word in ("몇 시", *word_set("뭐 뭘 누구 어디 언제 얼마 무엇 며칠 몇시 왜"))
            for end in word_set("야 예요 에요 이에요 이야 인데 죠 지 임 더라")
        ),
        *(
            f"어떻게{space}{end}"
            for space in _SPACES
            for end in word_set("해 해요 하지 하죠 돼 돼요 지내 지내요 생각해 생각해요")
        ),
        *(
            f"{what}{space}{end}"
            for what in _WHAT
            for space in _SPACES
            for end in word_set("해 해요 하지 하죠 먹지 했어 했어요 할래")
        ),
    )
)
_ENDING_CHARS: Final = range(2, 1 + max(len(ending) for ending in _ENDINGS))
# 눈물이 나요, 끝나요, 만나요 and the like state something.
_NO_QUESTION_BEFORE_NAYO: Final = frozenset("눈물각가이열끝만떠어신화겁혼빛 ")
_REQUEST: Final = lazily(
    re.compile,
    r"(?:알려|가르쳐|설명해|말해|추천해) ?(?:줘|줄래|주세요|주실|주시|줄 수|달라)|(?:이|가|지|게|점이|도) (?:많이 |정말 |너무 |좀 )?궁금(?:해|합|하|한)"
    r"|(?:여쭤|물어) ?(?:볼게|볼께|봐도|보고 싶|볼 게|볼 것)",
)
_WHY: Final = lazily(
    re.compile,
    r"(?:근데 |그런데 |아니 |그럼 )?(?:왜|어떻게|언제|어디서|어디로|어디에|누가|무슨|어떤|몇) .{1,80}(?:어|아|해|야|지|돼|래|요|데|거야|건데|죠)$",
)
_NO_WHY: Final = lazily(
    re.compile, r"모르|든지|든 |라도|언제나|왜냐|어떤 (?:사람|것|면|때)|는지 (?:알|이해)|알아요$|기억"
)


def asks(low: str) -> bool:
    """Whether a sentence without a question mark asks: by its ending (-까요, -나요, -니, -냐) or a request."""
    plain = low[-_READ:]
    if not "가" <= plain[-1:] <= "힣":
        plain = _TAIL.sub("", plain)
    if not plain:
        return False
    end = plain[-_END_CHARS:]
    if end[-1] in _LAST and (_formal_or_deliberating(plain) or _ends_asking(end)):
        return True
    if any(cue in plain for cue in _REQUEST_CUES) and _REQUEST.search(plain):
        return True
    return _WHY.match(plain) is not None and not _NO_WHY.search(plain)


def _ends_asking(end: str) -> bool:
    if end.endswith("나요"):
        return len(end) > 2 and end[-3] not in _NO_QUESTION_BEFORE_NAYO
    if end.endswith("냐"):
        return not end.endswith(("케냐", "루냐"))
    return any(end[-size:] in _ENDINGS for size in _ENDING_CHARS)


def _formal_or_deliberating(plain: str) -> bool:
    """-ㅂ니까, -ㄹ까(요), -ㄴ가요: told from -니까 (because) by the final consonant before them."""
    for ending, final in (("니까", _BIEUP), ("까", _RIEUL), ("까요", _RIEUL), ("가요", _NIEUN)):
        if plain.endswith(ending) and len(plain) > len(ending):
            before = ord(plain[-len(ending) - 1])
            # "친한가요" asks; "인가요" is a copula; a noun before the verb "to go" is parted by a space or a particle.
            if 0xAC00 <= before <= 0xD7A3 and (before - 0xAC00) % 28 == final:
                return True
    return False
