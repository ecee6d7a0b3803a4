"""Vetting: an extracted fact is believed only if its turn says so. Pure.

A stated fact becomes events, or is refused with the reason; both are kept with the turn.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.domain import REMARK, TAGS, FactEvent, RefusedFact
from memory_agent.facts.fold import MOST_CONFIDENT, overlap, person_key, subject_of
from memory_agent.facts.merge import (
    MAX_EVENTS,
    UnmergeableFacts,
    encodable,
    fact_key,
    fact_path,
    value_events,
)
from memory_agent.facts.tree import FactTree, fact_json, fact_words
from memory_agent.lazily import lazily
from memory_agent.text.cues import (
    Owner,
    bears_out,
    in_first_person,
    is_animal,
    jokes_taken_back,
    kin_name,
    read_statement,
    states_nothing,
)
from memory_agent.text.inert import MONTHS
from memory_agent.text.languages import any_of
from memory_agent.text.terms import count_terms, normalized
from memory_agent.text.times import time_spans

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import FactOp, FactRecord, StatedFact, Turn
    from memory_agent.facts.keeper import Known
    from memory_agent.facts.tree import Leaf
    from memory_agent.text.cues import Statement


REPEATED_WORDS: Final = 5
"""A quote of at least so many words that was said before is a repetition; a shorter one may mean something else."""

_BLOCK: Final = lazily(re.compile, rf"<({'|'.join(TAGS)})>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_BLOCK: Final = lazily(re.compile, rf"\A.*</(?:{'|'.join(TAGS)})>", re.DOTALL | re.IGNORECASE)
"""Of one whose beginning was cut off."""
_BELOW: Final = r"(?:\n(?![ \t>]*$).+|(?:\n[ \t>]*+$)++\n(?:[ \t>]*> )? .+)*"
"""The lines below, up to an empty one that no indented line of the same turn follows: a turn may have several, and persona,
summary and topic bear no mark of their own."""
_SHOWN: Final = tuple(
    lazily(re.compile, pattern, re.MULTILINE)
    for pattern in (
        # The persona, which stands right before the remark.
        r"^[ \t>]*You are [^\n]*(?:\n[ \t>]*(?:Personality|Traits|Profile): [^\n]*)*"
        rf"(?=\n[ \t>]*{re.escape(REMARK)})",
        rf"^[ \t>]*{re.escape(REMARK)}[ \t]*${_BELOW}",
        # Turns below their day, and where one that was too long for a context goes on.
        rf"^[ \t>*-]*\[\d{{1,2}} (?:{'|'.join(MONTHS)})(?: \d{{4}})?(?:, [^\]\n]*)?\][ \t]*${_BELOW}",
        r"^[ \t>]*\[… [\d,]+ characters left out …\][ \t]*$" + _BELOW,
        # The state of the conversation.
        r"^[ \t>]*Talked about: .*$",
    )
)
_FACT: Final = lazily(re.compile, r"^[ \t>]*- (?:.*?, )??(?P<path>[^\s:]+): (?P<value>.*)$", re.MULTILINE)
_SAME_SHAPE: Final = str.maketrans("’‘ʼ‛‚‹›´`′“”„‟«»「」『』″–—―‐‑−", "'" * 10 + '"' * 11 + "-" * 6)
_BLANK_FOR_MARK: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_UNSPACED: Final = lazily(
    regex.compile, r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
"""Languages that join particles to words, or put nothing between words at all."""
_IN_WORD: Final = lazily(regex.compile, r"[\p{L}\p{N}\p{M}]")
_WORD: Final = lazily(regex.compile, r"[\p{L}\p{N}\p{M}']+")
_CHARACTER: Final = lazily(regex.compile, r"\X")


def own_words(text: str, known: Mapping[str, Collection[str]] | None = None) -> str:
    """`text` with everything that memory put there as blanks, so that places in it stay what they are.

    `known`: what is or was known by dotted path, as `fact_json` tells it; a line that lists one of these is memory's.
    """

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"\S", " ", match[0])

    def blank_if_known(match: re.Match[str]) -> str:
        there = (known or {}).get(match["path"])
        return blank(match) if there and _listed(match["value"]) <= set(there) else match[0]

    text = _END_OF_BLOCK.sub(blank, _BLOCK.sub(blank, text))
    for pattern in _SHOWN:
        text = pattern.sub(blank, text)
    return _FACT.sub(blank_if_known, text)


def _listed(value: str) -> set[str]:
    """The values of a line of facts, as `fact_json` tells it: of a list each element."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value
    elements = found if isinstance(found, list) else [found]
    return {fact_json(element) for element in elements}


