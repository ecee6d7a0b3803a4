"""Korean facts about a user: name, age, work, places, tastes, pets, family, allergies, diet and languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.korean.grammar import (
    ENDS_LIKE_SUBJECT,
    Speaker,
    asked,
    doubtful,
    fits,
    given_name,
    listed,
    noun_phrase,
    since_now,
)
from memory_agent.text.patterns import stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns import Sentence


_TABLE: Final = table("korean", "facts")
_TASTES: Final = _TABLE.patterns("tastes")
_LIKES, _DISLIKES = "preferences.likes", "preferences.dislikes"
_RELATIONS: Final = {word: name for word, name in table("korean", "words").items("kin").items() if name}
_SUBJECTS, _OCCASIONS = _TABLE.items("subjects"), _TABLE.items("occasions")
_NO_ALLERGEN: Final = _TABLE.words("words.no_allergen")


# --- likes and dislikes --------------------------------------------------------------------------------------
def _things(thing: str, *, subject: bool) -> list[str]:
    """Each noun of "매운 음식과 커피를"; [] if any is unclear. Without a particle a subject must be there."""
    marked = regex.fullmatch(r"(?P<noun>.+?)(?P<particle>을|를|이|가|도)", thing)
    if marked and fits(marked["noun"], marked["particle"]) and thing.split()[-1] not in ENDS_LIKE_SUBJECT:
        thing = marked["noun"]
    elif subject and regex.fullmatch(r".+(?:은|는)", thing) and fits(thing[:-1], thing[-1]):
        thing = thing[:-1]
    elif regex.fullmatch(r".+[걸]", thing) and len(thing) > 2 and thing[-2] == " ":
        thing = thing[:-1] + "것"
    elif not subject:
        return []
    parts = listed(thing)
    kept = [part for part in parts if noun_phrase(part)]
    return kept if len(kept) == len(parts) else []


def tastes(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    """Likes, dislikes, favourites, times of day, and likes that hold no more."""
    for match in speaker.claims(_TASTES["taste"], sentence):
        if "좋아" in (match["dislikes"] or "") and _is_over(match):
            continue  # it says that a liking ended
        thing = regex.sub(r"^(?:더 이상|이제는?|이젠) ", "", match["thing"])
        if regex.search(r"안 싫어|싫어하지 않|안$", match[0]) or _TASTES["timed"].search(thing):
            continue
        if regex.search(r"(?:^| )(?:안|못|별로|더 이상|더|덜|가장|제일)$", thing):
            continue
        path = _LIKES if match["likes"] else _DISLIKES
        for value in _things(thing, subject=bool(match["subject"])):
            yield stated(sentence, match, path, value, 0.85)
    for match in speaker.claims(_TASTES["good"], sentence):
        marked = regex.fullmatch(r".+?(?:이|가)", match["thing"]) and not _TASTES["timed"].search(
            match["thing"]
        )
        for value in _things(match["thing"], subject=True) if marked else ():
            yield stated(sentence, match, _LIKES if match["likes"] else _DISLIKES, value, 0.75)
    yield from _no_more(sentence, speaker)
    yield from _turned(sentence, speaker)
    yield from _favorites(sentence, speaker)
    yield from _times(sentence, speaker)


def _is_over(match: regex.Match[str]) -> bool:
    return _TASTES["over_before"].search(match.string, 0, match.end()) is not None


def _no_more(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_TASTES["no_more"], sentence, past_is_meant=True):
        if not (match["turned"] or _is_over(match)):
            continue
        ended = _DISLIKES if match["dislikes"] else _LIKES
        ends = r"^(?:더 ?이상|더는|이제는?|이젠|요즘은) | (?:더 ?이상|더는|이제는?|이젠)$"
        thing = regex.sub(ends, "", match["thing"])
        thing = regex.sub(r"(?<=\p{L})(?:은|는)$", lambda found: "을" if found[0] == "은" else "를", thing)
        for value in _things(thing, subject=bool(match["subject"])):
            yield stated(sentence, match, ended, value, 0.9, "retract")
            if match["turned"]:
                yield stated(sentence, match, _DISLIKES, value, 0.8)


def _turned(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    """ "I used to like coffee but now …"."""
    for match in speaker.claims(_TASTES["used_to"], sentence, past_is_meant=True):
        ended = _LIKES if match["likes"] else _DISLIKES
        now = _taste_now(match["now"])
        if now == ended or (now is None and ended == _DISLIKES and "좋" in match["now"]):
            continue
        for value in _things(match["thing"], subject=bool(match["subject"])):
            yield stated(sentence, match, ended, value, 0.9, "retract")
            if now is not None:
                yield stated(sentence, match, now, value, 0.8)


def _taste_now(said: str) -> str | None:
    """The taste that replaced it; None if it has only ended."""
    if regex.match(r"안|좋아하지|아니|아닙", said):
        return None
    return _DISLIKES if "싫" in said else _LIKES


# --- favourites and times ------------------------------------------------------------------------------------
def _favorites(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_TASTES["favorite"], sentence):
        value = match["value"]
        unclear = regex.search(r"(?:은|는)(?: |$)|아니", value)
        if noun_phrase(value) and fits(value, match["is"]) and not unclear:
            path = f"preferences.favorites.{_SUBJECTS[match['what']]}"
            yield stated(sentence, match, path, value, 0.85)


def _times(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_TASTES["time"], sentence):
        path = f"preferences.{_OCCASIONS[match['what']]}_time"
        yield stated(sentence, match, path, match["time"], 0.85)


# --- pets, family, allergies, diet, languages ----------------------------------------------------------------
def life(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    """Animals at home, relatives by name, allergies, diet, languages."""
    for match in speaker.claims(_TASTES["pet"], sentence):
        name = match["name"]
        if name is None or fits(name, match["called"]):
            animal = f"{match['animal']} {name}" if name else match["animal"]
            yield stated(sentence, match, "pets", animal, 0.85)
    for match in speaker.claims(_TASTES["pet_name"], sentence):
        if fits(match["name"], match["is"]) and match["name"] not in {"비밀", "뭐", "아직"}:
            yield stated(sentence, match, "pets", f"{match['animal']} {match['name']}", 0.9)
    yield from _family(sentence)
    for match in speaker.claims(_TASTES["allergy"], sentence):
        for item in listed(match["thing"]):
            if not _NO_ALLERGEN & set(item.split()):
                yield stated(sentence, match, "allergies", item, 0.9)
    for match in speaker.claims(_TASTES["diet"], sentence):
        yield stated(sentence, match, "diet", match["diet"], 0.9, since_now(match))
    for match in speaker.claims(_TASTES["no_diet"], sentence, past_is_meant=True):
        if regex.search(r"더 이상|더는|이제|이젠", match[0]):
            yield stated(sentence, match, "diet", None, 0.9, "retract")
    for match in speaker.claims(_TASTES["speaks"], sentence):
        if match["subject"] not in {"우리", "저희"}:
            for language in match.captures("language"):
                yield stated(sentence, match, "languages", language, 0.85)


def _family(sentence: Sentence) -> Iterator[StatedFact]:
    """ "제 딸 이름은 …", "우리 아들 민준이가 …": relatives are the speaker's unless it is said whose they are."""
    if _TASTES["strangers"].search(sentence.plain):
        return
    for match in _TASTES["relative"].finditer(sentence.plain):
        relation, name = _RELATIONS.get(match["relation"]), match["name"]
        unclear = asked(sentence, match) or doubtful(sentence, match) or name in {"비밀", "무엇", "아직"}
        if relation and fits(name, match["is"]) and not unclear:
            yield stated(sentence, match, f"family.{relation}", name, 0.9)
    for match in _TASTES["beside"].finditer(sentence.plain):
        relation = _RELATIONS.get(match["relation"])
        if relation and given_name(match["name"], marked=match["is"] is not None):
            yield stated(sentence, match, f"family.{relation}", match["name"], 0.85)


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
