"""Corrections: what a turn says instead of an earlier one, and what it shows at a glance. Pure.

One principle: a later turn with a cue of change replaces an earlier one if it says the same of the same thing with another
value, or says that what the earlier one states is over. The same thing is told by the words that both share: each has at most
as many of its own. Here a wrong mark does more harm than a missing one.

What was left open ("We still need a flat") is replaced by what settles it ("We found it!"). The signs of a turn only add to a
score (`search.fusion`). Names are told by their capitals, so scripts without them name nothing.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Final, NamedTuple

import regex

from memory_agent.domain import TurnFeatures
from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.languages import all_words, any_of, languages
from memory_agent.text.sentences import bounds
from memory_agent.text.terms import count_terms
from memory_agent.text.time_spans import known

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Weight = Callable[[Collection[str]], float]

READ_CHARS: Final = 1_000
"""How much of a text is looked at, from its beginning: corrections come first, and are short."""
ALIKE: Final = 0.4
"""Cosine from which a turn that settles something answers one that left something open, whatever words they share."""
_LEAST_TERMS: Final = 3
_SHORT_CHARS: Final = 140
"""Up to so long two clauses are about one thing."""
_BEHIND_CHARS, _BEFORE_CHARS = 25, 12
"""How far behind its cue a new value begins at most, and how far before one it ends."""
_SPANNING: Final = 3
"""Blanks in a cue that has what it is about within: "not a vegetarian any more"."""
_MANY_DIGITS: Final = 3
"""From so many on two numbers without a unit can be of one thing, if they are of one size."""
_FEW_PARTS: Final = 4
_MANY_SAME: Final = 2
"""Words that are the same for each that differs."""
_NEARLY: Final = 0.75
_ONE_EACH: Final = frozenset({"name", "location", "occupation", "employer", "timezone"})
"""Of these facts a person has one at a time."""

_LINES: Final = regex.IGNORECASE | regex.MULTILINE
_DROPPED, _OVER, _CHANGES, _NOW, _ADDS, _TO_ME, _OPEN, _SETTLED = (
    any_of("corrections", key, _LINES)
    for key in ("dropped", "over", "changes", "now", "adds", "to_me", "open", "settled")
)
_NO_MORE, _NOT_SO = (any_of("cues", f"ended.{key}", _LINES) for key in ("no_more", "not_so"))
_ENDS: Final = (_DROPPED, _OVER, _NO_MORE)
_JOINT: Final = any_of(
    "corrections", "joint", regex.IGNORECASE, within=r"\s*(?:[,:](?!\p{Nd})|[;–—()]|\s-\s)\s*|%s"
)
_REFUSES: Final = any_of("words", "refuses", regex.IGNORECASE)
# A number with its unit: the sign before it, what is attached to it (%, 월, pm), or the word behind. Not in a formula.
_NUMBER: Final = lazily(
    regex.compile,
    r"(?<![\p{L}\p{Nd}.,:/(=+*^_{-])(?P<sign>\p{Sc}?)(?P<n>\p{Nd}+(?:[.,:]\p{Nd}+)*)(?![\p{Nd}/)=^]| ?[=+×*])"
    r"(?:[ -]?(?P<unit>[%\p{Sc}]|\p{Hangul}|\p{L}+))?",
)
_CLOCK: Final = lazily(regex.compile, r"(?P<hour>[01]?[0-9]|2[0-3])(?::(?P<minute>[0-5][0-9]))?")
_YEAR: Final = lazily(regex.compile, r"(?:19|20)\p{Nd}\p{Nd}")
_MONEY: Final = lazily(regex.compile, r"\p{Sc}")
_WORD: Final = lazily(regex.compile, r"\p{L}[\p{L}\p{M}]{2,}")
_TOKEN: Final = lazily(regex.compile, r"[\p{L}\p{N}][^\s,;:!?()\"…]*(?<![.'])")
_NAMED: Final = lazily(regex.compile, r"\p{Lu}")
_ASKS: Final = lazily(regex.compile, r"[?？؟]\W*\Z")


class Part(NamedTuple):
    """A word, a name of several, or a value: `kind` (word, number, time, date, weekday), `unit` of a number ("" for none).

    `new`: a cue stands right beside it.
    """

    kind: str
    unit: str
    text: str
    terms: frozenset[str] = frozenset()
    new: bool = False

    def is_in(self, other: Clause) -> bool:
        """True if the other clause says it, too."""
        if self.kind != "word":
            return any((self.kind, self.text) == (part.kind, part.text) for part in other.parts)
        return 2 * len(self.terms & other.terms) > len(self.terms)

    def is_instead_of(self, old: Part) -> bool:
        """True if it is another value of one kind, and of one unit if both have one."""
        return "word" != self.kind == old.kind and len({self.unit, old.unit} - {""}) <= 1

    def is_alike(self, old: Part) -> bool:
        """True if a number is of the unit of the other, or has as many digits."""
        many = len(self.text) == len(old.text) >= _MANY_DIGITS
        return self.kind != "number" or many or "" != self.unit == old.unit


class Clause(NamedTuple):
    """What a turn states from `start` to `end`: a clause, or two. `gone`: the terms of what it says is over.

    `own`: it speaks of its speaker; `refuses`: says that something is not so; `adds`: that something is so as well;
    `cue`: 0 for none, 1 if it says that something is over or not so, 2 that something is so now, 3 that it was changed.
    """

    start: int
    end: int
    parts: tuple[Part, ...]
    terms: frozenset[str]
    gone: frozenset[str]
    own: bool
    refuses: bool
    adds: bool
    cue: int

    def with_next(self, other: Clause) -> Clause:
        """The two as one, in which "now" alone doesn't tell of what."""
        cue = max(self.cue, other.cue)
        return Clause(
            start=self.start,
            end=other.end,
            parts=self.parts + other.parts,
            terms=self.terms | other.terms,
            gone=self.gone | other.gone,
            own=self.own or other.own,
            refuses=self.refuses != other.refuses,
            adds=self.adds or other.adds,
            cue=1 if cue == 2 else cue,
        )