class SaidText:
    """A text to look quotes up in, prepared once: its letters and digits, folded, each with its place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._plain, self._places = _letters(text)

    def find(self, quote: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """Where `quote` stands in the text (between `start` and `end`); None if it does not.

        Case, white space and marks don't matter. It begins and ends with whole words where a language parts them.
        """
        wanted, _ = _letters(quote)
        end = len(self.text) if end is None else end
        if len(wanted) < 2:
            return None
        joined = _UNSPACED.search(quote) is not None
        at = self._plain.find(wanted)
        while at >= 0:
            behind = at + len(wanted)
            first, last = self._places[at][0], self._places[behind - 1][1]
            # To `regex`, unlike `re`, accents and vowel signs are parts of words.
            cut = (first and _IN_WORD.match(self.text, first - 1)) or _IN_WORD.match(self.text, last)
            part = self._places[behind : behind + 1] == self._places[behind - 1 : behind]  # of a character
            if start <= first and last <= end and not part and (joined or not cut):
                return first, last
            at = self._plain.find(wanted, at + 1)
        return None

    def find_words(self, words: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """Where the text has words that share a stem with one of `words`, from the first to the last of them."""
        stems = count_terms(words).keys()
        found = [
            match.span()
            for match in _WORD.finditer(self.text, start, len(self.text) if end is None else end)
            if not stems.isdisjoint(count_terms(match[0]))
        ]
        return (found[0][0], found[-1][1]) if found else None


def _letters(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The letters and digits of a text, folded, and the span of the text that each comes from."""
    plain: list[str] = []
    places: list[tuple[int, int]] = []
    # By whole characters, so that composed and decomposed ones are the same.
    whole = ((char, place, place + 1) for place, char in enumerate(text))
    if not text.isascii():
        whole = ((match[0], *match.span()) for match in _CHARACTER.finditer(text))
    for char, start, end in whole:
        for letter in char.lower() if char.isascii() else _folded(char):
            if _IN_WORD.match(letter):
                plain.append(letter)
                places.append((start, end))
    return "".join(plain), places


def plain_words(text: str) -> list[str]:
    """The words of `text` without punctuation, for comparing what was said with what was said before."""
    if text.isascii():  # a tenth of the time, for each quote that is known
        return text.lower().translate(_BLANK_FOR_MARK).split()
    return regex.sub(r"[^\p{L}\p{N}\p{M}\s]", " ", _folded(text)).split()


def _folded(text: str) -> str:
    return normalized(text.translate(_SAME_SHAPE)).casefold()


USUAL_CONFIDENCE: Final = 0.8
"""Of what an extractor states without saying how sure it is."""

CATEGORIES: Final[Mapping[str, str]] = {
    "health": "health medical medication medicine illness disease diagnosis allergy allergic symptom disability "
    "therapy therapist mental pregnancy pregnant doctor depression anxiety cancer diabetes asthma surgery treatment "
    "disorder adhd autism hiv blood",
    "religion": "religion religious faith church mosque synagogue temple belief god christian muslim jewish hindu "
    "buddhist catholic atheist",
    "politics": "politics political party vote voting election democrat republican ideology union",
    "sexuality": "sexuality sexual orientation gay lesbian bisexual transgender queer gender",
    "ethnicity": "ethnicity ethnic race racial tribe",
    "finance": "finance financial income salary wage debt bank loan mortgage savings credit investment wealth",
    "contact": "phone telephone email mail address contact mobile handle",
    "identity": "passport ssn security license licence id identification tax iban account password pin",
}
"""Words by which a fact of a category is known, besides the category's own name."""

_OPPOSITES: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("preferences", "likes"): ("preferences", "dislikes"),
    ("preferences", "dislikes"): ("preferences", "likes"),
}
_LISTS: Final = (
    "likes dislikes interests hobbies goals plans habits constraints notes pets allergies health languages skills instruments"
    " sports projects trips relatives events children siblings friends"
    " son daughter brother sister child kid cousin aunt uncle nephew niece grandson granddaughter grandmother"
    " grandfather friend roommate brother_in_law sister_in_law"
)
LISTS: Final = frozenset(_LISTS.split())
"""Where several can be true at once, whatever an extractor says."""
_OPEN: Final = frozenset({"plans", "habits", "goals", "health", "notes", "events"})
"""Where a word alone says too little."""
_LEAST_NOTE_WORDS: Final = 3
_MOST_NOTE_WORDS: Final = 25
_PROPER_NAMES: Final = frozenset({"name", "location"})
_SINGULAR: Final = {"children": "child", "wives": "wife"} | {
    f"{relation}s": relation
    for relation in [
        "son",
        "daughter",
        "brother",
        "sister",
        "kid",
        "cousin",
        "aunt",
        "uncle",
        "nephew",
        "niece",
        "grandson",
        "granddaughter",
    ]
}
"""Below a group of people each stands by the name of one."""
_ENUMERATED: Final = frozenset({"likes", "dislikes", "interests", "pets", "allergies", "languages", "skills"})
"""Lists of names of things, in which "tea, jam and hiking" is three."""
_SAY_NO: Final = frozenset({"dislikes", "constraints"})
"""Where "I don't like mushrooms" is what holds."""
_WRAPPERS: Final = frozenset({"user", "personal_info", "personal", "profile", "about", "facts", "me"})
_SAME_PATHS: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    tuple(name.split(".")): tuple(usual.split("."))
    for usual, names in {
        "occupation": "job profession role job_title work work.role work.job work.occupation career",
        "employer": "company workplace work.employer work.company work.place",
        "location": "city residence home.location home.city place_of_residence hometown_now location.city",
        "name": "full_name first_name",
        "preferences.likes": "likes preferences like favorites",
        "preferences.dislikes": "dislikes dislike preferences.dislike",
        "interests": "hobbies hobby interest",
        "plans": "plan trips trip events event travel schedule plans.trip plans.travel",
        "habits": "habit routine routines work.schedule exercise",
        "allergies": "allergy health.allergies health.allergy intolerance intolerances health.intolerance",
        "diet": "health.diet food.diet",
        "goals": "goal",
        "pets": "pet pets.dog pets.cat family.pet family.pets",
        "languages": "language",
        "health": "medical condition conditions health.condition health.conditions",
        "relatives": "family family.members family.member",
    }.items()
    for name in names.split()
}
_SENDERS: Final = frozenset(
    [
        "user",
        "speaker",
        "author",
        "writer",
        "sender",
        "i",
        "me",
        "myself",
        "self",
        "we",
        "us",
        "the_user",
        "the_speaker",
        "the_author",
        "the_writer",
        "나",
        "저",
        "본인",
        "사용자",
        "화자",
    ]
)
"""What a model calls who wrote a message, also where that one has a name."""
_MAX_PATH_CHARS: Final = 200
_MAX_SAID_CHARS: Final = 500
_MAX_QUOTE_CHARS: Final = 1_000

