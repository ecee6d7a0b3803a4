"""The rules for Korean: tastes, pets, family, allergies, diet, languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.korean.facts.grammar import (
    ADVERBS,
    AFTER,
    ANY_SUBJECT,
    BEGINS,
    ENDS_LIKE_SUBJECT,
    HADA,
    IS,
    MY,
    SUBJECT,
    Speaker,
    copula_fits,
    fits,
    listed,
    noun_phrase,
)
from memory_agent.text.korean.facts.words import (
    ANIMALS,
    DIETS,
    LANGUAGES,
    OCCASIONS,
    RELATIONS,
    SUBJECTS,
    TIMES,
)
from memory_agent.text.patterns.common import stated
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op, Sentence

_LIKES, _DISLIKES = ("preferences", "likes"), ("preferences", "dislikes")

# --- likes and dislikes --------------------------------------------------------------------------------------
_WORD: Final = r"[\p{Hangul}\p{Latin}\d'&-]++"
_THING: Final = rf"(?P<thing>{_WORD}(?:,? {_WORD}){{0,4}}?)"
# The last word's particle is split off afterwards, where its form can be checked against the sound before it.
_TASTE: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:[\p{{Hangul}}]+보다 (?:는 )?(?:더 )?)?{_THING} {ADVERBS}(?:(?P<likes>좋아){HADA}|(?P<dislikes>싫어){HADA}"
    rf"|(?P<dislikes>(?:별로 )?안 좋아){HADA}|(?P<dislikes>(?:별로 |그다지 )?좋아하지 않)(?:아요|습니다|고(?! )|는데|(?P<plain>아|는다))){AFTER}",
)
_GOOD: Final = lazily(
    regex.compile,
    rf"{SUBJECT}{_THING} {ADVERBS}(?:(?P<likes>좋)(?:아요|습니다)|(?P<dislikes>싫)(?:어요|습니다)){AFTER}",
)
_OVER: Final = r"(?P<over>더 이상|더는|더이상|이제는?|이젠|요즘은)"
_NO_MORE: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:{_OVER} )?{_THING} (?:{_OVER} )?(?:별로 )?(?:(?P<likes>안 좋아)(?:해요|합니다|해)|(?P<likes>좋아하지) 않(?:아요|습니다|아|게 됐어요)"
    rf"|(?P<dislikes>안 싫어)(?:해요|합니다|해)|(?P<dislikes>싫어하지) 않(?:아요|습니다|아)|(?P<turned>싫어졌)(?:어요|습니다|어)){AFTER}",
)
_USED_TO: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:예전에는?|옛날에는?|전에는) (?:(?:저는|제가|나는|내가) )?{_THING} (?:(?P<likes>좋아)했(?:는데|지만|었는데)|(?P<dislikes>싫어)했(?:는데|지만|었는데)),? "
    r"(?:이제는?|이젠|지금은|더 이상|더는|요즘은) (?:더 이상 )?(?P<now>안 좋아해요|안 좋아합니다|좋아하지 않아요|좋아하지 않습니다|싫어해요|싫어합니다|싫어요|아니에요|아닙니다|좋아해요|좋아합니다|좋아요|안 그래요)(?=$|[,!~ㅋㅎ])",
)
_OVER_BEFORE: Final = lazily(regex.compile, r"더 ?이상|더는|이제|이젠|요즘은")


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
    """What a taste has become; None if it has only ended."""
    if regex.match(r"안|좋아하지|아니|아닙", said):
        return None
    return _DISLIKES if "싫" in said else _LIKES


# --- favourites and times ------------------------------------------------------------------------------------
_FAVORITE: Final = lazily(
    regex.compile,
    rf"(?:제가|내가|저의|나의|제|내) (?:가장|제일) 좋아하는 (?P<what>{'|'.join(sorted(SUBJECTS, key=len, reverse=True))})(?:은|는) (?P<value>(?:{_WORD} ){{0,3}}?[\p{{Hangul}}\p{{Latin}}\d]+?){IS}{AFTER}",
)
_TIMED: Final = lazily(regex.compile, rf"^(?:{TIMES})(?:에)? ?(?:하는 )?(?:{'|'.join(OCCASIONS)})")
_TIME: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:(?P<time>{TIMES}) ?(?P<what>{'|'.join(OCCASIONS)})|(?P<what>{'|'.join(OCCASIONS)})(?:은|는) (?P<time>{TIMES})(?:에 하는 것|에 하는 걸|))(?:을|를|이|가)? ?"
    rf"{ADVERBS}(?:(?:더 )?(?:선호|좋아){HADA}|(?:더 )?편해요|(?:더 )?좋아요|(?:더 )?좋습니다){AFTER}",
)


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
_ANIMAL: Final = rf"(?P<animal>{'|'.join(sorted(ANIMALS, key=len, reverse=True))})"
_GIVEN: Final = r"(?P<name>\p{Hangul}{1,4}?|\p{Lu}\p{Latin}+)"
_KEEPS: Final = r"(?:키워요|키웁니다|키우고 있(?:어요|습니다)|키우고(?! 싶)|키우는데|길러요|기릅니다|기르고 있(?:어요|습니다)|(?P<plain>키워|키운다))"
_PET: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:집에서 )?(?:{_GIVEN}(?P<called>이?라는) )?{_ANIMAL}(?:을|를| (?:한|두|세|네) 마리를?)? {ADVERBS}{_KEEPS}{AFTER}",
)
_PET_NAME: Final = lazily(
    regex.compile, rf"(?:{MY}(?:\p{{Hangul}}+ )?|{BEGINS}){_ANIMAL}(?:의)? ?이름은 {_GIVEN}{IS}{AFTER}"
)
_RELATIVE: Final = lazily(
    regex.compile,
    rf"{MY}(?:(?:큰|작은|첫째|둘째|막내) ?)?(?P<relation>{'|'.join(sorted(RELATIONS, key=len, reverse=True))})(?:의)? ?이름은 "
    rf"(?P<name>\p{{Hangul}}{{2,5}}?|\p{{Lu}}\p{{Latin}}+){IS}{AFTER}",
)
_ALLERGY: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?P<thing>{_WORD}(?:,? {_WORD}){{0,3}}?)(?:에)? (?:심한 )?(?:알레르기|알러지)(?:가|도)? (?:있어요|있습니다|있거든요|있어서|있고|있는데|심해요|심합니다|(?P<plain>있어|있다)){AFTER}",
)
_DIET: Final = lazily(regex.compile, rf"{SUBJECT}(?P<diet>{'|'.join(DIETS)}){IS}{AFTER}")
_NO_DIET: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?:더 이상 |더는 |이제는? |이젠 )*(?:{'|'.join(DIETS)})(?:이|가) (?:아니에요|아닙니다|아니야){AFTER}",
)
_SPEAKS: Final = lazily(
    regex.compile,
    rf"{ANY_SUBJECT}(?P<language>{LANGUAGES})(?:(?:, ?|와 |과 |랑 |하고 )(?P<language>{LANGUAGES}))*+(?:를|을|도)? "
    r"(?:할 줄 (?:알아요|압니다)|할 수 있(?:어요|습니다)|유창하게 (?:해요|합니다)|구사(?:해요|합니다)|잘해요|잘 해요|잘합니다)"
    rf"{AFTER}|{MY}모국어는 (?P<language>{LANGUAGES}){IS}{AFTER}",
)
_NO_ALLERGEN: Final = word_set("심한 특별한 음식 계절성 피부 약간 좀 조금 별다른 저는 제가")


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
        if copula_fits(match["name"], match["is"]) and match["name"] not in {"비밀", "무엇", "아직"}:
            yield stated(sentence, match.span(), ("family", RELATIONS[match["relation"]]), match["name"], 0.9)
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
