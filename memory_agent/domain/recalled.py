"""A prompt given back: recalled memory within what somebody said. It is no memory of its own.

It is stored as it came: a caller may store the whole message that its model got, or one that was cut off, quoted, or written as JSON. Who reads turns for
what was said reads `Turn.said`, which leaves such blocks out.
"""

from __future__ import annotations

import bisect
import itertools
import re
from typing import TYPE_CHECKING, Final

from memory_agent.domain.base import ROLES
from memory_agent.domain.context import MONTHS, REMARK, TAGS
from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Span = tuple[int, int]

RECALLED: Final = "[recalled memory]"
"""What a prompt shows in place of such a block."""
_MARGIN: Final = r"[ \t>]*+"
"""Before a line that is quoted or indented."""
_TAGS: Final = "|".join(TAGS)
_OPENS: Final = rf"(?:<|&lt;)(?:{_TAGS})(?:>|&gt;)"
_TAG: Final = lazily(re.compile, rf"(<|&lt;)(/?)({_TAGS})(?:>|&gt;)", re.IGNORECASE)
_HEADING: Final = rf"\[\d{{1,2}} (?:{'|'.join(MONTHS)})(?: \d{{4}})?(?:, [^\]\n]*)?\]"
_REMARK: Final = re.escape(REMARK)
_PERSONA: Final = (
    rf"(?:You are [^\n]*\n(?:{_MARGIN}(?:Personality|Traits|Profile): [^\n]*\n)*{_MARGIN})?{_REMARK}[ \t]*$"
)
_WHO: Final = r"[^\n:]{1,160}:(?= |$)"
_GOES_ON: Final = r"\[… [\d,]+ characters left out …\][ \t]*$"
# Where one begins that may have no end: an opening tag on a line of its own or before our words, the remark (and a persona
# without tags), turns below their day, and where a long turn goes on.
_BEGINS: Final = lazily(
    re.compile,
    rf"^{_MARGIN}(?:{_OPENS}[ \t]*$|{_PERSONA}|(?:[*-][ \t])?{_HEADING}[ \t]*\n{_MARGIN}(?:[*-][ \t])?{_WHO}|{_GOES_ON})"
    rf"|{_OPENS}(?=\\n|\s*(?:{_REMARK}|<memory_))",
    re.IGNORECASE | re.MULTILINE,
)
# Empty lines, but for those within a turn, whose further lines are indented.
_APART: Final = lazily(
    re.compile, rf"(?:(?<=[^ \t>\n])|(?<=\w>))[ \t]*+\n(?:{_MARGIN}\n)++(?!(?:[ \t>]*> )? )"
)
_MARKED: Final = lazily(re.compile, rf"[ \t>\-…<\[*]|\d+(?:-\d*)?(?::|$)|{_WHO}")
"""How the lines of a prompt begin, but for those of a topic and a persona."""
_HELD: Final = lazily(re.compile, rf"[\n:]|\\n|{_REMARK}", re.IGNORECASE)
"""Between the tags of a block, and not of a mere mention of them."""
# What else goes with a block: its margin, the end of a tag that was cut, the message that is nothing else as JSON or Python writes it.
_BEFORE: Final = lazily(
    re.compile,
    rf"""(?:(?:\A|(?<=\n)){_MARGIN}(?:[*-][ \t]+)?|\A/?\w*(?:>|&gt;)\s*|\[?\s*\{{\s*["']role["']:\s*["']\w+["'],\s*["']content["']:\s*["'])\Z""",
)
_AFTER: Final = lazily(re.compile, r"""["']\s*\}\s*[,\]]?\s*|\s*(?:<|&lt;)/?\w*(?=\n\s*\n|\Z)""")
_AROUND_CHARS: Final = 80
_LEAST_OF_REMARK: Final = 20
"""Characters of the remark by which it is known where it was cut."""
_LINES_BEGIN: Final = (*ROLES, "Talked about: ", "You are ", "Personality: ", "Traits: ", "Profile: ", REMARK)
_OPENED: Final = lazily(re.compile, rf"(?:{_OPENS}|{_HEADING})\s*\Z", re.IGNORECASE)
_HEADED: Final = lazily(re.compile, r"\[(?:\d{1,2} [A-Za-z]|… )")
_LINE: Final = lazily(re.compile, r"[^\s>][^\n]*[^\s]")
_EMPTY_FENCE: Final = lazily(re.compile, rf"^{_MARGIN}(```|~~~)[^\n]*\n\s*\1[ \t]*$", re.MULTILINE)
_EMPTY_LINES: Final = lazily(re.compile, r"\n(?:[ \t>]*\n){2,}")