_INSTRUCTION: Final = any_of("facts", "instruction", regex.IGNORECASE)
_CHANGES: Final = tuple(
    any_of("corrections", key, regex.IGNORECASE) for key in ("changes", "changed", "leads", "follows")
)
_TASTES: Final = {key: any_of("cues", f"tastes.{key}", regex.IGNORECASE) for key in ("likes", "dislikes")}
_NEAR: Final = 80
"""Characters before a value in which the verb that it is the object of is looked for."""
_DOES: Final = lazily(
    re.compile,
    r"'s\b| (?:is|was|has|had|will|can|could|would|got|just|finally|never|always|[a-z]+(?:s|ed))\b",
)
"""What stands behind a name at the head of a sentence, and behind no other word there."""
_MEASURE: Final = lazily(
    re.compile, r"\b(?:less|fewer|more|no|without|only|hardly any|not much|a lot of|lots of) $", re.IGNORECASE
)
"""Right before a thing, without which it says something else."""
_QUOTES: Final = lazily(re.compile, r'["“”«»「」]')
_NOT: Final = lazily(
    re.compile,
    r"\b(?:not|never|no|without|cannot|none)\b|n't\b|(?<![가-힣])(?:안|못) |지 않|free\b",
    re.IGNORECASE,
)
_TO_ME: Final = lazily(re.compile, r"\b(?:me|us)\b", re.IGNORECASE)
_SEPARATOR: Final = lazily(re.compile, r"\s*[,;、]\s*(?:and\s+|or\s+)?|\s+and\s+(?=\S+$)|\s+und\s+(?=\S+$)")


def changes(text: str) -> bool:
    """True if a cue says that what a text states is new: "moved to", "actually", "instead"."""
    return any(cue.search(text) for cue in _CHANGES)


def dated(value: Any, said_at: datetime) -> Any:
    """A value with the day that "tomorrow" or "next Friday" in it is, by the day of its message.

    >>> dated("interview next Friday", datetime(2026, 3, 2, 9, tzinfo=UTC))
    'interview next Friday (2026-03-06)'
    """
    if not isinstance(value, str) or any(map(str.isdigit, value)):
        return value
    spans = time_spans(value, now=said_at)
    if len(spans) != 1 or spans[0].precision != "day":
        return value
    return f"{value} ({spans[0].start:%Y-%m-%d})"


@cache
def usual_path_terms() -> frozenset[str]:
    """Words of paths that tell of nobody."""
    usual = "name occupation location birthday family preferences likes dislikes favorites interests goals constraints"
    return frozenset(count_terms(f"{usual} {_LISTS}"))


class _Refusal(Exception):
    """The reason why an item is not believed."""


class _Misfiled(_Refusal):
    """Its quote states something, but not what the item says of it."""


class _SaidAgain(_Misfiled):
    """Another item of its turn says it, which nobody has to be told; there may be more in its quote."""


class _NeverNoted(_Refusal):
    """It is about a category that must not be noted: not among what is refused either."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vetted:
    """The items of one turn that are believed, and those that are not."""

    events: tuple[FactEvent, ...] = ()
    refused: tuple[RefusedFact, ...] = ()


def vet(
    items: Sequence[StatedFact],
    turn: Turn,
    known: Known,
    *,
    people: Mapping[str, str] | None = None,
    named: Iterable[Owner] = (),
    seen: Iterable[str] = (),
    plays: bool = False,
    never: Collection[str] = (),
) -> Vetted:
    """The events that `items`, said of `turn`, come to, and the items that are refused.

    `people`: who else takes part, each subject by the key of the name that was shown; `named`: relatives and others that
    the turns in view name; `seen`: the texts of those turns; `plays`: the turn goes on with play, of which a model's items are no facts. An item is joined with what is known of its subject alone. It is refused if its turn doesn't
    hold its quote or its value; if the words it quotes are not the user's own (memory put them there, or they repeat
    what a known fact came from); if they aren't meant as said (a question, a wish, a joke, somebody else's words); if it
    is about nobody who is known; if the turn gives the extractor orders; if it is about one of the categories `never` to
    note; if it would make a whole group of facts give way to one value; or if no document can hold it.
    """
    vetting = _Vetting(turn, known, people or {}, list(named), " ".join(seen), never)
    for item in items:
        for part in _parts(item):
            if plays and not part.plain:
                vetting.refused.append(refusal(part, "it goes on with play", vetting.speaker))
            else:
                vetting.take(part)
    vetting.take_back_jokes()
    return Vetted(events=tuple(vetting.events), refused=tuple(vetting.refused))


def _parts(item: StatedFact) -> list[StatedFact]:
    """A model's item as one for each thing that it lists: each may be meant in its own way."""
    values = item.value
    named = item.path[:1] in (("family",), ("relatives",)) and len(item.path) > 1
    last = item.path[-1].casefold() if item.path else ""
    if isinstance(values, str) and (named or kin_name(last) or last in _ENUMERATED):
        values = [part for part in _SEPARATOR.split(values) if part.strip()]
    if item.plain or not isinstance(values, list) or not 1 <= len(values) <= MAX_EVENTS:
        return [item]
    first, *others = [dataclasses.replace(item, value=value) for value in values]
    return [first, *(dataclasses.replace(other, old=None) for other in others)]


