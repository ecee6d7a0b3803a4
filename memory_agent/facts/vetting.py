"""Vetting: an extracted fact is believed only if its turn says so. Pure.

A stated fact becomes events, or is refused with the reason; both are kept with the turn.
"""

from __future__ import annotations

import dataclasses
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.domain import FactEvent, RefusedFact, recalled_in
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
from memory_agent.text.corrections import names_change
from memory_agent.text.cues import (
    Owner,
    bears_out,
    in_first_person,
    is_animal,
    jokes_taken_back,
    kin_name,
    people_in,
    plays_on,
    read_statement,
    states_nothing,
)
from memory_agent.text.languages import all_words, any_of, languages_with
from memory_agent.text.tables import table
from memory_agent.text.terms import count_terms, normalized
from memory_agent.text.times import time_spans

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
    from datetime import datetime

    from memory_agent.domain import FactRecord, StatedFact
    from memory_agent.facts.keeper import Known, TurnStatements
    from memory_agent.facts.tree import Leaf
    from memory_agent.text.cues import Statement


REPEATED_WORDS: Final = 5
"""A quote of at least so many words that was said before is a repetition; a shorter one may mean something else."""

_STATE: Final = lazily(re.compile, r"^[ \t>]*Talked about: .*$", re.MULTILINE)
"""The state of a conversation, as prompts tell it."""
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
        return blank(match) if there and _listed(match["value"]) <= {*there} else match[0]

    for start, end in recalled_in(text):
        text = text[:start] + re.sub(r"\S", " ", text[start:end]) + text[end:]
    return _FACT.sub(blank_if_known, _STATE.sub(blank, text))


