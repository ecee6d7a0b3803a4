"""English facts about a user: how the values of the table `facts` are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.patterns import MAX_VALUE_CHARS, TableOfFacts
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.cues import Sentence

    Match = regex.Match[str]

_TABLE: Final = table("english", "facts")
_TIMES: Final = table("english", "times")
_IS: Final = _TABLE.patterns("is") | _TABLE.patterns(
    "is", "modified object_end contextual gerund no_subject allergens_end aside then_listed", regex.IGNORECASE
)
MAX_VALUE_WORDS: Final = 6
_MOST_WORDS: Final = 5
"""Of the second of two activities."""
_CONDITIONS: Final = _TABLE.items("conditions")
_NO_PLACE: Final = _TABLE.words("words.no_place") | {
    name.capitalize() for key in ("months", "weekdays") for name in _TIMES.items(key)
}
_OCCASION_NAME: Final = {
    "working out": "workout", "to work out": "workout", "work out": "workout", "gym session": "workout",
    "doctor's appointment": "appointment",
}  # fmt: skip


def _is(word: str, key: str) -> bool:
    return word in _TABLE.words(f"words.{key}")


# --- names, numbers, jobs, places ----------------------------------------------------------------------------
def _is_name(name: str) -> bool:
    """False for a word that begins with a capital for another reason ("I'm Exhausted", "my sister Wanted")."""
    described = _IS["adjective"].fullmatch(name) and not _is(name, "like_adjectives")
    shouted = len(name) > 3 and name.isupper()
    known = any(_is(word.capitalize(), "no_name") for word in name.split()) or _is(name, "no_lower_name")
    return len(name) <= MAX_VALUE_CHARS and not (described or shouted or known)


def _names(_: Sentence, match: Match) -> Iterator[str | None]:
    """Each name, all or none; beside a relative June and Leo are names as well."""
    said = match.groupdict()
    names = [name for group in ("value", "name") if group in said for name in match.captures(group)]
    if all(_is_name(name) or ("kin" in said and _is(name, "also_names")) for name in names):
        yield from names
        if not names:
            yield None


def _ages(_: Sentence, match: Match) -> Iterator[int]:
    if int(match["value"]) >= 13:
        yield int(match["value"])


def _jobs(_: Sentence, match: Match) -> Iterator[str]:
    """The occupation, unless it is a figure of speech ("as a team", "a bit of a chef")."""
    title = match["value"]
    if not _IS["modified"].match(title) and not _is(title.split()[-1].lower(), "not_a_job"):
        yield title


def _teachers(_: Sentence, match: Match) -> Iterator[str]:
    yield f"{match['value']} teacher"


def _companies(_: Sentence, match: Match) -> Iterator[str]:
    if not _is(match["company"].split()[0], "no_company") and "student" not in match[0]:
        yield match["company"].rstrip(".'")


def _places(_: Sentence, match: Match) -> Iterator[str]:
    """A place, unless it is a product: "we moved to TypeScript"."""
    place = match["value"].rstrip(".,'")
    if not (_NO_PLACE & set(regex.split(r"[ ,]+", place)) or regex.search(r"\p{Ll}{3}\p{Lu}", place)):
        yield place


def _animals(_: Sentence, match: Match) -> Iterator[str]:
    """ "dog Rex", or "dog" where the name is not said."""
    kind, names = match["animal"].lower(), match.captures("name")
    if names:
        yield from (f"{kind} {name}" for name in filter(_is_name, names))
    elif not regex.search(r"\b(?:rat|horse|snake|pup)\b", match[0]) or "no" in match[0].split():
        yield kind


# --- allergies and health ------------------------------------------------------------------------------------
def _allergens(sentence: Sentence, match: Match) -> Iterator[str]:
    """Each of "cats, dogs and horses", in the one form that "a cat allergy" has as well."""
    said = match.captures("value") if "value" in match.groupdict() else []
    listed = _IS["aside"].sub("", sentence.plain[match.end() :])
    for item in said or _listed(_IS["allergens_end"].split(listed, maxsplit=1)[0], split=True):
        if not (_is(item.lower(), "no_allergen") or _IS["contextual"].search(item)):
            yield f"{item}s" if _is(item.lower().split()[-1], "counted") else item


def _intolerances(_: Sentence, match: Match) -> Iterator[str]:
    yield f"{match['value'].lower()} intolerance"


def _conditions(_: Sentence, match: Match) -> Iterator[str]:
    yield from (_CONDITIONS.get(said.lower(), said) for said in match.captures("value"))


# --- likes, dislikes and favourites --------------------------------------------------------------------------
def _things(sentence: Sentence, match: Match) -> Iterator[str]:
    for value in _listed(sentence.plain[match.end() :]):
        if len(value) > 3 or _is(value.lower(), "short_nouns"):
            yield value


def _thing(_: Sentence, match: Match) -> Iterator[str]:
    if _object(match["value"]) == match["value"]:
        yield match["value"]


def _listed(said: str, *, split: bool = False) -> list[str]:
    """Each of "hiking, cooking and, sadly, jazz", all or none; else the one object; [] if it says too little.

    `split`: the two of "A and B" are two, whatever they are.
    """
    said = _IS["aside"].sub("", said)
    if listed := _IS["list"].match(said):
        items = [_object(item) for item in listed.captures("item")]
        return [item for item in items if item] if all(items) else []
    if _IS["then_listed"].match(said):
        return []
    end = _IS["object_end"].search(said)
    left, joined, right = (said[: end.start()] if end else said).strip().partition(" and ")
    if joined and (split or _are_two(left, right)):
        halves = [_object(left), _object(right) if len(right.split()) <= _MOST_WORDS else None]
        if split or all(halves):
            return [half for half in halves if half] if all(halves) else []
    value = _object(said)
    return [value] if value else []


def _are_two(left: str, right: str) -> bool:
    """True of "hiking and watching old films", "cats and dogs"; "mac and cheese" is one dish."""
    first, second = (_IS["gerund"].match(half) for half in (left, right))
    one = len(right.split()) == 1
    plural = one and " " not in left and left.endswith("s") and right.endswith("s")
    return plural or second is not None or (first is not None and " " not in left and one)


def _object(text: str) -> str | None:
    """The object liked or disliked, up to the end of its clause; None if it says too little or needs its context."""
    end = _IS["object_end"].search(text)
    if end and end[0] == '"':
        return None  # the name that was quoted is missing
    value = (text[: end.start()] if end else text).strip(" '.-~*!")
    value = _without_half_clause(_IS["active"].sub(_doing, value))
    words = value.lower().split()
    if not words or len(words) > MAX_VALUE_WORDS or len(value) > MAX_VALUE_CHARS:
        return None
    if end and end[0] == "," and len(words) > 1 and _is(words[-2], "before_adjective"):
        return None  # "a safe, inviting place"
    if _is(words[-1], "dangling") or _is(words[0], "no_start"):
        return None
    contextual = _IS["contextual"].search(_IS["company"].sub("", value))
    unclear = _IS["unclear"].search(value) and not _IS["general_the"].match(value)
    return None if contextual or unclear else value


def _doing(active: Match) -> str:
    """ "hiking" for "to hike", so that one thing has one form."""
    verb = active["verb"].lower()
    if re.fullmatch(r"[^aeiou]*[aeiou][bgmnpt]", verb):
        verb += verb[-1]
    return f"{re.sub(r'(?<=[^e])e$', '', verb)}ing{active['rest']}"


def _without_half_clause(value: str) -> str:
    """`value` without an "and …" that may begin another statement: "hiking and go every week" is "hiking"."""
    left, joined, right = value.partition(" and ")
    if not joined or not left.split():
        return value
    first, second = (_IS["gerund"].match(half.lstrip()) is not None for half in (left, right))
    # Of "reading and jazz" the second is not read, of "trying new foods and drinks" it is tried.
    apart = (second and not first) or (first and not second and " " not in left.strip())
    return left if apart or len(right.split()) > (3 if first and second else 2) else value


def _favorites(sentence: Sentence, match: Match) -> Iterator[str]:
    """The object, of "the" and "called" apart; none of a subject that only its context explains."""
    said = regex.sub(r"^(?:called |named |an? )", "", sentence.plain[match.start("value") :])
    kinds = match.groupdict()
    unclear = said.lower().startswith(("when", "the one")) or _IS["no_subject"].search(
        kinds.get("subject") or kinds.get("of") or ""
    )
    value = None if unclear else _object(match["value"] if len(match["value"]) > 1 else said)
    if value:
        yield value


def _quoted(sentence: Sentence, match: Match) -> Iterator[str]:
    if value := sentence.quoted(match.start("value")):
        yield value


def _times(_: Sentence, match: Match) -> Iterator[str]:
    yield match["time"].lower().removesuffix("s")


def _nothing(_: Sentence, __: Match) -> Iterator[None]:
    yield None


def _lower(_: Sentence, match: Match) -> Iterator[str]:
    yield match["value"].lower()


def _subject(_: str, said: str) -> str:
    """The name of a favourite's kind or an occasion on the path: one for "colour" and "colors"."""
    name = said.lower().replace("colour", "color").replace("flavour", "flavor")
    singular = name if name.endswith("ss") else re.sub(r"(?<=ss)es$|(?<=[^iu])(?<!ie)s$", "", name)
    return _OCCASION_NAME.get(singular, singular)


english_facts: Final = TableOfFacts(
    _TABLE,
    table("english", "words").items("kin"),
    subject=_subject,
    readers={
        "name": _names, "age": _ages, "job": _jobs, "teacher": _teachers, "company": _companies, "place": _places,
        "animal": _animals, "allergens": _allergens, "intolerance": _intolerances, "condition": _conditions,
        "things": _things, "thing": _thing, "favorite": _favorites, "quoted": _quoted, "time": _times,
        "nothing": _nothing, "lower": _lower,
    },
)  # fmt: skip
"""The facts that the sentences of one turn state."""
