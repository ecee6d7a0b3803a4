"""Word lists as the rules write them: words between spaces."""

from __future__ import annotations


def word_set(words: str) -> frozenset[str]:
    """The words of a text, by spaces and line ends.

    >>> sorted(word_set("so very"))
    ['so', 'very']
    """
    return frozenset(words.split())