class _Vetting:
    """What is made of the items of one turn."""

    def __init__(
        self,
        turn: Turn,
        known: Known,
        people: Mapping[str, str],
        named: Sequence[Owner],
        seen: str,
        never: Collection[str],
    ) -> None:
        self._turn, self._known, self._people, self._never = turn, known, people, never
        self._seen = seen
        self.speaker = subject_of(turn.speaker)
        self._own = SaidText(own_words(turn.content, known.values))
        self._orders = _INSTRUCTION.search(" ".join(self._own.text.split())) is not None
        self._trees: dict[str, FactTree[int]] = {}
        self._named = {person_key(owner.name): owner for owner in named if owner.name}
        self._plain: set[tuple[str, tuple[str, ...]]] = set()
        self.events: list[FactEvent] = []
        self.refused: list[RefusedFact] = []

    def take(self, item: StatedFact) -> None:
        """Add the events that an item comes to, or that it is refused."""
        subject = self.speaker
        try:
            _check_raw_category(item, self._never)
            span = self._quoted(item)
            if self._orders:
                raise _Refusal("the turn gives the extractor orders")
            if not item.plain:
                subject, item = self._meant(item, span)
            tree = self._tree(subject)
            quote = self._own.text[slice(*span)][:_MAX_QUOTE_CHARS].rstrip()
            path = _own_path(fact_path(item.path), tree)
            stated = _stated(item, path, tree)
            told = [FactEvent(op="add", path=path), *stated, *_removed(path, item.old)]
            _check_category(
                (f"{' '.join(event.path)} {fact_words(event.value)}" for event in told), self._never
            )
            _check_repetition(item, stated, quote, self._known.repeated(quote, self._turn.id, subject))
            made = list(_events(item, path, stated, tree))
        except _SaidAgain:
            return
        except _NeverNoted as exc:
            self.refused.append(RefusedFact(path="", said="", quote=None, reason=str(exc)))
            return
        except (_Refusal, UnmergeableFacts) as exc:
            self.refused.append(refusal(item, str(exc), subject))
            return
        # What the next item says may be about what this one said.
        for event in made:
            tree.apply(event, 0)
            if item.plain:
                self._plain.add((subject, event.path))
        sure = USUAL_CONFIDENCE if item.confidence is None else min(item.confidence, MOST_CONFIDENT)
        source: dict[str, Any] = {"quote": quote, "confidence": sure, "valid_from": item.valid_from}
        self.events += [dataclasses.replace(event, **source, subject=subject) for event in made]

    def take_back_jokes(self) -> None:
        """Add the end of what earlier turns said in jest, as this one tells."""
        for words, start, end in jokes_taken_back(self._own.text):
            for leaf in _meant_leaves(("notes",), words, self._tree(self.speaker)):
                quote = self._own.text[start:end]
                event = dataclasses.replace(_removal(leaf), quote=quote, confidence=USUAL_CONFIDENCE)
                self.events.append(dataclasses.replace(event, subject=self.speaker))

    def _tree(self, subject: str) -> FactTree[int]:
        """What is known of a person, with what this turn has said so far."""
        if subject not in self._trees:
            self._trees[subject] = self._known.tree(subject)
        return self._trees[subject]

    def _quoted(self, item: StatedFact) -> tuple[int, int]:
        if item.turn_id != self._turn.id:
            raise _Refusal("no message that was asked about has its quote")
        if not item.quote:
            raise _Refusal("it has no quote")
        said = item.quote[: 4 * _MAX_QUOTE_CHARS]
        span = self._own.find(said)
        if span is None:
            if SaidText(self._turn.content).find(said) is not None:
                raise _Refusal("the quote is an echo: memory put it into the turn")
            raise _Refusal("the quote is not in its turn")
        return span

    # --- what a model's item means ---------------------------------------------------------------------------
    def _meant(self, item: StatedFact, span: tuple[int, int]) -> tuple[str, StatedFact]:
        """Whose fact a model's item is, and the item as its words bear it out: at the path where it belongs.

        What its words say and the item doesn't is noted in the speaker's own words.
        """
        said = fact_words(item.value)
        at = self._own.find(said, *span) or self._own.find_words(said, *span)
        elsewhere = None if at or not said else self._own.find(said) or self._own.find_words(said)
        statement = read_statement(self._own.text, *(at or elsewhere or span))
        if statement.doubt is not None:
            raise _Refusal(statement.doubt)
        item = self._over(item, statement)
        subject, below = self._whose(item, statement.owner, span)
        if elsewhere:  # it quotes one sentence and speaks of another
            span = min(span[0], statement.clause[0]), max(span[1], statement.clause[1])
        try:
            here = at or elsewhere
            unsaid = here is None if said and not isinstance(item.value, bool) else False
            if (
                unsaid
                or self._invents(item)
                or (item.op == "add" and self._denied(item, statement, here or span))
            ):
                raise _Misfiled("its message says it otherwise")
            path = _own_path(self._path(item, below), self._tree(subject))
            if item.op == "add":
                if self._said_already(subject, path, item):
                    raise _SaidAgain("it says again what another item says")
                self._check_path(subject, path, item, span)
        except _Misfiled as exc:
            note = self._own_words(statement, span, least=3 if isinstance(exc, _SaidAgain) else 2)
            if item.op == "retract" or len(note.split()) < _LEAST_NOTE_WORDS:
                raise
            path, item = (*below, "notes"), dataclasses.replace(item, value=note)
        if path[0] == "people" and path[-1] == "relation":
            words = count_terms(fact_words(item.value)).keys()
            relations = [who.relation for who in self._named.values() if _is_called(words, who)]
            item = dataclasses.replace(item, value=(relations or [item.value])[0])
        if item.op == "add" and path[-1] in _OPEN and len(fact_words(item.value).split()) < _LEAST_NOTE_WORDS:
            note = self._own_words(statement, span)
            if count_terms(fact_words(item.value)).keys() <= count_terms(note).keys():
                item = dataclasses.replace(item, value=note)
        item = dataclasses.replace(item, path=path, value=self._complete(item, at))
        if item.op == "add" and item.old is None and changes(self._own.text[slice(*span)]):
            item = dataclasses.replace(item, old=self._replaced(subject, item))
        if item.op == "add" and path[-1] == "notes" and self._said_already(subject, path, item):
            raise _SaidAgain("it says again what another item says")
        return subject, item

    def _complete(self, item: StatedFact, at: tuple[int, int] | None) -> Any:
        """The value with the measure before it ("less salt") and the day that it means."""
        if item.op == "retract" or not isinstance(item.value, str):
            return item.value
        measure = _MEASURE.search(self._own.text, max(at[0] - _NEAR, 0), at[0]) if at else None
        if measure and item.value.casefold().startswith(measure[0].casefold()):
            measure = None
        return dated(f"{measure[0].strip()} {item.value}" if measure else item.value, self._turn.timestamp)

    def _denied(self, item: StatedFact, statement: Statement, at: tuple[int, int]) -> bool:
        """True if a "not" stands before the value in its clause, and the item says nothing of that."""
        before = self._own.text[statement.clause[0] : at[0]]
        says_no = {*item.path} & {*_SAY_NO, "allergies", "likes"} or _NOT.search(fact_words(item.value))
        return not says_no and _NOT.search(before) is not None

    def _invents(self, item: StatedFact) -> bool:
        """True if the value has a word that neither its message has nor what was said before it."""
        known = fact_words(self._tree(self.speaker).document())
        said = count_terms(
            f"{self._turn.content} {self._seen} {known} {' '.join(item.path)}".replace("_", " ")
        ).keys()
        value = (
            item.path[-1].replace("_", " ")
            if isinstance(item.value, bool) and item.path
            else fact_words(item.value)
        )
        return not count_terms(value).keys() <= said

    def _own_words(self, statement: Statement, span: tuple[int, int], *, least: int = 2) -> str:
        """What the speaker says of it, within the quote: its clause, on one line.

        "" if that is long, or has fewer than `least` words that no fact of the turn has.
        """
        start, end = max(statement.clause[0], span[0]), min(statement.clause[1], span[1])
        if len(self._own.text[end : span[1]].split()) <= _LEAST_NOTE_WORDS:
            end = max(end, span[1])  # "on Tuesdays and Fridays"
        words = self._own.text[start:end].strip(" ,;.!-–—").split()
        note = " ".join(words)
        noted = " ".join(fact_words([*event.path, event.value]) for event in self.events)
        new = count_terms(note).keys() - count_terms(noted.replace("_", " ")).keys()
        idle = len(new) < least or states_nothing(note) or _QUOTES.search(note) is not None
        return "" if idle or len(words) > _MOST_NOTE_WORDS else note

    def _check_path(
        self, subject: str, path: tuple[str, ...], item: StatedFact, span: tuple[int, int]
    ) -> None:
        """Raise _Refusal for what isn't of such a kind, or for another value of what is known for sure."""
        quote, kind = self._own.text[slice(*span)], path[-1].replace("_", " ")
        if self._tree(subject).is_group(path):
            raise _Misfiled(f"{kind} is a group of facts")
        if not bears_out(path[-1], quote):
            raise _Misfiled(f"its words tell of no {kind}")
        at = self._own.find_words(fact_words(item.value), *span) or span
        if any(cue.fullmatch(fact_words(item.value)) for cue in _TASTES.values()):
            raise _Misfiled("its value is a verb")
        words = self._own.text[slice(*at)].split()
        cased = any(word.lower() != word.upper() for word in words)
        if path[-1] in _PROPER_NAMES and cased and not any(word[0].isupper() for word in words):
            raise _Misfiled(f"a {kind} is written with a capital")
        if (subject, path) in self._plain and path[-1] not in LISTS:
            raise _Misfiled("its message says plainly something else there")
        if path == ("name",) and self._tree(subject).get(path) is not None and not changes(quote):
            raise _Refusal("the name is known, and its words don't say that it is another")

    def _over(self, item: StatedFact, statement: Statement) -> StatedFact:
        """The item as what holds or is over, by its message's words rather than the model's."""
        says_no = {*item.path} & _SAY_NO or _NOT.search(fact_words(item.value))
        if statement.ended and not (statement.negated and says_no and item.op == "add"):
            return dataclasses.replace(item, op="retract")
        if item.op == "retract" and self._takes_back(item):
            raise _Refusal("nothing in its words says that it is over")
        return dataclasses.replace(item, op="add")

    def _takes_back(self, item: StatedFact) -> bool:
        tree = self._tree(self.speaker)
        return (
            any(True for _ in _meant_leaves(fact_path(item.path), item.value, tree)) if item.path else False
        )

    def _whose(
        self, item: StatedFact, owner: Owner | None, span: tuple[int, int]
    ) -> tuple[str, tuple[str, ...]]:
        """Whose fact an item is, and the path below which it stands ("people" for who is no speaker)."""
        quote = self._own.text[slice(*span)]
        about = person_key(item.subject or "user").replace("_", " ").removeprefix("my ").removeprefix("the ")
        own = {
            person_key(self.speaker),
            person_key(str(self._tree(self.speaker).get(("name",)) or "")),
        }
        mine = about in own or fact_key(about) in _SENDERS
        mine = mine or (item.path[-1:] == ("name",) and about == person_key(fact_words(item.value)))
        named = "" if mine else self._acquainted(about, quote)
        if owner is not None and (owner.name or owner.relation):
            name = owner.name or self._relative(owner.relation)
            if named and (owner.name or owner.relation) not in quote:  # "she", whom the model knows better
                name = named
            if name and (subject := self._people.get(person_key(name))) is not None:
                return subject, ()
            if introduced := _introduced(item, Owner(relation=owner.relation, name=name)):
                self._named.setdefault(person_key(introduced.name), introduced)
                return self.speaker, ()
            if mine and not name and _TO_ME.search(quote):
                return self.speaker, ()  # "the doctor put me on tablets"
            return self.speaker, ("people", fact_key(name or owner.relation))
        if not mine and (subject := self._people.get(about)) is not None:
            return subject, ()
        if named and (person_key(named) in person_key(quote) or not in_first_person(quote)):
            return self.speaker, ("people", fact_key(named))
        stray = set(about.split()) <= {
            *person_key(fact_words(item.value)).split()
        }  # the thing, taken for a person
        if owner is not None or not (mine or named or stray or (item.subject or "").islower()):
            raise _Refusal(f"it is about {item.subject!r:.80}, and nobody in the conversation has that name")
        return self.speaker, ()

    def _acquainted(self, about: str, quote: str) -> str:
        """The name of somebody whom a quote begins with, or whom turns in view or known facts name."""
        if about in self._named:
            return self._named[about].name
        first = quote[: len(about)]
        if first[:1].isupper() and person_key(first) == about and _DOES.match(quote, len(about)):
            return first
        tree = self._tree(self.speaker)
        for path, kept, _ in tree.leaves(("family",)):
            if person_key(str(kept.value)) == about or path[-1] == fact_key(about):
                return str(kept.value)
        known_people = tree.get(("people",))
        known = isinstance(known_people, dict) and fact_key(about) in known_people
        return about if known else self._relative(fact_key(about))

    def _relative(self, relation: str) -> str:
        """The name of the one with that relation, by turns in view or known facts; "" if none says."""
        found = {owner.name for owner in self._named.values() if owner.relation == relation}
        found |= {str(kept.value) for _, kept, _ in self._tree(self.speaker).leaves(("family", relation))}
        return found.pop() if len(found) == 1 and relation else ""

    def _path(self, item: StatedFact, below: tuple[str, ...]) -> tuple[str, ...]:
        """Where an item belongs: names of relatives at their relation, facts of others below them."""
        path = fact_path(item.path)
        words = count_terms(fact_words(item.value)).keys()
        for owner in () if below or item.op == "retract" else self._named.values():
            if owner.relation and _is_called(words, owner):
                if is_animal(owner.relation):
                    return ("pets",)
                kin = kin_name(owner.relation.removesuffix("_in_law"))
                return ("family", owner.relation) if kin else ("people", fact_key(owner.name), "relation")
        if below and path == ("family", below[-1]):
            return path
        if below and path[0] in ("family", "people", "relatives", "friends"):
            relations = {below[-1], *(owner.relation for owner in self._named.values())}
            path = tuple(key for key in path[1:] if key not in relations) or ("details",)
        elif below and path[-1] == below[-1]:
            path = ("name",)
        taste = self._taste(item) if item.op == "add" else None
        if path[-1] in ("likes", "dislikes") and taste is not None:
            path = (*(key for key in path[:-1] if key not in ("likes", "dislikes")), taste)
        return (*below, *path)

    def _taste(self, item: StatedFact) -> str | None:
        """ "likes" or "dislikes", by the last verb before the value in its message; else None."""
        at = self._own.find_words(fact_words(item.value), 0, len(self._own.text))
        before = self._own.text[max(at[0] - _NEAR, 0) : at[0]].translate(_SAME_SHAPE) if at else ""
        found = [
            (match.end(), -match.start(), name)
            for name, cue in _TASTES.items()
            for match in cue.finditer(before)
        ]
        return max(found)[2] if found else None

    def _replaced(self, subject: str, item: StatedFact) -> Any:
        """The list element that a changed one replaces: the one with most words in common."""
        tree, path = self._tree(subject), item.path
        lists = [path] if path[-1] not in _OPEN else [(*path[:-1], name) for name in sorted(_OPEN)]
        words = count_terms(fact_words(item.value)).keys()
        shared = [
            (len(words & count_terms(fact_words(kept.value)).keys()), str(kept.value))
            for here in lists
            for _, kept, in_list in tree.leaves(here)
            if in_list
        ]
        most = max(shared, key=lambda each: each[0], default=(0, None))
        return most[1] if most[0] and fact_json(most[1]) != fact_json(item.value) else None

    def _said_already(self, subject: str, path: tuple[str, ...], item: StatedFact) -> bool:
        """True if an event of the same turn has all that an item says, or is said by it."""
        words = count_terms(fact_words(item.value)).keys()
        for event in self.events:
            there = count_terms(fact_words(event.value)).keys()
            same = event.subject == subject and (event.path[0] == "people") == (path[0] == "people")
            alike = words <= there or (there <= words and event.path[-1] in (path[-1], *path[-2:-1]))
            if same and event.op in ("set", "add") and there and alike:
                return True
        return False


