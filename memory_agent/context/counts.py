"""Token counts of the lines of prompts, kept: most lines of a prompt stood in one before. And how all kept texts are forgotten."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memory_agent.ports import TokenCounter

_KEPT_CHARS: Final = 4_000
_ALL_KEPT_CHARS: Final = 2_000_000
"""Some 4 MB at most, twice that while one lot replaces the other; a prompt looks at up to a thousand texts."""


class KeptCounts:
    """`TokenCounter` that keeps the counts of texts up to `_KEPT_CHARS`: the lines of turns recur from prompt to prompt.

    Of `counter`. The texts that were asked for last stay, between one and two times `_ALL_KEPT_CHARS`. A longer text, such as a
    whole prompt, is counted line by line where that comes to the same.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._lines_of = getattr(counter, "lines_of", None)
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}
        self._newer_chars = 0

    @property
    def margin(self) -> float:
        """See `TokenCounter.margin`."""
        return self._counter.margin

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        found = self._newer.get(text)
        if found is not None:
            return found
        found = self._older.get(text)
        if found is None and self._lines_of is not None and len(text) > _KEPT_CHARS:
            lines = self._lines_of(text)
            return sum(map(self.count, lines)) if len(lines) > 1 else self._counter.count(text)
        if found is None:
            found = self._counter.count(text)
        if len(text) <= _KEPT_CHARS:
            if self._newer_chars >= _ALL_KEPT_CHARS:
                self._older, self._newer, self._newer_chars = self._newer, {}, 0
            self._newer[text] = found
            self._newer_chars += len(text)
        return found

    def clear(self) -> None:
        """Forget all texts: something was forgotten."""
        self._newer, self._older, self._newer_chars = {}, {}, 0


class TextCaches:
    """Caches of texts that are kept without their user."""

    def __init__(self, empty: Callable[[], None], drop: Callable[[str], None]) -> None:
        """`empty`: empties them all; `drop`: makes a cache forget what it keeps of a user."""
        self._empty, self._drop = empty, drop
        self._cleared = 0

    def clear(self) -> None:
        """Forget all texts: something was forgotten."""
        self._cleared += 1
        self._empty()

    @contextlib.contextmanager
    def reading(self, user_id: str) -> Iterator[None]:
        """Read turns of a user in the block; if something is forgotten meanwhile, the block may put it back, so all are emptied again."""
        before = self._cleared
        try:
            yield
        finally:
            if self._cleared != before:
                self._empty()
                self._drop(user_id)
