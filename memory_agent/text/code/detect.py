"""Code told from prose, by rules. All pure.

What is code:

1. a fenced block with something in it, also where the closing fence is missing;
2. inline code: a span in backticks that looks like an identifier, an expression, a path or a command, or whose text
   talks of code ("the `total` variable"); an ordinary word or a document's name in backticks is emphasis;
3. the signs of `memory_agent.text.code.languages`: a line with 2 points is code, lines with 1 point are where they
   stand together (3 points, or 2 with indentation). A keyword alone has no point: it takes the keyword's syntax.

A command line counts on a line of its own, after a colon or behind `$`, not amid a sentence.
"""

from __future__ import annotations

import re
from typing import Final

from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.code.lines import prose_has_code

_FENCE: Final = lazily(re.compile, r"`{3,}|^[ \t>]{0,12}~{3,}", re.MULTILINE)
_CLOSING_TILDES: Final = lazily(re.compile, r"^[ \t>]{0,12}~{3,}[ \t\r]*$", re.MULTILINE)
_INFO: Final = lazily(re.compile, r"[ \t]*\{?\.?([\w+#-]{1,30})[^\n\S]*(?=\n)")
_LINE_OF_INFO: Final = lazily(re.compile, r"[ \t]*+[\w+#-]{0,30}+[ \t\r]*+\n\s*+\S")


# A turn is asked for its sentences, and again when it is analysed.
@kept_by_text(256, short=1_024)
def has_code(text: str) -> bool:
    """True if there is code in `text`. Never raises, and takes time in proportion to the text's length.

    >>> has_code("I will return the import forms to the function manager"), has_code("def calculate():")
    (False, True)
    """
    return is_found(text)


def is_found(text: str) -> bool:
    """The same of a text that must not be kept."""
    return _is_fenced(text) or prose_has_code(text)


def _is_fenced(text: str) -> bool:
    """True if a fenced block has something in it."""
    if "```" not in text and "~~~" not in text:
        return False
    # "Hello~~~" is friendly in Korean, and a row of tildes parts paragraphs: tildes need both of their lines.
    closing = frozenset(match.start() for match in _CLOSING_TILDES.finditer(text))
    last_closing = max(closing, default=-1)
    opened: re.Match[str] | None = None
    for mark in _FENCE.finditer(text):
        tildes = mark[0][-1] == "~"
        if opened is None:
            opened = None if tildes and mark.start() >= last_closing else mark
        elif tildes == (opened[0][-1] == "~") and (
            mark.start() in closing if tildes else len(mark[0]) >= len(opened[0])
        ):
            if _is_filled(text, opened.end(), mark.start()):
                return True
            opened = None
    if opened is None or not (_starts_line(text, opened.start()) or _LINE_OF_INFO.match(text, opened.end())):
        return False
    return _is_filled(text, opened.end(), len(text))


def _is_filled(text: str, start: int, end: int) -> bool:
    """True if something stands between two fences besides a word on the first one's line."""
    info = _INFO.match(text, start, end)
    return bool(text[info.end() if info else start : end].strip())


def _starts_line(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip(" \t>")
