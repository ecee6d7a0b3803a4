"""The few words of a turn that tell most: a person's most telling sentences, and the lines that define something in code. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.code.detect import has_code
from memory_agent.text.quotes import LEAST_TELLING, quotes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHARS: Final = 220
PART: Final = " | "
"""Between what is told in a turn and the lines of its code."""
_LINE_CHARS: Final = 300
"""Of a line of code that are looked at, without the blanks around it: the patterns' cost rises with the square."""
_LONG_LINE: Final = 60
_DEFINING: Final = 2.0
"""Weight of a line that defines or constrains something and not only sets it."""
_LINES: Final = 200

_FENCE: Final = lazily(
    re.compile, r"^[ \t]*(?:```|~~~)[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.M | re.S
)
_DEFINES: Final = lazily(
    re.compile,
    r"^\s*(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|async\s+|pub\s+|abstract\s+|final\s+)*"
    r"(?:def|class|function|fn|func|interface|type|struct|enum|trait|impl|module|namespace|(?:CREATE|create)(?! EXTENSION| extension)|ALTER|alter)"
    r"\b(?!\s*[=.:])(?!\s+(?:__|test_))",
)
_CONSTRAINS: Final = lazily(
    re.compile,
    r"\b(?:CHECK|EXCLUDE|UNIQUE|REFERENCES|PRIMARY|CONSTRAINT|INDEX|ON CONFLICT|WHERE|RETURNS|raise|throw|assert)\b|^\s*@\w",
)
_SETS: Final = lazily(
    re.compile, r"^\s*(?:const|let|var|val|export)?\s*[A-Za-z_][\w.]{2,}\s*(?::\s*[\w\[\], |]+)?=\s*\S"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """Some of a turn's own words, about `MAX_CHARS`; `weight`: how much its sentences tell (0 if nothing)."""

    text: str
    weight: float


def excerpt_of(text: str, *, role: str, code: bool = False) -> Excerpt:
    """The most telling words of a turn: a user's best sentences, then the lines of its code that define something.

    Sentences are whole; what an assistant writes is quoted of its code alone.
    """
    quotes = quotes_of(text) if role == "user" else ()
    best = max((quote.weight for quote in quotes), default=0.0)
    lines = _code_lines(text, least=0.0 if role == "user" else _DEFINING) if code else []
    chosen: list[int] = []
    room = MAX_CHARS
    if best >= LEAST_TELLING or not lines:
        for place in sorted(range(len(quotes)), key=lambda place: (-quotes[place].weight, place)):
            size = len(quotes[place].text) + 1
            if quotes[place].weight >= best / 2 and (not chosen or size <= room):
                chosen.append(place)
                room -= size
    told = " ".join(quotes[place].text for place in sorted(chosen))
    if told:
        lines = lines[: sum(size <= room for size in accumulate(len(line) + 3 for line in lines))]
    return Excerpt(text=PART.join([*filter(None, [told]), *lines]), weight=best)


def _code_lines(text: str, *, least: float) -> list[str]:
    """Up to three lines of its code that define, constrain or set something, in their order, within `MAX_CHARS`.

    `least`: what they have to weigh; with 0, code of which no line does so is told by its first.
    """
    lines = list(dict.fromkeys(" ".join(line.split()) for line in _lines_of_code(text)))
    rated = sorted((-_line_weight(line), place) for place, line in enumerate(lines) if line)[:3]
    room, kept = MAX_CHARS * 3 // 4, list[int]()
    for negative, place in rated:
        line = lines[place]
        tells = -negative >= least if negative else not (least or kept) and has_code(line)
        if tells and len(line) <= room:
            kept.append(place)
            room -= len(line) + len(PART)
    return [lines[place] for place in sorted(kept)]


def _line_weight(line: str) -> float:
    """Weight of a line's content, and a little for its length: of two lines that constrain, the longer says more."""
    line = line[:_LINE_CHARS]
    does = 3 * bool(_DEFINES.match(line)) + 2 * bool(_CONSTRAINS.search(line)) + bool(_SETS.match(line))
    return does + min(len(line) / _LONG_LINE, 1.0) if does else 0.0


def _lines_of_code(text: str) -> Iterator[str]:
    fenced = [line for match in _FENCE.finditer(text) for line in match["body"].splitlines()[:_LINES]]
    yield from fenced or (line for line in text.splitlines()[:_LINES] if has_code(line))
