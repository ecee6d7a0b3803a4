"""Korean facts about a user: name, age, work, places; the rest is in `tastes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.korean.grammar import Speaker, fits, noun_phrase, since_now
from memory_agent.text.korean.tastes import life, tastes
from memory_agent.text.patterns import stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns import Sentence

_TABLE: Final = table("korean", "facts")
_RULES: Final = _TABLE.patterns("rules")
_JOBS, _NO_TITLE_START, _PLACES, _NO_PLACE, _COMPANIES, _NO_NAME = (
    _TABLE.words(f"words.{key}")
    for key in ("jobs", "no_title_start", "places", "no_place", "companies", "no_name")
)
_NO_HOME: Final = tuple(_TABLE.words("words.no_home"))
_NO_NAME_ENDING: Final = "팀띠대생직파형족교과구시층쪽증병팬맘녀남째년월일명도반급님꾼들살용편적"
_OURS: Final = frozenset({"우리", "저희"})
_NATIVE_TENS: Final = {"스물": 20, "스무": 20, "서른": 30, "마흔": 40, "쉰": 50, "예순": 60, "일흔": 70, "여든": 80, "아흔": 90}  # fmt: skip
_NATIVE_ONES: Final = {"": 0, "한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9}  # fmt: skip


def korean_facts(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """The facts that the sentences of one turn state."""
    speaker = Speaker()
    for sentence in sentences:
        if _RULES["hangul"].search(sentence.plain):
            for rule in (_names, _ages, _occupations, _ended_work, _places, life, tastes):
                yield from rule(sentence, speaker)
            speaker.heard(sentence)


# --- name, age, birthday -------------------------------------------------------------------------------------
def _names(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for rule, confidence in (("my_name", 0.95), ("i_am_called", 0.95), ("i_am", 0.8)):
        for match in speaker.claims(_RULES[rule], sentence):
            name = match["name"]
            if name in _NO_NAME or name in _JOBS or name in _PLACES or not fits(name, match["is"]):
                continue
            if rule == "my_name" and match.groupdict().get("subject") in _OURS:
                continue
            if rule == "i_am" and (name[-1] in _NO_NAME_ENDING or match["is"] == "에요"):
                continue  # some 3-syllable nouns begin like a surname; few of them end like a given name
            yield stated(sentence, match, "name", name, confidence)


def _ages(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_RULES["age"], sentence):
        # Without a subject it must open the turn: later on it is whoever was spoken of.
        if match["subject"] in _OURS or (not match["subject"] and sentence.number > 0):
            continue
        age = int(match["digits"]) if match["digits"] else _native_number(match["words"])
        if age is not None and age >= 13:
            yield stated(sentence, match, "age", age, 0.9)
    for match in speaker.claims(_RULES["birthday"], sentence):
        if match["subject"] not in _OURS:
            yield stated(sentence, match, "birthday", match["day"], 0.95)


def _native_number(text: str) -> int | None:
    """The number that "서른두" says; None if it says none."""
    for tens, value in _NATIVE_TENS.items():
        if text.startswith(tens):
            ones = _NATIVE_ONES.get(text[len(tens) :].strip())
            return None if ones is None else value + ones
    return None


# --- occupation and employer ---------------------------------------------------------------------------------
def _title(text: str) -> str | None:
    """The occupation, unless a word before it makes it another's, a former or a hoped-for one."""
    *before, _job = text.split()
    ending = r".+(?:은|는|한|던|될|할|의|이|가|을|를|에|에서|도|인|같은)"
    if any(word in _NO_TITLE_START or regex.fullmatch(ending, word) for word in before):
        return None
    return text


def _occupations(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_RULES["is_job"], sentence):
        title = _title(match["job"])
        if title and fits(title, match["is"]) and match["subject"] not in _OURS:
            yield stated(sentence, match, "occupation", title, 0.9, since_now(match))
    for match in speaker.claims(_RULES["works_as"], sentence):
        if title := _title(match["job"]):
            yield stated(sentence, match, "occupation", title, 0.9, since_now(match))
            if match["company"] in _COMPANIES:
                yield stated(sentence, match, "employer", match["company"], 0.85)
    for rule in ("became", "new_role"):
        for match in speaker.claims(_RULES[rule], sentence):
            if title := _title(match["job"]):
                yield stated(sentence, match, "occupation", title, 0.85, "update")
    for match in speaker.claims(_RULES["works_at"], sentence):
        if match["company"] not in _PLACES:
            yield stated(sentence, match, "employer", match["company"], 0.85)


def _ended_work(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_RULES["ended_job"], sentence, past_is_meant=True):
        if _RULES["now"].search(match[0]) and _title(match["job"]):
            yield stated(sentence, match, "occupation", None, 0.9, "retract")
    for match in speaker.claims(_RULES["ended_work"], sentence, past_is_meant=True):
        if regex.search(r"회사|직장|퇴사|은퇴|퇴직|해고|일을", match[0]) or match["company"]:
            yield stated(sentence, match, "occupation", None, 0.85, "retract")
            yield stated(sentence, match, "employer", None, 0.85, "retract")
    for match in speaker.claims(_RULES["ended_at"], sentence, past_is_meant=True):
        yield stated(sentence, match, "employer", None, 0.9, "retract")


# --- place ---------------------------------------------------------------------------------------------------
def _is_place(name: str) -> bool:
    """Known, or named as a town or district is ("역삼동", "수원시")."""
    words = name.split()
    if any(word in _PLACES for word in words) or regex.fullmatch(r"(?:\p{Lu}[\p{Latin}-]+ ?)+", name):
        within = r"\p{Hangul}+[시도구동군읍면]|\p{Lu}.*"
        return all(word in _PLACES or regex.fullmatch(within, word) for word in words)
    towns = all(
        regex.fullmatch(r"\p{Hangul}{2,}[시구동군읍]", word) and word not in _NO_PLACE for word in words
    )
    return towns and not regex.search(r"택시|친구|동네|출구|입구", name)


def _is_home(name: str) -> bool:
    """True for any noun in "… 에 살아요" but a flat, a village, a floor, and what is near to something."""
    return " " not in name and len(name) > 1 and noun_phrase(name) and not name.endswith(_NO_HOME)


def _places(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_RULES["lives"], sentence):
        if _is_place(match["place"]) or (match["in"] and _is_home(match["place"])):
            yield stated(sentence, match, "location", match["place"], 0.9)
    for match in speaker.claims(_RULES["home"], sentence):
        if _is_place(match["place"]) and fits(match["place"], match["is"]):
            yield stated(sentence, match, "location", match["place"], 0.9)
    for match in speaker.claims(_RULES["moved"], sentence):
        somewhere = _is_place(match["place"]) or _is_home(match["place"])
        if somewhere and not _RULES["long_ago"].search(sentence.plain):
            yield stated(sentence, match, "location", match["place"], 0.85, "update")
    for match in speaker.claims(_RULES["from"], sentence):
        if _is_place(match["place"]) and match["subject"] not in _OURS:
            yield stated(sentence, match, "origin", match["place"], 0.85)
    for match in speaker.claims(_RULES["left"], sentence, past_is_meant=True):
        if _is_place(match["place"]):
            yield stated(sentence, match, "location", None, 0.9, "retract")
