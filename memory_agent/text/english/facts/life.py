"""An English-speaking user's life: family, pets, allergies, diet, languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.english.facts.guards import ADVERBS, CLAUSE, I_AM, I_HAVE, statements
from memory_agent.text.english.facts.words import ANIMALS, DIETS, LANGUAGES, NO_NAME, RELATIONS
from memory_agent.text.patterns.common import MAX_VALUE_CHARS, Sentence, stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op

_NAME: Final = r"(?P<name>\p{Lu}\p{Ll}[\p{L}\p{M}-]*+)"
_AFTER_NAME: Final = r"(?!'(?!s\b)|\p{L}| and \p{Lu}\p{Ll}+'s (?:wife|husband)| (?:Day|Eve|Airlines|Hospital|University|Street|Avenue)\b)"

# --- family --------------------------------------------------------------------------------------------------
_RELATION: Final = rf"(?P<relation>(?i:{'|'.join(sorted(RELATIONS, key=len, reverse=True))}))"
_OF_AGE: Final = r"(?:\d{1,2}[- ]year[- ]old |little |younger |youngest |older |oldest |eldest |big |twin |baby |lovely |dear )?"
# A name beside "my wife" is presupposed, whatever else the sentence says; hence no look at what surrounds it.
_BESIDE: Final = lazily(regex.compile, rf"\b(?i:my) {_OF_AGE}{_RELATION},? {_NAME}{_AFTER_NAME}")
_NAMED: Final = lazily(
    regex.compile,
    rf"\b(?i:my) {_OF_AGE}{_RELATION}(?:'s name is|'s called| is (?:called|named)|, (?:named|called)| (?:named|called)) {_NAME}{_AFTER_NAME}",
)
_HAVING: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?i:{I_HAVE}(?:have |got )?(?:an?|one) {_OF_AGE}{_RELATION},? (?:named|called|whose name is)) {_NAME}{_AFTER_NAME}",
)


def family(sentence: Sentence) -> Iterator[StatedFact]:
    """Relatives by name: one element of the list at `family.<relation>`."""
    if sentence.asks:
        return
    beside = (match for match in _BESIDE.finditer(sentence.plain) if _stands_beside(sentence, match))
    named = _NAMED.finditer(sentence.plain)
    for match in (*beside, *named, *statements(_HAVING, sentence)):
        if match["name"] not in NO_NAME and not match["name"].endswith("ing"):
            relation = RELATIONS[match["relation"].lower()]
            yield stated(sentence, match.span(), ("family", relation), match["name"], 0.9)


def _stands_beside(sentence: Sentence, match: regex.Match[str]) -> bool:
    """With a comma it must be an apposition ("my wife, Anna, …"), not a list or an address."""
    if "," not in match[0]:
        return True
    return regex.match(r"(?:,| is\b| was\b| and I\b|$)", sentence.plain[match.end() :]) is not None and (
        sentence.plain.find(",", match.end()) == match.end()
        and not regex.match(r", (?:and )?(?:my|\p{Lu})", sentence.plain[match.end() :])
    )


# --- pets ----------------------------------------------------------------------------------------------------
_ANIMAL: Final = rf"(?P<animal>(?i:{ANIMALS}))"
_LOOKS: Final = r"(?:(?!\p{Lu})[\p{L}\d-]+ ){0,2}?"
_PET_BESIDE: Final = lazily(
    regex.compile,
    rf"\b(?i:my) {_LOOKS}{_ANIMAL}(?:,? |'s name is | is (?:called|named) |,? (?:named|called) ){_NAME}{_AFTER_NAME}",
)
_PET_HAVING: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:{I_HAVE}{ADVERBS}(?:have |own |got |adopted |gotten )?(?P<one>an?|one)) {_LOOKS}{_ANIMAL}"
    rf"(?:,? (?i:named|called) {_NAME}{_AFTER_NAME}|(?P<bare>(?=$|[)–—]|,? (?:and|but|so) |, )))",
)
_NOT_MINE: Final = lazily(
    regex.compile,
    r"\b(?:late|old|childhood|first|friend's|neighbo\w*|ex-\w+|previous|former|hot|corn|plush|virtual|toy|stuffed|robot)\b",
)


def pets(sentence: Sentence) -> Iterator[StatedFact]:
    """Animals that live with the user: `dog Rex`, or `dog` where the name is not said."""
    if sentence.asks:
        return
    for match in (*_PET_BESIDE.finditer(sentence.plain), *statements(_PET_HAVING, sentence)):
        kind, name = match["animal"].lower(), match["name"]
        if name in NO_NAME or _NOT_MINE.search(match[0]):
            continue
        if "bare" in match.groupdict() and match["bare"] is not None and not _has(match[0]):
            continue
        yield stated(
            sentence, match.span(), ("pets",), f"{kind} {name}" if name else kind, 0.9 if name else 0.8
        )


def _has(clause: str) -> bool:
    """ "I have a dog", but not "I a dog" or "I've a rat"."""
    return regex.search(r"(?i:\b(?:have|own|got|adopted|gotten) )", clause) is not None and not regex.search(
        r"\b(?:rat|horse|snake|pup)\b", clause
    )


# --- allergies, diet, languages ------------------------------------------------------------------------------
_SUBSTANCE: Final = r"(?!(?:the|it|this|that|my|your|some|any|most|many|certain|all|those|these|other|several|a|an|him|her|you|so|but|and|or|no|not|especially|including|because|he|she|they|we|I)\b)[\p{L}-]+"
_PHRASE: Final = rf"{_SUBSTANCE}(?: (?!(?:and|or|so|but|which|that|who|myself|too|as|with|in|now|is|are|if|when|because)\b)[\p{{L}}-]+){{0,2}}"
_ALLERGIC: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:{I_AM}{ADVERBS}(?:severely |highly |deathly |very |mildly |slightly )?allergic to "
    rf"(?P<item>{_PHRASE})(?:(?:, (?P<item>{_PHRASE}))*+,? (?:and|or) (?P<item>{_PHRASE}))?"
    rf"|(?:{I_HAVE}(?:have |got )?(?:an? )(?:severe |bad |mild |serious )?(?P<item>(?!(?:seasonal|food|skin|severe|bad)\b){_SUBSTANCE}(?: {_SUBSTANCE})?) allergy)"
    rf"|{I_HAVE}(?:have |got )?an? (?:severe |bad |mild |serious )?allergy to (?P<item>{_PHRASE}))"
    r"(?=$|[,)–—]| -| so | but | and (?:I|it|my|he|she|that|need|have|can)\b| which | myself| too | as well)",
)
_DIET: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:{I_AM}{ADVERBS}(?:an? )?(?:strict |lifelong |committed |full-time )?(?P<diet>{DIETS})"
    rf"|(?P<became>{I_HAVE}{ADVERBS}(?:become|became|gone|went|turned) (?:an? )?)(?P<diet>{DIETS})"
    r"|I (?:follow|eat|keep|am on|stick to) (?:an? )?(?:strict )?(?P<diet>vegan|vegetarian|pescatarian|keto|paleo|halal|kosher|gluten-free|dairy-free|low-carb)(?: diet| food)?)"
    r"(?=$|[,)–—]| -| and | but | so | who | for | since | because | now| myself| last | this | recently| in (?=\d))",
)
_NO_DIET: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:{I_AM}(?:no longer|not)(?P<being> being)? (?:an? )?(?:strict )?(?:{DIETS})"
    rf"|{I_HAVE}{ADVERBS}(?:stopped|quit|given up|gave up) being (?:an? )?(?:{DIETS}))",
)
_LANGUAGE: Final = rf"(?P<language>{'|'.join(LANGUAGES.split())})"
_SPEAKS: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?:(?i:I {ADVERBS}(?:can )?(?:fluently )?speak (?:both |fluent |native )?|{I_AM}{ADVERBS}(?:(?:fluent|bilingual|trilingual) in |a native speaker of )(?:both )?"
    rf"|my (?:native|first) (?:language|tongue) is |my mother tongue is )"
    rf"{_LANGUAGE}(?:(?:,|,? and|,? (?:as well as))(?: also)? (?:some |a little |a bit of )?{_LANGUAGE})*+"
    rf"|(?i:{I_AM}a native ){_LANGUAGE} speaker)"
    r"(?=$|[,)–—]| -| and | but | fluently| natively| at (?:home|work)| so | with | well| as | too)",
)


def life(sentence: Sentence) -> Iterator[StatedFact]:
    """Allergies, diet and languages."""
    for match in statements(_ALLERGIC, sentence):
        for item in match.captures("item"):
            if len(item) <= MAX_VALUE_CHARS and item.lower() not in {
                "mornings",
                "bullshit",
                "work",
                "people",
                "monday",
            }:
                yield stated(sentence, match.span(), ("allergies",), item, 0.9)
    for match in statements(_DIET, sentence):
        op: Op = "update" if match["became"] or regex.search(r"\bnow\b", match[0]) else "add"
        yield stated(sentence, match.span(), ("diet",), match["diet"].lower(), 0.9, op)
    for match in statements(_NO_DIET, sentence, past_is_meant=True):
        if "no longer" in match[0] or "being" in match[0] or regex.search(r"\bany ?more\b", sentence.plain):
            yield stated(sentence, match.span(), ("diet",), None, 0.9, "retract")
    for match in statements(_SPEAKS, sentence):
        for language in match.captures("language"):
            yield stated(sentence, match.span(), ("languages",), language, 0.9)
