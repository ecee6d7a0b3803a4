"""The rules for Korean: who the user is, sentence by sentence. `korean_tastes` has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.korean.facts.grammar import (
    Speaker,
    copula_fits,
)
from memory_agent.text.korean.facts.tastes import life, tastes
from memory_agent.text.korean.facts.words import (
    COMPANIES,
    JOBS,
    NO_PLACE,
    NO_TITLE_START,
    PLACES,
    native_number,
)
from memory_agent.text.patterns.common import stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op, Sentence

_TABLE: Final = table("korean", "facts")
_HANGUL: Final = _TABLE.pattern("rules.hangul")


def korean_facts(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """The facts that the sentences of one turn state."""
    speaker = Speaker()
    for sentence in sentences:
        if _HANGUL.search(sentence.plain):
            for rule in (_names, _ages, _occupations, _ended_work, _places, life, tastes):
                yield from rule(sentence, speaker)
            speaker.heard(sentence)


# --- name ----------------------------------------------------------------------------------------------------
_MY_NAME: Final = _TABLE.pattern("rules.my_name")
_I_AM_CALLED: Final = _TABLE.pattern("rules.i_am_called")
_I_AM: Final = _TABLE.pattern("rules.i_am")
_NO_NAME: Final = _TABLE.words("words.no_name")
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
_AGE: Final = _TABLE.pattern("rules.age")
_BIRTHDAY: Final = _TABLE.pattern("rules.birthday")


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
_IS_JOB: Final = _TABLE.pattern("rules.is_job")
_WORKS_AS: Final = _TABLE.pattern("rules.works_as")
_BECAME: Final = _TABLE.pattern("rules.became")
_NEW_ROLE: Final = _TABLE.pattern("rules.new_role")
_WORKS_AT: Final = _TABLE.pattern("rules.works_at")
_ENDED_JOB: Final = _TABLE.pattern("rules.ended_job")
_ENDED_WORK: Final = _TABLE.pattern("rules.ended_work")
_ENDED_AT: Final = _TABLE.pattern("rules.ended_at")
_NOW: Final = _TABLE.pattern("rules.now")


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
_LIVES: Final = _TABLE.pattern("rules.lives")
_MOVED: Final = _TABLE.pattern("rules.moved")
_FROM: Final = _TABLE.pattern("rules.from")
_LEFT: Final = _TABLE.pattern("rules.left")
_LONG_AGO: Final = _TABLE.pattern("rules.long_ago")


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