def _listed(value: str) -> set[str]:
    """The values of a line of facts, as `fact_json` tells it: of a list each element."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value
    elements = found if isinstance(found, list) else [found]
    return {fact_json(element) for element in elements}


class QuotableText:
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

    def place(self, words: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """Where the text says `words`, else where it has words of their stems, from the first to the last of them."""
        if (exactly := self.find(words, start, end)) is not None:
            return exactly
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

_OPPOSITES: Final = {"likes": "dislikes", "dislikes": "likes"}
_LISTS: Final = (
    "likes dislikes interests hobbies goals plans habits constraints notes pets allergies health languages skills tools instruments"
    " sports projects trips relatives events friends friend roommate children siblings child kid son daughter brother sister"
    " sibling brother_in_law sister_in_law cousin aunt uncle nephew niece niece_or_nephew grandson granddaughter grandmother"
    " grandfather grandparent parent stepson stepdaughter stepbrother stepsister godson goddaughter"
)
LISTS: Final = frozenset(_LISTS.split())
"""Where several can be true at once, whatever an extractor says."""
_OPEN: Final = frozenset({"plans", "habits", "goals", "health", "notes", "events"})
"""Where a word alone says too little."""
_LEAST_NOTE_WORDS: Final = 3
_MOST_NOTE_WORDS: Final = 25
_PROPER_NAMES: Final = frozenset({"name", "location"})
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
_MAX_PATH_CHARS: Final = 200
_MAX_SAID_CHARS: Final = 500
_MAX_QUOTE_CHARS: Final = 1_000

_INSTRUCTION: Final = any_of("facts", "instruction", regex.IGNORECASE)
_TASTES: Final = {key: any_of("cues", f"tastes.{key}", regex.IGNORECASE) for key in _OPPOSITES}
_NEAR: Final = 80
"""Characters before a value in which the verb that it is the object of is looked for."""
_MEASURE: Final = lazily(
    re.compile, r"\b(?:less|fewer|more|no|without|only|hardly any|not much|a lot of|lots of) $", re.IGNORECASE
)
"""Right before a thing, without which it says something else."""
_QUOTES: Final = lazily(re.compile, r'["“”«»「」]')
_NOT: Final = any_of("facts", "vetting.not", regex.IGNORECASE)
_TO_ME: Final = any_of("corrections", "to_me", regex.IGNORECASE)
_SEPARATOR: Final = lazily(re.compile, r"\s*[,;、]\s*(?:and\s+|or\s+)?|\s+and\s+(?=\S+$)|\s+und\s+(?=\S+$)")


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


class _Repeated(_Refusal):
    """Another item says just that, and quotes all that this one does."""


class _SaidAgain(_Misfiled):
    """Another item of its turn says it, which nobody has to be told; there may be more in its quote."""


class Vetted:
    """The `events` that the items `said` of a turn come to, and those that are `refused`.

    An item is joined with what is known of its subject alone. It is refused if its turn doesn't
    hold its quote or its value; if the words it quotes are not the user's own (memory put them there, or they repeat
    what a known fact came from); if they aren't meant as said (a question, a wish, a joke, play, somebody else's words); if it
    is about nobody who is known; if the turn gives the extractor orders; if it is about one of the categories `never` to
    note; if it would make a whole group of facts give way to one value; or if no document can hold it.
    """

    def __init__(self, said: TurnStatements, known: Known, never: Collection[str] = ()) -> None:
        self._turn = turn = said.turn
        self._known, self._people, self._never = known, said.people, never
        self._seen = " ".join(text for turn_id, text in said.texts.items() if turn_id < turn.id)
        self._plays = plays_on(said.earlier, turn.content)
        self._speaker = subject_of(turn.speaker)
        self._own = QuotableText(own_words(turn.content, known.values))
        self._orders = _INSTRUCTION.search(" ".join(self._own.text.split())) is not None
        self._trees: dict[str, FactTree] = {}
        by_model = any(not item.plain for item in said.items)
        named = [owner for text in said.texts.values() for owner in people_in(text)] if by_model else []
        self._named = {person_key(owner.name): owner for owner in named}
        self._plain: set[tuple[str, tuple[str, ...]]] = set()
        self.events: list[FactEvent] = []
        self.refused: list[RefusedFact] = []
        for item in said.items:
            for part in _parts(item):
                self._take(part)
        for words, start, end in jokes_taken_back(self._own.text):
            source: dict[str, Any] = {"quote": self._own.text[start:end], "confidence": USUAL_CONFIDENCE}
            for leaf in _meant_leaves(("notes",), words, self._tree(self._speaker)):
                self.events.append(dataclasses.replace(_removal(leaf), **source, subject=self._speaker))

    def _take(self, given: StatedFact) -> None:
        """Add the events that an item comes to, or that it is refused."""
        item, subject, reason = given, self._speaker, ""
        path: tuple[str, ...] = ()
        made: list[FactEvent] = []
        try:
            span = self._quoted(item)
            if self._orders:
                raise _Refusal("the turn gives the extractor orders")
            if not item.plain:
                subject, item = self._meant(item, span)
            tree = self._tree(subject)
            quote = self._own.text[slice(*span)][:_MAX_QUOTE_CHARS].rstrip()
            path = _own_path(fact_path(item.path), tree)
            stated = _stated(item, path, tree)
            _check_repetition(item, stated, quote, self._known.repeated(quote, self._turn.id, subject))
            sure = USUAL_CONFIDENCE if item.confidence is None else min(item.confidence, MOST_CONFIDENT)
            source: dict[str, Any] = {"quote": quote, "confidence": sure, "valid_from": item.valid_from}
            events = _events(item, path, stated, tree)
            made = [dataclasses.replace(event, **source, subject=subject) for event in events]
        except (_SaidAgain, _Repeated):
            return
        except (_Refusal, UnmergeableFacts) as exc:
            reason = str(exc)
        if category := _never_noted(given, [*path, *_texts_of(made)], self._never):
            # Nor is it kept among what is refused.
            told = f"facts about {category} are never noted (setting facts_never)"
            self.refused.append(RefusedFact(path="", said="", quote=None, reason=told))
        elif reason:
            self.refused.append(refusal(item, reason, subject))
        else:
            for event in made:  # what the next item says may be about what this one said
                tree.apply(event, 0)
                if item.plain:
                    self._plain.add((subject, event.path))
            self.events += made

    def _tree(self, subject: str) -> FactTree:
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
            if QuotableText(self._turn.content).find(said) is not None:
                raise _Refusal("the quote is an echo: memory put it into the turn")
            raise _Refusal("the quote is not in its turn")
        return span

    # --- what a model's item means ---------------------------------------------------------------------------
    def _meant(self, item: StatedFact, span: tuple[int, int]) -> tuple[str, StatedFact]:
        """Whose fact a model's item is, and the item as its words bear it out: at the path where it belongs.

        What its words say and the item doesn't is noted in the speaker's own words.
        """
        if self._plays:
            raise _Refusal("it goes on with play")
        said = (
            " ".join(item.path[-1:]).replace("_", " ")
            if isinstance(item.value, bool)
            else fact_words(item.value)
        )
        at = self._own.place(said, *span)
        here = at or self._own.place(said)
        statement = read_statement(self._own.text, *(here or span))
        if statement.doubt is not None:
            raise _Refusal(statement.doubt)
        item = self._over(item, statement)
        subject, below = self._whose(item, statement.owner, span)
        if here and not at:  # it quotes one sentence and speaks of another
            span = min(span[0], statement.clause[0]), max(span[1], statement.clause[1])
        if item.op == "retract":
            if said and not self._is_said(item, said, here):
                raise _Refusal("its message says it otherwise")
            return subject, dataclasses.replace(item, path=self._path(subject, item, below)[0])
        try:
            if (said and not self._is_said(item, said, here)) or self._denied(item, statement, here or span):
                raise _Misfiled("its message says it otherwise")
            path, value = self._path(subject, item, below)
            self._check_path(subject, path, item, span)
        except _Misfiled:
            path, value = (*below, "notes"), self._own_words(statement, span)
            if len(value.split()) < _LEAST_NOTE_WORDS:
                raise
        measure = _MEASURE.search(self._own.text, max(at[0] - _NEAR, 0), at[0]) if at else None
        if measure and isinstance(value, str) and value == item.value:
            value = f"{measure[0]}{value}"
        if path[-1] in _OPEN and len(fact_words(value).split()) < _LEAST_NOTE_WORDS:
            note = self._own_words(statement, span)
            value = note if _words(value) <= _words(note) else value
        item = dataclasses.replace(item, path=path, value=dated(value, self._turn.local_time))
        if item.old is None and names_change(self._own.text[slice(*span)]):
            item = dataclasses.replace(item, old=self._replaced(subject, item))
        return subject, item

    def _over(self, item: StatedFact, statement: Statement) -> StatedFact:
        """The item as what holds or is over, by its message's words rather than the model's."""
        says_no = {*item.path} & _SAY_NO or _NOT.search(fact_words(item.value))
        if statement.ended and not (statement.negated and says_no and item.op == "add"):
            return dataclasses.replace(item, op="retract")
        known = self._tree(self._speaker)
        if item.op == "retract" and item.path and any(_meant_leaves(fact_path(item.path), item.value, known)):
            raise _Refusal("nothing in its words says that it is over")
        return dataclasses.replace(item, op="add")

    def _is_said(self, item: StatedFact, said: str, here: tuple[int, int] | None) -> bool:
        """True if the message has one of the value's words, and with what was said before it all of them."""
        known = fact_words(self._tree(self._speaker).document())
        there = f"{self._turn.content} {self._seen} {known} {' '.join(item.path)}".replace("_", " ")
        return here is not None and count_terms(said).keys() <= count_terms(there).keys()

    def _denied(self, item: StatedFact, statement: Statement, at: tuple[int, int]) -> bool:
        """True if a "not" stands before the value in its clause, and the item says nothing of that."""
        says_no = {*item.path} & {*_SAY_NO, "allergies", "likes"} or _NOT.search(fact_words(item.value))
        return not says_no and _NOT.search(self._own.text[statement.clause[0] : at[0]]) is not None

    def _own_words(self, statement: Statement, span: tuple[int, int]) -> str:
        """What the speaker says of it, within the quote: its clause, on one line.

        "" if that is long, or has fewer than two words that no fact of the turn has.
        """
        start, end = max(statement.clause[0], span[0]), min(statement.clause[1], span[1])
        if len(self._own.text[end : span[1]].split()) <= _LEAST_NOTE_WORDS:
            end = max(end, span[1])  # "on Tuesdays and Fridays"
        words = self._own.text[start:end].strip(" ,;.!-–—").split()
        note = " ".join(words)
        new = count_terms(note).keys() - count_terms(" ".join(_texts_of(self.events))).keys()
        idle = len(new) < 2 or states_nothing(note) or _QUOTES.search(note) is not None
        return "" if idle or len(words) > _MOST_NOTE_WORDS else note

    def _check_path(
        self, subject: str, path: tuple[str, ...], item: StatedFact, span: tuple[int, int]
    ) -> None:
        """Raise _Misfiled for what isn't of such a kind, _SaidAgain for what another item of the turn says."""
        quote, value, tree = self._own.text[slice(*span)], fact_words(item.value), self._tree(subject)
        words = _words(item.value)
        for event in self.events:
            there = _words(event.value)
            same = event.subject == subject and (event.path[0] == "people") == (path[0] == "people")
            alike = words <= there or (there <= words and event.path[-1] in (path[-1], *path[-2:-1]))
            if same and event.op in ("set", "add") and there and alike:
                if event.path == path and there == words and quote in str(event.quote):
                    raise _Repeated("a pattern has found it")
                raise _SaidAgain("it says again what another item says")
        if (
            tree.is_group(path)
            or not bears_out(path[-1], quote)
            or any(cue.fullmatch(value) for cue in _TASTES.values())
            or (
                path[-1] in _PROPER_NAMES
                and self._own.text[slice(*(self._own.place(value, *span) or span))].islower()
            )
            or ((subject, path) in self._plain and path[-1] not in LISTS)
        ):
            raise _Misfiled(f"its words tell of no {path[-1].replace('_', ' ')}")
        if path == ("name",) and path in tree and not names_change(quote):
            raise _Refusal("the name is known, and its words don't say that it is another")

    def _whose(
        self, item: StatedFact, owner: Owner | None, span: tuple[int, int]
    ) -> tuple[str, tuple[str, ...]]:
        """Whose fact an item is, and the path below which it stands ("people" for who is no speaker)."""
        quote, tree = self._own.text[slice(*span)], self._tree(self._speaker)
        about = person_key(item.subject or "user").replace("_", " ").removeprefix("my ").removeprefix("the ")
        own = {self._speaker, str(tree.get(("name",)) or "")}
        if item.path[-1:] == ("name",):
            own.add(fact_words(item.value))
        mine = fact_key(about) in all_words("facts", "vetting.senders") or about in map(person_key, own)
        named = "" if mine else self._acquainted(about)
        if owner is not None and (owner.name or owner.relation):
            name = owner.name or self._acquainted(owner.relation)
            if named and (owner.name or owner.relation) not in quote:  # "she", whom the model knows better
                name = named
            if introduced := _introduced(item, Owner(relation=owner.relation, name=name)):
                self._named.setdefault(person_key(introduced.name), introduced)
                return self._speaker, ()
            if mine and not owner.name and _TO_ME.search(quote):
                return self._speaker, ()  # "the doctor put me on tablets"
            name = name or owner.relation
        elif not mine and about in self._people:
            name = about
        elif named and (person_key(named) in person_key(quote) or not in_first_person(quote)):
            name = named
        elif owner is not None or not (mine or named or (item.subject or "").islower()):
            raise _Refusal(f"it is about {item.subject!r:.80}, and nobody in the conversation has that name")
        else:
            return self._speaker, ()
        subject = self._people.get(person_key(name))
        return (self._speaker, ("people", fact_key(name))) if subject is None else (subject, ())

    def _acquainted(self, about: str) -> str:
        """The name of the one who is called `about`, or alone has that relation; "" if nobody is known so."""
        tree, relation = self._tree(self._speaker), fact_key(about)
        family = (
            Owner(relation=path[-1], name=str(kept.value)) for path, kept, _ in tree.leaves(("family",))
        )
        known = [*self._named.values(), *family]
        if named := [owner.name for owner in known if person_key(owner.name) == about]:
            return named[0]
        related = {owner.name for owner in known if owner.relation == relation}
        if relation and ("people", relation) not in tree and len(related) == 1:
            return related.pop()
        return about if ("people", relation) in tree else ""

    def _path(self, subject: str, item: StatedFact, below: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
        """Where an item belongs, and its value: names of relatives at their relation, facts of others below them."""
        path, value = fact_path(item.path), item.value
        for owner in () if below or item.op == "retract" else self._named.values():
            if owner.relation and _is_called(_words(value), owner):
                if is_animal(owner.relation):
                    return ("pets",), value
                if kin_name(owner.relation.removesuffix("_in_law")):
                    return ("family", owner.relation), value
                return ("people", fact_key(owner.name), "relation"), owner.relation
        if below and path[0] in ("family", "people", "relatives", "friends"):
            relations = {below[-1], *(owner.relation for owner in self._named.values())}
            path = tuple(key for key in path[1:] if key not in relations) or ("details",)
        elif below and path[-1] == below[-1]:
            path = ("name",)
        if path[-1] in _OPPOSITES and item.op == "add" and (taste := self._taste(item)):
            path = (*path[:-1], taste)
        return _own_path((*below, *path), self._tree(subject)), value

    def _taste(self, item: StatedFact) -> str | None:
        """ "likes" or "dislikes", by the last verb before the value in its message; else None."""
        at = self._own.place(fact_words(item.value))
        before = self._own.text[max(at[0] - _NEAR, 0) : at[0]].translate(_SAME_SHAPE) if at else ""
        found = [
            (match.end(), -match.start(), name)
            for name, cue in _TASTES.items()
            for match in cue.finditer(before)
        ]
        return max(found)[2] if found else None

    def _replaced(self, subject: str, item: StatedFact) -> Any:
        """The list element that a changed one replaces: the one with most words in common."""
        path, words = item.path, _words(item.value)
        lists = [path] if path[-1] not in _OPEN else [(*path[:-1], name) for name in sorted(_OPEN)]
        shared = [
            (len(words & _words(kept.value)), str(kept.value))
            for here in lists
            for _, kept, in_list in self._tree(subject).leaves(here)
            if in_list
        ]
        most = max(shared, key=lambda each: each[0], default=(0, None))
        return most[1] if most[0] and fact_json(most[1]) != fact_json(item.value) else None


def _parts(item: StatedFact) -> list[StatedFact]:
    """A model's item as one for each thing that it lists: each may be meant in its own way."""
    values = item.value
    last = item.path[-1].casefold() if item.path else ""
    if isinstance(values, str) and (kin_name(last) or last in _ENUMERATED):
        values = [part for part in _SEPARATOR.split(values) if part.strip()]
    if item.plain or not isinstance(values, list) or not 1 <= len(values) <= MAX_EVENTS:
        return [item]
    first, *others = [dataclasses.replace(item, value=value) for value in values]
    return [first, *(dataclasses.replace(other, old=None) for other in others)]


def _words(value: Any) -> Set[str]:
    """The search terms of a value."""
    return count_terms(fact_words(value)).keys()


def _texts_of(events: Iterable[FactEvent]) -> list[str]:
    """Path and value of each, as words."""
    return [fact_words([*event.path, event.value]).replace("_", " ") for event in events]


def _introduced(item: StatedFact, owner: Owner) -> Owner | None:
    """Whom an item only names: `owner`, or another one of the same relation."""
    name, path = fact_words(item.value), tuple(map(str.casefold, item.path))
    if owner.name and (name == owner.name or _is_called(_words(name), owner)):
        return owner
    relative = owner.relation and kin_name("".join(path[-1:])) == owner.relation and name[:1].isupper()
    animal = is_animal(owner.relation) and _SAME_PATHS.get(path, path)[-1:] == ("pets",)
    return Owner(relation=owner.relation, name=name) if relative or animal else None


def _is_called(words: Set[str], owner: Owner) -> bool:
    """True if these are the words of somebody's name, and at most of the relation besides."""
    name = _words(owner.name)
    return words <= name | _words(owner.relation.replace("_", " ")) and not name.isdisjoint(words)


def refusal(item: StatedFact, reason: str, subject: str = "") -> RefusedFact:
    """`item` as it is kept when it is not believed."""
    return RefusedFact(
        op=item.op,
        path=encodable(".".join(map(str, item.path))[:_MAX_PATH_CHARS]),
        said=encodable(_as_text(item.value)[:_MAX_SAID_CHARS]),
        quote=None if item.quote is None else encodable(item.quote[:_MAX_SAID_CHARS]),
        reason=encodable(reason),
        subject=subject,
    )


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, TypeError, ValueError):
        return f"a {type(value).__name__} that cannot be written as JSON"


