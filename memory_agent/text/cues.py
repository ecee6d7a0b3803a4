"""Cues: how what a turn says is meant. As a fact, in doubt, as over; of whom. Pure.

They stand in each language's table `cues`. Both extractors of facts ask here: the patterns for each match, the vetting of a model's facts for each quote.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.languages import all_words, any_of, languages_with, stop_words
from memory_agent.text.sentences import bounds
from memory_agent.text.subjects import only_reacts
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

MAX_QUOTE_CHARS: Final = 240
"""A longer sentence is quoted by the clause that states the fact."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Somebody else, whose fact it is; either may be ""."""

    relation: str = ""
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """How something is said.

    `clause`: from where to where it says so; `doubt`: why it is no fact; `ended`: it is over, gone or not so; `negated`: only not so; `owner`: whose it is, None
    for the author.
    """

    doubt: str | None = None
    ended: bool = False
    negated: bool = False
    clause: tuple[int, int] = (0, 0)
    owner: Owner | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A sentence in plain form: straight apostrophes, single blanks, quoted text as one `"`.

    Each character knows its offset in the turn `text`. `number` counts the turn's sentences from 0; `marks`: what ends it.
    """

    text: str
    plain: str
    offsets: Sequence[int]
    number: int
    marks: str

    @property
    def asks(self) -> bool:
        return "?" in self.marks or "？" in self.marks

    def has(self, parts: Collection[str]) -> bool:
        """True if one of these lower-case parts of words is in it: asked before a slower pattern."""
        folded = self.plain.casefold().replace("i̇", "i")  # of "İ", which patterns take for an i
        return any(map(folded.__contains__, parts))

    def quote(self, start: int, end: int) -> str:
        """The sentence as it stands in the turn, or the part from `start` to `end` of a long one."""
        title = self._quotation(len(self.plain.rstrip()) - 1)
        whole = self.text[self.offsets[0] : title.end() if title else self.offsets[-1] + 1]
        if len(whole) <= MAX_QUOTE_CHARS:
            return whole
        return self.text[self.offsets[start] : self.offsets[end - 1] + 1].strip(" ,-–—")

    def quoted(self, at: int) -> str:
        """The words that the turn quotes where the plain form has one `"`; "" for code or a link."""
        said = self._quotation(at)
        return said[0][1:-1].strip(" ,.!*") if said and said[0][0] in _QUOTES else ""

    def _quotation(self, at: int) -> regex.Match[str] | None:
        """The part of the turn that the plain form has as one `"`."""
        return _NOT_SAID.match(self.text, self.offsets[at]) if self.plain[at] == '"' else None


# Bounded repeats keep what is never closed from being read to the end of the text again and again.
_NOT_SAID: Final = lazily(
    regex.compile,
    r"```.*?(?:```|\Z)|`[^`\n]{0,400}`|https?://\S+|\[[^\]\[\n]{0,400}\]|^[ \t]*>.*?$"
    # A speaker's name: a word or three that begin with a capital.
    r"|^[ \t]*(?!btw|fyi|note|update|ps\b)(?:(?-i:[\p{Lu}\p{Lo}])[\w.'-]{0,20}|user|assistant)"
    r"(?: (?-i:[\p{Lu}\p{Lo}])[\w.'-]{0,20}| \d+){0,2}:[ \t].*?$"
    r"|\"[^\"]*\"|“[^”“]*”|«[^»«]*»|「[^」「]*」|『[^』『]*』|(?<!\w)['‘][^'’\n]{2,400}['’](?!\w)"
    r"|(?<!\w)\*[^*\n]{1,400}\*(?!\w)",
    regex.DOTALL | regex.MULTILINE | regex.IGNORECASE,
)
_MAY_NOT_BE_SAID: Final = lazily(regex.compile, r"[`\[>:\"“«「『*]|(?<!\w)['‘]")
"""A sign that is in whatever `_NOT_SAID` matches, so that most texts need not be looked through."""
# What parts statements besides the ends of sentences.
_PARTS: Final = lazily(regex.compile, r"[;…\p{So}\uFE0F]|(?<=~)\s")
_QUOTES: Final = "\"“*'‘«"
_STRAIGHT: Final = str.maketrans("’‘´", "'''")
_RUN: Final = lazily(re.compile, r"\s+|\S+")
_BLANK: Final = (" ", "\n")


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """`text` without what is quoted, with single blanks; and the offset of each character in `text`."""
    may_quote = _MAY_NOT_BE_SAID.search(text) is not None
    if not may_quote and text == " ".join(text.split()):
        return text.translate(_STRAIGHT), range(len(text))
    runs: list[str] = []
    offsets: list[int] = []

    def put_blank(run: str, offset: int) -> None:
        blank = "\n" if "\n" in run else " "
        if not runs or runs[-1] not in _BLANK:
            runs.append(blank)
            offsets.append(offset)
        elif blank == "\n":
            runs[-1] = blank

    position = 0
    skipped = [match.span() for match in _NOT_SAID.finditer(text)] if may_quote else []
    for start, end in (*skipped, (len(text), len(text))):
        for run in _RUN.finditer(text, position, start):
            if run[0].isspace():
                put_blank(run[0], run.start())
            else:
                runs.append(run[0])
                offsets += range(*run.span())
        if start < end:
            put_blank(text[start:end], start)
            if "\n" not in text[start:end]:
                runs.append('"')
                offsets.append(start)
                put_blank(" ", start)
        position = end
    return "".join(runs).translate(_STRAIGHT), offsets


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a turn, questions included, in order."""
    plain, offsets = _plain(text)
    number = 0
    parted = plain if plain.isascii() and ";" not in plain and "~" not in plain else _PARTS.sub("\n", plain)
    for start, end in bounds(parted):
        kept = plain[start:end].rstrip("!.~?")
        if kept:
            own, after = offsets[start : start + len(kept)], plain[end : end + 4].strip()[:1]
            marks = plain[start + len(kept) : end] + (after if after in _SARCASTIC else "")
            yield Sentence(text=text, plain=kept, offsets=own, number=number, marks=marks)
            number += 1


