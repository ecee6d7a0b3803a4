"""English facts about a user: name, age, work, places, family, pets, allergies, diet, languages; tastes are in `tastes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.english.guards import SPEAKER, statements
from memory_agent.text.english.tastes import TASTES
from memory_agent.text.patterns import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns import Op

_TABLE: Final = table("english", "facts")
_PERSON: Final = _TABLE.patterns("person") | _TABLE.patterns("person", "in_passing", regex.IGNORECASE)
_LIFE: Final = _TABLE.patterns("life")
_TIMES: Final = table("english", "times")
_RELATIONS: Final = {word: name for word, name in table("english", "words").items("kin").items() if name}
_NO_NAME: Final = _TABLE.words("words.no_name")
_NO_PLACE: Final = _TABLE.words("words.no_place") | {
    name.capitalize() for key in ("months", "weekdays") for name in _TIMES.items(key)
}
_NO_COMPANY: Final = _TABLE.words("words.no_company")
_NOT_A_JOB: Final = _TABLE.words("words.not_a_job")
_LIKE_ADJECTIVES: Final = _TABLE.words("words.like_adjectives")
_MODIFIED: Final = lazily(regex.compile, rf"{_TABLE.alternatives('lists.no_modifier')}\b", regex.IGNORECASE)
_NOT_ALLERGIC: Final = frozenset({"mornings", "bullshit", "work", "people", "monday"})


def english_facts(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """The facts that the sentences of one turn state."""
    yield from _introduction(sentences)
    for sentence in sentences:
        if not sentence.asks and SPEAKER.search(sentence.plain):
            for rule in (_names, _ages, _occupations, _ended, _places, _family, _pets, _life, *TASTES):
                yield from rule(sentence)


# --- name ----------------------------------------------------------------------------------------------------
def _is_name(name: str) -> bool:
    shouted = len(name) > 3 and name.isupper()
    return len(name) <= MAX_VALUE_CHARS and _NO_NAME.isdisjoint(name.split()) and not shouted


def _names(sentence: Sentence) -> Iterator[StatedFact]:
    """ "My name is …", "call me …"."""
    for match in statements(_PERSON["name"], sentence):
        if _is_name(match["name"]):
            changed = match["now"] or match["changed"] or match[0].endswith(" now")
            yield stated(sentence, match, "name", match["name"], 0.95, "update" if changed else "add")


def _introduction(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """ "I'm …" where people introduce themselves: it begins the turn, after a greeting at most."""
    for sentence in sentences:
        match = next(statements(_PERSON["introduced"], sentence), None)
        if match is not None:
            name = match["name"]
            described = (
                _PERSON["adjective"].fullmatch(name) and name not in _LIKE_ADJECTIVES
            )  # "I'm Exhausted."
            if _is_name(name) and not described:
                yield stated(sentence, match, "name", name, 0.85)
            return
        if not _PERSON["greeting"].fullmatch(sentence.plain):
            return


# --- age, birthday, education --------------------------------------------------------------------------------
def _ages(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_PERSON["age"], sentence):
        if int(match["age"]) >= 13:
            op: Op = "update" if match["turned"] else "add"
            yield stated(sentence, match, "age", int(match["age"]), 0.85, op)
    for match in statements(_PERSON["birthday"], sentence):
        yield stated(sentence, match, "birthday", match["day"], 0.95)
    for match in statements(_PERSON["degree"], sentence):
        if len(match["degree"]) <= MAX_VALUE_CHARS:
            yield stated(sentence, match, "education", match["degree"], 0.85)


# --- occupation and employer ---------------------------------------------------------------------------------
def _title(match: regex.Match[str]) -> str | None:
    """The occupation, unless it is a figure of speech ("as a team", "a bit of a chef")."""
    title = str(match["title"] or match["job"])
    figure = _MODIFIED.match(title) or title.split()[-1].lower() in _NOT_A_JOB
    return None if figure or len(title) > MAX_VALUE_CHARS else title


def _company(name: str | None) -> str | None:
    if name is None or name.split()[0] in _NO_COMPANY or len(name) > MAX_VALUE_CHARS:
        return None
    return name.rstrip(".'")


def _occupations(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_PERSON["occupation"], sentence):
        if title := _title(match):
            newly = match["new"] or regex.search(r"\bnow\b", match[0], regex.IGNORECASE)
            op: Op = "update" if newly else "add"
            yield stated(sentence, match, "occupation", title, 0.9 if match["title"] else 0.85, op)
            if (company := _company(match["company"])) and "student" not in title:
                yield stated(sentence, match, "employer", company, 0.85)
    for match in statements(_PERSON["changed"], sentence):
        role, job = match["role"], match["job"]
        unclear = _PERSON["no_role"].match(role) if role else _MODIFIED.match(job)
        if not unclear:
            yield stated(sentence, match, "occupation", role or job, 0.85, "update")
    for match in statements(_PERSON["works_for"], sentence):
        if company := _company(match["company"]):
            yield stated(sentence, match, "employer", company, 0.85, "update" if match["new"] else "add")


def _ended(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_PERSON["over"], sentence, past_is_meant=True):
        if _PERSON["in_passing"].match(match[0]):
            continue
        if match["company"] and "don't" in match[0] and not _any_more(sentence):
            continue
        if match["job"] or match["both"]:
            yield stated(sentence, match, "occupation", None, 0.85, "retract")
        if match["company"] or match["both"]:
            yield stated(sentence, match, "employer", None, 0.85, "retract")


def _any_more(sentence: Sentence) -> bool:
    return regex.search(r"\bany ?more\b", sentence.plain) is not None


# --- place ---------------------------------------------------------------------------------------------------
def _places(sentence: Sentence) -> Iterator[StatedFact]:
    """The user's places: lives in, moved to, comes from, no longer lives in."""
    for match in statements(_PERSON["place"], sentence):
        place = str(match["place"]).rstrip(".,'")
        if _NO_PLACE & set(regex.split(r"[ ,]+", place)) or len(place) > MAX_VALUE_CHARS:
            continue
        rest = sentence.plain[match.end() :]
        if match["moved"] and regex.search(r"\b(?:ago|when|before|in (?:19|20)\d\d)\b", rest):
            continue  # where the user moved long ago need not be home now
        if match["origin"]:
            yield stated(sentence, match, "origin", place, 0.85)
        elif match["moved"]:
            yield stated(sentence, match, "location", place, 0.85, "update")
        else:
            yield stated(sentence, match, "location", place, 0.95)
    for match in statements(_PERSON["left"], sentence, past_is_meant=True):
        if not match["negated"] or _any_more(sentence):
            yield stated(sentence, match, "location", None, 0.85, "retract")


