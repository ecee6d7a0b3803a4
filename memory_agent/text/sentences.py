"""Sentences: where they end, for every reader of texts; and those that a turn's speaker says. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.code.lines import has_code
from memory_agent.text.languages import LATIN_WORD, plain_any_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD_CHARS: Final = 4000
TAIL_CHARS: Final = 1000
"""Of a longer turn only its beginning and its end are read: what is between is mostly pasted."""
MAX_SENTENCE_CHARS: Final = 300
"""A longer one is no sentence: a text without points, a pasted line."""

_BLOCK: Final = lazily(re.compile, r"(?:```|~~~).{0,6000}?(?:```|~~~|\Z)", re.DOTALL)
# A heading, an item of a list, a row of a table, a quoted line, a label.
_LAID_OUT: Final = lazily(
    re.compile,
    r"^\s*(?:#{1,6}(?:\s|$)|[-*•⁃–+]\s|[|>]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{2,4})[.)]\s|\*\*|\[[^\]]*\]$|-+>)|^[^\w\s]*$",
)
_LEADS_IN: Final = (":", "：", ":**", ": ")
_LETTER: Final = plain_any_of("words", "letter_begins", re.IGNORECASE)
_QUOTED: Final = lazily(
    re.compile,
    r"""`[^`\n]{1,200}`
    | (?i:https?://|www\.)[^\s<>"']{1,2000}
    | (?:(?<=[\w,:]\ )|(?<=[:,]))["“][^"“”\n]{1,300}["”]   # speech within a sentence; a quote of its own is role play""",
    re.VERBOSE,
)
_QUOTES: Final = ('"', "“", "`", "://", "www.")
"""One of them is in whatever `_QUOTED` matches, so that most sentences need not be looked through."""
_OPENING: Final = "[{(<*"
"""The same of noises."""
_NOISE: Final = plain_any_of("words", "noises")
_END: Final = lazily(
    re.compile,
    r"[.!?…]++[\"'”’»)\]*]{0,3}+(?=\s|\Z|[^\x00-\x7f])|[。！？｡]++[\"'”’»)\]*」』）]{0,3}+|\n+",
)
_BEFORE_A_POINT: Final = plain_any_of("words", "abbreviations", within=r"\b(?:%s|[A-HJ-Z])$")
"""What ends no sentence with a point behind it: an abbreviation or an initial."""
_ABBREVIATION_CHARS: Final = 8
_ASKED: Final = lazily(re.compile, r"[?？؟]\W*$")
_ANY_LETTER: Final = lazily(re.compile, r"[^\W_]")


class Sentence(NamedTuple):
    """One whole sentence of a turn, with the marks that end it.

    `text`: as written; `low`: as long as `text`, lower case, with code, links, quoted speech and noises blanked; `words`: its
    Latin words; `asks`: whether it is a question.
    """

    text: str
    low: str
    words: frozenset[str]
    asks: bool


# A turn is read for its topic, when it is analysed, and again when it is summed up, while others of its backlog come in between.
@kept_by_text(256, short=1_024)
def sentences_of(text: str) -> tuple[Sentence, ...]:
    """The whole sentences of a turn that its speaker says, in their order. Never raises.

    None of a heading, a list, a table, code, a letter, or what a line ending in a colon introduces: these are laid out,
    pasted or written for somebody. None longer than `MAX_SENTENCE_CHARS` or without a letter.
    """
    kept = text
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        kept = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:].partition(chr(10))[2]}"
    written = unicodedata.normalize("NFC", kept).replace("’", "'").replace("\r", "\n")
    return tuple(
        _sentence(line[start:end])
        for line in _said_lines(_BLOCK.sub("\n", written))
        for start, end in bounds(line)
        if end - start <= MAX_SENTENCE_CHARS and _ANY_LETTER.search(line, start, end)
    )


def _said_lines(text: str) -> Iterator[str]:
    """The lines that somebody says, up to the first that introduces or begins something written."""
    # Where a line is code, so is the text; fences are told by their lines.
    codeless = "```" not in text and "~~~" not in text and not has_code(text)
    for line in text.split("\n"):
        if _LETTER.match(line.strip()):
            return
        if not line.strip() or _LAID_OUT.match(line):
            continue
        if line.rstrip().endswith(_LEADS_IN):
            return
        if codeless or not has_code(line):
            yield line


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


def only_asks(text: str) -> bool:
    """True if every sentence of a text is a question."""
    ends = _ASKED.search(text[-8:])  # most turns don't ask at their end
    return ends is not None and all(_ASKED.search(text, start, end) for start, end in bounds(text))


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


def _blank(found: re.Match[str]) -> str:
    return " " * len(found.group())


def _sentence(text: str) -> Sentence:
    low = _lower(text)
    if any(sign in low for sign in _QUOTES):
        low = _lower(_QUOTED.sub(_blank, text))
    if any(bracket in low for bracket in _OPENING):
        low = _NOISE.sub(_blank, low)
    return Sentence(
        text=text,
        low=low,
        words=frozenset(LATIN_WORD.findall(low)),
        asks="?" in low[-6:] or "？" in low[-6:],
    )
