"""English facts about the user's tastes: likes, dislikes, favourites, past likes, preferences by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.english.facts.guards import statements
from memory_agent.text.patterns.common import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op

_TABLE: Final = table("english", "facts")
MAX_VALUE_WORDS: Final = 6
_LIKES, _DISLIKES = ("preferences", "likes"), ("preferences", "dislikes")

_TASTE: Final = _TABLE.pattern("tastes.taste")
_COMPARED: Final = _TABLE.pattern("tastes.compared", regex.IGNORECASE)
_NO_MORE: Final = _TABLE.pattern("tastes.no_more")
_SINCE: Final = _TABLE.pattern("tastes.since", regex.IGNORECASE)
_ANY_MORE: Final = _TABLE.pattern("tastes.any_more", regex.IGNORECASE)


def tastes(sentence: Sentence) -> Iterator[StatedFact]:
    """Likes and dislikes, one fact per element."""
    for match in statements(_TASTE, sentence):
        said = sentence.plain[match.end() :]
        if match["compared"]:
            # Alone it is nearly always about the task at hand ("I prefer flat routes"); a comparison is a taste.
            compared = _COMPARED.match(said)
            if compared is None or _TIME.match(sentence.plain, match.start()):
                continue
            said = compared["object"]
        path = _DISLIKES if match["dislikes"] else _LIKES
        for value in _elements(said):
            yield stated(sentence, _span(sentence, match, value), path, value, 0.8)


def no_more(sentence: Sentence) -> Iterator[StatedFact]:
    """Likes and dislikes that hold no more."""
    for match in statements(_NO_MORE, sentence, past_is_meant=True):
        said = sentence.plain[match.end() :]
        ended, now = _DISLIKES if match["dislikes"] else _LIKES, None
        if "used to" in match[0].lower():
            since = _SINCE.search(said)
            if since is None:
                continue  # that it is over may be meant, but is not said
            said, now = said[: since.start()], _taste_now(since)
            if now == ended:
                continue
        elif "don't" in match[0] or "do not" in match[0] or " not " in match[0]:
            over = _ANY_MORE.search(said)
            if over is None or not regex.search(r"more|longer", over[0]):
                continue
            said = said[: over.start()]
        for value in _elements(_ANY_MORE.sub("", said)):
            span = _span(sentence, match, value)
            yield stated(sentence, span, ended, value, 0.9, "retract")
            if now is not None:
                yield stated(sentence, span, now, value, 0.8)


def _taste_now(since: regex.Match[str]) -> tuple[str, str] | None:
    """The taste that replaced it: "… but now I hate it"."""
    said = (since["op"] or "").lower()
    if not said or regex.search(r"\b(?:don't|do not|no longer)\b", said):
        return None
    return _LIKES if regex.search(r"\b(?:love|like|enjoy)$", said) else _DISLIKES


def _span(sentence: Sentence, match: regex.Match[str], value: str) -> tuple[int, int]:
    found = sentence.plain.find(value, match.end())
    return match.start(), match.end() if found < 0 else found + len(value)


# --- what is liked -------------------------------------------------------------------------------------------
_OBJECT_END: Final = _TABLE.pattern("tastes.object_end", regex.IGNORECASE)
_CONTEXTUAL: Final = _TABLE.pattern("tastes.contextual", regex.IGNORECASE)
_ACTIVE: Final = _TABLE.pattern("tastes.active")
_GENERAL_THE: Final = _TABLE.pattern("tastes.general_the")
_LIST: Final = _TABLE.pattern("tastes.list")
_GERUND: Final = _TABLE.pattern("tastes.gerund", regex.IGNORECASE)
_NO_START: Final = _TABLE.words("words.no_start")
_BEFORE_ADJECTIVE: Final = _TABLE.words("words.before_adjective")
_COMPANY: Final = _TABLE.pattern("tastes.company")
_DANGLING: Final = _TABLE.words("words.dangling")


def _elements(said: str) -> list[str]:
    """Each of "hiking, cooking, and jazz"; else the one object; [] if it says too little."""
    listed = _LIST.match(said)
    if listed is not None:
        items = [_object(item) for item in listed.captures("item")]
        if all(items):
            return [item for item in items if item]
    value = _object(said)
    if value is None:
        return []
    # "mac and cheese" is one dish; two activities are two.
    left, _, right = value.partition(" and ")
    return [left, right] if _GERUND.match(left) and _GERUND.match(right) else [value]


def _object(text: str) -> str | None:
    """The object liked or disliked, up to the end of its clause; None if it says too little or needs its context."""
    end = _OBJECT_END.search(text)
    if end and end[0] == '"':
        return None  # the name that was quoted is missing
    value = (text[: end.start()] if end else text).strip(" '.-~*!")
    active = _ACTIVE.match(value)
    if active is not None:
        value = str(active[1])
    value = _without_half_clause(value)
    words = value.split()
    if not words or len(words) > MAX_VALUE_WORDS or not 2 <= len(value) <= MAX_VALUE_CHARS:
        return None
    if end and end[0] == "," and len(words) > 1 and words[-2].lower() in _BEFORE_ADJECTIVE:
        return None  # "a safe, inviting place"
    if (
        _CONTEXTUAL.search(_COMPANY.sub("", value))
        or words[-1].lower() in _DANGLING
        or words[0].lower() in _NO_START
    ):
        return None
    if words[0].lower() == "the" and not _GENERAL_THE.match(value):
        return None
    return value


def _without_half_clause(value: str) -> str:
    """`value` without an "and …" that may begin another statement: "hiking and go every week" is "hiking"."""
    left, joined, right = value.partition(" and ")
    if not joined or not left.split():
        return value
    gerunds = left.split()[0].endswith("ing"), right.split()[0].endswith("ing") if right.split() else False
    if gerunds[0] != gerunds[1] or len(right.split()) > (3 if all(gerunds) else 2):
        return left
    return value


# --- what is liked best --------------------------------------------------------------------------------------
_FAVORITE: Final = _TABLE.pattern("tastes.favorite")
_NO_SUBJECT: Final = _TABLE.pattern("tastes.no_subject", regex.IGNORECASE)
_NO_FAVORITE: Final = _TABLE.pattern("tastes.no_favorite")


def favorites(sentence: Sentence) -> Iterator[StatedFact]:
    """ "My favourite colour is blue": one value per subject, the subject in snake case."""
    for match in statements(_FAVORITE, sentence):
        said = regex.sub(r"^(?:called |named |an? )", "", sentence.plain[match.start("value") :])
        value = None if said.lower().startswith(("when", "the one")) else _object(said)
        if value is not None and not _NO_SUBJECT.search(match["subject"]):
            op: Op = "update" if match["now"] else "add"
            yield stated(sentence, _span(sentence, match, value), _favorite(match), value, 0.85, op)
    for match in statements(_NO_FAVORITE, sentence, past_is_meant=True):
        if regex.search(r"\bno longer\b|\bany ?more\b", sentence.plain) and not _NO_SUBJECT.search(
            match["subject"]
        ):
            yield stated(sentence, match.span(), _favorite(match), None, 0.85, "retract")


def _favorite(match: regex.Match[str]) -> tuple[str, str, str]:
    subject = regex.sub(r"colour", "color", match["subject"].lower())
    return "preferences", "favorites", regex.sub(r"[ -]+", "_", regex.sub(r"flavour", "flavor", subject))


# --- times ---------------------------------------------------------------------------------------------------
_TIME: Final = _TABLE.pattern("tastes.time")
_OCCASION_NAME: Final = {"working out": "workout", "to work out": "workout", "work out": "workout", "classe": "class", "doctor's appointment": "appointment", "gym session": "workout"}  # fmt: skip


def times(sentence: Sentence) -> Iterator[StatedFact]:
    """ "I prefer morning meetings": at `preferences.meeting_time`."""
    for match in statements(_TIME, sentence):
        occasion = match["occasion"].lower()
        singular = occasion if occasion.endswith("ss") else regex.sub(r"(?<=ss)es$|s$", "", occasion)
        name = _OCCASION_NAME.get(singular, singular)
        time = regex.sub(r"s$", "", match["time"].lower())
        yield stated(sentence, match.span(), ("preferences", f"{name}_time"), time, 0.9)
