"""Where a rule holds in an English sentence: what is asked, supposed, wished or denied is not stated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.english.asks import asks
from memory_agent.text.tables import pattern_of
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.text.moments.rules import Rule
    from memory_agent.text.sentences import Sentence

_IF: Final = pattern_of(
    r"""
    \b(?:if|unless|whether|imagine|pretend|pretending|suppose|supposing|hypothetically|as though|let's say
      |once|until|before|when)\b
    """
)
_DOUBT: Final = pattern_of(
    r"""
    n't\b
    \b(?:not|never|no|nobody|none|neither|nor|without|hardly|barely|cannot|cant|dont|didnt|havent|wont|maybe
      |perhaps|might|may|could|would|should|wish|wished|considering|thinking|almost|nearly|wanna|gonna
      |gotta)\b
    \b(?:want|need|have|has|trying|hope|hoping|got|used|going|ready|able|wants|needs|tried|wanted|needed) to\b
    """
)
_NOT: Final = lazily(re.compile, r"n't\b|\b(?:not|never|cannot)\b")
_FIRST_WORD: Final = lazily(re.compile, r"[a-z]+(?:'[a-z]+)?")
_ASKING: Final = word_set(
    "what why how when where who which is are do does did can could should would will have has if"
)
_CLAUSE: Final = lazily(
    re.compile, r"[,;:()\u2013\u2014]| - |\b(?:but|and|so|then|because|though|although)\b"
)


def is_doubtful(before: str, found: str = "") -> bool:
    """Whether what stands `before` the words found, or in them, makes a statement a condition, a wish or no."""
    doubted = _IF.search(before) is not None or _DOUBT.search(_last_clause(before)) is not None
    return doubted or _NOT.search(found) is not None


def _last_clause(before: str) -> str:
    start = 0
    for match in _CLAUSE.finditer(before):
        start = match.end()
    return before[start:]


def _stated_before_asking(low: str) -> int:
    """Where the statement before a question ends: "I've decided to quit, what do you think?"; 0 without one."""
    end = low.rfind(",")
    first = _FIRST_WORD.match(low)
    if end < 0 or first is None or asks(low[:end]) or first.group() in _ASKING:
        return 0
    return end


def found_by(rule: Rule, sentence: Sentence) -> re.Match[str] | None:
    """Where a rule holds in a sentence that has one of its cues; None where it doesn't."""
    if rule.cues.isdisjoint(sentence.words):
        return None
    end = len(sentence.low) if rule.asking or not sentence.asks else _stated_before_asking(sentence.low)
    if not end:
        return None
    for match in rule.pattern.finditer(sentence.low, 0, end):
        if not rule.plain or not is_doubtful(sentence.low[: match.start()], match.group()):
            return None if rule.is_undone(sentence.low) else match
    return None
