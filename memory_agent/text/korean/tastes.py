"""Korean facts about a user's tastes, pets, family, allergies, diet and languages."""

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
    from collections.abc import Iterator

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
