"""Korean facts about a user: how the values of the table `facts` are read, and whose a sentence without a subject is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.korean.grammar import (
    ENDS_LIKE_SUBJECT,
    fits,
    given_name,
    listed,
    may_be_speakers,
    noun_phrase,
)
from memory_agent.text.patterns import TableOfFacts
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.cues import Sentence

    Match = regex.Match[str]

_TABLE: Final = table("korean", "facts")
_SUBJECTS, _OCCASIONS = _TABLE.items("subjects"), _TABLE.items("occasions")
_JOBS, _NO_TITLE_START, _PLACES, _NO_PLACE, _COMPANIES, _NO_NAME, _NO_ALLERGEN = (
    _TABLE.words(f"words.{key}")
    for key in ("jobs", "no_title_start", "places", "no_place", "companies", "no_name", "no_allergen")
)
_NO_HOME: Final = tuple(_TABLE.words("words.no_home"))
_NO_NAME_ENDING: Final = "팀띠대생직파형족교과구시층쪽증병팬맘녀남째년월일명도반급님꾼들살용편적"
_OURS: Final = frozenset({"우리", "저희"})
_NATIVE_TENS: Final = {"스물": 20, "스무": 20, "서른": 30, "마흔": 40, "쉰": 50, "예순": 60, "일흔": 70, "여든": 80, "아흔": 90}  # fmt: skip
_NATIVE_ONES: Final = {"": 0, "한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9}  # fmt: skip


# --- names, ages, jobs, places -------------------------------------------------------------------------------
def _names(_: Sentence, match: Match) -> Iterator[str]:
    name = match["name"]
    ours = match.groupdict().get("who") in _OURS and "kin" not in match.groupdict()
    if fits(name, match["is"]) and not (ours or name in _NO_NAME or name in _JOBS or name in _PLACES):
        yield name


def _surnamed(sentence: Sentence, match: Match) -> Iterator[str]:
    """Some 3-syllable nouns begin like a surname; few of them end like a given name."""
    if match["name"][-1] not in _NO_NAME_ENDING and match["is"] != "에요":
        yield from _names(sentence, match)


def _given(_: Sentence, match: Match) -> Iterator[str]:
    if given_name(match["name"], marked=match["is"] is not None):
        yield match["name"]


def _ages(sentence: Sentence, match: Match) -> Iterator[int]:
    # Without a subject it must open the turn: later on it is whoever was spoken of.
    if match["who"] not in _OURS and (match["who"] or sentence.number == 0):
        age = int(match["digits"]) if match["digits"] else _native_number(match["words"])
        if age >= 13:
            yield age


def _native_number(text: str) -> int:
    """The number that "서른두" says; 0 if it says none."""
    for tens, value in _NATIVE_TENS.items():
        if text.startswith(tens):
            ones = _NATIVE_ONES.get(text[len(tens) :].strip())
            return 0 if ones is None else value + ones
    return 0


def _jobs(_: Sentence, match: Match) -> Iterator[str]:
    """The occupation, unless a word before it makes it another's, a former or a hoped-for one."""
    said = match.groupdict()
    *before, _job = match["value"].split()
    ending = r".+(?:은|는|한|던|될|할|의|이|가|을|를|에|에서|도|인|같은)"
    anothers = any(word in _NO_TITLE_START or regex.fullmatch(ending, word) for word in before)
    if not anothers and said.get("who") not in _OURS and fits(match["value"], said.get("is") or ""):
        yield match["value"]


def _companies(_: Sentence, match: Match) -> Iterator[str]:
    known = match["company"] in _COMPANIES or "일해" not in match[0] or "로 " not in match[0]
    if match["company"] and match["company"] not in _PLACES and known:
        yield match["company"]


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


def _places(_: Sentence, match: Match) -> Iterator[str]:
    said = match.groupdict()
    if _is_place(match["value"]) and fits(match["value"], said.get("is") or "") and said.get("who") != "우리":
        yield match["value"]


