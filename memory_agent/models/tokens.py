"""Token counts: exact by rs-bpe, which holds the encodings' tables, where it is installed; else by an estimate."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.ports import TokenCounter

_AT_ONCE_CHARS: Final = 65_536
_NEXT_LINE: Final = re.compile(r"\n(?=[^\s/])")
DEFAULT_ENCODING: Final = "o200k_base"

ESTIMATE_MARGIN: Final = 0.10
"""At the size of a prompt, 99 of 100 texts in English, Chinese, Japanese, Korean, Russian, German, French or Spanish, or in
Python, JSON, C or JavaScript, are estimated at most 9 % too low. Other languages in Latin script may be off by more.

A margin for those too would take a fifth of the budget from everybody. Measured against
o200k_base on texts that nothing was fitted on (docs/tokens.md).
"""

# --- the estimate --------------------------------------------------------------------------------------------
# Byte-pair encodings first cut a text into words, numbers, marks and blanks, and merge inside those only. So does
# the estimate, by a simpler pattern than o200k_base's own; what a piece costs is what such pieces cost on average.

_LEAD: Final = r"[^\r\nA-Za-z0-9\x80-\U0010ffff]?"
"""The blank, bracket or underscore before a word, which is merged with it."""
_MARKS_ON_LETTERS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd\u0f18-\u0fbc\u1000-\u109f\u17b4-\u17dd\u3099\u309a"
)
"""Vowel signs and accents that are characters of their own: parts of words, though `\\w` is without them."""
_ASCII_ONLY: Final = rf"(?![^\W\d_A-Za-z]|[{_MARKS_ON_LETTERS}])"
_CONTRACTION: Final = r"(?:'(?:[stmd]|ll|ve|re)(?![A-Za-z]))?"

_COSTED: Final = re.compile(
    rf"\ (?P<word>[A-Z]?[a-z]++{_ASCII_ONLY}{_CONTRACTION})"
    rf"|{_LEAD}(?P<part>[A-Z]?[a-z]++{_ASCII_ONLY}{_CONTRACTION})"
    rf"|{_LEAD}(?P<capitals>[A-Z]++[a-z]*+{_ASCII_ONLY})"
    rf"|{_LEAD}(?P<letters>(?:[^\W\d_]|[{_MARKS_ON_LETTERS}])++)"
    r"|(?P<digits>\d{1,3})"
    r"|\ ?(?P<marks>(?:[^\s\w]|_)++)[\r\n/]*+"
    r"|(?P<blank>\s*[\r\n]++|\s+(?!\S)|\s+)"
    r"|(?P<other>.)",
    re.DOTALL,
)

# Hundredths of a token, by the number of letters: means over half of the texts in docs/tokens.md
# against o200k_base, each kind of text with the same weight and English with five times that.
_WORD: Final = (0, 100, 100, 101, 103, 108, 113, 118, 129, 139, 149, 159, 183, 193, 235, 251, 370)
"""A word after a blank; English alone would be 100 up to seven letters and 120 at twelve."""
_PART: Final = (0, 102, 107, 115, 128, 128, 135, 147, 156, 185, 185, 225, 260, 260, 305, 360, 395)
"""A word at a line's start or behind a mark, as in `get_name(`: less often whole in an encoding's table."""
_LONGER: Final = 22
_RARE_IN_ENGLISH: Final = frozenset("kzj")
"""In one of ten long words of English, and in every second or third of Basque, Finnish, Indonesian and Polish."""
_SHORT: Final = 5
_RARE_LETTER: Final = 20
_RARE_AT_MOST: Final = 150
"""What such a word costs more: for each letter above `_SHORT`, and altogether."""
_CAPITALS: Final = (55, 24)
"""Before the first letter, and for each; so below."""
_AFTER_DIGITS: Final = (55, 35)
"""Three letters and more that follow a digit directly: mostly hashes and other codes."""
_SCRIPTS: Final = (
    (0x0000, 0x024F, 56, 22),  # Latin with accents; English letters within such a word
    (0x0370, 0x03FF, 23, 37),  # Greek
    (0x0400, 0x051F, 66, 21),  # Cyrillic, of which Russian needs least
    (0x0520, 0x059F, 91, 24),  # Armenian
    (0x05A0, 0x05FF, 33, 43),  # Hebrew
    (0x0600, 0x06FF, 0, 48),  # Arabic
    (0x0900, 0x097F, 22, 36),  # Devanagari
    (0x0980, 0x09FF, 15, 39),  # Bengali
    (0x0A00, 0x0A7F, 0, 68),  # Gurmukhi
    (0x0A80, 0x0AFF, 6, 44),  # Gujarati
    (0x0B00, 0x0B7F, 89, 102),  # Oriya
    (0x0B80, 0x0BFF, 95, 25),  # Tamil
    (0x0C00, 0x0C7F, 55, 42),  # Telugu
    (0x0C80, 0x0CFF, 78, 31),  # Kannada
    (0x0D00, 0x0D7F, 104, 26),  # Malayalam
    (0x0D80, 0x0DFF, 0, 64),  # Sinhala
    (0x0E00, 0x0E7F, 34, 40),  # Thai, which has no blanks between words
    (0x1000, 0x109F, 70, 49),  # Myanmar
    (0x10A0, 0x10FF, 63, 29),  # Georgian
    (0x1100, 0x11FF, 50, 61),  # Hangul in parts
    (0x1780, 0x17FF, 11, 58),  # Khmer
    (0x1E00, 0x1EFF, 56, 22),  # Latin of Vietnamese
    (0x3040, 0x30FF, 41, 62),  # Hiragana, Katakana
    (0x3130, 0x318F, 50, 61),  # Hangul letters, as in ㅋㅋ
    (0x3400, 0x9FFF, 41, 85),  # Han
    (0xAC00, 0xD7A3, 50, 61),  # Hangul: between what is said and what programs print, which needs less
)
_OTHER_SCRIPT: Final = (0, 200)
_BLOCK_BITS: Final = 5  # no two scripts above share 32 characters; at their edges they give way
_BLOCKS: Final = {
    block: (start, rate)
    for first, last, start, rate in _SCRIPTS
    for block in range(first >> _BLOCK_BITS, (last >> _BLOCK_BITS) + 1)
}

_PIECE: Final = regex.compile(
    r"[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}--\U00010000-\U0010FFFF]"
    r"|[A-Z][a-z]{1,6}|[a-z]{1,7}|[A-Z]{1,2}|\d{1,3}"
    r"|[\p{Latin}\p{Cyrillic}\p{Greek}]{1,3}"
    r"|(?P<space>\ (?=\S|\Z))|\n{1,8}|[^\S\n]{1,8}"
    r"|(?P<mark>[!-/:-@\[-`{-~])(?P=mark){0,3}"
    r"|(?P<wide>[\p{So}\p{Sk}\U00010000-\U0010FFFF])"
    r"|.",
    regex.DOTALL | regex.V1,
)
_PIECE_TOKENS: Final = {"space": 0, "wide": 3}


class EstimatedTokens:
    """`TokenCounter` without any table: a pure function of the text, fitted to o200k_base.

    Words, numbers, marks and blanks each cost what their like cost on average: an English word, three digits, one mark or
    any run of blanks about one token, a Korean syllable 0.61 and half a token for its word, a Chinese character 0.85.
    Languages whose words look like English ones but are rarer in the encoding's table come out up to a fifth too low,
    English and code a few percent too high (docs/tokens.md).
    """

    @property
    def margin(self) -> float:
        """See `TokenCounter.margin`."""
        return ESTIMATE_MARGIN

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        return max(1, (_hundredths(text) + 50) // 100) if text else 0


class ExactTokens:
    """`TokenCounter` by rs-bpe (the extra `tokens`), without a network. `encoding_name`: o200k_base or cl100k_base.

    The encoding is loaded by the first count: most commands count nothing.
    """

    def __init__(self, encoding_name: str = DEFAULT_ENCODING) -> None:
        self._name = encoding_name

    @property
    def margin(self) -> float:
        """See `TokenCounter.margin`. 0: it is the encoding's own count."""
        return 0.0

    def count(self, text: str) -> int:
        """See `TokenCounter.count`. Text that looks like a special token is counted as the text it is.

        A text beyond 65,536 characters is counted in parts, which takes no other thread's time: at most a token a part too many.
        """
        count = _loaded(self._name).count
        if len(text) <= _AT_ONCE_CHARS:
            return int(count(text))
        return sum(
            int(count(text[start : start + _AT_ONCE_CHARS])) for start in range(0, len(text), _AT_ONCE_CHARS)
        )

    def lines_of(self, text: str) -> list[str]:
        """The parts of `text` whose tokens add up to its own: none of the encodings merges a line break with a letter or mark behind it.

        With white space or a slash they do.
        """
        *lines, last = _NEXT_LINE.split(text)
        return [*(f"{line}\n" for line in lines), last]


