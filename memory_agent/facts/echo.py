"""Echo guard: words that the agent put into a turn from memory are not taken for the user's. Pure.

A turn echoes memory if it carries a context as `fetch_memory` renders it, whole or in lines, or if it repeats word for
word what a known fact was taken from.
"""

from __future__ import annotations

import bisect
import itertools
import json
import re
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.domain import REMARK, TAGS
from memory_agent.facts.tree import fact_json
from memory_agent.lazily import lazily
from memory_agent.text.inert import MONTHS
from memory_agent.text.terms import normalized

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

REPEATED_WORDS: Final = 5
"""A quote of at least so many words that was said before is a repetition; a shorter one may mean something else."""

_BLOCK: Final = lazily(re.compile, rf"<({'|'.join(TAGS)})>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_BLOCK: Final = lazily(re.compile, rf"\A.*</(?:{'|'.join(TAGS)})>", re.DOTALL | re.IGNORECASE)
"""Of one whose beginning was cut off."""
_BELOW: Final = r"(?:\n(?![ \t>]*$).+|(?:\n[ \t>]*+$)++\n(?:[ \t>]*> )? .+)*"
"""The lines below, up to an empty one that no indented line of the same turn follows: a turn may have several, and persona,
summary and topic bear no mark of their own."""
_SHOWN: Final = tuple(
    lazily(re.compile, pattern, re.MULTILINE)
    for pattern in (
        # The persona, which stands right before the remark.
        r"^[ \t>]*You are [^\n]*(?:\n[ \t>]*(?:Personality|Traits|Profile): [^\n]*)*"
        rf"(?=\n[ \t>]*{re.escape(REMARK)})",
        rf"^[ \t>]*{re.escape(REMARK)}[ \t]*${_BELOW}",
        # Turns below their day, and where one that was too long for a context goes on.
        rf"^[ \t>*-]*\[\d{{1,2}} (?:{'|'.join(MONTHS)})(?: \d{{4}})?(?:, [^\]\n]*)?\][ \t]*${_BELOW}",
        r"^[ \t>]*\[… [\d,]+ characters left out …\][ \t]*$" + _BELOW,
        # The state of the conversation.
        r"^[ \t>]*Talked about: .*$",
    )
)
_FACT: Final = lazily(re.compile, r"^[ \t>]*- (?:.*?, )??(?P<path>[^\s:]+): (?P<value>.*)$", re.MULTILINE)
_SAME_SHAPE: Final = str.maketrans("’‘ʼ‛‚‹›´`′“”„‟«»「」『』″–—―‐‑−", "'" * 10 + '"' * 11 + "-" * 6)
_BLANK_FOR_MARK: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_EDGES: Final = " \"'.,:;!?()。、"
_UNSPACED: Final = lazily(
    regex.compile, r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
"""Languages that join particles to words, or put nothing between words at all."""
_IN_WORD: Final = lazily(regex.compile, r"\w")


def own_words(text: str, known: Mapping[str, Collection[str]] | None = None) -> str:
    """`text` with everything that memory put there as blanks, so that places in it stay what they are.

    `known`: what is or was known by dotted path, as `fact_json` tells it; a line that lists one of these is memory's.
    """

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"\S", " ", match[0])

    def blank_if_known(match: re.Match[str]) -> str:
        there = (known or {}).get(match["path"])
        return blank(match) if there and _listed(match["value"]) <= set(there) else match[0]

    text = _END_OF_BLOCK.sub(blank, _BLOCK.sub(blank, text))
    for pattern in _SHOWN:
        text = pattern.sub(blank, text)
    return _FACT.sub(blank_if_known, text)


def _listed(value: str) -> set[str]:
    """The values of a line of facts, as `fact_json` tells it: of a list each element."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value
    elements = found if isinstance(found, list) else [found]
    return {fact_json(element) for element in elements}


class SaidText:
    """A text to look quotes up in, prepared once: its words, folded, with single blanks between them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._spans = [match.span() for match in re.finditer(r"\S+", text)]
        folded = [_folded_word(text[start:end]) for start, end in self._spans]
        self._plain = " ".join(folded)
        self._starts = list(itertools.accumulate((len(word) + 1 for word in folded), initial=0))

    def find(self, quote: str) -> str | None:
        """The span of the text that `quote` means, word for word as it stands there; None if there is none.

        White space, case, and the shapes of quotation marks, apostrophes and dashes don't matter, nor do dots or
        quotation marks around the quote.
        """
        wanted = " ".join(" ".join(map(_folded_word, quote.split())).strip(_EDGES).split())
        if sum(map(str.isalnum, wanted)) < 2:
            return None
        first = start = self._plain.find(wanted)
        while start >= 0:
            # To `regex`, unlike `re`, accents and vowel signs are parts of words.
            before = start and _IN_WORD.match(self._plain, start - 1)
            if not before and not _IN_WORD.match(self._plain, start + len(wanted)):
                break
            start = self._plain.find(wanted, start + 1)
        if start < 0 and _UNSPACED.search(quote):
            start = first  # its words need not end there
        if start < 0:
            return None
        return self.text[self._place(start)[0] : self._place(start + len(wanted) - 1)[1]]

    def _place(self, position: int) -> tuple[int, int]:
        """The span of the text that the folded character at `position` comes from."""
        number = bisect.bisect_right(self._starts, position) - 1
        start, end = self._spans[number]
        within = position - self._starts[number]
        word = self.text[start:end]
        if word.isascii():
            return start + within, start + within + 1
        # By whole characters, so that composed and decomposed ones are the same.
        places: list[tuple[int, int]] = []
        for match in regex.finditer(r"\X", word):
            places += [(start + match.start(), start + match.end())] * len(_folded_word(match[0]))
        return places[within] if within < len(places) else (start, end)


def plain_words(text: str) -> list[str]:
    """The words of `text` without punctuation, for comparing what was said with what was said before."""
    if text.isascii():  # a tenth of the time, for each quote that is known
        return text.lower().translate(_BLANK_FOR_MARK).split()
    return regex.sub(r"[^\p{L}\p{N}\p{M}\s]", " ", _folded(text)).split()


def _folded(text: str) -> str:
    return normalized(text.translate(_SAME_SHAPE)).casefold()


def _folded_word(word: str) -> str:
    """A word folded; some characters come apart into white space and an accent."""
    return "".join(_folded(word).split())