# --- cues ----------------------------------------------------------------------------------------------------
_SARCASTIC: Final = frozenset("🙄🤡")
_REASONS: Final[Mapping[str, str]] = {
    "wish": "it is a wish or a supposition",
    "unsure": "it is not said for sure",
    "joke": "it is meant as a joke",
    "hearsay": "somebody says or believes so",
    "other": "its clause says it of something else",
    "negated": "it says that it is not so",
}
_ASKED, _QUOTED = "it is a question", "somebody else's words are quoted"
_PLAY, _TAKEN_BACK = "it is play, a test or a text to work on", "it is taken back as a joke"
_WORDS: Final = lazily(regex.compile, r"[\p{L}\p{M}]+")
_NEAR: Final = 80
"""Characters before or behind a statement in which cues that stand right beside it are sought."""
_MOST_SENTENCE_CHARS: Final = 1_000
"""Of a longer sentence so much around the statement is read."""


class _Cues:
    """The cues of one language."""

    def __init__(self, language: str) -> None:
        its = table(language, "cues")

        def part(name: str, keys: str = "") -> dict[str, regex.Pattern[str]]:
            return its.patterns(name, keys, regex.IGNORECASE)

        self.doubt, self.before = part("doubt"), part("before")
        self.back, self.colon = part("back", "whole within leads"), part("colon", "others speakers")
        self.ended = part("ended", "no_more not_so gone lost")
        self.paths = part("paths") if "paths" in its else {}
        self._common = stop_words(language)
        self._drops_subjects = language == "korean"
        self.joint = part("joint", "before after then_asks reason")
        self.subject = part("subject", "own other begins owns with_me speaks asks asking requests")

    def is_its(self, words: str) -> bool:
        """True if words in these letters are surely of the language."""
        return self._drops_subjects or not self._common.isdisjoint(words.lower().split())

    def clause(self, plain: str, start: int, end: int) -> tuple[int, int]:
        """Start and end of the clause about a statement."""
        begin = max(0, start - _MOST_SENTENCE_CHARS)
        joints = self.joint["before"].finditer(plain, begin, end)
        first = max((joint.end() for joint in joints if joint.start() <= start + 1), default=begin)
        # Korean statements end with what joins them to the next.
        after = self.joint["after"].search(plain, max(start, end - 3), end + _MOST_SENTENCE_CHARS)
        return first, max(after.start(), end) if after else min(len(plain), end + _MOST_SENTENCE_CHARS)

    def asked(self, sentence: Sentence, start: int, end: int) -> bool:
        """True if a statement is what a question asks: not its reason, nor what it only begins with."""
        return (sentence.asks or self.subject["requests"].match(sentence.plain) is not None) and not (
            (
                self.joint["reason"].search(sentence.plain, max(start - _NEAR, 0), start)
                and self.subject["speaks"].search(sentence.plain, start)
            )
            or self.joint["then_asks"].search(sentence.plain, max(start, end - 3))
        )

    def doubted(self, plain: str, start: int, first: int, last: int, without: str) -> str | None:
        """Why a clause from `first` to `last` is no fact at `start`; `without`: the cues that don't count."""
        for reasons, upto in ((self.doubt, last), (self.before, start)):
            for name, pattern in reasons.items():
                if name not in without.split() and pattern.search(plain, first, upto):
                    return _REASONS[name]
        return None

    def taken_back(self, own: Sequence[Sentence], number: int, end: int) -> bool:
        """True if its sentence is sarcastic or takes it back, or one of the two that follow does nothing else."""
        plain = own[number].plain
        if _SARCASTIC & set(own[number].marks) or self.back["leads"].match(plain):
            return True
        if self.back["within"].search(plain, end):
            return True
        return any(self.back["whole"].match(after.plain) for after in own[number + 1 : number + 3])

    def quoted(self, own: Sequence[Sentence], number: int, start: int) -> bool:
        """True if a colon before a statement says that other words follow."""
        before, colon, _ = own[number].plain[:start].rpartition(": ")
        leads = [before] if colon else []
        leads += [
            earlier.plain for earlier in own[max(number - 4, 0) : number] if earlier.plain.endswith(":")
        ]
        speaks = self.subject["speaks"].search(own[number].plain, len(before) if colon else 0)
        cues = [self.colon["others"], *([self.colon["speakers"]] if speaks else ())]
        return any(cue.search(lead) for cue in cues for lead in leads)

    def mentions(self, plain: str) -> list[regex.Match[str]]:
        """Relatives, animals, people and names that a sentence speaks of."""
        return [
            found
            for found in self.subject["other"].finditer(plain)
            if (found.groupdict().get("name") or "").lower() not in all_words("cues", "words.nobody")
        ]

    def is_over(self, plain: str, at: tuple[int, int], first: int, last: int) -> bool:
        """True if the clause from `first` to `last` says that what it states is over or gone."""
        near = max(first - _NEAR, 0)
        mentions = [found.span() for found in self.mentions(plain) if near <= found.start() < last]
        return any(self.is_gone(plain, *mention) for mention in (*mentions, at)) or (
            self.ended["no_more"].search(plain, first, last) is not None
        )

    def is_gone(self, plain: str, start: int, end: int) -> bool:
        """True if what stands right beside a relative or an animal says that they died, left, or were lost."""
        return bool(
            self.ended["gone"].match(plain, end)
            or self.ended["lost"].search(plain, max(start - _NEAR, 0), start)
        )

    def owner(self, own: Sequence[Sentence], number: int, start: int, end: int) -> Owner | None:
        """Whose fact it is: of the last subject before `start`, or the first behind it."""
        plain = own[number].plain
        mine = [(found.start(), None) for found in self.subject["own"].finditer(plain, 0, end)]
        others = [(found.start(), found) for found in self.mentions(plain) if self._is_subject(plain, found)]
        subjects = sorted((*mine, *others), key=lambda subject: subject[0])
        before = [subject for subject in subjects if subject[0] <= start]
        if not subjects and number and self._drops_subjects:  # where a subject that goes on is left out
            return self.owner(own, number - 1, len(own[number - 1].plain), len(own[number - 1].plain))
        at, found = (before or subjects or [(0, None)])[-1 if before else 0]
        if found is None or at >= end:
            return None
        if not found.groupdict().get("pronoun"):
            return _owner(found)
        for sentence in reversed(own[: number + 1]):
            upto = at if sentence.number == number else len(sentence.plain)
            named = [it for it in self.mentions(sentence.plain) if it.start() < upto and not it["pronoun"]]
            if named:
                return _owner(named[-1])
        return Owner()

    def _is_subject(self, plain: str, found: regex.Match[str]) -> bool:
        """True if a mention is not only an object, and the author is not one with it ("my wife and I")."""
        if self.subject["with_me"].match(plain, found.end()):
            return False
        return bool(
            self.subject["begins"].search(plain, max(found.start() - _NEAR, 0), found.start())
            or self.subject["owns"].match(plain, found.end())
        )