def _introduced(item: StatedFact, owner: Owner) -> Owner | None:
    """Whom an item only names: `owner`, or another one of the same relation."""
    name = fact_words(item.value)
    if owner.name and (name == owner.name or _is_called(count_terms(name).keys(), owner)):
        return owner
    path = tuple(map(str.casefold, item.path))
    relative = owner.relation and kin_name("".join(path[-1:])) == owner.relation and name[:1].isupper()
    animal = is_animal(owner.relation) and _SAME_PATHS.get(path, path)[-1:] == ("pets",)
    return Owner(relation=owner.relation, name=name) if relative or animal else None


def _is_called(words: Collection[str], owner: Owner) -> bool:
    """True if these are the words of somebody's name, and at most of the relation besides."""
    name, relation = count_terms(owner.name).keys(), count_terms(owner.relation.replace("_", " ")).keys()
    return set(words) <= name | relation and not name.isdisjoint(words)


def refusal(item: StatedFact, reason: str, subject: str = "") -> RefusedFact:
    """`item` as it is kept when it is not believed."""
    ops: Mapping[str, FactOp] = {"add": "add", "retract": "retract"}
    said = item.value if isinstance(item.value, str) else _as_text(item.value)
    return RefusedFact(
        op=ops[item.op],
        path=encodable(".".join(map(str, item.path))[:_MAX_PATH_CHARS]),
        said=encodable(said[:_MAX_SAID_CHARS]),
        quote=None if item.quote is None else encodable(item.quote[:_MAX_SAID_CHARS]),
        reason=encodable(reason),
        subject=subject,
    )


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, TypeError, ValueError):
        return f"a {type(value).__name__} that cannot be written as JSON"