class Claims:
    """The claims of a turn, read from its first `READ_CHARS` characters; each when it is first asked for."""

    def __init__(self, text: str, language: str) -> None:
        """`language`: of terms in Latin script, see `count_terms`."""
        self.head = _head(text)
        self._language = language

    @cached_property
    def clauses(self) -> list[Clause]:
        """What is stated, clause by clause, and each that is short with the next one."""
        spans = list(_stated(self.head))
        cues = [cue for span in spans for cue in _cues_of_change(self.head, *span)]
        alone = [_clause(self.head, *span, cues, self._language) for span in spans]
        pairs = (one.with_next(other) for one, other in pairwise(alone))
        return alone + [pair for pair in pairs if pair.end - pair.start <= _SHORT_CHARS]

    @cached_property
    def changes(self) -> list[Clause]:
        """The clauses with a cue that something else holds."""
        return [clause for clause in self.clauses if clause.cue]

    @cached_property
    def terms(self) -> frozenset[str]:
        """The terms of all that is stated."""
        return frozenset[str]().union(*(clause.terms for clause in self.clauses))

    @cached_property
    def changed(self) -> frozenset[str]:
        """The terms of what is changed; of all that is stated where that isn't told."""
        return frozenset[str]().union(*(clause.terms for clause in self.changes)) or self.terms

    @cached_property
    def facts(self) -> dict[tuple[str, ...], str]:
        """What is said of the speaker that can only be one thing at a time."""
        from memory_agent.text.cues import sentences

        own = list(sentences(self.head))
        found = (fact for each in languages() for fact in each.facts(own))
        return {
            fact.path: str(fact.value) for fact in found if fact.op == "add" and fact.path[0] in _ONE_EACH
        }

    @cached_property
    def settles(self) -> bool:
        """True if something is settled."""
        return _SETTLED.search(self.head) is not None

    @cached_property
    def opens(self) -> bool:
        """True if something is left open."""
        return not self.settles and _OPEN.search(self.head) is not None

    def speaks_of(self, person: str) -> bool:
        """True if a word stands for the relative or other person, by their usual name; of nobody ("") it always does."""
        from memory_agent.text.cues import kin_name

        words = regex.findall(r"\p{L}+", self.head.casefold())
        return not person or any(word.startswith(person) or kin_name(word) == person for word in words)

    def whose(self, clause: Clause) -> str:
        """Whose a clause says it is: a relative's or other person's, by their usual name; "" if the speaker's, or unknown."""
        from memory_agent.text.cues import read_statement

        owner = read_statement(self.head, clause.start, clause.end).owner
        return owner.relation if owner and not _TO_ME.search(self.head, clause.start, clause.end) else ""


@lru_cache(maxsize=2_048)
def claims_of(text: str, language: str) -> Claims:
    """The claims of a turn that searches come upon again and again."""
    return Claims(text, language)