def _own_path(path: tuple[str, ...], tree: FactTree) -> tuple[str, ...]:
    """The one path for what may be called by several, unless a group of facts is known by that name."""
    while len(path) > 1 and path[0] in _WRAPPERS:
        path = path[1:]
    if len(path) > 1:
        path = (*path[:-1], kin_name(path[-1]) or path[-1])  # each stands by the name of one
    return path if tree.is_group(path) else _SAME_PATHS.get(path, path)


def _stated(item: StatedFact, path: tuple[str, ...], tree: FactTree) -> list[FactEvent]:
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


def _never_noted(item: StatedFact, told: Iterable[str], never: Collection[str]) -> str:
    """The category `never` to note that an item is about, by what it says itself or what it has been `told` as; else ""."""
    if not never:
        return ""
    raw = (*map(str, item.path), *map(_as_text, (item.value, item.old)), item.quote or "", item.subject or "")
    # Words that a key runs together count one by one.
    runs = r"(?<=\p{Ll})(?=\p{Lu})|[^\p{L}\p{N}\p{M}]+"
    texts = (regex.sub(runs, " ", text.replace("\\n", " ")) for text in (*raw, *told))
    said = count_terms(" ".join(texts)).keys()
    for category in never:
        key = f"categories.{category.casefold()}"
        words = (table(each.name, "facts").value(key) for each in languages_with("facts", key))
        telling = count_terms(" ".join((category.replace("_", " "), *words)))
        if not said.isdisjoint(telling):
            return category
    return ""