def _owner(found: regex.Match[str]) -> Owner:
    said = found.groupdict()
    word = (said.get("relation") or "").lower()
    relation = kin_name(word) or word
    # "Tom's sister" is nobody's sister here; without a name nobody knows who she is.
    relation = "" if said.get("others") else relation + ("_in_law" if "-in-law" in found[0].lower() else "")
    return Owner(relation=relation, name=said.get("name") or "")


@cache
def _kin() -> dict[str, str]:
    """The usual name of each word for a relative, in any language."""
    return {
        word: name
        for each in languages_with("words", "kin")
        for word, name in each.words.items("kin").items()
    }


def kin_name(word: str) -> str:
    """The usual name of a relation within a family ("son" for "boys"); "" for any other word."""
    return _kin().get(word) or _kin().get(word.removesuffix("s"), "")


def is_animal(word: str) -> bool:
    """True if a word names an animal that people keep, in any language."""
    return not {word, word.removesuffix("s")}.isdisjoint(all_words("cues", "words.pets"))


@cache
def _cues() -> tuple[tuple[re.Pattern[str], _Cues], ...]:
    return tuple((each.letters, _Cues(each.name)) for each in languages_with("cues"))


def bears_out(path: str, words: str) -> bool:
    """False if words have no cue for a path whose language has some: a pet without an animal.

    >>> bears_out("pets", "Josh plays goalie"), bears_out("pets", "I have a cat"), bears_out("plans", "We fly to Rome")
    (False, True, True)
    """
    if path and kin_name(path) == path:
        return any(kin_name(word.lower()) == path for word in _WORDS.findall(words))
    return all(
        cue.search(words)
        for letters, cues in _cues()
        if (cue := cues.paths.get(path)) and letters.search(words.lower()) and cues.is_its(words)
    )


