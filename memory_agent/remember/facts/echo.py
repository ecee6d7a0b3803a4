"""The echo guard: what the agent itself put into a turn from memory is not said by the user. Pure.

A turn echoes memory if it carries a context as `fetch_memory` renders it, whole or in lines, or if it repeats word for
word what a known fact was taken from.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.recall.render import REMARK

if TYPE_CHECKING:
    from collections.abc import Collection

REPEATED_WORDS: Final = 5
"""A quote of at least so many words that was said before is a repetition; a shorter one may mean something else."""

_BLOCK: Final = re.compile(r"<(memory_\w+)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_BLOCK: Final = re.compile(r"\A.*</memory_\w+>", re.DOTALL | re.IGNORECASE)
"""Of one whose beginning was cut off."""
_RECOLLECTION: Final = re.compile(
    r"^[ \t>*-]*\[\d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC, .*(?:\n(?![ \t>]*$).+)*", re.MULTILINE
)
"""With the lines below it, up to an empty one: a turn may have several."""
_REMARK: Final = re.compile(rf"^[ \t>]*{re.escape(REMARK)}[ \t]*$", re.MULTILINE)
_FACT: Final = re.compile(r"^[ \t>]*- (?P<path>[^\s:]+): .*$", re.MULTILINE)
_SAME_SHAPE: Final = str.maketrans(
    "’‘ʼ‛‚‹›´`′“”„‟«»「」『』″–—―‐‑−",
    "'" * 10 + '"' * 11 + "-" * 6,
)
_EDGES: Final = " \"'.,:;!?()。、"
_UNSPACED: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
"""Languages that join particles to words, or put nothing between words at all."""


def own_words(text: str, known_paths: Collection[str] = ()) -> str:
    """`text` with everything that memory put there as blanks, so that places in it stay what they are.

    `known_paths`: dotted paths of known facts; a line that lists one of them is memory's.
    """

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"\S", " ", match[0])

    def blank_if_known(match: re.Match[str]) -> str:
        return blank(match) if match["path"] in known_paths else match[0]

    text = _END_OF_BLOCK.sub(blank, _BLOCK.sub(blank, text))
    text = _RECOLLECTION.sub(blank, _REMARK.sub(blank, text))
    return _FACT.sub(blank_if_known, text)


def find_quote(text: str, quote: str) -> str | None:
    """The span of `text` that `quote` means, word for word as it stands there; None if there is none.

    White space, case, and the shapes of quotation marks, apostrophes and dashes don't matter, nor do dots or quotation
    marks around the quote.
    """
    wanted = " ".join(_folded(quote).split()).strip(_EDGES).split()
    if sum(char.isalnum() for word in wanted for char in word) < 2:
        return None
    pattern = r"\s+".join(map(regex.escape, wanted))
    folded, places = _folded_with_places(text)
    # To `regex`, unlike `re`, accents and vowel signs are parts of words.
    match = regex.search(rf"(?<!\w){pattern}(?!\w)", folded)
    if match is None and _UNSPACED.search(quote):
        match = regex.search(pattern, folded)
    return None if match is None else text[places[match.start()][0] : places[match.end() - 1][1]]


def plain_words(text: str) -> list[str]:
    """The words of `text` without punctuation, for comparing what was said with what was said before."""
    return regex.sub(r"[^\p{L}\p{N}\p{M}\s]", " ", _folded(text)).split()


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_SAME_SHAPE)).casefold()


def _folded_with_places(text: str) -> tuple[str, list[tuple[int, int]]]:
    """`text` folded, and for each of its characters the span of `text` that it comes from."""
    if text.isascii():
        return _folded(text), [(place, place + 1) for place in range(len(text))]
    folded: list[str] = []
    places: list[tuple[int, int]] = []
    # By whole characters, so that composed and decomposed ones are the same.
    for match in regex.finditer(r"\X", text):
        part = _folded(match[0])
        folded.append(part)
        places += [match.span()] * len(part)
    return "".join(folded), places
