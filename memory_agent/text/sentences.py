"""Sentences: where they end, for every reader of texts; and those of a turn, without code, links and quoted speech."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_agent.lazily import lazily
from memory_agent.text.languages import LATIN_WORD, languages_with, plain_any_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD_CHARS: Final = 4000
TAIL_CHARS: Final = 1000
"""Of a longer turn only its beginning and its end are read: what is between is mostly pasted."""
MAX_SENTENCE_CHARS: Final = 300

_NOT_PROSE: Final = lazily(
    re.compile,
    r"""```.{0,6000}?(?:```|\Z)            # a fenced block; unclosed: all that follows
    | `[^`\n]{1,200}`
    | (?i:https?://|www\.)[^\s<>"']{1,2000}
    | (?:(?<=[\w,:]\ )|(?<=[:,]))["“][^"“”\n]{1,300}["”]   # speech within a sentence; a quote of its own is role play
    | ^[ \t]{0,3}>[^\n]*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_NOT_PROSE_MARKS: Final = ("`", "http", "www.", '"', "“", ">")
_END: Final = lazily(
    re.compile,
    r"[.!?…]++[\"'”’»)\]*]{0,3}+(?=\s|\Z|[^\x00-\x7f])|[。！？｡]++[\"'”’»)\]*」』）]{0,3}+|\n+",
)
_BEFORE_A_POINT: Final = plain_any_of("words", "abbreviations", within=r"\b(?:%s|[A-HJ-Z])$")
"""What ends no sentence with a point behind it: an abbreviation or an initial."""
_ABBREVIATION_CHARS: Final = 8
_LETTER: Final = lazily(re.compile, r"[^\W_]")


# A named tuple, for a turn has dozens and they take a third of the time of a frozen dataclass.
class Sentence(NamedTuple):
    """One sentence of a turn, at most `MAX_SENTENCE_CHARS` long, with the marks that end it.

    `text`: as written; `low`: as long as `text`, lower case, with code, links and quoted speech blanked; `words`: its
    Latin words; `asks`: whether it is a question; `shouts`: its exclamation marks.
    """

    text: str
    low: str
    words: frozenset[str]
    asks: bool
    shouts: int


# A turn is read for its moments, feeling, traits and decision, and again as one of the four before the next turns.
@lru_cache(maxsize=8)
def sentences_of(text: str) -> tuple[Sentence, ...]:
    """The sentences of a turn in their order; none without a letter, a Hangul letter or an emoji. Never raises."""
    kept = text
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        kept = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    written = unicodedata.normalize("NFC", kept).replace("’", "'").replace("\r", "\n")
    low = _lower(written)
    blanked = written
    if any(mark in low for mark in _NOT_PROSE_MARKS):
        blanked = _NOT_PROSE.sub(lambda match: " " * len(match.group()), written)
        low = _lower(blanked)
    return tuple(
        _sentence(
            written[piece : min(piece + MAX_SENTENCE_CHARS, end)],
            low[piece : min(piece + MAX_SENTENCE_CHARS, end)],
        )
        for start, end in bounds(blanked)
        for piece in range(start, end, MAX_SENTENCE_CHARS)
    )


def bounds(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence of a text, with the marks that end it, without blanks around it.

    One ends with its marks before a blank, with those of Chinese and Japanese anywhere, and with its line.
    """
    start = 0
    for end in _END.finditer(text):
        first = end.start()
        if end.group() == "." and _BEFORE_A_POINT.search(text, max(0, first - _ABBREVIATION_CHARS), first):
            continue
        yield from _trimmed(text, start, end.end())
        start = end.end()
    yield from _trimmed(text, start, len(text))


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


def shortened(text: str, most: int) -> str:
    """`text` in one line of at most `most` characters, cut between words, with an ellipsis if it was cut."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space >= most // 2 else cut).rstrip(" ,;:") + "…"


def _lower(text: str) -> str:
    """Lower case of the same length: some capitals have no lower case of one character."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _sentence(text: str, low: str) -> Sentence:
    asks = ("?" in low[-6:] or "？" in low[-6:]) and _LETTER.search(low) is not None
    return Sentence(
        text=text,
        low=low,
        words=frozenset(LATIN_WORD.findall(low)),
        asks=asks or any(each.may_be_in(low) and each.asks(low) for each in languages_with("questions")),
        shouts=low.count("!") + low.count("！"),
    )
