"""The rules for Korean: who the user is, sentence by sentence. `korean_tastes` has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.korean.facts.grammar import (
    AFTER,
    ANY_SUBJECT,
    HADA,
    IS,
    LIVES,
    MY,
    SUBJECT,
    Speaker,
    copula_fits,
)
from memory_agent.text.korean.facts.tastes import life, tastes
from memory_agent.text.korean.facts.words import (
    COMPANIES,
    COMPANY_ENDING,
    JOBS,
    NATIVE_NUMBER,
    NO_PLACE,
    NO_TITLE_START,
    PLACES,
    SURNAMES,
    native_number,
)
from memory_agent.text.patterns.common import stated
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op, Sentence

_HANGUL: Final = lazily(regex.compile, r"\p{Hangul}")


def korean_facts(sentences: list[Sentence]) -> Iterator[StatedFact]:
    """What the sentences of one turn state."""
    speaker = Speaker()
    for sentence in sentences:
        if _HANGUL.search(sentence.plain):
            for rule in (_names, _ages, _occupations, _ended_work, _places, life, tastes):
                yield from rule(sentence, speaker)
            speaker.heard(sentence)


# --- name ----------------------------------------------------------------------------------------------------
_NAME: Final = r"(?P<name>\p{Hangul}{2,5}?|\p{Lu}\p{Latin}+(?: \p{Lu}\p{Latin}+)?)"
_CALLED: Final = r"(?:(?P<is>이?라고) (?:해요|합니다|불러 ?주세요|불러요|하고|해))"
_MY_NAME: Final = lazily(regex.compile, rf"{MY}이름은 {_NAME}(?:{IS}|{_CALLED}){AFTER}")
_I_AM_CALLED: Final = lazily(regex.compile, rf"{SUBJECT}{_NAME}{_CALLED}{AFTER}")
_I_AM: Final = lazily(regex.compile, rf"{SUBJECT}(?P<name>[{SURNAMES}]\p{{Hangul}}{{2}}){IS}{AFTER}")
_NO_NAME: Final = word_set(
    """비밀 무엇 아직 없음 그것 이것 본명 별명 가명 아니 아니다 나중 다음 흔한 이상
    한국인 외국인 정치인 장애인 신입생 유학생 임산부 전문가 조종사 이혼남 이혼녀 기혼자 유부남 유부녀 노총각 노처녀 안내원 경찰관 성악가
    우등생 하숙생 지휘자 이방인 이용자 정상인 조선족 이민자 차장님 부장님 민간인 지원자 노동자 조교수 지도자 진행자 주최자 구독자 구직자
    정반대 고양이 오징어 하느님 하나님 신부님 우주인 주인공 외톨이 왕따 성인군 양반집 서민층 고참병 심판관 임차인 임대인 문외한 허당끼 공무원
    변호사 남자친 나그네 이웃집 엄마표 진보주 홍콩인 중국인 유목민 이재민 주민이 구경꾼 장난꾼 장사꾼 노름꾼 사용자 연구자 소유자 심리학
    신용자 우울증 고혈압 당뇨병 유당불 오른손 왼손잡 양손잡 성소수 손잡이"""
)
_NO_NAME_ENDING: Final = "팀띠대생직파형족교과구시층쪽증병팬맘녀남째년월일명도반급님꾼들살용편적"


def _names(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for pattern, confidence in ((_MY_NAME, 0.95), (_I_AM_CALLED, 0.95), (_I_AM, 0.8)):
        for match in speaker.claims(pattern, sentence):
            name = match["name"]
            if name in _NO_NAME or name in JOBS or name in PLACES or not copula_fits(name, match["is"]):
                continue
            if pattern is _MY_NAME and match["subject"] in {"우리", "저희"}:
                continue
            if pattern is _I_AM and (name[-1] in _NO_NAME_ENDING or match["is"] == "에요"):
                continue  # some 3-syllable nouns begin like a surname; few of them end like a given name
            yield stated(sentence, match.span(), ("name",), name, confidence)


# --- age, birthday -------------------------------------------------------------------------------------------
_AGE: Final = lazily(
    regex.compile,
    rf"(?:{MY}나이는 |{ANY_SUBJECT}(?P<year>올해로? )?)(?:만 )?(?:(?P<digits>\d{{2}}) ?(?:살|세)|(?P<words>{NATIVE_NUMBER}) ?살){IS}{AFTER}",
)
_BIRTHDAY: Final = lazily(
    regex.compile, rf"{MY}생일은 (?P<day>(?:\d{{4}}년 ?)?\d{{1,2}}월 ?\d{{1,2}}일){IS}{AFTER}"
)


def _ages(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_AGE, sentence):
        # Without a subject it must open the turn: later on it is whoever was spoken of.
        if match["subject"] in {"우리", "저희"} or (not match["subject"] and sentence.number > 0):
            continue
        age = int(match["digits"]) if match["digits"] else native_number(match["words"])
        if age is not None and age >= 13:
            yield stated(sentence, match.span(), ("age",), age, 0.9)
    for match in speaker.claims(_BIRTHDAY, sentence):
        if match["subject"] not in {"우리", "저희"}:
            yield stated(sentence, match.span(), ("birthday",), match["day"], 0.95)


# --- occupation and employer ---------------------------------------------------------------------------------
_JOB: Final = rf"(?P<job>(?:[\p{{Hangul}}\p{{Latin}}]+ ){{0,2}}?[\p{{Hangul}}\p{{Latin}}]*?(?:{'|'.join(sorted(JOBS, key=len, reverse=True))}))"
_WORKS: Final = rf"(?:일{HADA}|근무{HADA}|일하고 있(?:어요|습니다|고|는데)|근무하고 있(?:어요|습니다|고|는데)|근무 중(?:이에요|입니다))"
_IS_JOB: Final = lazily(regex.compile, rf"(?:{SUBJECT}|{MY}직업은 ){_JOB}{IS}{AFTER}")
_WORKS_AS: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:(?P<company>[\p{{Hangul}}\p{{Latin}}]+)에서 )?{_JOB}(?:으로|로) {_WORKS}{AFTER}",
)
_BECAME: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}{_JOB}(?:(?:으로|로) (?:이직|전직|승진|취직|취업)했|(?:이|가) (?:됐|되었))(?:어요|습니다|는데|고|(?P<plain>어|다)){AFTER}",
)
_NEW_ROLE: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?P<job>[\p{{Hangul}}\p{{Latin}}]+(?: [\p{{Hangul}}\p{{Latin}}]+)? ?(?:직무|직군|포지션))(?:으로|로) (?:옮겼|이동했|바꿨|전환했)(?:어요|습니다){AFTER}",
)
_COMPANY: Final = rf"(?P<company>(?:{'|'.join(sorted(COMPANIES, key=len, reverse=True))}|\p{{Hangul}}{{2,8}}(?:{COMPANY_ENDING})|\p{{Lu}}[\p{{Latin}}\d&]+))"
_WORKS_AT: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}{_COMPANY}(?:에서 {_WORKS}|에 (?:다녀요|다닙니다|다니고 있(?:어요|습니다)|다니는데|다니고(?! 싶)|재직 중(?:이에요|입니다)|(?P<plain>다녀|다닌다))){AFTER}",
)
_ENDED_JOB: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:(?P<over>더 이상|더는|이제|이제는|이젠) )?{_JOB}(?:(?:이|가) 아니(?:에요|고|라)|(?:이|가) 아닙니다|(?:으로|로) (?:일|근무)하지 않(?:아요|습니다)|(?: 일)?(?:을|를) (?P<over>그만)(?:뒀|두었)(?:어요|습니다)){AFTER}",
)
_ENDED_WORK: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:(?P<company>{'|'.join(COMPANIES)})(?:에서|을|를) |다니던 )?(?:회사를 |직장을 |회사에서 |일을 |회사 |직장 )?(?:그만(?:뒀|두었)|퇴사했|은퇴했|퇴직했|해고됐|해고당했)(?:어요|습니다|고|는데){AFTER}",
)
_ENDED_AT: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:더 이상|더는|이제|이제는|이젠) (?:{'|'.join(COMPANIES)})(?:에서 (?:일|근무)하지 않|에 다니지 않|에 안 다)(?:아요|습니다|녀요|닙니다){AFTER}",
)
_NOW: Final = lazily(regex.compile, r"이제|이젠|지금은|더 이상|더는|그만")


def _title(text: str) -> str | None:
    """The occupation, unless a word before it makes it another's, a former or a hoped-for one."""
    *before, _job = text.split()
    if any(
        word in NO_TITLE_START
        or regex.fullmatch(r".+(?:은|는|한|던|될|할|의|이|가|을|를|에|에서|도|인|같은)", word)
        for word in before
    ):
        return None
    return text


