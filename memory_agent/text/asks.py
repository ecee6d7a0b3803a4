"""Which sentences ask, with or without a question mark, in English and Korean.

Works on lower-case sentences of bounded length (`recall.sentences`), from which code, links and quotes are blanked.
"""

from __future__ import annotations

import re
from typing import Final

from memory_agent.text.word_set import word_set

_AUXILIARY: Final = (
    r"(?:is|are|am|was|were|do|does|did|can|could|should|would|will|shall|have|has|had"
    r"|isn't|aren't|don't|doesn't|didn't|can't|won't|wouldn't|shouldn't)"
)
_SUBJECT: Final = (
    r"(?:i|you|we|he|she|it|they|this|that|these|those|there|the|my|your|our|his|her|their|any\w*|some\w*)"
)
_LEAD: Final = r"(?:(?:so|and|but|or|well|ok|okay|oh|hey|hi|hmm|um|also|then|wait|sorry|please|now|yes|no|right|anyway),?[ ]){0,3}"

_ENGLISH: Final = re.compile(
    rf"""{_LEAD}(?:
      (?:what|why|how|when|where|who|whom)(?:'s|'re|'d|'ll)\ (?!the\ point\b)(?![^,]{{1,60}}\ is\ )\w
    | (?:what|why|where|who|whom|whose|how)\ {_AUXILIARY}\b(?!\ (?:\w+\ ){{0,6}}is\ )
    | when\ {_AUXILIARY}\ {_SUBJECT}\b
    | (?:what|which)\ [a-z-]{{2,20}}\ (?!is\ why\b){_AUXILIARY}\ {_SUBJECT}\b
    | how\ (?:many|much|often|long|old|far|big|fast|soon|likely)\ (?:[a-z]+\ ){{0,3}}{_AUXILIARY}\b
    | who\ (?!knows|cares|says|would)[a-z]+\ (?:this|that|the|it|you|me|my)\b
    | which\ (?:is|are)\ (?:the\ )?(?:better|best|right|correct|faster|cheaper|more|worse|easier)\b
    | (?:what|how|who|why|where|when)\ (?:now|so|else|though|exactly|next)\W*$
    | got\ any\ | (?:do|does|did|has)\ any(?:one|body)\ | what\ happen(?:ed|s)\b(?!\ (?:\w+\ ){{0,4}}(?:was|is)\b)
    | how\ (?:come|about)\ | what\ (?:about|if)\ | why\ not\b
    | (?:is|are|was|were|do|does|did|can|could|should|would|will|shall|isn't|aren't|don't|doesn't|didn't|can't|won't
       |wouldn't|shouldn't)\ (?:you|we|he|she|it|they|this|there|i)\ (?:\w+)
    | (?:have|has)\ (?:you|we|he|she|they|anyone)[ ]
    | (?:can|could|would|will)\ (?:someone|anyone|anybody)[ ]
    | any\ (?:idea|ideas|advice|thoughts|suggestions|recommendations|tips)\b
    | (?:what|how)\ to\ [a-z]+
    | (?:please\ )?(?:tell|show|teach)\ me\ (?:how|what|why|where|when|who|which|whether|if|more|about|your)\b
    | (?:please\ )?(?:explain|describe)\ (?:to\ me\ )?(?:how|what|why|the\ difference)\b
    | (?:i'm|i\ am|we're|just)\ (?:just\ )?(?:wondering|curious)\ (?:how|what|why|where|when|who|which|whether|if|about)\b
    | i\ (?:was\ )?wonder(?:ing)?\ (?:how|what|why|where|when|who|which|whether|if|about)\b
    | (?:i'd|i\ would)\ (?:like|love)\ to\ (?:know|ask|hear)\b
    | i\ (?:want|need|wanted)\ to\ (?:know|ask)\b(?!\ for)
    )""",
    re.VERBOSE,
)
_ENGLISH_LATER: Final = re.compile(
    r"[,;:-] (?:but |and |so )?(?:(?:can|could|would|will) you (?!\w+ believe)|what do you|what should|how do (?:i|you|we)"
    r"|do you (?:know|have|think)|please tell me (?:how|what|why|where)|tell me (?:how|what|why|where))"
)
_ENGLISH_STARTS: Final = word_set(
    """got what why how when where who whom whose which is are was were do does did can could should would will
    shall isn't aren't don't doesn't didn't can't won't wouldn't shouldn't have has any please tell show
    teach explain describe i i'm i'd we're just so and but or well ok okay oh hey hi hmm um also then
    wait sorry now yes no right anyway what's why's how's when's where's who's what're who're where're
    how'd what'd where'd who'll what'll"""
)
_NO_ENGLISH_QUESTION: Final = re.compile(
    rf"{_LEAD}(?:(?:is|was|am|did) (?:it|i|he|she) ever!|don't you (?:dare|worry|ever)|what (?:a|an) |how (?:nice|sweet|cool|lovely|dare)|who knows\b|what can i say\b|who cares\b"
    r"|what(?:'s| is) (?:more|worse|important|great|funny)\b|what about it\b(?!\?)|how come\b$|will do\b)"
)


