"""English facts about the user's person: name, age, birthday, occupation, employer, education, place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.english.facts.guards import statements
from memory_agent.text.english.facts.words import NO_MODIFIER, NO_NAME, NO_PLACE
from memory_agent.text.patterns.common import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import StatedFact

_TABLE: Final = table("english", "facts")
# --- name ----------------------------------------------------------------------------------------------------
_NAME: Final = _TABLE.pattern("person.name")
_INTRODUCED: Final = _TABLE.pattern("person.introduced")
_GREETING: Final = _TABLE.pattern("person.greeting")


_ADJECTIVE: Final = _TABLE.pattern("person.adjective")
_LIKE_ADJECTIVES: Final = _TABLE.words("words.like_adjectives")


def _is_name(name: str) -> bool:
    return (
        len(name) <= MAX_VALUE_CHARS
        and not NO_NAME & set(name.split())
        and not (len(name) > 3 and name.isupper())
    )


def names(sentence: Sentence) -> Iterator[StatedFact]:
    """ "My name is …", "call me …"."""
    for match in statements(_NAME, sentence):
        if _is_name(match["name"]):
            changed = bool(match["now"] or match["changed"] or match[0].endswith(" now"))
            yield stated(
                sentence, match.span(), ("name",), match["name"], 0.95, "update" if changed else "add"
            )


def introduction(sentences: Sequence[Sentence]) -> Iterator[StatedFact]:
    """ "I'm …" where people introduce themselves: it begins the turn, after a greeting at most."""
    for sentence in sentences:
        match = next(statements(_INTRODUCED, sentence), None)
        if match is not None:
            name = match["name"]
            described = _ADJECTIVE.fullmatch(name) and name not in _LIKE_ADJECTIVES  # "I'm Exhausted."
            if _is_name(name) and not described:
                yield stated(sentence, match.span(), ("name",), name, 0.85)
            return
        if not _GREETING.fullmatch(sentence.plain):
            return


# --- age, birthday, education --------------------------------------------------------------------------------
_AGE: Final = _TABLE.pattern("person.age")
_BIRTHDAY: Final = _TABLE.pattern("person.birthday")
_DEGREE: Final = _TABLE.pattern("person.degree")


def ages(sentence: Sentence) -> Iterator[StatedFact]:
    """Age in years, birthday, degrees."""
    for match in statements(_AGE, sentence):
        if int(match["age"]) >= 13:
            yield stated(
                sentence,
                match.span(),
                ("age",),
                int(match["age"]),
                0.85,
                "update" if match["turned"] else "add",
            )
    for match in statements(_BIRTHDAY, sentence):
        yield stated(sentence, match.span(), ("birthday",), match["day"], 0.95)
    for match in statements(_DEGREE, sentence):
        if len(match["degree"]) <= MAX_VALUE_CHARS:
            yield stated(sentence, match.span(), ("education",), match["degree"], 0.85)


# --- occupation and employer ---------------------------------------------------------------------------------
_OCCUPATION: Final = _TABLE.pattern("person.occupation")
_CHANGED: Final = _TABLE.pattern("person.changed")
_WORKS_FOR: Final = _TABLE.pattern("person.works_for")
_NOT_A_JOB: Final = _TABLE.words("words.not_a_job")
_NO_COMPANY: Final = _TABLE.words("words.no_company")
_OVER: Final = _TABLE.pattern("person.over")

_IN_PASSING: Final = _TABLE.pattern("person.in_passing", regex.IGNORECASE)


def _title(match: regex.Match[str]) -> str | None:
    """The occupation, unless it is a figure of speech ("as a team", "a bit of a chef")."""
    title = str(match["title"] or match["job"])
    modified = regex.match(rf"{NO_MODIFIER}\b", title, regex.IGNORECASE)
    if modified or title.split()[-1].lower() in _NOT_A_JOB or len(title) > MAX_VALUE_CHARS:
        return None
    return title


def _company(name: str | None) -> str | None:
    if name is None or name.split()[0] in _NO_COMPANY or len(name) > MAX_VALUE_CHARS:
        return None
    return name.rstrip(".'")


def occupations(sentence: Sentence) -> Iterator[StatedFact]:
    """The user's occupations and employers, and that one is over."""
    for match in statements(_OCCUPATION, sentence):
        title = _title(match)
        if title is not None:
            newly = bool(match["new"]) or regex.search(r"\bnow\b", match[0], regex.IGNORECASE)
            yield stated(
                sentence, match.span(), ("occupation",), title, 0.9 if match["title"] else 0.85,
                "update" if newly else "add",
            )  # fmt: skip
            company = _company(match["company"])
            if company and "student" not in title:
                yield stated(sentence, match.span(), ("employer",), company, 0.85)
    for match in statements(_CHANGED, sentence):
        role = match["role"]
        if role and regex.match(
            r"(?:new|different|better|smaller|bigger|larger|similar|higher|lower|full-time|part-time|remote|good|great|more|less|another)\b",
            role,
        ):
            continue
        title = role or _title_of_job(match["job"])
        if title:
            yield stated(sentence, match.span(), ("occupation",), title, 0.85, "update")
    for match in statements(_WORKS_FOR, sentence):
        company = _company(match["company"])
        if company:
            yield stated(
                sentence, match.span(), ("employer",), company, 0.85, "update" if match["new"] else "add"
            )
    yield from _ended(sentence)


def _title_of_job(job: str) -> str | None:
    return None if regex.match(rf"{NO_MODIFIER}\b", job, regex.IGNORECASE) else job


def _ended(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_OVER, sentence, past_is_meant=True):
        if _IN_PASSING.match(match[0]):
            continue
        if match["company"] and "don't" in match[0] and not regex.search(r"\bany ?more\b", sentence.plain):
            continue
        if match["job"] or match["both"]:
            yield stated(sentence, match.span(), ("occupation",), None, 0.85, "retract")
        if match["company"] or match["both"]:
            yield stated(sentence, match.span(), ("employer",), None, 0.85, "retract")


# --- place ---------------------------------------------------------------------------------------------------
_PLACE: Final = _TABLE.pattern("person.place")
_LEFT: Final = _TABLE.pattern("person.left")


def places(sentence: Sentence) -> Iterator[StatedFact]:
    """The user's places: lives in, moved to, comes from, no longer lives in."""
    for match in statements(_PLACE, sentence):
        place = str(match["place"]).rstrip(".,'")
        if NO_PLACE & set(regex.split(r"[ ,]+", place)) or len(place) > MAX_VALUE_CHARS:
            continue
        rest = sentence.plain[match.end() :]
        if match["moved"] and regex.search(r"\b(?:ago|when|before|in (?:19|20)\d\d)\b", rest):
            continue  # where the user moved long ago need not be home now
        if match["origin"]:
            yield stated(sentence, match.span(), ("origin",), place, 0.85)
        elif match["moved"]:
            yield stated(sentence, match.span(), ("location",), place, 0.85, "update")
        else:
            yield stated(sentence, match.span(), ("location",), place, 0.95)
    for match in statements(_LEFT, sentence, past_is_meant=True):
        if not match["negated"] or regex.search(r"\bany ?more\b", sentence.plain):
            yield stated(sentence, match.span(), ("location",), None, 0.85, "retract")
