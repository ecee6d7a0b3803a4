"""Guards of English statements: marks of doubt, and the beginnings of clauses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.patterns import Sentence

_GUARDS: Final = table("english", "facts").patterns("guards", flags=regex.IGNORECASE)
SPEAKER: Final = lazily(re.compile, r"\b(?:i|im|my|me|we|our)\b", re.IGNORECASE)
"""Without one of these words no sentence states anything of its speaker."""


def statements(
    pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
) -> Iterator[regex.Match[str]]:
    """Matches of `pattern` that nothing in their clause makes somebody else's, conditional or past.

    A question's are taken only where it gives or is given them as a reason: "I live in Oslo, where can I ski?".
    `past_is_meant`: the pattern itself says that something is over.
    """
    plain = sentence.plain
    for match in pattern.finditer(plain):
        joints = _GUARDS["last_statement"].finditer(plain, 0, match.end())
        before = max((joint.end() for joint in joints if joint.start() <= match.start() + 1), default=0)
        after = _GUARDS["next_statement"].search(plain, max(match.end() - 1, 0))
        end = after.start() if after else len(plain)
        asked = sentence.asks and not (
            _GUARDS["asked_before"].search(plain, 0, match.start())
            or _GUARDS["then_asks"].search(plain, match.end())
        )
        if asked or _GUARDS["doubt"].search(plain, min(before, match.start()), match.start()):
            continue
        if past_is_meant or not _GUARDS["undone"].search(plain, match.start(), end):
            yield match