def _check_repetition(
    item: StatedFact, stated: Sequence[FactEvent], quote: str, repeated: Sequence[tuple[FactRecord, str]]
) -> None:
    said = f" {' '.join(plain_words(quote))} "
    values = {word for event in stated for word in _words(event.value)}
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
    item: StatedFact, path: tuple[str, ...], stated: Sequence[FactEvent], tree: FactTree
) -> Iterator[FactEvent]:
    if item.op == "retract":
        yield from _taken_back(path, stated, tree)
        return
    if not stated:
        raise _Refusal("it states nothing")
    new = {fact_json(event.value) for event in stated}
    for gone in value_events(path, item.old if isinstance(item.old, list) else [item.old]):
        leaves = [*_meant_leaves(path, gone.value, tree)]
        yield from (_removal(leaf) for leaf in leaves if fact_json(leaf[1].value) not in new)
    for event in stated:
        yield from _joined(event, tree)


def _taken_back(path: tuple[str, ...], stated: Sequence[FactEvent], tree: FactTree) -> Iterator[FactEvent]:
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


def _removal(leaf: Leaf) -> FactEvent:
    path, kept, _ = leaf
    return FactEvent(op="remove", path=path, value=kept.value)


def _meant_leaves(path: tuple[str, ...], value: Any, tree: FactTree) -> Iterator[Leaf]:
    """What of the known a path and the words of a value loosely mean: "Rex" at `pets` is "dog Rex" there.

    Looked for at, below and right above the path, else everywhere; without a value all of these at or below the path.
    """
    if value is None:
        yield from tree.leaves(path)
        return
    words = _words(value)
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


def _means(words: Set[str], value: Any, leaf: Leaf) -> bool:
    known = _words(leaf[1].value)
    same = fact_json(leaf[1].value) == fact_json(value)
    return same or (bool(words) and bool(known) and (words <= known or known <= words))


def _joined(event: FactEvent, tree: FactTree) -> Iterator[FactEvent]:
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
        words = _words(event.value)
        same = (kept.value for _, kept, _ in tree.leaves(event.path) if words and _words(kept.value) == words)
        event = dataclasses.replace(event, value=next(same, event.value))
    if opposite := _OPPOSITES.get(event.path[-1]):
        yield FactEvent(op="remove", path=(*event.path[:-1], opposite), value=event.value)
    yield event
