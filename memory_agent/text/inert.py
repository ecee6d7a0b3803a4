"""Remembered text as data of a prompt: unable to pass for what delimits it, otherwise as it was written. Pure.

What a model could take for a delimiter is found in the text as it looks: without what cannot be seen, with full-width and
other forms of letters as plain ones, and with letters of other scripts as the Latin ones they resemble (a small part of
Unicode's TR39 "confusables": those of our own delimiters). Only the bracket that opens such a thing is changed.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import Final

import regex

from memory_agent.domain import MONTHS as MONTHS
from memory_agent.lazily import lazily

# White space that parts lines anywhere is a line break, so that whoever indents lines misses none. Control characters,
# what turns the direction of writing, and letters that can't be seen (Unicode's "tags") outside of flags carry nothing
# that a model should read.
_STRANGE: Final = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_ODD: Final = lazily(re.compile, _STRANGE)
_EACH_ODD: Final = lazily(
    re.compile,
    "(?P<line>\r\n?|[\v\f\x85\u2028\u2029])|(?P<flag>\U0001f3f4[\U000e0020-\U000e007f]{1,7})|" + _STRANGE,
)
_OPENS: Final = lazily(
    re.compile,
    r"[<\[«˂ᐸ‹≮≺⊀\u2329❬❮❰⟦⟨⟪⦋⧼\u3008《【〔〖︗︹︻︽︿﹇﹝﹤＜［]",
)
_IGNORED: Final = lazily(regex.compile, r"[\p{Default_Ignorable_Code_Point}\p{M}\p{Cs}]")
_LOOK: Final = str.maketrans(
    "‹⟨\u3008❮❬❰⧼˂ᐸ≺《⟪«" "【〔〖⟦⦋" "】〕〗⟧⦌" "⁄∕╱⧸\\∖⧵" "‿ˍ╴" "‐‑‒–—―−" "аɑα" "сϲᴄ" "ԁ" "еєεᴇ" "іıιɩ"
    "кκᴋ" "мᴍϻμ" "пոηɴ" "оοօσᴏ" "гʀ" "ѕꜱ" "тτᴛ" "υսᴜ" "ѵνᴠ" "ԝᴡ" "хχ" "уүγʏ" "\u2800",
    "<<<<<<<<<<<<<" "[[[[[" "]]]]]" "///////" "___" "-------" "aaa" "ccc" "d" "eeee" "iiii"
    "kkk" "mmmm" "nnnn" "ooooo" "rr" "ss" "ttt" "uuu" "vvv" "ww" "xx" "yyyy" " ",
)  # fmt: skip
_FOLDS_KEPT: Final = 20_000
_HEAD: Final = (
    r"\[(?=\s*+(?:turn\s*+\d++\s*+,\s*+)?+\d{4}-\d\d-\d\d(?:\s++\d\d:\d\d)?+\s++utc\s*+"
    r"(?:\]|,\s*+(?:user|assistant|system|tool)\b)"
    rf"|\s*+\d{{1,2}}\s++(?:{'|'.join(MONTHS).casefold()})\b[^\]\n]{{0,60}}+\])"
)
"""Of a turn with its time, as logs have it, and of a day, as our prompts have it."""


class _Folds(dict[int, str]):
    """What each character looks like, by its code point; worked out when it is first asked for."""

    def __missing__(self, point: int) -> str:
        plain = unicodedata.normalize("NFKD", chr(point)).casefold()
        seen = "".join(char for char in plain if not _IGNORED.match(char)).translate(_LOOK)
        if len(self) >= _FOLDS_KEPT:
            self.clear()
        self[point] = seen
        return seen


_FOLDS: Final = _Folds()


def look_of(text: str) -> str:
    """`text` as it looks: without case, accents, what can't be seen, and the script of its letters."""
    return text.translate(_FOLDS)


def delimiters(*tags: str, heads: bool = False) -> re.Pattern[str]:
    """The pattern of what opens a tag of a prompt, for `inert`. A name that ends in "_" stands for all that begin so.

    `heads`: also what looks like the head of a turn, `[2026-05-03 14:20 UTC, user]`.
    """
    names = "|".join(tag if tag.endswith("_") else rf"{tag}\b" for tag in tags)
    # Possessive, so that any number of blanks takes one look.
    opening = rf"<(?=\s*+(?:/\s*+)?+(?:{names}))"
    return lazily(re.compile, f"{opening}|{_HEAD}" if heads else opening)


def inert(text: str, pattern: re.Pattern[str]) -> str:
    """`text` as data between delimiters of that pattern, with "\\n" as its only line break.

    The `<` of what looks like such a tag is written as `&lt;`, the `[` of what looks like a head as `(`. Control
    characters, marks of direction and invisible letters are left out.
    """
    text = _without_odd(text)
    if not _OPENS.search(text):
        return text
    look = look_of(text)
    found = {match.start(): match[0] for match in pattern.finditer(look)}
    if not found:
        return text
    starts = itertools.accumulate((len(_FOLDS[ord(char)]) for char in text), initial=0)
    changed = {"<": "&lt;", "[": "("}
    return "".join(
        changed[found[start]] if start in found and _FOLDS[ord(char)] else char
        for char, start in zip(text, starts, strict=False)
    )


def _without_odd(text: str) -> str:
    if not _ODD.search(text):
        return text
    plain: str = _EACH_ODD.sub(lambda odd: "\n" if odd["line"] else odd["flag"] or "", text)
    return plain


def inert_line(text: str, pattern: re.Pattern[str]) -> str:
    """`text` as data in one line, its white space single blanks."""
    return " ".join(inert(text, pattern).split())


def attribute(text: str) -> str:
    """`text` as the value of an attribute of a tag, in one line."""
    line = " ".join(_without_odd(text).split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
