"""An English-speaking user's life: family, pets, allergies, diet, languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.english.facts.guards import statements
from memory_agent.text.english.facts.words import NO_NAME, RELATIONS
from memory_agent.text.patterns.common import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op

_TABLE: Final = table("english", "facts")
# --- family --------------------------------------------------------------------------------------------------
_BESIDE: Final = _TABLE.pattern("life.beside")
_NAMED: Final = _TABLE.pattern("life.named")
_HAVING: Final = _TABLE.pattern("life.having")


def family(sentence: Sentence) -> Iterator[StatedFact]:
    """Relatives by name: one element of the list at `family.<relation>`."""
    if sentence.asks:
        return
    beside = (match for match in _BESIDE.finditer(sentence.plain) if _stands_beside(sentence, match))
    named = _NAMED.finditer(sentence.plain)
    for match in (*beside, *named, *statements(_HAVING, sentence)):
        relation = RELATIONS.get(match["relation"].lower())
        if relation and match["name"] not in NO_NAME and not match["name"].endswith("ing"):
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
_PET_BESIDE: Final = _TABLE.pattern("life.pet_beside")
_PET_HAVING: Final = _TABLE.pattern("life.pet_having")
_NOT_MINE: Final = _TABLE.pattern("life.not_mine")


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
_ALLERGIC: Final = _TABLE.pattern("life.allergic")
_DIET: Final = _TABLE.pattern("life.diet")
_NO_DIET: Final = _TABLE.pattern("life.no_diet")
_SPEAKS: Final = _TABLE.pattern("life.speaks")


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