def asks_english(low: str, first_word: str) -> bool:
    """Whether a sentence without a question mark asks in English; `first_word` is its first, in lower case."""
    if first_word in _ENGLISH_STARTS and _ENGLISH.match(low) and not _NO_ENGLISH_QUESTION.match(low):
        return True
    return " you " in low and _ENGLISH_LATER.search(low) is not None


_KOREAN_READ: Final = 120
_KOREAN_END_CHARS: Final = 12
_KOREAN_LAST: Final = frozenset("요니냐야데지죠임라때해내래까돼라어했")
_KOREAN_REQUEST_CUES: Final = ("줘", "주", "줄", "달라", "궁금", "물어", "여쭤")
_TAIL: Final = re.compile(r"[^가-힣a-z0-9]+$")
_BIEUP, _RIEUL, _NIEUN = (
    17,
    8,
    4,
)  # the place of a final consonant among the 28 of a Hangul syllable (Unicode 3.12)
_WHAT: Final = ("뭐", "뭘", "무엇을")
_SPACES: Final = ("", " ")
_KOREAN_ENDINGS: Final = frozenset(
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
_KOREAN_ENDING_CHARS: Final = range(2, 1 + max(len(ending) for ending in _KOREAN_ENDINGS))
# 눈물이 나요, 끝나요, 만나요 and the like state something.
_NO_QUESTION_BEFORE_NAYO: Final = frozenset("눈물각가이열끝만떠어신화겁혼빛 ")
_KOREAN_REQUEST: Final = re.compile(
    r"(?:알려|가르쳐|설명해|말해|추천해) ?(?:줘|줄래|주세요|주실|주시|줄 수|달라)|(?:이|가|지|게|점이|도) (?:많이 |정말 |너무 |좀 )?궁금(?:해|합|하|한)"
    r"|(?:여쭤|물어) ?(?:볼게|볼께|봐도|보고 싶|볼 게|볼 것)"
)
_KOREAN_WHY: Final = re.compile(
    r"(?:근데 |그런데 |아니 |그럼 )?(?:왜|어떻게|언제|어디서|어디로|어디에|누가|무슨|어떤|몇) .{1,80}(?:어|아|해|야|지|돼|래|요|데|거야|건데|죠)$"
)
_KOREAN_NO_WHY: Final = re.compile(
    r"모르|든지|든 |라도|언제나|왜냐|어떤 (?:사람|것|면|때)|는지 (?:알|이해)|알아요$|기억"
)


def asks_korean(low: str) -> bool:
    """Whether a sentence without a question mark asks in Korean: by its ending (-까요, -나요, -니, -냐) or a request."""
    plain = low[-_KOREAN_READ:]
    if not "가" <= plain[-1:] <= "힣":
        plain = _TAIL.sub("", plain)
    if not plain:
        return False
    end = plain[-_KOREAN_END_CHARS:]
    if end[-1] in _KOREAN_LAST and (_formal_or_deliberating(plain) or _ends_asking(end)):
        return True
    if any(cue in plain for cue in _KOREAN_REQUEST_CUES) and _KOREAN_REQUEST.search(plain):
        return True
    return _KOREAN_WHY.match(plain) is not None and not _KOREAN_NO_WHY.search(plain)


def _ends_asking(end: str) -> bool:
    if end.endswith("나요"):
        return len(end) > 2 and end[-3] not in _NO_QUESTION_BEFORE_NAYO
    if end.endswith("냐"):
        return not end.endswith(("케냐", "루냐"))
    return any(end[-size:] in _KOREAN_ENDINGS for size in _KOREAN_ENDING_CHARS)


def _formal_or_deliberating(plain: str) -> bool:
    """-ㅂ니까, -ㄹ까(요), -ㄴ가요: told from -니까 (because) by the final consonant before them."""
    for ending, final in (("니까", _BIEUP), ("까", _RIEUL), ("까요", _RIEUL), ("가요", _NIEUN)):
        if plain.endswith(ending) and len(plain) > len(ending):
            before = ord(plain[-len(ending) - 1])
            # "친한가요" asks; "인가요" is a copula; a noun before the verb "to go" is parted by a space or a particle.
            if 0xAC00 <= before <= 0xD7A3 and (before - 0xAC00) % 28 == final:
                return True
    return False
