"""The rules for Korean: tastes, pets, family, allergies, diet, languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.korean.facts.grammar import (
    ENDS_LIKE_SUBJECT,
    Speaker,
    copula_fits,
    fits,
    listed,
    noun_phrase,
)
from memory_agent.text.korean.facts.words import (
    OCCASIONS,
    RELATIONS,
    SUBJECTS,
)
from memory_agent.text.patterns.common import stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op, Sentence

_TABLE: Final = table("korean", "facts")
_LIKES, _DISLIKES = ("preferences", "likes"), ("preferences", "dislikes")

# --- likes and dislikes --------------------------------------------------------------------------------------
_TASTE: Final = _TABLE.pattern("tastes.taste")
_GOOD: Final = _TABLE.pattern("tastes.good")
_NO_MORE: Final = _TABLE.pattern("tastes.no_more")
_USED_TO: Final = _TABLE.pattern("tastes.used_to")
_OVER_BEFORE: Final = _TABLE.pattern("tastes.over_before")


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
    for match in speaker.claims(_TASTE, sentence):
        if (
            match["dislikes"]
            and _OVER_BEFORE.search(sentence.plain[: match.end()])
            and "좋아" in match["dislikes"]
        ):
            continue  # it says that a liking ended
        if regex.search(r"안 싫어|싫어하지 않|안$", match[0]):
            continue
        path = _LIKES if match["likes"] else _DISLIKES
        thing = regex.sub(r"^(?:더 이상|이제는?|이젠) ", "", match["thing"])
        if regex.search(r"(?:^| )(?:안|못|별로|더 이상|더|덜|가장|제일)$", thing):
            continue
        if _TIMED.search(thing):
            continue
        for value in _things(thing, subject=bool(match["subject"])):
            yield stated(sentence, match.span(), path, value, 0.85)
    for match in speaker.claims(_GOOD, sentence):
        marked = regex.fullmatch(r".+?(?:이|가)", match["thing"]) and not _TIMED.search(match["thing"])
        for value in _things(match["thing"], subject=True) if marked else ():
            yield stated(sentence, match.span(), _LIKES if match["likes"] else _DISLIKES, value, 0.75)
    yield from _no_more(sentence, speaker)
    yield from _turned(sentence, speaker)
    yield from _favorites(sentence, speaker)
    yield from _times(sentence, speaker)


def _no_more(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_NO_MORE, sentence, past_is_meant=True):
        if not (match["turned"] or _OVER_BEFORE.search(sentence.plain[: match.end()])):
            continue
        ended = _DISLIKES if match["dislikes"] else _LIKES
        thing = regex.sub(
            r"^(?:더 ?이상|더는|이제는?|이젠|요즘은) | (?:더 ?이상|더는|이제는?|이젠)$", "", match["thing"]
        )
        thing = regex.sub(r"(?<=\p{L})(?:은|는)$", lambda found: "을" if found[0] == "은" else "를", thing)
        for value in _things(thing, subject=bool(match["subject"])):
            yield stated(sentence, match.span(), ended, value, 0.9, "retract")
            if match["turned"]:
                yield stated(sentence, match.span(), _DISLIKES, value, 0.8)


def _turned(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    """ "I used to like coffee but now …"."""
    for match in speaker.claims(_USED_TO, sentence, past_is_meant=True):
        ended = _LIKES if match["likes"] else _DISLIKES
        now = _taste_now(match["now"])
        if now == ended or (now is None and ended == _DISLIKES and "좋" in match["now"]):
            continue
        for value in _things(match["thing"], subject=bool(match["subject"])):
            yield stated(sentence, match.span(), ended, value, 0.9, "retract")
            if now is not None:
                yield stated(sentence, match.span(), now, value, 0.8)


def _taste_now(said: str) -> tuple[str, str] | None:
    """The taste that replaced it; None if it has only ended."""
    if regex.match(r"안|좋아하지|아니|아닙", said):
        return None
    return _DISLIKES if "싫" in said else _LIKES


# --- favourites and times ------------------------------------------------------------------------------------
_FAVORITE: Final = _TABLE.pattern("tastes.favorite")
_TIMED: Final = _TABLE.pattern("tastes.timed")
_TIME: Final = _TABLE.pattern("tastes.time")


def _favorites(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_FAVORITE, sentence):
        value = match["value"]
        if (
            noun_phrase(value)
            and copula_fits(value, match["is"])
            and not regex.search(r"(?:은|는)(?: |$)|아니", value)
        ):
            path = ("preferences", "favorites", SUBJECTS[match["what"]])
            yield stated(sentence, match.span(), path, value, 0.85)


def _times(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    for match in speaker.claims(_TIME, sentence):
        path = ("preferences", f"{OCCASIONS[match['what']]}_time")
        yield stated(sentence, match.span(), path, match["time"], 0.85)


# --- pets, family, allergies, diet, languages ----------------------------------------------------------------
_PET: Final = _TABLE.pattern("tastes.pet")
_PET_NAME: Final = _TABLE.pattern("tastes.pet_name")
_RELATIVE: Final = _TABLE.pattern("tastes.relative")
_ALLERGY: Final = _TABLE.pattern("tastes.allergy")
_DIET: Final = _TABLE.pattern("tastes.diet")
_NO_DIET: Final = _TABLE.pattern("tastes.no_diet")
_SPEAKS: Final = _TABLE.pattern("tastes.speaks")
_NO_ALLERGEN: Final = _TABLE.words("words.no_allergen")


def life(sentence: Sentence, speaker: Speaker) -> Iterator[StatedFact]:
    """Animals at home, relatives by name, allergies, diet, languages."""
    for match in speaker.claims(_PET, sentence):
        name = match["name"]
        if name is None or fits(name, match["called"]):
            yield stated(
                sentence,
                match.span(),
                ("pets",),
                f"{match['animal']} {name}" if name else match["animal"],
                0.85,
            )
    for match in speaker.claims(_PET_NAME, sentence):
        if copula_fits(match["name"], match["is"]) and match["name"] not in {"비밀", "뭐", "아직"}:
            yield stated(sentence, match.span(), ("pets",), f"{match['animal']} {match['name']}", 0.9)
    for match in speaker.claims(_RELATIVE, sentence):
        relation = RELATIONS.get(match["relation"])
        named = copula_fits(match["name"], match["is"]) and match["name"] not in {"비밀", "무엇", "아직"}
        if relation and named:
            yield stated(sentence, match.span(), ("family", relation), match["name"], 0.9)
    for match in speaker.claims(_ALLERGY, sentence):
        items = listed(match["thing"])
        if all(noun_phrase(item) and not _NO_ALLERGEN & set(item.split()) for item in items):
            for item in items:
                yield stated(
                    sentence, match.span(), ("allergies",), regex.sub(r"(?<=\p{L})에$", "", item), 0.9
                )
    for match in speaker.claims(_DIET, sentence):
        op: Op = "update" if regex.search(r"이제|이젠", match[0]) else "add"
        yield stated(sentence, match.span(), ("diet",), match["diet"], 0.9, op)
    for match in speaker.claims(_NO_DIET, sentence, past_is_meant=True):
        if regex.search(r"더 이상|더는|이제|이젠", match[0]):
            yield stated(sentence, match.span(), ("diet",), None, 0.9, "retract")
    for match in speaker.claims(_SPEAKS, sentence):
        if match["subject"] not in {"우리", "저희"}:
            for language in match.captures("language"):
                yield stated(sentence, match.span(), ("languages",), language, 0.85)