# --- family and pets -----------------------------------------------------------------------------------------
def _family(sentence: Sentence) -> Iterator[StatedFact]:
    """Relatives by name: one element of the list at `family.<relation>`."""
    beside = (match for match in _LIFE["beside"].finditer(sentence.plain) if _stands_beside(sentence, match))
    named = _LIFE["named"].finditer(sentence.plain)
    for match in (*beside, *named, *statements(_LIFE["having"], sentence)):
        relation = _RELATIONS.get(match["relation"].lower())
        if relation and match["name"] not in _NO_NAME and not match["name"].endswith("ing"):
            yield stated(sentence, match, f"family.{relation}", match["name"], 0.9)


def _stands_beside(sentence: Sentence, match: regex.Match[str]) -> bool:
    """With a comma it must be an apposition ("my wife, Anna, …"), not a list or an address."""
    rest = sentence.plain[match.end() :]
    return "," not in match[0] or (
        rest.startswith(",") and not regex.match(r", (?:and )?(?:my|\p{Lu})", rest)
    )


def _pets(sentence: Sentence) -> Iterator[StatedFact]:
    """Animals that live with the user: `dog Rex`, or `dog` where the name is not said."""
    for match in (*_LIFE["pet_beside"].finditer(sentence.plain), *statements(_LIFE["pet_having"], sentence)):
        kind, name = match["animal"].lower(), match["name"]
        if name in _NO_NAME or _LIFE["not_mine"].search(match[0]):
            continue
        if match.groupdict().get("bare") is not None and not _has(match[0]):
            continue
        yield stated(sentence, match, "pets", f"{kind} {name}" if name else kind, 0.9 if name else 0.8)


def _has(clause: str) -> bool:
    """ "I have a dog", but not "I a dog" or "I've a rat"."""
    animal = regex.search(r"\b(?:rat|horse|snake|pup)\b", clause)
    return not animal and regex.search(r"(?i:\b(?:have|own|got|adopted|gotten) )", clause) is not None


# --- allergies, diet, languages ------------------------------------------------------------------------------
def _life(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_LIFE["allergic"], sentence):
        for item in match.captures("item"):
            if len(item) <= MAX_VALUE_CHARS and item.lower() not in _NOT_ALLERGIC:
                yield stated(sentence, match, "allergies", item, 0.9)
    for match in statements(_LIFE["diet"], sentence):
        op: Op = "update" if match["became"] or regex.search(r"\bnow\b", match[0]) else "add"
        yield stated(sentence, match, "diet", match["diet"].lower(), 0.9, op)
    for match in statements(_LIFE["no_diet"], sentence, past_is_meant=True):
        if "no longer" in match[0] or "being" in match[0] or _any_more(sentence):
            yield stated(sentence, match, "diet", None, 0.9, "retract")
    for match in statements(_LIFE["speaks"], sentence):
        for language in match.captures("language"):
            yield stated(sentence, match, "languages", language, 0.9)