def _own_path(path: tuple[str, ...], tree: FactTree[int]) -> tuple[str, ...]:
    """The one path for what may be called by several, unless a group of facts is known by that name."""
    while len(path) > 1 and path[0] in _WRAPPERS:
        path = path[1:]
    if len(path) > 1:
        path = (*path[:-1], _SINGULAR.get(path[-1], path[-1]))
    return path if tree.is_group(path) else _SAME_PATHS.get(path, path)


def _stated(item: StatedFact, path: tuple[str, ...], tree: FactTree[int]) -> list[FactEvent]:
    """The values that `item` states or takes back, each at its own path. Raises UnmergeableFacts."""
    value = item.value
    listed = tree.is_list(path) or (path[-1] in LISTS and path not in tree)
    if isinstance(value, dict) and (item.op == "retract" or listed):
        # One pet with its name and kind is an element of the pets, not a group of facts.
        value = [value]
    if value is None:
        return []
    return [
        dataclasses.replace(event, path=_own_path(event.path, tree)) for event in value_events(path, value)
    ]


def _removed(path: tuple[str, ...], value: Any) -> list[FactEvent]:
    """The removal of each of the values, or of the one. Raises UnmergeableFacts."""
    values = value if isinstance(value, list) else [value]
    return [FactEvent(op="remove", path=path, value=event.value) for event in value_events(path, values)]