def best_token_counter(encoding_name: str = DEFAULT_ENCODING) -> TokenCounter:
    """The exact count if rs-bpe is installed, else the estimate."""
    return ExactTokens(encoding_name) if importlib.util.find_spec("rs_bpe") else EstimatedTokens()


@cache
def _loaded(encoding_name: str) -> Any:
    """The encoding, once a process: 0.1 s and 67 MB."""
    from rs_bpe.bpe import openai  # type: ignore[import-not-found]  # compiled, without stubs

    return getattr(openai, encoding_name)()


def estimated_pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """`text` in pieces (start, end, tokens), without gaps; no piece is heavier than 3 tokens.

    For cutting a text where an embedding model's window ends. Such models' vocabularies are smaller than o200k_base,
    so this says more than `EstimatedTokens`: a Chinese, Japanese or Korean character is a token, and so are 7 letters of
    an English word, 3 of a word with other letters, 2 capitals in a row, 3 digits, a mark (4 of the same), 8 line
    breaks or blanks in a row (the one blank before a word belongs to it); an emoji is 3.
    """
    for match in _PIECE.finditer(text):
        yield *match.span(), _PIECE_TOKENS.get(match.lastgroup or "", 1)


def _hundredths(text: str) -> int:
    """Hundredths of a token that `text` is estimated to be."""
    total, digits_end = 0, -1
    for match in _COSTED.finditer(text):
        kind = match.lastgroup or "other"
        start, end = match.span(kind)
        if kind == "word":
            cost = _by_letters(_WORD, end - start)
            total += cost if end - start <= _SHORT else cost + _if_rare(match[kind])
        elif kind == "marks":
            total += _of_marks(match[kind])
        elif kind == "blank":
            total += 100 + (end - start) // 80 * 100
        elif kind == "digits":
            total += 100
            digits_end = end
        else:
            cost = _of_letters(kind, match[kind])
            if start == digits_end and end - start > 2:
                cost = max(cost, _linear(_AFTER_DIGITS, end - start))
            total += cost
    return total


