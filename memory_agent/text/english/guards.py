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
_MOST_GUARD_CHARS: Final = 80
"""No guard matches more."""


def statements(
    pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
) -> Iterator[regex.Match[str]]:
    """Matches of `pattern` that nothing in their clause makes somebody else's, conditional or past.

    A question's are taken only where it gives or is given them as a reason: "I live in Oslo, where can I ski?".
    `past_is_meant`: the pattern itself says that something is over.
    """
    plain = sentence.plain
    first: dict[str, _Ahead] = {}
    before = 0
    for match in pattern.finditer(plain):
        first = first or {name: _Ahead(guard, plain) for name, guard in _GUARDS.items()}
        start = match.start()
        while (joint := first["last_statement"](before, match.end())) and joint.start() <= start + 1:
            before = joint.end()
        after = first["next_statement"](max(match.end() - 1, 0), len(plain))
        end = after.start() if after else len(plain)
        asked = sentence.asks and not (
            _GUARDS["asked_before"].search(plain, max(start - _MOST_GUARD_CHARS, 0), start)
            or first["then_asks"](match.end(), len(plain))
        )
        if asked or first["doubt"](min(before, start), start):
            continue
        if past_is_meant or not first["undone"](start, end):
            yield match


class _Ahead:
    """The first match of a guard in a part of a text. Parts are asked for in their order, and each is read once."""

    def __init__(self, guard: regex.Pattern[str], text: str) -> None:
        self._guard = guard
        self._text = text
        self._found: regex.Match[str] | None = None
        self._read = 0

    def __call__(self, start: int, end: int) -> regex.Match[str] | None:
        if self._found is None or self._found.start() < start:
            self._found = self._guard.search(self._text, max(start, self._read - _MOST_GUARD_CHARS), end)
            self._read = self._found.start() if self._found else end
        return self._found
