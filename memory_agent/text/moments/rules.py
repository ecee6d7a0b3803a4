"""The rules of a language for moments, from its `moments.toml`: what is found in a sentence, and what undoes it.

What is asked, supposed, wished or denied is not stated: where a language has a part `doubt`, words that stand in front in
the sentence make it so; where negation stands in the ending, as in Korean, each rule's `unless` looks after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast, get_args

from memory_agent.domain.base import Role
from memory_agent.domain.moments import MomentKind
from memory_agent.errors import InvalidInput
from memory_agent.text.languages import LATIN_WORD, languages_with
from memory_agent.text.tables import table

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from memory_agent.text.languages import Language
    from memory_agent.text.sentences import Sentence
    from memory_agent.text.tables import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One pattern for one kind of moment, searched in the lower-case sentence.

    `cues`: words (or pieces of words) of which the sentence must have one, if there are any; they spare most sentences
    the search. `unless`: what the sentence must not have anywhere. `role`: whose turns only. `plain`: no negation and
    no doubt may stand before what was found, in its clause. `asking`: holds in questions as well.
    """

    kind: MomentKind
    pattern: re.Pattern[str]
    cues: frozenset[str]
    unless: re.Pattern[str]
    role: Role | None
    plain: bool
    asking: bool


def _rule(part: Table) -> Rule:
    kind, role = part.value("kind"), part.value("role", default="any")
    for what, value, known in (
        ("kind", kind, get_args(MomentKind)),
        ("role", role, ("any", *get_args(Role))),
    ):
        if value not in known:
            raise InvalidInput(f"{part.name}: no {what} {value!r}; one of: {', '.join(known)}")
    return Rule(
        kind=cast("MomentKind", kind),
        pattern=part.plain_pattern("pattern"),
        cues=part.words("cues"),
        unless=part.plain_pattern("unless"),
        role=None if role == "any" else cast("Role", role),
        plain=part.value("plain", bool, True),
        asking=part.value("asking", bool, False),
    )


class Rules:
    """All that one language knows of moments, of the two who talk, of persons named and of gestures."""

    def __init__(self, language: Language) -> None:
        its = table(language.name, "moments")
        self.language = language
        self.rules = tuple(map(_rule, its.parts("rule")))
        self.concession = tuple(map(_rule, its.parts("concession")))
        """What ends a quarrel only if there was one."""
        self.quarrel = its.plain_pattern("quarrel.pattern")
        self.gesture = its.plain_pattern("gesture.pattern")
        """What an action between asterisks begins with or is."""
        self._whole_cues = its.value("whole_cues", bool, False)
        self._condition, self._clause, self._word, self._within = (
            its.plain_pattern(f"doubt.{key}") for key in ("condition", "clause", "word", "within")
        )
        self._asking = its.words("doubt.asking")
        self._asked, self._note, self._no_note, self._no_note_before = (
            its.plain_pattern(f"note.{key}") for key in ("asked", "pattern", "unless", "unless_before")
        )
        self._introduced, self._near, self._no_person = (
            its.plain_pattern(f"person.{key}") for key in ("introduced", "near", "unless")
        )
        self._note_cues, self._person_cues = its.words("note.cues"), its.words("person.cues")

    def find(self, rule: Rule, sentence: Sentence) -> re.Match[str] | None:
        """Match of a rule in a sentence; None without a match, or without one of its cues."""
        if not self._has_cue(rule.cues, sentence):
            return None
        stated = rule.asking or not sentence.asks
        end = len(sentence.low) if stated else self._stated_before_asking(sentence.low)
        for match in rule.pattern.finditer(sentence.low, 0, end) if end else ():
            if not rule.plain or not self._is_doubtful(sentence.low[: match.start()], match.group()):
                # Looked for last, since few sentences get so far.
                return None if rule.unless.search(sentence.low) else match
        return None

    def _has_cue(self, cues: frozenset[str], sentence: Sentence) -> bool:
        if not cues or not cues.isdisjoint(sentence.words):
            return True
        return not self._whole_cues and any(cue in sentence.low for cue in cues)

    def _is_doubtful(self, before: str, found: str) -> bool:
        """True if the text `before` the words found, or in them, makes a statement a condition, a wish or a denial."""
        start = 0
        for match in self._clause.finditer(before):
            start = match.end()
        doubted = self._condition.search(before) or self._word.search(before[start:])
        return doubted is not None or self._within.search(found) is not None

    def _stated_before_asking(self, low: str) -> int:
        """End of the statement before a question: "I've decided to quit, what do you think?"; 0 without one."""
        end = low.rfind(",")
        first = LATIN_WORD.match(low)
        if not self._asking or end < 0 or first is None or first.group() in self._asking:
            return 0
        return 0 if self.language.asks(low[:end]) else end

    def names_people(self, sentences: Sequence[Sentence]) -> bool:
        """True if a turn names its speaker, at its beginning, or somebody near to them anywhere."""
        if any(not each.asks and self._introduced.search(each.text) for each in sentences[:2]):
            return True
        return any(not each.asks and self._names_near(each) for each in sentences)

    def _names_near(self, sentence: Sentence) -> bool:
        match = self._near.search(sentence.text) if self._has_cue(self._person_cues, sentence) else None
        # What is blank in `low` is quoted: somebody else's words.
        if match is None or sentence.low[match.start()] == " ":
            return False
        return self._no_person.search(sentence.low) is None

    def is_note(self, sentence: Sentence) -> bool:
        """True if a sentence is about the two who talk; a question only where `asked` says so."""
        if not self._has_cue(self._note_cues, sentence) or (match := self._note.search(sentence.low)) is None:
            return False
        if sentence.asks and not self._asked.search(match.group()):
            return False
        before = sentence.low[: match.start()]
        return not self._no_note.search(sentence.low) and not self._no_note_before.search(before)


@cache
def rules_of_languages() -> tuple[Rules, ...]:
    """The rules of every language that has some."""
    return tuple(map(Rules, languages_with("moments")))


def rules_for(sentence: Sentence) -> tuple[Rules, ...]:
    """The rules of the languages that a sentence may be in."""
    return tuple(each for each in rules_of_languages() if each.language.may_be_in(sentence.low))