def recalled_in(text: str) -> list[Span]:
    """Where recalled memory stands in `text`: spans in order, apart from each other."""
    headed = "[" in text and _HEADED.search(text)
    if not headed and REMARK[:_LEAST_OF_REMARK] not in text and "memory_" not in text.lower():
        return []
    whole, closing = _pairs(text)
    return _joined(_with_frame(text, *span) for span in _joined([*whole, *_cut_off(text, whole, closing)]))


def said_in(text: str) -> str:
    """`text` without recalled memory: itself if it has none, "" if nothing else is left."""
    spans = recalled_in(text)
    if not spans:
        return text
    edges = [0, *itertools.chain.from_iterable(spans), len(text)]
    rest = "".join(text[start:end] for start, end in _by_two(edges))
    rest = _EMPTY_LINES.sub("\n\n", _EMPTY_FENCE.sub("", rest)).strip()
    return rest if any(map(str.isalnum, rest)) else ""


def _pairs(text: str) -> tuple[list[Span], list[Span]]:
    """The spans of blocks that are whole, and of closing tags without an opening one."""
    opened: dict[tuple[str, str], int] = {}
    whole: list[Span] = []
    closing: list[Span] = []
    for tag in _TAG.finditer(text):
        name = (tag[1], tag[3].lower())
        if not tag[2]:
            opened[name] = tag.start()
        elif (start := opened.pop(name, None)) is None:
            closing.append(tag.span())
        elif _HELD.search(text, start, tag.start()):
            whole.append((start, tag.end()))
    return _joined(whole), closing


def _cut_off(text: str, whole: list[Span], closing: list[Span]) -> Iterator[Span]:
    """The spans of blocks whose beginning or end is missing, each within what empty lines part."""
    for line in _LINE.finditer(text):
        if len(line[0]) >= _LEAST_OF_REMARK and (REMARK.startswith(line[0]) or REMARK.endswith(line[0])):
            yield line.span()
    gaps = [match.span() for match in _APART.finditer(text)]
    edges = [0, *itertools.chain.from_iterable(gaps), len(text)]
    ends = [end for start, end in closing if _stands_alone(text, start)]
    for start, end in _by_two(edges):
        here = bisect.bisect_right(ends, end) - 1
        if here >= 0 and ends[here] > start:
            yield max(start, text.rfind("\n\n", start, ends[here]) + 1), ends[here]
        begins = (found.start() for found in _BEGINS.finditer(text, start, end))
        begin = next((at for at in begins if not _within(whole, at)), None)
        if begin is not None:
            yield begin, _last_mark(text, begin, end, whole)


def _stands_alone(text: str, at: int) -> bool:
    """True if what stands at `at` begins its line, or follows another tag."""
    line = max(text.rfind("\n", max(at - _AROUND_CHARS, 0), at) + 1, at - _AROUND_CHARS)
    before = text[line:at].strip()
    return not before.strip("> \t") or before.endswith((">", "&gt;", "\\n"))


def _within(spans: list[Span], at: int) -> bool:
    place = bisect.bisect_right(spans, (at, len(spans) and spans[-1][1])) - 1
    return place >= 0 and at < spans[place][1]


def _last_mark(text: str, start: int, end: int, whole: list[Span]) -> int:
    """Where a block without a closing tag ends: last lines without a mark of ours were said behind it."""
    while (line := text.rfind("\n", start, end)) >= 0:
        last = text[line + 1 : end].rstrip()
        cut = any(begin.startswith(last) for begin in _LINES_BEGIN)
        if (
            cut
            or _MARKED.match(last)
            or _within(whole, line + 1)
            or _OPENED.search(text, max(start, line - _AROUND_CHARS), line)
        ):
            break
        end = line
    return end


def _with_frame(text: str, start: int, end: int) -> Span:
    before = _BEFORE.search(text, max(start - _AROUND_CHARS, 0), start)
    after = _AFTER.match(text, end)
    return before.start() if before else start, after.end() if after else end


def _by_two(edges: list[int]) -> Iterable[Span]:
    return zip(edges[::2], edges[1::2], strict=True)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, those that overlap as one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