_PLAYS: Final = any_of("cues", "turn.play", regex.IGNORECASE)
_KIDDING_ABOUT: Final = any_of("cues", "back.about", regex.IGNORECASE)
_ROLE_PLAY: Final = any_of("cues", "turn.role", regex.IGNORECASE)
_PLAY_IS_OVER: Final = any_of("cues", "turn.over", regex.IGNORECASE)
_PLAYS_BEHIND: Final = any_of("cues", "turn.behind", regex.IGNORECASE)


@kept_by_text(64)
def _plays_from(text: str) -> float:
    """Where a turn begins to be somebody's words, a test or play; infinity where it never does."""
    play = _PLAYS.search(text)
    if play is None:
        return math.inf
    return 0 if _PLAYS_BEHIND.search(text) else play.start()


def statement_in(
    own: Sequence[Sentence], number: int, start: int, end: int, *, without: str = "", beside: bool = False
) -> Statement:
    """How the sentence of that number says its part from `start` to `end`.

    `own`: all sentences of the turn; `without`: names of cues that don't count, between blanks;
    `beside`: it is true whatever the sentence says of it, unless it is gone ("my wife Anna").
    """
    sentence = own[number]
    plain, text = sentence.plain, sentence.text
    if _plays_from(text) <= sentence.offsets[-1]:
        return Statement(doubt=_PLAY)
    doubt, over, denied, owner = None, False, False, None
    around = (0, len(plain))
    for letters, cues in _cues():
        if not letters.search(plain.lower()):
            continue
        first, last = around = cues.clause(plain, start, end)
        if beside:
            over = over or cues.is_gone(plain, start, end)
        else:
            owner = owner or cues.owner(own, number, max(start, first), end)
            over = over or cues.is_over(plain, (start, end), first, last)
            denied = denied or cues.ended["not_so"].search(plain, first, last) is not None
        if cues.quoted(own, number, start):
            doubt = _QUOTED
        elif cues.taken_back(own, number, end):
            doubt = _TAKEN_BACK
        elif beside and not over:
            continue
        elif cues.asked(sentence, start, end):
            doubt = _ASKED
        else:
            doubt = doubt or cues.doubted(
                plain, start, first, last, f"{without} hearsay other" if owner else without
            )
    clause = (sentence.offsets[around[0]], sentence.offsets[max(around[1] - 1, around[0])] + 1)
    return Statement(
        doubt=doubt, ended=over or denied, negated=denied and not over, owner=owner, clause=clause
    )


