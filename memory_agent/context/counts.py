"""Token counts of the lines of prompts, kept: most lines of a prompt stood in one before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memory_agent.ports import TokenCounter

_KEPT_CHARS: Final = 400
_KEPT_TEXTS: Final = 12_000
"""Some 4 MB; a prompt looks at up to a thousand."""


class KeptCounts:
    """`TokenCounter` that keeps the counts of short texts: the lines of turns recur from prompt to prompt.

    Of `counter`. The texts that were asked for last stay, between one and two times `_KEPT_TEXTS`.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}

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
        if found is None:
            found = self._counter.count(text)
        if len(text) <= _KEPT_CHARS:
            if len(self._newer) >= _KEPT_TEXTS:
                self._older, self._newer = self._newer, {}
            self._newer[text] = found
        return found

    def clear(self) -> None:
        """Forget all texts: something was forgotten."""
        self._newer, self._older = {}, {}
