"""English facts about a user: name, age, work, places, family, pets, allergies, diet, languages; tastes are in `tastes`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.english.tastes import SPEAKER, TASTES, statements
from memory_agent.text.patterns import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns import Op

_TABLE: Final = table("english", "facts")
_PERSON: Final = _TABLE.patterns("person") | _TABLE.patterns(
    "person", "in_passing moved_long_ago", regex.IGNORECASE
)
_LIFE: Final = _TABLE.patterns("life")
_TIMES: Final = table("english", "times")
_NEEDS: Final = {key: _TABLE.words(f"needs.{key}") for key in _TABLE.items("needs")} | {
    "family": frozenset({"kid", *table("english", "words").items("kin")}),
    "pets": frozenset(re.findall(r"(?:^|\|)([a-z]+)", _TABLE.value("lists.animals"), re.MULTILINE)),
}
_RELATIONS: Final = {word: name for word, name in table("english", "words").items("kin").items() if name}
_NO_NAME: Final = _TABLE.words("words.no_name")
_NO_LOWER_NAME: Final = _TABLE.words("words.no_lower_name")
_NO_PLACE: Final = _TABLE.words("words.no_place") | {
    name.capitalize() for key in ("months", "weekdays") for name in _TIMES.items(key)
}
_NO_COMPANY: Final = _TABLE.words("words.no_company")
_NOT_A_JOB: Final = _TABLE.words("words.not_a_job")
_LIKE_ADJECTIVES: Final = _TABLE.words("words.like_adjectives")
_NO_ALLERGEN: Final = _TABLE.words("words.no_allergen")
_MODIFIED: Final = lazily(regex.compile, rf"{_TABLE.alternatives('lists.no_modifier')}\b", regex.IGNORECASE)


def english_facts(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """The facts that the sentences of one turn state."""
    yield from _introduction(sentences)
    for sentence in sentences:
        if SPEAKER.search(sentence.plain):
            for rule, needs in _RULES:
                if not needs or sentence.has(needs):
                    yield from rule(sentence)


# --- name ----------------------------------------------------------------------------------------------------
def _is_name(name: str) -> bool:
    """True unless it is a word that people begin with a capital for another reason ("I'm Exhausted", "my sister Wanted")."""
    described = _PERSON["adjective"].fullmatch(name) and name not in _LIKE_ADJECTIVES
    shouted = len(name) > 3 and name.isupper()
    known = not _NO_NAME.isdisjoint(word.capitalize() for word in name.split()) or name in _NO_LOWER_NAME
    return len(name) <= MAX_VALUE_CHARS and not (described or shouted or known)


def _names(sentence: Sentence) -> Iterator[StatedFact]:
    """ "My name is …", else "call me …"."""
    for pattern in (_PERSON["name"], _PERSON["called"]):
        found = [match for match in statements(pattern, sentence) if _is_name(match["name"])]
        for match in found:
            said = match.groupdict()
            changed = said.get("now") or said.get("changed") or match[0].endswith(" now")
            yield stated(sentence, match, "name", match["name"], 0.95, "update" if changed else "add")
        if found:
            return


def _introduction(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """ "I'm …" where people introduce themselves: it begins the turn, after a greeting at most."""
    for sentence in sentences:
        match = next(statements(_PERSON["introduced"], sentence), None)
        if match is not None:
            if _is_name(match["name"]):
                yield stated(sentence, match, "name", match["name"], 0.85)
            return
        if not _PERSON["greeting"].fullmatch(sentence.plain):
            return


# --- what one pattern says: birthday, education, diet, languages; age --------------------------------------------
def _plain(sentence: Sentence) -> Iterator[StatedFact]:
    for path, pattern, needs, confidence in (
        ("birthday", _PERSON["birthday"], "birthday", 0.95),
        ("education", _PERSON["education"], "", 0.85),
        ("education", _PERSON["studies"], "studies", 0.8),
        ("goals", _PERSON["goal"], "", 0.85),
        ("diet", _LIFE["diet"], "", 0.9),
        ("languages", _LIFE["languages"], "languages", 0.9),
    ):
        for match in statements(pattern, sentence) if not needs or sentence.has(_NEEDS[needs]) else ():
            changed = match.groupdict().get("new") or (path == "diet" and " now" in match[0])
            for value in match.captures("value"):
                value = value.lower() if path == "diet" else value
                yield stated(sentence, match, path, value, confidence, "update" if changed else "add")
    for match in statements(_PERSON["age"], sentence):
        if int(match["age"]) >= 13:
            op: Op = "update" if match["turned"] else "add"
            yield stated(sentence, match, "age", int(match["age"]), 0.85, op)
    for match in (
        statements(_LIFE["no_diet"], sentence, past_is_meant=True) if sentence.has(_NEEDS["no_diet"]) else ()
    ):
        if "no longer" in match[0] or "being" in match[0] or _any_more(sentence):
            yield stated(sentence, match, "diet", None, 0.9, "retract")


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


def _teaching(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_PERSON["teaches"], sentence):
        yield stated(sentence, match, "occupation", f"{match['subject']} teacher", 0.85)


def _promotions(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_PERSON["changed"], sentence):
        role, job = match["role"], match["job"]
        unclear = _PERSON["no_role"].match(role) if role else _MODIFIED.match(job)
        if not unclear:
            yield stated(sentence, match, "occupation", role or job, 0.85, "update")


def _employers(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_PERSON["works_for"], sentence):
        if company := _company(match["company"]):
            yield stated(sentence, match, "employer", company, 0.85, "update" if match["new"] else "add")


def _ended(sentence: Sentence) -> Iterator[StatedFact]:
    if sentence.asks:
        return
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
    for pattern in (_PERSON["place"], _PERSON["low_place"]):
        for match in statements(pattern, sentence):
            place, said = match["place"].rstrip(".,'"), match.groupdict()
            product = _NO_PLACE & set(regex.split(r"[ ,]+", place)) or regex.search(r"\p{Ll}{3}\p{Lu}", place)
            if product or len(place) > MAX_VALUE_CHARS:  # "we moved to TypeScript"
                continue
            if said.get("origin"):
                yield stated(sentence, match, "origin", place, 0.85)
            elif not said.get("moved"):
                yield stated(sentence, match, "location", place, 0.95)
            elif not _PERSON["moved_long_ago"].search(sentence.plain, match.end()):
                yield stated(sentence, match, "location", place, 0.85, "update")
    for match in statements(_PERSON["left"], sentence, past_is_meant=True):
        if not match["negated"] or _any_more(sentence):
            yield stated(sentence, match, "location", None, 0.85, "retract")


# --- family and pets -----------------------------------------------------------------------------------------
def _family(sentence: Sentence) -> Iterator[StatedFact]:
    """Relatives by name: one element of the list at `family.<relation>`."""
    beside = (match for match in _LIFE["beside"].finditer(sentence.plain) if _stands_beside(sentence, match))
    named = _LIFE["named"].finditer(sentence.plain)
    for match in (*beside, *named, *statements(_LIFE["having"], sentence)):
        word, in_law, _ = match["relation"].lower().partition("-in-law")
        if relation := _RELATIONS.get(word):
            path = f"family.{relation}{'_in_law' if in_law else ''}"
            for name in filter(_is_name, match.captures("name")):
                yield stated(sentence, match, path, name, 0.9)
    for match in statements(_LIFE["relatives"], sentence):
        for value in match.captures("value"):
            yield stated(sentence, match, "relatives", value, 0.85)


def _stands_beside(sentence: Sentence, match: regex.Match[str]) -> bool:
    """With a comma it must be an apposition ("my wife, Anna, …"), not a list or an address."""
    rest = sentence.plain[match.end() :]
    listed = len(match.captures("name")) > 1
    return (
        listed
        or "," not in match[0]
        or (rest.startswith(",") and not regex.match(r", (?:and )?(?:my|\p{Lu})", rest))
    )


def _pets(sentence: Sentence) -> Iterator[StatedFact]:
    """Animals that live with the user: `dog Rex`, or `dog` where the name is not said."""
    for match in (*_LIFE["pet_beside"].finditer(sentence.plain), *statements(_LIFE["pet_having"], sentence)):
        kind, name = match["animal"].lower(), match["name"]
        if (name and not _is_name(name)) or _LIFE["not_mine"].search(match[0]):
            continue
        if match.groupdict().get("bare") is not None and not _has(match[0]):
            continue
        yield stated(sentence, match, "pets", f"{kind} {name}" if name else kind, 0.9 if name else 0.8)
    for match in statements(_LIFE["pet_in_passing"], sentence):
        if not _LIFE["not_mine"].search(sentence.plain):
            yield stated(sentence, match, "pets", match["animal"].lower(), 0.75)


def _has(clause: str) -> bool:
    """ "I have a dog", but not "I a dog" or "I've a rat"."""
    animal = regex.search(r"\b(?:rat|horse|snake|pup)\b", clause)
    return not animal and regex.search(r"(?i:\b(?:have|own|got|adopted|gotten) )", clause) is not None


# --- allergies -----------------------------------------------------------------------------------------------
def _allergies(sentence: Sentence) -> Iterator[StatedFact]:
    """ "I'm allergic to …"; "my … allergy" is presupposed, whatever else the sentence says."""
    for match in (*statements(_LIFE["allergic"], sentence), *_LIFE["my_allergy"].finditer(sentence.plain)):
        for item in match.captures("item"):
            if len(item) <= MAX_VALUE_CHARS and item.lower() not in _NO_ALLERGEN:
                yield stated(sentence, match, "allergies", item, 0.9)


_RULES: Final = tuple(
    (rule, _NEEDS[needs] if needs else ())
    for rule, needs in (
        (_names, "names"),
        (_plain, ""),
        (_occupations, ""),
        (_teaching, "teaches"),
        (_promotions, "changed"),
        (_employers, ""),
        (_ended, "over"),
        (_places, "places"),
        (_family, "family"),
        (_pets, "pets"),
        (_allergies, "allergies"),
        *TASTES,
    )
)
"""Each with what it needs; none of it: always looked at."""
