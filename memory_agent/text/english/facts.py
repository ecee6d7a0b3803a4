"""English facts about a user: name, age, work, places, family, pets, allergies, diet, languages and tastes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.patterns import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