def corrects(text: str) -> bool:
    """True if a turn may replace an earlier one: it names a change, says that something is over, or settles it.

    >>> corrects("We switched from Stripe to Adyen."), corrects("We found it!"), corrects("I'm fine.")
    (True, True, False)
    """
    head = _head(text)
    return _has_cue(head, _CHANGES, _NOW, _NOT_SO, *_ENDS) or bool(_SETTLED.search(head))


def names_change(text: str) -> bool:
    """True if a text says that what it states is new: "moved to", "actually", "now".

    >>> names_change("Pushed back a week, it's the 25th now."), names_change("It's on the 25th.")
    (True, False)
    """
    return _has_cue(_head(text), _CHANGES, _NOW, _DROPPED)


def _has_cue(head: str, *cues: regex.Pattern[str]) -> bool:
    clauses = "\n".join(head[start:end] for start, end in _stated(head))
    return any(cue.search(clauses) for cue in cues)


def replaces(later: Claims, earlier: Claims, weight: Weight, *, least: float, alike: float) -> float:
    """The weight of the terms by which `later` says what holds instead of something in `earlier`; 0 if it doesn't.

    `weight`: how telling terms are together, such as the sum of their idf; `least`: what terms that tell the thing
    must weigh where the two have many others (half of it if they have few, and a date or price was changed); `alike`: the cosine of the two turns, 0 where it is unknown.
    """
    shared = weight(later.terms & earlier.terms)
    told = []
    if later.settles and earlier.opens and len(earlier.terms) >= _LEAST_TERMS:
        told += [shared] if shared >= least else [least] if alike >= ALIKE else []
    for new, old in product(later.changes, earlier.clauses) if shared else ():
        tie = 0.0 if old.gone else _tie(new, old, weight, least, shared)
        if tie > max(told, default=0.0) and _of_one_person(later, new, earlier, old):
            told.append(tie)
    if any(clause.cue > 1 for clause in later.changes) and later.facts:
        told += [least for path, value in later.facts.items() if earlier.facts.get(path, value) != value]
    return max(told, default=0.0)


def _of_one_person(later: Claims, new: Clause, earlier: Claims, old: Clause) -> bool:
    """False if one clause speaks of somebody of whom the other turn doesn't."""
    named = (part for part in new.parts if part.terms <= new.gone and _NAMED.match(part.text))
    return (
        earlier.speaks_of(later.whose(new))
        and (not new.own or later.speaks_of(earlier.whose(old)))
        and all(part.terms & earlier.terms for part in named if part.terms)
    )


def _tie(new: Clause, old: Clause, weight: Weight, least: float, about: float) -> float:
    """The weight of the terms by which one clause says what holds instead of the other; 0 if it doesn't.

    `about`: the weight of the terms that the two turns share.
    """
    same = [part for part in old.parts if part.is_in(new)]
    shared = frozenset[str]().union(*(part.terms for part in same)) & new.terms
    told, named = weight(shared), (new.gone & old.terms) - all_words("words", "fillers")
    if named and named == new.gone - all_words("words", "fillers"):
        # A name alone is spoken of for many reasons; what the speaker says with it in few words is over with it.
        of_it = [part for part in old.parts[:1] if part.terms & named and not _NAMED.match(part.text)]
        in_few_words = old.own and len(old.parts) <= _FEW_PARTS and not (of_it and len(old.parts) > 1)
        whole, is_over = weight(shared | named), len(shared | named) > 1 or in_few_words
        return whole if is_over and whole >= least else 0.0
    rest = [part for part in old.parts if part not in same]
    is_telling = told >= _NEARLY * least
    if not told or not rest or new.adds:
        says_opposite = is_telling and not rest and len(same) > 1 and new.refuses != old.refuses
        return told if says_opposite and len(new.parts) <= len(same) + 1 else 0.0
    others = [part for part in new.parts if not part.is_in(old)]
    words, new_words = (sum(part.kind == "word" for part in parts) for parts in (rest, others))
    telling = sum(weight(part.terms) > 0 for part in same)
    if words == len(rest) and 0 < new_words == len(others):
        is_value = is_telling and (new.cue == 3 or (new.cue == 2 and words == 1))
        # A name for a name; of other words two chats' clauses share one and differ in the rest all the time.
        named_both = all(any(_NAMED.match(part.text) for part in parts) for parts in (rest, others))
        is_same_thing = named_both or len(same) >= _MANY_SAME * max(words, new_words)
        return told if is_value and is_same_thing and max(words, new_words) <= telling + 1 else 0.0
    apart, few = min(words, new_words) > 0, max(words, new_words) <= _FEW_PARTS
    enough = 2 * least if apart and new.cue == 2 else least
    for one, other in product(others, rest) if new.cue > 1 else ():
        # Of what else is measured, a chat has many: two response times in milliseconds are of two things.
        half = (
            few and new.cue == 3 and about >= least and (one.kind != "number" or _MONEY.fullmatch(one.unit))
        )
        if one.is_instead_of(other) and (
            (not apart and max(words, new_words) <= telling)
            or (one.new and told >= (least / 2 if half else enough) and one.is_alike(other))
        ):
            return told
    return 0.0


