"""Guards of English statements: marks of doubt, and the beginnings of clauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.patterns.common import Sentence

_TABLE: Final = table("english", "facts")
_DOUBT: Final = _TABLE.pattern("guards.doubt", regex.IGNORECASE)
_TAKEN_BACK: Final = _TABLE.pattern("guards.taken_back", regex.IGNORECASE)
_SUBORDINATE: Final = _TABLE.pattern("guards.subordinate", regex.IGNORECASE)
_NEXT_STATEMENT: Final = _TABLE.pattern("guards.next_statement", regex.IGNORECASE)


def statements(
    pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
) -> Iterator[regex.Match[str]]:
    """Matches of `pattern` that nothing around them makes somebody else's, conditional or past.

    What comes before a match counts, and what follows up to where another statement begins. `past_is_meant`: the
    pattern itself says that something is over.
    """
    plain = sentence.plain
    if sentence.asks or (not past_is_meant and _TAKEN_BACK.search(plain)):
        return
    for match in pattern.finditer(plain):
        after = _NEXT_STATEMENT.search(plain, max(match.end() - 1, 0))
        scope = plain[: after.start() if after else len(plain)]
        if not _SUBORDINATE.search(
            plain, _clause_start(plain, match.start()), match.start()
        ) and not _DOUBT.search(scope):
            yield match


def _clause_start(plain: str, before: int) -> int:
    """Start of the main clause that the text up to `before` is part of."""
    return max(plain.rfind(joint, 0, before) + 1 for joint in (", and ", ", but ", ", so ", " - "))