def _homes(_: Sentence, match: Match) -> Iterator[str]:
    """Any noun in "… 에 살아요" but a flat, a village, a floor, and what is near to something."""
    name = match["value"]
    named = " " not in name and len(name) > 1 and noun_phrase(name) and not name.endswith(_NO_HOME)
    if _is_place(name) or (named and match.groupdict().get("in", True)):
        yield name


# --- pets, allergies, tastes ---------------------------------------------------------------------------------
def _animals(_: Sentence, match: Match) -> Iterator[str]:
    said = match.groupdict()
    name, marked = said.get("name"), said.get("called") or said.get("is") or ""
    if name is None or (fits(name, marked) and name not in {"비밀", "뭐", "아직"}):
        yield f"{match['animal']} {name}" if name else match["animal"]


def _allergens(_: Sentence, match: Match) -> Iterator[str]:
    yield from (item for item in listed(match["thing"]) if not _NO_ALLERGEN & set(item.split()))


def _own(_: Sentence, match: Match) -> Iterator[str]:
    if match["who"] not in _OURS:
        yield from match.captures("value")


def _things(_: Sentence, match: Match) -> Iterator[str]:
    """Each noun of "매운 음식과 커피를"; none if any is unclear. Without a particle a subject must be there."""
    thing = regex.sub(
        r"^(?:더 ?이상|더는|이제는?|이젠|요즘은) | (?:더 ?이상|더는|이제는?|이젠)$", "", match["thing"]
    )
    unclear = regex.search(r"안 싫어|싫어하지 않|안$", match[0]) and "요" not in match[0][-2:]
    if unclear or _TIMED.search(thing) or regex.search(r"(?:^| )(?:안|못|별로|더|덜|가장|제일)$", thing):
        return
    marked = regex.fullmatch(r"(?P<noun>.+?)(?P<particle>을|를|이|가|도)", thing)
    if marked and fits(marked["noun"], marked["particle"]) and thing.split()[-1] not in ENDS_LIKE_SUBJECT:
        thing = marked["noun"]
    elif match["who"] and regex.fullmatch(r".+(?:은|는)", thing) and fits(thing[:-1], thing[-1]):
        thing = thing[:-1]
    elif regex.fullmatch(r".+ 걸", thing):
        thing = thing[:-1] + "것"
    elif not match["who"]:
        return
    parts = listed(thing)
    if all(map(noun_phrase, parts)):
        yield from parts


def _marked(sentence: Sentence, match: Match) -> Iterator[str]:
    """The subject of "여름이 좋아요"."""
    if regex.fullmatch(r".+?(?:이|가)", match["thing"]):
        yield from _things(sentence, match)


_TIMED: Final = _TABLE.pattern("is.timed")


def _favorites(_: Sentence, match: Match) -> Iterator[str]:
    value = match["value"]
    if noun_phrase(value) and fits(value, match["is"]) and not regex.search(r"(?:은|는)(?: |$)|아니", value):
        yield value


def _named(_: Sentence, match: Match) -> Iterator[str]:
    parts = listed(match["thing"])
    if all(map(noun_phrase, parts)) and not _TIMED.search(match["thing"]):
        yield from parts


def _nothing(_: Sentence, __: Match) -> Iterator[None]:
    yield None


def _subject(path: str, said: str) -> str:
    """The name that English statements give it, so that either language replaces the other's."""
    return str((_OCCASIONS if path.endswith("_time") else _SUBJECTS).get(said, ""))


korean_facts: Final = TableOfFacts(
    _TABLE,
    {word: name for word, name in table("korean", "words").items("kin").items() if name},
    subject=_subject,
    fits=may_be_speakers,
    readers={
        "name": _names, "surnamed": _surnamed, "given": _given, "age": _ages, "job": _jobs, "company": _companies,
        "place": _places, "home": _homes, "animal": _animals, "allergens": _allergens, "own": _own, "things": _things,
        "marked": _marked, "favorite": _favorites, "named": _named, "nothing": _nothing,
    },
)  # fmt: skip
"""The facts that the sentences of one turn state."""