def _head(text: str) -> str:
    return text[:READ_CHARS].replace("’", "'")


def _stated(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the clauses of a text; of "I've moved it to May, is that fine?" the last clause alone asks."""
    for start, end in bounds(text):
        asks = _ASKS.search(text, start, end)
        last = start + len(text[start:end].rstrip(".!…~ "))
        cuts = [joint.span() for joint in _JOINT.finditer(text, start, last)]
        starts, ends = [start, *(cut[1] for cut in cuts)], [*(cut[0] for cut in cuts), last]
        spans = [span for span in zip(starts, ends, strict=True) if span[0] < span[1]]
        yield from spans[:-1] if asks else spans


def _cues_of_change(head: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where cues of change begin, and where they end: before the value, if a "to" stands there."""
    for cue in (_CHANGES, _NOW):
        for match in cue.finditer(head[start:end]):
            to = match.end("to") if match.groupdict().get("to") else 0
            yield start + match.start(), start + max(match.end(), to)


def _clause(head: str, start: int, end: int, cues: list[tuple[int, int]], language: str) -> Clause:
    from memory_agent.text.cues import read_statement  # which knows subjects, which know what corrects

    text = plain = head[start:end]
    for cue in (_CHANGES, _NOW, _NOT_SO, *_ENDS):
        plain = cue.sub(_without_cue, plain)
    gone, is_over = "\n".join(match["what"] for match in _DROPPED.finditer(text)), _OVER.search(text)
    if gone or is_over or _NO_MORE.search(text):
        said = read_statement(head, start, end)
        gone = "" if said.doubt else gone or (plain if is_over or said.ended else "")
    levels = (_CHANGES.search(text), _NOW.search(text), gone or _NOT_SO.search(text))
    return Clause(
        start=start,
        end=end,
        parts=tuple(_parts(plain, [(first - start, last - start) for first, last in cues], language)),
        terms=frozenset(count_terms(plain, language)),
        gone=frozenset(count_terms(gone, language)),
        own=of_self(text),
        refuses=len(_REFUSES.findall(text)) % 2 == 1,
        adds=_ADDS.search(text) is not None,
        cue=next((3 - number for number, found in enumerate(levels) if found), 0),
    )


def _without_cue(match: regex.Match[str]) -> str:
    """Blanks, but for what a cue holds of what is spoken of."""
    named = match.groupdict().get("what")
    if match[0].count(" ") >= _SPANNING and not named:
        return match[0]
    first, last = match.span("what") if named else match.span()
    return " " * (first - match.start()) + (named or " " * (last - first)) + " " * (match.end() - last)


def _parts(text: str, cues: list[tuple[int, int]], language: str) -> Iterator[Part]:
    """What a clause is made of, but for function words and fillers; a name of several words is one part."""
    idle, last = all_words("words", "fillers"), 0
    before: tuple[int, Part] | None = None
    for start, end, part in sorted(
        _values(text, language) + _words(text, language), key=lambda found: found[0]
    ):
        if start < last or part.text.casefold() in idle:
            continue
        beside = any(
            0 <= start - to <= _BEHIND_CHARS or 0 <= first - end <= _BEFORE_CHARS for first, to in cues
        )
        part = part._replace(new=beside or (before is not None and before[1].new and start <= last + 2))
        if before and _goes_on(before[1], text[last:start], part):
            joined = f"{before[1].text} {part.text}"
            part = part._replace(text=joined, terms=before[1].terms | part.terms)
        elif before:
            yield before[1]
        before, last = (start, part), end
    if before:
        yield before[1]


def _words(text: str, language: str) -> list[tuple[int, int, Part]]:
    found = ((match, count_terms(match[0], language)) for match in _TOKEN.finditer(text))
    return [(*match.span(), Part("word", "", match[0], frozenset(terms))) for match, terms in found if terms]


def _goes_on(before: Part, between: str, part: Part) -> bool:
    """True if two parts are one name, or one number in groups."""
    if before.kind == part.kind == "number":
        return between == " " and not before.unit
    is_name = all(one.kind == "word" and _NAMED.match(one.text) for one in (before, part))
    return is_name and between.strip() in ("", ".", "&")


def _values(text: str, language: str) -> list[tuple[int, int, Part]]:
    """The values in a clause, from where to where; a weekday has no number."""
    months, weekdays = known("months"), known("weekdays")
    found = [
        (*match.span(), Part("weekday", "", day))
        for match in _WORD.finditer(text)
        if (day := match[0].casefold().removesuffix("s")) in weekdays
    ]
    for match in _NUMBER.finditer(text):
        value, unit = match["n"].replace(",", ""), (match["sign"] or match["unit"] or "").casefold()
        start, end = match.span()
        if not match["sign"] and _YEAR.fullmatch(value):
            continue
        if minutes := _minutes(value, unit):
            found.append((start, match.end("n"), Part("time", "", minutes)))
            continue
        before = text[:start].casefold().rsplit(maxsplit=1)[-1:]
        month = next((word for word in (unit, *before) if word in months), None)
        if month:
            start -= (len(month) + 1) * (month != unit)
            end = end if month == unit else match.end("n")
            found.append((start, end, Part("date", "", f"{value} {month}")))
            continue
        if unit in all_words("words", "stop", "fillers"):
            unit, end = "", match.end("n")
        term = next(iter(count_terms(unit, language)), "") if unit.isalpha() else unit
        found.append((start, end, Part("number", term, value)))
    return found


def _minutes(text: str, unit: str) -> str:
    """The minute of the day of a time by the clock, such as "14:00", or "2" before "pm"; "" of anything else."""
    clock = _CLOCK.fullmatch(text)
    halves = [unit in all_words("corrections", half) for half in ("forenoon", "afternoon")]
    if clock is None or not (clock["minute"] or any(halves)):
        return ""
    hour, minute = int(clock["hour"]), int(clock["minute"] or 0)
    return str((hour % 12 + 12 * halves[1] if any(halves) else hour) * 60 + minute)


SIGN_CHARS: Final = 4_000
"""How much of a text is looked at, from its beginning."""

_TIME: Final = any_of("times", "signs.time", regex.IGNORECASE)
_SIGN_NUMBER: Final = any_of("times", "signs.number", regex.IGNORECASE, within=r"\p{Nd}|%s")
_SELF: Final = any_of("words", "self", regex.IGNORECASE)
# A capital that no sentence's beginning explains; "I" alone names nobody.
_NAME: Final = lazily(regex.compile, r"(?<![.!?:\n]\s)(?<!\A)(?<![\p{L}\p{N}'’])\p{Lu}[\p{L}\p{M}]+")
_MOST_NAMES: Final = 3


def asks(text: str) -> bool:
    """True if a text ends with a question."""
    return _ASKS.search(text[-40:]) is not None


def counts(text: str) -> bool:
    """True if a text gives a number."""
    return _SIGN_NUMBER.search(text[:SIGN_CHARS]) is not None


def tells_when(text: str) -> bool:
    """True if a text tells a time."""
    return _TIME.search(text[:SIGN_CHARS]) is not None


def of_self(text: str) -> bool:
    """True if a text speaks of its speaker."""
    return _SELF.search(text[:SIGN_CHARS]) is not None


def names_in(text: str) -> list[str]:
    """Words that are written like a name: with a capital that no sentence's beginning explains."""
    return _NAME.findall(text)


@kept_by_text(8_192)
def features_of(text: str) -> TurnFeatures:
    """The signs of one turn's text, of which the first `SIGN_CHARS` characters are read and the end for a question.

    >>> features_of("We flew to Lisbon last week.")
    TurnFeatures(asks=False, tells_when=True, counts=False, of_self=True, names=1, corrects=False)
    """
    head = text[:SIGN_CHARS]
    names = 0
    for _ in _NAME.finditer(head):
        names += 1
        if names == _MOST_NAMES:
            break
    return TurnFeatures(
        asks=asks(text),
        tells_when=tells_when(text),
        counts=counts(text),
        of_self=of_self(text),
        names=names,
        corrects=corrects(text),
    )