def _of_letters(kind: str, letters: str) -> int:
    if kind == "part":
        return _by_letters(_PART, len(letters)) + _if_rare(letters)
    if kind == "capitals":
        return _linear(_CAPITALS, len(letters))
    costs = [_BLOCKS.get(ord(char) >> _BLOCK_BITS, _OTHER_SCRIPT) for char in letters]
    return max(100, costs[0][0] + sum(rate for _, rate in costs)) + _if_rare(letters)


def _if_rare(letters: str) -> int:
    """Extra tokens of a long word with letters that are rare in English."""
    if len(letters) <= _SHORT or _RARE_IN_ENGLISH.isdisjoint(letters):
        return 0
    return min((len(letters) - _SHORT) * _RARE_LETTER, _RARE_AT_MOST)


def _by_letters(costs: tuple[int, ...], letters: int) -> int:
    most = len(costs) - 1
    return costs[letters] if letters <= most else costs[most] + (letters - most) * _LONGER


def _linear(line: tuple[int, int], letters: int) -> int:
    return max(100, line[0] + line[1] * letters)


def _of_marks(marks: str) -> int:
    """Marks in a row: one of a kind is cheap, however often; emoji are two or three tokens as often as one."""
    many = len(marks)
    if many == 1 and marks <= "\uffff":
        return 100
    if marks == marks[0] * many and marks[0] <= "\uffff":
        return 100 + max(many - 3, 0) * 10
    if marks.isascii():
        return 100 + (many - 2) * 45
    return 20 + sum(150 if char > "\uffff" else 80 for char in marks)