def _occupations(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_IS_JOB, sentence):
        title = _title(match["job"])
        if title and copula_fits(title, match["is"]) and match["subject"] not in {"우리", "저희"}:
            op: Op = "update" if regex.search(r"이제|이젠", match[0]) else "add"
            yield stated(sentence, match.span(), ("occupation",), title, 0.9, op)
    for match in speaker.claims(_WORKS_AS, sentence):
        if title := _title(match["job"]):
            op = "update" if regex.search(r"이제|이젠", match[0]) else "add"
            yield stated(sentence, match.span(), ("occupation",), title, 0.9, op)
            if match["company"] in COMPANIES:
                yield stated(sentence, match.span(), ("employer",), match["company"], 0.85)
    for pattern in (_BECAME, _NEW_ROLE):
        for match in speaker.claims(pattern, sentence):
            if title := _title(match["job"]):
                yield stated(sentence, match.span(), ("occupation",), title, 0.85, "update")
    for match in speaker.claims(_WORKS_AT, sentence):
        if match["company"] not in PLACES:
            yield stated(sentence, match.span(), ("employer",), match["company"], 0.85)


def _ended_work(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_ENDED_JOB, sentence, past_is_meant=True):
        if _NOW.search(match[0]) and _title(match["job"]):
            yield stated(sentence, match.span(), ("occupation",), None, 0.9, "retract")
    for match in speaker.claims(_ENDED_WORK, sentence, past_is_meant=True):
        if regex.search(r"회사|직장|퇴사|은퇴|퇴직|해고|일을", match[0]) or match["company"]:
            yield stated(sentence, match.span(), ("occupation",), None, 0.85, "retract")
            yield stated(sentence, match.span(), ("employer",), None, 0.85, "retract")
    for match in speaker.claims(_ENDED_AT, sentence, past_is_meant=True):
        yield stated(sentence, match.span(), ("employer",), None, 0.9, "retract")


