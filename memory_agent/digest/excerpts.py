"""The few words of a turn that tell most: its concrete sentences, and the lines that define something in its code. Pure.

A sentence tells the more, the more names, numbers and dates it has and the more of a moment it is; a question tells little.
Names are told by capitals, so in scripts without them only numbers and moments speak.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from memory_agent.digest.importance import WEIGHTS
from memory_agent.lazily import lazily
from memory_agent.text.code.detect import find_code
from memory_agent.text.languages import all_words, plain_any_of
from memory_agent.text.moments.detect import detect_moments
from memory_agent.text.sentences import sentences_of, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import MomentKind
    from memory_agent.text.sentences import Sentence

MAX_CHARS: Final = 220
_LINE_CHARS: Final = 300
"""Of a line of code that are looked at, without the blanks around it: the patterns' cost rises with the square."""
_LONG_LINE: Final = 60
_LINES: Final = 200
_TELLING_KINDS: Final[frozenset[MomentKind]] = frozenset(
    {"decision_made", "user_information", "conflict_resolution", "character_defining", "emotional_peak"}
)
# What one sign of each kind adds, and how many signs count.
_NAME, _NAMES = 1.5, 3
_NUMBER, _NUMBERS = 1.5, 2
_CALL_WORDS: Final = 3
"""So few words with nothing but a name in them call somebody: "Thanks, Caroline!", "Hey Mel!"."""
_SELF: Final = 0.5
_MOMENT: Final = 0.4
"""Of the kind's weight, so that a decision outweighs two names."""
_SUBJECT: Final = 1.0
"""Relations and roles in life: who somebody is to whom."""

_NAMED: Final = lazily(re.compile, r"(?<![.!?\"“(])\s([A-Z][a-zà-ÿ]+|[A-Z]{2,})\b(?!')")
_NUMERAL: Final = lazily(re.compile, r"\d[\d.,:/-]*")
_TELLING: Final = plain_any_of("words", "telling")
_OWN: Final = plain_any_of("words", "self_told")
_DATE: Final = plain_any_of("times", "signs.date")
_FENCE: Final = lazily(
    re.compile, r"^[ \t]*(?:```|~~~)[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.M | re.S
)
_DEFINES: Final = lazily(
    re.compile,
    r"^\s*(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|async\s+|pub\s+|abstract\s+|final\s+)*"
    r"(?:def|class|function|fn|func|interface|type|struct|enum|trait|impl|module|namespace|(?:CREATE|create)(?! EXTENSION| extension)|ALTER|alter)\b",
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
    """Some of a turn's own words, at most `MAX_CHARS`; `weight`: how much they tell (0 and empty if nothing)."""

    text: str
    weight: float
    kinds: frozenset[MomentKind] = frozenset()


_NOTHING: Final = Excerpt(text="", weight=0.0)


def excerpt_of(text: str, *, role: str, code: bool = False) -> Excerpt:
    """The most telling words of a turn: the lines of its code that define something, or else its best sentences."""
    lines = _code_lines(text) if code else []
    if lines:
        return Excerpt(text=" | ".join(lines), weight=float(len(lines)))
    rated = rated_sentences(text, role)
    best = max((sentence.weight for sentence in rated), default=0.0)
    chosen: list[int] = []
    room = MAX_CHARS
    for place in sorted(range(len(rated)), key=lambda place: (-rated[place].weight, place)):
        size = len(rated[place].text) + 1
        if rated[place].weight >= best / 2 and (not chosen or size <= room):
            chosen.append(place)
            room -= size
    if not chosen:
        return _NOTHING
    said = " ".join(rated[place].text for place in sorted(chosen))
    return Excerpt(text=shortened(said, MAX_CHARS), weight=best)


# A turn is rated when it is analysed, and again when it is summed up.
@lru_cache(maxsize=256)
def rated_sentences(text: str, role: str) -> tuple[Excerpt, ...]:
    """Every sentence of a turn that tells something, with its weight and what kind of moment it is, in their order."""
    rated = []
    for sentence in sentences_of(text):
        kinds = detect_moments(sentence.text, role=role, previous=_IN_THE_MIDDLE)
        weight = _weight(sentence, kinds & _TELLING_KINDS)
        if sentence.asks:
            weight /= 4
        if weight > 0:
            rated.append(Excerpt(text=shortened(sentence.text, MAX_CHARS), weight=weight, kinds=kinds))
    return tuple(rated)


def _weight(sentence: Sentence, kinds: frozenset[MomentKind]) -> float:
    text, low, words = sentence.text, sentence.low, sentence.words
    weight = _MOMENT * max((WEIGHTS[kind] for kind in kinds), default=0.0)
    numbers = len(_NUMERAL.findall(text)) + len(words & all_words("words", "counts"))
    numbers += len(set(_DATE.findall(low)))
    weight += _NUMBER * min(numbers, _NUMBERS)
    if weight or len(words) > _CALL_WORDS:
        weight += _NAME * min(len(_NAMED.findall(f". {text}")), _NAMES)
    if _TELLING.search(low):
        weight += _SUBJECT
    if weight and _OWN.search(low):
        weight += _SELF
    return weight


# A sentence alone is not the beginning of a conversation, whose first turn opens a subject whatever it says.
_IN_THE_MIDDLE: Final[Sequence[tuple[str, str]]] = (("assistant", "…"),)


def _code_lines(text: str) -> list[str]:
    """Up to three lines of its code that define, constrain or set something, in their order, within `MAX_CHARS`."""
    lines = [line for line in _lines_of_code(text) if line.strip()]
    rated = sorted(((-_line_weight(line), place) for place, line in enumerate(lines)))[:3]
    room, kept = MAX_CHARS * 3 // 4, list[int]()
    for negative, place in rated:
        line = lines[place].strip()
        if (negative < 0 or not kept) and len(line) <= room:
            kept.append(place)
            room -= len(line) + 3
    return [" ".join(lines[place].split()) for place in sorted(kept)]


def _line_weight(line: str) -> float:
    """Weight of a line's content, and a little for its length: of two lines that constrain, the longer says more."""
    line = line.strip()[:_LINE_CHARS]
    does = 3 * bool(_DEFINES.match(line)) + 2 * bool(_CONSTRAINS.search(line)) + bool(_SETS.match(line))
    return does + min(len(line) / _LONG_LINE, 1.0) if does else 0.0


def _lines_of_code(text: str) -> Iterator[str]:
    fenced = [line for match in _FENCE.finditer(text) for line in match["body"].splitlines()[:_LINES]]
    yield from fenced or (line for line in text.splitlines()[:_LINES] if find_code(line) is not None)
