"""How a Korean statement about its speaker begins and ends, and who a sentence without a subject is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.korean.facts.words import ANIMALS, NOT_ITSELF, OTHERS, ends_in_consonant
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.patterns.common import Sentence

_LEAD: Final = (
    r"(?:(?:안녕하세요|안녕|네|넵|예|응|아|오|음|그리고|그런데|근데|하지만|그래서|사실은?|참고로|솔직히|참|반갑습니다|반가워요"
    r"|처음 뵙겠습니다|아니|아뇨|아니요|요즘은?|지금은?|현재는?|이제는?|이젠|평소에는?|원래|hi|hello|hey|btw|actually|and|but)[,.!]? ){0,5}+"
)
BEGINS: Final = (
    r"(?:^|(?<=[,!(\"–—] )|(?<=(?:[이하살니우있르]고|는데|인데|지만|이며|하며|[예에해아어]요|니다|[아어해]서) )|(?<=(?:\band|\bbut|\bso) ))"
    + _LEAD
)
_I: Final = r"(?P<subject>저는|나는|전(?! (?:남|여|직장|회사|애인|아내|부인|세계|국민|주인))|난|제가|내가|저도|나도|나)"
ADVERBS: Final = (
    r"(?:(?:정말로?|아주|너무|진짜로?|제일|가장|특히|요즘은?|원래|항상|현재|지금은?|이제는?|이젠|매우|굉장히|엄청|무척|참|되게"
    r"|많이|계속|더(?! 이상)|훨씬|아직도?|작년에|올해|최근에|얼마 전에|지난달에|지난주에|저번 ?달에|저번 ?주에|이번 ?달에|방금|드디어|며칠 전에|무슨 일이 있어도) )*+"
)
SUBJECT: Final = rf"{BEGINS}{_I} {ADVERBS}"
"""A clause that names the speaker as its subject."""
ANY_SUBJECT: Final = rf"{BEGINS}(?:{_I} )?{ADVERBS}"
"""A clause that names the speaker or nobody."""
MY: Final = rf"{BEGINS}(?P<subject>제|내|저의|나의|우리|저희) "
AFTER: Final = r"(?=$|[,!~)ㅋㅎㅠ^\"]| (?!라고|라는|라며|라면서|싶|주|줘|보|봐|때|적|것|거|줄|수|사람|척))"
"""What may follow a verb that ends its statement: nobody reports it, wishes it or asks for it."""

_NOT_MEANT: Final = r"(?! ?(?:싶|계|말|자 ))"
HADA: Final = (
    rf"(?:해요|합니다|해용|하거든요|하고{_NOT_MEANT}(?! 있)|하고 있(?:어요|습니다)|하는데요?|하지만|하며|해서|하는 편이(?:에요|고|라)|하는 편입니다"
    r"|(?P<plain>해|한다|하는 편이야))"
)
LIVES: Final = (
    rf"(?:살아요|삽니다|살고 있(?:어요|습니다|는데요?|고)|살고{_NOT_MEANT}(?! 있)|사는데요?|살지만|살아서|살거든요|거주{HADA}|거주 중(?:이에요|입니다|이고|인데)"
    r"|(?P<plain>살아|산다|살고 있어|살고 있다))"
)
IS: Final = (
    r"(?P<is>이에요|예요|이예요|에요|입니다|이고요?|이며|인데요?|이라서|이거든요|(?P<plain>이야|야|이다))"
)

_DOUBT: Final = lazily(
    regex.compile,
    r"만약|만일|혹시|아마|(?:ㄴ다|한다|는다|었다|았다|했다|이|라)면 |으면 |고 싶|까요|나요$|인가요|을까|ㄹ까|대요$|래요$|다고 (?:했|하|말|들|해|합|그|생각|쳐)"
    r"|라고 (?:했|말|들|그|생각|하더|하던|가정|쳐)|어렸을|어릴|한때|척 |꿈|상상|것 같|거 같|듯|때는|시절",
)
_SOMEBODYS: Final = lazily(
    regex.compile,
    r"농담|거짓말|가사|번역|소설|주인공|대사|속담|예문|문장|시나리오|캐릭터|역할|드라마에서|영화에서",
)
_OTHER: Final = lazily(
    regex.compile,
    rf"(?<!\p{{L}})(?:{OTHERS})(?:이|가|은|는|께서|도|의|한테|에게|랑|이랑|와|과|를|을|하고|들이|들은|이에요|예요|입니다|이고|인데)?(?!\p{{L}})"
    r"|(?<!\p{L})(?!(?:저는|나는|이제는|요즘은|지금은|현재는|사실은|오늘은|올해는|평소에는)(?!\p{L}))\p{Hangul}+(?:은|는|께서)(?!\p{L})",
)
_SPEAKER: Final = lazily(regex.compile, r"(?<!\p{L})(?:저는|나는|전|난|제가|내가|저도|나도)(?!\p{L})")
_TOPIC: Final = lazily(
    regex.compile,
    r"(?<!\p{L})(?!(?:저는|나는|제가|내가|저도|나도|이제는|요즘은|지금은|현재는|사실은|평소에는|그리고|에는|전에는|예전에는|고양이|떡볶이)(?!\p{L}))"
    r"\p{Hangul}+(?:은|는|이|가|께서|도|의)(?!\p{L})",
)


class Speaker:
    """Whether a sentence without a subject may be about the one who speaks, from what was said before it."""

    def __init__(self) -> None:
        self._others = False

    def heard(self, sentence: Sentence) -> None:
        """Take note of whom `sentence` is about."""
        if _OTHER.search(sentence.plain):
            self._others = True
        elif _SPEAKER.search(sentence.plain):
            self._others = False

    def claims(
        self, pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
    ) -> Iterator[regex.Match[str]]:
        """Matches of `pattern` that are the speaker's own and stated as a fact."""
        if sentence.asks or (_SOMEBODYS.search(sentence.plain) and not past_is_meant):
            return
        # Overlapped: what does not fit from the sentence's beginning may from its second clause.
        for match in pattern.finditer(sentence.plain, overlapped=True):
            groups = match.groupdict()
            named = bool(groups.get("subject"))
            if groups.get("plain") and not named:
                continue  # without a subject and a polite ending it may as well be a question
            before = sentence.plain[: match.start()]
            if not named and (self._others or _TOPIC.search(before)):
                continue
            if not _DOUBT.search(sentence.plain, 0, min(len(sentence.plain), match.end() + 10)):
                yield match