# --- place ---------------------------------------------------------------------------------------------------
_PLACE: Final = r"(?P<place>(?:\p{Hangul}+ ){0,2}?\p{Hangul}+?|(?:\p{Lu}[\p{Latin}-]+ ?){1,3})"
_LIVES: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:가족(?:과|이랑|들과) |혼자 )?{_PLACE}(?:에서|에) (?:혼자 |같이 |가족과 )?{LIVES}{AFTER}",
)
_MOVED: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}{_PLACE}(?:으로|로) (?:이사(?:를)? ?(?:했|왔|갔)|이주했|이민 왔)(?:어요|습니다|는데|고|(?P<plain>어|다)){AFTER}",
)
_FROM: Final = lazily(regex.compile, rf"{SUBJECT}{_PLACE} 출신{IS}{AFTER}|{MY}고향은 {_PLACE}{IS}{AFTER}")
_LEFT: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:더 이상|더는|이제|이제는|이젠) {_PLACE}(?:에서|에) (?:살지 않(?:아요|습니다)|안 살아요|안 삽니다){AFTER}",
)
_LONG_AGO: Final = lazily(regex.compile, r"\d+ ?년|년 전|어릴|옛날|예전")


def _is_place(name: str) -> bool:
    """Known, or named as a town or district is ("역삼동", "수원시")."""
    words = name.split()
    known = any(word in PLACES for word in words) or regex.fullmatch(r"(?:\p{Lu}[\p{Latin}-]+ ?)+", name)
    if known:
        return all(
            word in PLACES or regex.fullmatch(r"\p{Hangul}+[시도구동군읍면]|\p{Lu}.*", word) for word in words
        )
    return all(
        regex.fullmatch(r"\p{Hangul}{2,}[시구동군읍]", word) and word not in NO_PLACE for word in words
    ) and not regex.search(r"택시|친구|동네|출구|입구", name)


def _places(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_LIVES, sentence):
        if _is_place(match["place"]):
            yield stated(sentence, match.span(), ("location",), match["place"], 0.9)
    for match in speaker.claims(_MOVED, sentence):
        if _is_place(match["place"]) and not _LONG_AGO.search(sentence.plain):
            yield stated(sentence, match.span(), ("location",), match["place"], 0.85, "update")
    for match in speaker.claims(_FROM, sentence):
        if _is_place(match["place"]) and match["subject"] not in {"우리", "저희"}:
            yield stated(sentence, match.span(), ("origin",), match["place"], 0.85)
    for match in speaker.claims(_LEFT, sentence, past_is_meant=True):
        if _is_place(match["place"]):
            yield stated(sentence, match.span(), ("location",), None, 0.9, "retract")
