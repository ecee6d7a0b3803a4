"""What a rule that finds a kind of moment in a sentence looks like, and what makes such a sentence doubtful."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.text.asks import asks_english
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.domain.base import Role
    from memory_agent.domain.moments import MomentKind
    from memory_agent.text.sentences import Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One pattern for one kind of moment, searched in the lower-case sentence.

    `cues`: words (English) or pieces of words (Korean) of which the sentence must have one; they spare most sentences
    the search. `unless`: what the sentence must not have anywhere. `role`: whose turns only. `plain`: no negation and
    no doubt may stand before what was found, in its clause. `asking`: holds in questions as well.
    """

    kind: MomentKind
    pattern: re.Pattern[str]
    cues: frozenset[str]
    unless: re.Pattern[str] | None = None
    role: Role | None = None
    plain: bool = True
    asking: bool = False


_IF: Final = re.compile(
    r"\b(?:if|unless|whether|imagine|pretend|pretending|suppose|supposing|hypothetically|as though|let's say|once|until"
    r"|before|when)\b"
)
_DOUBT: Final = re.compile(
    r"n't\b|\b(?:not|never|no|nobody|none|neither|nor|without|hardly|barely|cannot|cant|dont|didnt|havent|wont|maybe"
    r"|perhaps|might|may|could|would|should|wish|wished|considering|thinking|almost|nearly|(?:want|need|have|has|trying"
    r"|hope|hoping|got|used|going|ready|able|wants|needs|tried|wanted|needed) to|wanna|gonna|gotta)\b"
)
_NOT: Final = re.compile(r"n't\b|\b(?:not|never|cannot)\b")
_FIRST_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ASKING: Final = word_set(
    "what why how when where who which is are do does did can could should would will have has if"
)
_CLAUSE: Final = re.compile(r"[,;:()\u2013\u2014]| - |\b(?:but|and|so|then|because|though|although)\b")


def _last_clause(before: str) -> str:
    start = 0
    for match in _CLAUSE.finditer(before):
        start = match.end()
    return before[start:]


def is_doubtful(before: str, found: str = "") -> bool:
    """Whether what stands `before` the words found, or in them, makes an English statement a condition, a wish or no."""
    doubted = _IF.search(before) is not None or _DOUBT.search(_last_clause(before)) is not None
    return doubted or _NOT.search(found) is not None


def _stated_before_asking(low: str) -> int:
    """Where the statement before a question ends: "I've decided to quit, what do you think?"; 0 without one."""
    end = low.rfind(",")
    first = _FIRST_WORD.match(low)
    if end < 0 or first is None or asks_english(low[:end], first.group()) or first.group() in _ASKING:
        return 0
    return end


def found_by(rule: Rule, sentence: Sentence) -> re.Match[str] | None:
    """Where a rule holds in an English sentence that has one of its cues; None where it doesn't."""
    end = len(sentence.low) if rule.asking or not sentence.asks else _stated_before_asking(sentence.low)
    if not end:
        return None
    for match in rule.pattern.finditer(sentence.low, 0, end):
        if not rule.plain or not is_doubtful(sentence.low[: match.start()], match.group()):
            return None if _is_undone(rule, sentence) else match
    return None


def _is_undone(rule: Rule, sentence: Sentence) -> bool:
    """Whether the sentence has what the rule must not have: looked for last, since few sentences get so far."""
    return rule.unless is not None and rule.unless.search(sentence.low) is not None


def found_in_korean(rule: Rule, sentence: Sentence) -> re.Match[str] | None:
    """The same for Korean, whose negation stands in the ending: each rule's `unless` looks after it."""
    if sentence.asks and not rule.asking:
        return None
    if not any(cue in sentence.low for cue in rule.cues):
        return None
    match = rule.pattern.search(sentence.low)
    return None if match is None or _is_undone(rule, sentence) else match