def _check_raw_category(item: StatedFact, never: Collection[str]) -> None:
    """Before anything else: what must not be noted must not be kept among what is refused either."""
    texts = (
        [*map(str, item.path), _as_text(item.value), _as_text(item.old), item.quote or "", item.subject or ""]
        if never
        else ()
    )
    # Words that a key runs together count one by one.
    runs = r"(?<=\p{Ll})(?=\p{Lu})|[^\p{L}\p{N}\p{M}]+"
    _check_category([regex.sub(runs, " ", text.replace("\\n", " ")) for text in texts], never)


def _check_category(texts: Iterable[str], never: Collection[str]) -> None:
    said = count_terms(" ".join(texts).replace("_", " ")) if never else {}
    for category in never:
        telling = count_terms(f"{category.replace('_', ' ')} {CATEGORIES.get(category.casefold(), '')}")
        if not telling.keys().isdisjoint(said):
            raise _NeverNoted(f"facts about {category} are never noted (setting facts_never)")


def _check_repetition(
    item: StatedFact, stated: Sequence[FactEvent], quote: str, repeated: Sequence[tuple[FactRecord, str]]
) -> None:
    said = f" {' '.join(plain_words(quote))} "
    values = {word for event in stated for word in count_terms(fact_words(event.value))}
    # With more around it, it is one only if nothing of what is stated comes from there.
    echoed = [
        record
        for record, earlier in repeated
        if said in f" {earlier} " or (item.op == "add" and values <= count_terms(earlier).keys())
    ]
    if not echoed:
        return
    known_already = {(record.path, fact_json(record.value)) for record in echoed}
    restated = all((event.path, fact_json(event.value)) in known_already for event in stated)
    if item.op == "retract" or item.old is not None or not restated:
        raise _Refusal(f"the quote is an echo: it repeats what turn {echoed[0].sources[0].turn_id} said")


