"""A turn as sentences to look for moments in: bounded, without code, links and quoted speech."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_agent.lazily import lazily
from memory_agent.text.languages import languages_with, plain_any_of

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
    | (?:https?://|www\.)[^\s<>"']{1,2000}
    | (?:(?<=[\w,:]\ )|(?<=[:,]))["“][^"“”\n]{1,300}["”]   # speech within a sentence; a quote of its own is role play
    | ^[ \t]{0,3}>[^\n]*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_NOT_PROSE_MARKS: Final = ("`", "http", "www.", '"', "“", ">")
_END: Final = lazily(re.compile, r"[.!?…。！？]+[\"'”’)*]{0,3}(?![A-Za-z0-9_])|\n+")
_ABBREVIATION: Final = plain_any_of("words", "abbreviations", within=r"(?:^|[^a-z])(?:%s)$")
_WORD: Final = lazily(re.compile, r"[a-z]+(?:'[a-z]+)?")
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
    if any(mark in low for mark in _NOT_PROSE_MARKS):
        low = _NOT_PROSE.sub(_blank, low)
    return tuple(_sentence(written[start:end], low[start:end]) for start, end in _bounds(low))


def shortened(text: str, most: int) -> str:
    """`text` in one line of at most `most` characters, cut between words, with an ellipsis if it was cut."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    space = cut.rfind(" ")
    return f"{cut[:space] if space > most // 2 else cut}…"


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _lower(text: str) -> str:
    """Lower case of the same length: some capitals have no lower case of one character."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _bounds(low: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _END.finditer(low):
        if match.group() == "." and _ABBREVIATION.search(low, max(start, match.start() - 5), match.start()):
            continue
        yield from _pieces(low, start, match.end())
        start = match.end()
    yield from _pieces(low, start, len(low))


def _pieces(low: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentence between, trimmed, in pieces of bounded length; nothing if there is nothing in it."""
    while start < end and low[start].isspace():
        start += 1
    while end > start and low[end - 1].isspace():
        end -= 1
    for begin in range(start, end, MAX_SENTENCE_CHARS):
        yield begin, min(begin + MAX_SENTENCE_CHARS, end)


def _sentence(text: str, low: str) -> Sentence:
    marked = "?" in low[-6:] or "？" in low[-6:]
    asks = marked and _LETTER.search(low) is not None
    sentence = Sentence(
        text=text,
        low=low,
        words=frozenset(_WORD.findall(low)),
        asks=asks,
        shouts=low.count("!") + low.count("！"),
    )
    if asks or not any(each.may_be_in(low) and each.asks(low) for each in languages_with("questions")):
        return sentence
    return sentence._replace(asks=True)