def plays_on(earlier: str, text: str) -> bool:
    """True if the same speaker's `earlier` turn begins role play, and this one doesn't end it."""
    return _ROLE_PLAY.search(earlier) is not None and not _PLAY_IS_OVER.search(text)


def in_first_person(text: str) -> bool:
    """True if a word stands for the speaker."""
    return any(
        cues.subject["speaks"].search(text) for letters, cues in _cues() if letters.search(text.lower())
    )


def jokes_taken_back(text: str) -> Iterator[tuple[str, int, int]]:
    """What a turn says an earlier one said in jest, with its place: "I'm kidding about the boat"."""
    for match in _KIDDING_ABOUT.finditer(text):
        yield match["what"], *match.span()


def people_in(text: str) -> list[Owner]:
    """Relatives and others whom a text names: "my husband Jonas", "Tom's sister Ellie"."""
    found = (
        mention
        for sentence in sentences(text)
        for letters, cues in _cues()
        if letters.search(sentence.plain.lower())
        for mention in cues.mentions(sentence.plain)
    )
    return [owner for mention in found if (owner := _owner(mention)).name]


@kept_by_text(2)
def _sentences_of(text: str) -> tuple[Sentence, ...]:
    """Kept for a while: a reply has many items of one turn."""
    return tuple(sentences(text))


def read_statement(text: str, start: int, end: int) -> Statement:
    """How `text` says what stands in it from `start` to `end`.

    Its whole clause is read, and what stands around that. Pass the span of the value where a quote of several clauses has its words: "I used to run, but now I swim".
    """
    own = _sentences_of(text)
    spans = [(each.number, *span) for each in own if (span := _span(each, start, end))]
    read = [statement_in(own, *span, without="negated other") for span in spans]
    if not read:
        return Statement(doubt=_QUOTED)
    return Statement(
        doubt=next((one.doubt for one in read if one.doubt), None),
        ended=any(one.ended for one in read),
        negated=any(one.negated for one in read),
        clause=(read[0].clause[0], read[-1].clause[1]),
        owner=next((one.owner for one in read if one.owner), None),
    )


_TITLE_WORDS: Final = 5


def _span(sentence: Sentence, start: int, end: int) -> tuple[int, int] | None:
    """Where the plain form has that part of the turn; None where it is not said in own words."""
    plain = sentence.plain
    at = [index for index, offset in enumerate(sentence.offsets) if start <= offset < end]
    if any(plain[index].isalnum() for index in at):
        return at[0], at[-1] + 1
    for index in (index for index, char in enumerate(plain) if char == '"'):
        said, offset = sentence.quoted(index), sentence.offsets[index]
        # A title that stands in marks: I love "Dark".
        if (
            len(plain) > 2
            and said
            and len(said.split()) <= _TITLE_WORDS
            and offset <= start < offset + len(said) + 2
        ):
            speaks = any(cues.subject["speaks"].search(said) for _, cues in _cues())
            return None if speaks else (index, index + 1)
    return None


def states_nothing(text: str) -> bool:
    """True if a turn surely states nothing: greetings, thanks, code, questions of the world."""
    return all(_states_nothing(sentence) for sentence in sentences(text))


def _states_nothing(sentence: Sentence) -> bool:
    plain = sentence.plain.replace('"', " ").lower()
    idle = all_words("words", "fillers", "small_talk")
    if only_reacts(plain) or all(word in idle for word in regex.findall(r"[\p{L}\p{N}']+", plain)):
        return True
    return sentence.asks and any(
        cues.subject["asks"].search(plain)
        and not cues.subject["speaks"].search(cues.subject["asking"].sub(" ", plain))
        for letters, cues in _cues()
        if letters.search(plain)
    )
