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
SPEAKER: Final = lazily(re.compile, r"\b(?:i|im|my|me)\b", re.IGNORECASE)
"""Without one of these words no sentence states anything of its speaker."""


def statements(
    pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
) -> Iterator[regex.Match[str]]:
    """Matches of `pattern` that nothing around them makes somebody else's, conditional or past.

    What comes before a match counts, and what follows up to where another statement begins. `past_is_meant`: the
    pattern itself says that something is over.
    """
    plain = sentence.plain
    if sentence.asks or (not past_is_meant and _GUARDS["taken_back"].search(plain)):
        return
    for match in pattern.finditer(plain):
        after = _GUARDS["next_statement"].search(plain, max(match.end() - 1, 0))
        scope = plain[: after.start() if after else len(plain)]
        clause = max(
            plain.rfind(joint, 0, match.start()) + 1 for joint in (", and ", ", but ", ", so ", " - ")
        )
        subordinate = _GUARDS["subordinate"].search(plain, clause, match.start())
        if not subordinate and not _GUARDS["doubt"].search(scope):
            yield match