def _events(
    item: StatedFact, path: tuple[str, ...], stated: Sequence[FactEvent], tree: FactTree[int]
) -> Iterator[FactEvent]:
    if item.op == "retract":
        yield from _taken_back(path, stated, tree)
        return
    if not stated:
        raise _Refusal("it states nothing")
    new = {fact_json(event.value) for event in stated}
    for gone in _removed(path, item.old):
        leaves = list(_meant_leaves(path, gone.value, tree))
        yield from (_removal(leaf) for leaf in leaves if fact_json(leaf[1].value) not in new)
    for event in stated:
        yield from _joined(event, tree)


def _taken_back(
    path: tuple[str, ...], stated: Sequence[FactEvent], tree: FactTree[int]
) -> Iterator[FactEvent]:
    """The end of each leaf that a value means, or of the one thing at a path.

    Without such a leaf that of the value itself, which another thread may have stated.
    """
    if not stated:
        leaves = list(_meant_leaves(path, None, tree))
        if len(leaves) > 1:
            raise _Refusal(f"{'.'.join(path)} holds {len(leaves)} facts; name the one that holds no more")
        words = path[-1].replace("_", " ")  # of `likes.coffee`, an element of `likes`
        elements = list(_meant_leaves(path[:-1], words, tree)) if not leaves and path[1:] else []
        yield from map(_removal, elements)
        if not elements:
            yield FactEvent(op="retract", path=leaves[0][0] if leaves else path)
    for event in stated:
        leaves = list(_meant_leaves(path, event.value, tree))
        yield from map(_removal, leaves)
        if not leaves:
            yield FactEvent(op="remove", path=event.path, value=event.value)


def _removal(leaf: Leaf[int]) -> FactEvent:
    path, kept, _ = leaf
    return FactEvent(op="remove", path=path, value=kept.value)


def _meant_leaves(path: tuple[str, ...], value: Any, tree: FactTree[int]) -> Iterator[Leaf[int]]:
    """What of the known a path and the words of a value loosely mean: "Rex" at `pets` is "dog Rex" there.

    Looked for at, below and right above the path, else everywhere; without a value all of these at or below the path.
    """
    if value is None:
        yield from tree.leaves(path)
        return
    words = count_terms(fact_words(value)).keys()
    near = [
        leaf
        for leaf in tree.leaves()
        if overlap(leaf[0], path) or (len(path) > 1 and leaf[0][-1] == path[-1])
    ]
    for leaves in (near, [leaf for leaf in tree.leaves() if leaf[0][0] != "people" or path[0] == "people"]):
        found = [leaf for leaf in leaves if _means(words, value, leaf)]
        yield from found
        if found:
            return


def _means(words: Collection[str], value: Any, leaf: Leaf[int]) -> bool:
    known = count_terms(fact_words(leaf[1].value)).keys()
    same = fact_json(leaf[1].value) == fact_json(value)
    return same or (bool(words) and bool(known) and (set(words) <= known or known <= set(words)))


def _joined(event: FactEvent, tree: FactTree[int]) -> Iterator[FactEvent]:
    """`event` as it joins what is known: lists grow, and nothing that is more than it gives way to it."""
    for depth in range(1, len(event.path)):
        above = event.path[:depth]
        if above in tree and not tree.is_group(above):
            raise _Refusal(f"{'.'.join(event.path[:depth])} is known as a value, not as a group of facts")
    if tree.is_group(event.path):
        raise _Refusal(f"{'.'.join(event.path)} is a group of facts, which one value would replace")
    if event.op == "set" and (tree.is_list(event.path) or event.path[-1] in LISTS):
        event = dataclasses.replace(event, op="add")
    if event.op == "add":
        # Of "hiking" and "to hike" the first one stays.
        words = count_terms(fact_words(event.value)).keys()
        there = (kept.value for _, kept, _ in tree.leaves(event.path))
        same = (value for value in there if words and count_terms(fact_words(value)).keys() == words)
        event = dataclasses.replace(event, value=next(same, event.value))
    opposite = _OPPOSITES.get(event.path)
    if opposite is not None:
        yield FactEvent(op="remove", path=opposite, value=event.value)
    yield event