# --- words ---------------------------------------------------------------------------------------------------
_NO_PHRASE_WORD: Final = lazily(
    regex.compile, r".+(?:은|는|께서|도|에서|에게|한테|에|면|려고|해서)$|.*[ㄱ-ㅎㅏ-ㅣ].*"
)
_SUBJECT_MARK: Final = lazily(regex.compile, r".+(?:이|가)$")
ENDS_LIKE_SUBJECT: Final = word_set(
    "고양이 거북이 떡볶이 놀이 종이 어린이 원숭이 오이 작가 요가 휴가 국가 평가 물놀이 캠핑카 냉이"
)
_OTHERS: Final = lazily(regex.compile, rf"(?:{OTHERS})(?:의)?")


def noun_phrase(text: str, *, longest: int = 4) -> str | None:
    """`text` if it means something by itself and holds no particle of a subject; None otherwise."""
    words = text.split()
    doing = len(words) > 2 and words[-1] == "것"  # "영화 보는 것"
    if (
        not words
        or len(words) > longest
        or NOT_ITSELF & set(words[:-1] if doing else words)
        or len(text) > 40
    ):
        return None
    if len(words) > 1 and words[0] == "전":
        return None  # somebody's former one
    for word in words[:-1]:
        if _SUBJECT_MARK.fullmatch(word) and word not in ENDS_LIKE_SUBJECT:
            return None
        if _OTHERS.fullmatch(word) and word not in ANIMALS:
            return None
        if _NO_PHRASE_WORD.fullmatch(word) and word not in {"보는", "듣는", "읽는", "하는", "타는", "가는", "만드는", "먹는", "마시는", "걷는", "치는", "작은", "맛있는"}:  # fmt: skip
            return None
    return text


def fits(word: str, particle: str) -> bool:
    """Whether `particle` (을, 를, 이, 가, 과, 와 …) has the form that the sound before it asks for."""
    if not word or not "가" <= word[-1] <= "힣":
        return True
    if particle in {"을", "이", "은", "과", "이랑", "이라고", "이라는"}:
        return ends_in_consonant(word)
    if particle in {"를", "가", "는", "와", "랑", "라고", "라는"}:
        return not ends_in_consonant(word)
    return True


_AND: Final = lazily(
    regex.compile, r"(?P<word>\p{L}+?)(?P<and>이랑|랑|하고|와|과)(?= )|(?<=\p{L}), ?| 및 | 그리고 "
)
_NO_AND: Final = word_set(
    "사랑 자랑 노랑 파랑 신랑 결과 학과 안과 내과 외과 치과 통과 효과 사과 모과 기와 한과 약과"
)


def listed(text: str) -> list[str]:
    """The nouns of "커피와 빵이랑 과일"."""
    parts, start = [], 0
    for match in _AND.finditer(text):
        if match["and"]:
            if match[0] in _NO_AND or not fits(match["word"], match["and"]):
                continue
            parts.append(text[start : match.end("word")])
        else:
            parts.append(text[start : match.start()])
        start = match.end()
    return [part.strip(" ,") for part in (*parts, text[start:])]


def copula_fits(noun: str, copula: str) -> bool:
    """`이에요` and `이야` follow a consonant, `예요` and `야` a vowel; the written forms either."""
    if not noun or not "가" <= noun[-1] <= "힣":
        return True
    if copula in {"이에요", "이예요", "이야", "이라고"}:
        return ends_in_consonant(noun)
    if copula in {"예요", "에요", "야", "라고"}:
        return not ends_in_consonant(noun)
    return True
