"""English facts about the user's tastes: likes, dislikes, favourites, past likes, preferences by time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.patterns import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns import Op


_GUARDS: Final = table("english", "facts").patterns("guards", flags=regex.IGNORECASE)
SPEAKER: Final = lazily(re.compile, r"\b(?:i|im|my|me|we|our)\b", re.IGNORECASE)
"""Without one of these words no sentence states anything of its speaker."""
_MOST_GUARD_CHARS: Final = 80
"""No guard matches more."""


def statements(
    pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
) -> Iterator[regex.Match[str]]:
    """Matches of `pattern` that nothing in their clause makes somebody else's, conditional or past.

    A question's are taken only where it gives or is given them as a reason: "I live in Oslo, where can I ski?".
    `past_is_meant`: the pattern itself says that something is over.
    """
    plain = sentence.plain
    first: dict[str, _Ahead] = {}
    before = 0
    for match in pattern.finditer(plain):
        first = first or {name: _Ahead(guard, plain) for name, guard in _GUARDS.items()}
        start = match.start()
        while (joint := first["last_statement"](before, match.end())) and joint.start() <= start + 1:
            before = joint.end()
        after = first["next_statement"](max(match.end() - 1, 0), len(plain))
        end = after.start() if after else len(plain)
        asked = sentence.asks and not (
            _GUARDS["asked_before"].search(plain, max(start - _MOST_GUARD_CHARS, 0), start)
            or first["then_asks"](match.end(), len(plain))
        )
        if asked or first["doubt"](min(before, start), start):
            continue
        if past_is_meant or not first["undone"](start, end):
            yield match


class _Ahead:
    """The first match of a guard in a part of a text. Parts are asked for in their order, and each is read once."""

    def __init__(self, guard: regex.Pattern[str], text: str) -> None:
        self._guard = guard
        self._text = text
        self._found: regex.Match[str] | None = None
        self._read = 0

    def __call__(self, start: int, end: int) -> regex.Match[str] | None:
        if self._found is None or self._found.start() < start:
            self._found = self._guard.search(self._text, max(start, self._read - _MOST_GUARD_CHARS), end)
            self._read = self._found.start() if self._found else end
        return self._found


_TABLE: Final = table("english", "facts")
MAX_VALUE_WORDS: Final = 6
_MOST_WORDS: Final = 5
"""Of the second of two activities."""
_TASTES: Final = _TABLE.patterns("tastes") | _TABLE.patterns(
    "tastes", "compared since any_more object_end contextual gerund no_subject", regex.IGNORECASE
)
_LIKES, _DISLIKES = "preferences.likes", "preferences.dislikes"
_NO_START, _BEFORE_ADJECTIVE, _DANGLING, _SHORT_NOUNS = (
    _TABLE.words(f"words.{key}") for key in ("no_start", "before_adjective", "dangling", "short_nouns")
)
_OCCASION_NAME: Final = {
    "working out": "workout", "to work out": "workout", "work out": "workout", "gym session": "workout",
    "classe": "class", "doctor's appointment": "appointment",
}  # fmt: skip


def _tastes(sentence: Sentence) -> Iterator[StatedFact]:
    """Likes and dislikes, one fact per element."""
    for match in statements(_TASTES["taste"], sentence):
        said = sentence.plain[match.end() :]
        if _TASTES["in_reply"].match(sentence.plain):
            continue
        if match["compared"]:
            # Alone it is nearly always about the task at hand ("I prefer flat routes"); a comparison is a taste.
            compared = _TASTES["compared"].match(said)
            if compared is None or _TASTES["time"].match(sentence.plain, match.start()):
                continue
            said = compared["object"]
        path = _DISLIKES if match["dislikes"] else _LIKES
        for value in _elements(said):
            if len(value) > 3 or value.lower() in _SHORT_NOUNS:
                yield stated(sentence, _span(sentence, match, value), path, value, 0.8)


def _no_more(sentence: Sentence) -> Iterator[StatedFact]:
    """Likes and dislikes that hold no more."""
    for match in statements(_TASTES["no_more"], sentence, past_is_meant=True):
        said = sentence.plain[match.end() :]
        ended, now = _DISLIKES if match["dislikes"] else _LIKES, None
        if "used to" in match[0].lower():
            since = _TASTES["since"].search(said)
            if since is None:
                continue  # that it is over may be meant, but is not said
            said, now = said[: since.start()], _taste_now(since)
            if now == ended:
                continue
        elif "don't" in match[0] or "do not" in match[0] or " not " in match[0]:
            over = _TASTES["any_more"].search(said)
            if over is None or not regex.search(r"more|longer", over[0]):
                continue
            said = said[: over.start()]
        for value in _elements(_TASTES["any_more"].sub("", said)):
            span = _span(sentence, match, value)
            yield stated(sentence, span, ended, value, 0.9, "retract")
            if now is not None:
                yield stated(sentence, span, now, value, 0.8)


def _taste_now(since: regex.Match[str]) -> str | None:
    """The taste that replaced it: "… but now I hate it"."""
    said = (since["op"] or "").lower()
    if not said or regex.search(r"\b(?:don't|do not|no longer)\b", said):
        return None
    return _LIKES if regex.search(r"\b(?:love|like|enjoy)$", said) else _DISLIKES


def _span(sentence: Sentence, match: regex.Match[str], value: str) -> tuple[int, int]:
    found = sentence.plain.find(value, match.end())
    return match.start(), match.end() if found < 0 else found + len(value)


def _elements(said: str) -> list[str]:
    """Each of "hiking, cooking, and jazz"; else the one object; [] if it says too little."""
    listed = _TASTES["list"].match(said)
    items = [_object(item) for item in listed.captures("item")] if listed else [None]
    if all(items):
        return [item for item in items if item]
    value = _object(said)
    halves = _halves(said)
    return halves or ([value] if value else [])


def _halves(said: str) -> list[str]:
    """The parts of "hiking and watching old films", "old barns and painting them"; none if one says too little.

    "mac and cheese" is one dish: one of two parts, at least, is an activity.
    """
    end = _TASTES["object_end"].search(said)
    left, joined, right = (said[: end.start()] if end else said).partition(" and ")
    first, second = _TASTES["gerund"].match(left.strip()), _TASTES["gerund"].match(right)
    if not joined or not (second or (first and " " not in left.strip())):
        return []
    found = [_object(left), _object(right) if len(right.split()) <= (_MOST_WORDS if second else 1) else None]
    return [part for part in found if part] if all(found) else []


def _object(text: str) -> str | None:
    """The object liked or disliked, up to the end of its clause; None if it says too little or needs its context."""
    end = _TASTES["object_end"].search(text)
    if end and end[0] == '"':
        return None  # the name that was quoted is missing
    value = (text[: end.start()] if end else text).strip(" '.-~*!")
    active = _TASTES["active"].match(value)
    value = _without_half_clause(str(active[1]) if active else value)
    words = value.lower().split()
    if not words or len(words) > MAX_VALUE_WORDS or len(value) > MAX_VALUE_CHARS:
        return None
    if end and end[0] == "," and len(words) > 1 and words[-2] in _BEFORE_ADJECTIVE:
        return None  # "a safe, inviting place"
    if words[-1] in _DANGLING or words[0] in _NO_START:
        return None
    contextual = _TASTES["contextual"].search(_TASTES["company"].sub("", value))
    unclear = _TASTES["unclear"].search(value) and not _TASTES["general_the"].match(value)
    return None if contextual or unclear else value


def _without_half_clause(value: str) -> str:
    """`value` without an "and …" that may begin another statement: "hiking and go every week" is "hiking"."""
    left, joined, right = value.partition(" and ")
    if not joined or not left.split():
        return value
    first, second = (_TASTES["gerund"].match(half.lstrip()) is not None for half in (left, right))
    # Of "reading and jazz" the second is not read, of "trying new foods and drinks" it is tried.
    apart = (second and not first) or (first and not second and " " not in left.strip())
    return left if apart or len(right.split()) > (3 if first and second else 2) else value


def _favorites(sentence: Sentence) -> Iterator[StatedFact]:
    """ "My favourite colour is blue": one value per subject, the subject in snake case."""
    for match in statements(_TASTES["favorite"], sentence):
        said = regex.sub(r"^(?:called |named |an? )", "", sentence.plain[match.start("value") :])
        value = None if said.lower().startswith(("when", "the one")) else _object(said)
        if value is not None and not _TASTES["no_subject"].search(match["subject"]):
            op: Op = "update" if match["now"] else "add"
            path = _LIKES if match["among"] else _favorite(match)
            yield stated(sentence, _span(sentence, match, value), path, value, 0.85, op)
    for match in statements(_TASTES["no_favorite"], sentence, past_is_meant=True):
        over = regex.search(r"\bno longer\b|\bany ?more\b", sentence.plain)
        if over and not _TASTES["no_subject"].search(match["subject"]):
            yield stated(sentence, match, _favorite(match), None, 0.85, "retract")


def _called_favorites(sentence: Sentence) -> Iterator[StatedFact]:
    """ "Ajax is my favourite team"; a like where it is one of several, or of no kind."""
    for match in statements(_TASTES["a_favorite"], sentence):
        if _object(match["value"]) != match["value"] or _no_subject(match):
            continue
        path = _LIKES if match["one"] or not match["subject"] else _favorite(match)
        yield stated(sentence, match, path, match["value"], 0.8)
    for match in statements(_TASTES["among"], sentence):
        value = None if _no_subject(match) else _object(sentence.plain[match.start("value") :])
        if value is not None:
            yield stated(sentence, _span(sentence, match, value), _LIKES, value, 0.8)


def _no_subject(match: regex.Match[str]) -> bool:
    return _TASTES["no_subject"].search(match["subject"] or "") is not None


def _fan_of(sentence: Sentence) -> Iterator[StatedFact]:
    """ "I'm a big tennis fan"."""
    for match in statements(_TASTES["fan_of"], sentence):
        if _object(match["value"]) == match["value"]:
            yield stated(sentence, match, _DISLIKES if match["not"] else _LIKES, match["value"], 0.8)


def _interests(sentence: Sentence) -> Iterator[StatedFact]:
    """ "I'm interested in law"."""
    for match in statements(_TASTES["interest"], sentence):
        if _object(match["value"]) == match["value"]:
            yield stated(sentence, match, "interests", match["value"], 0.8)


def _titled(sentence: Sentence) -> Iterator[StatedFact]:
    """ "I love watching “Dark”"."""
    for match in statements(_TASTES["titled"], sentence):
        if value := sentence.quoted(match.start("value")):
            yield stated(sentence, match, _LIKES, value, 0.8)


def _favorite(match: regex.Match[str]) -> str:
    subject = match["subject"].lower().replace("colour", "color").replace("flavour", "flavor")
    return f"preferences.favorites.{regex.sub(r'[ -]+', '_', subject)}"


def _times(sentence: Sentence) -> Iterator[StatedFact]:
    """ "I prefer morning meetings": at `preferences.meeting_time`."""
    for match in statements(_TASTES["time"], sentence):
        occasion = match["occasion"].lower()
        singular = occasion if occasion.endswith("ss") else regex.sub(r"(?<=ss)es$|s$", "", occasion)
        name = _OCCASION_NAME.get(singular, singular)
        time = match["time"].lower().removesuffix("s")
        yield stated(sentence, match, f"preferences.{name}_time", time, 0.9)


TASTES: Final = (
    (_times, "time"),
    (_tastes, "taste"),
    (_no_more, "no_more"),
    (_favorites, "favorites"),
    (_called_favorites, "favorites"),
    (_fan_of, "fans"),
    (_interests, "interests"),
    (_titled, "titles"),
)
"""Each with the key of what it needs."""
