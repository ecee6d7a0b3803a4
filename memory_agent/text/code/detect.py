"""Detection of code in a text: its language, its share, and the evidence. All pure.

What counts, in the order in which it decides on the language:

1. the user's patterns (`CodeRules.patterns`);
2. fenced blocks with something in them, also where the closing fence is missing;
3. inline code: a span in backticks that looks like an identifier, an expression, a path or a command, or whose text
   talks of code ("the `total` variable"); an ordinary word or a document's name in backticks is emphasis;
4. the signs of `memory_agent.text.code.languages`: a line with 2 points is code, lines with 1 point are where they
   stand together (3 points, or 2 with indentation). A keyword alone has no point: it takes the keyword's syntax.

A command line counts on a line of its own, after a colon or behind `$`, not amid a sentence.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily
from memory_agent.text.code.lines import Evidence, read_lines, read_prose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATTERN_SECONDS: Final = 1.0
"""A user's pattern that takes longer on one text is stopped; it counts as not matching there."""

# Each language with other names of it.
_NAMES: Final = (
    "bash sh shell zsh console shell-session terminal", "c h", "cpp c++ cc cxx hpp", "csharp c# cs dotnet",
    "css scss less sass", "diff patch", "dockerfile docker", "go golang", "html htm vue svelte", "java",
    "javascript js jsx node mjs", "json jsonc json5", "kotlin kt", "markdown md", "perl pl", "php",
    "powershell ps1 pwsh", "python py python3 py3 pycon ipython", "r", "regex regexp", "ruby rb", "rust rs",
    "scala", "sql mysql postgresql postgres sqlite plsql tsql", "swift", "toml ini", "typescript ts tsx",
    "xml svg", "yaml yml",
)  # fmt: skip
_ALIASES: Final = {alias: name for name, *aliases in map(str.split, _NAMES) for alias in (name, *aliases)}
_NO_LANGUAGE: Final = frozenset({"text", "txt", "plain", "plaintext", "output", "none", "code"})


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeRules:
    """The application's hints about its code. Languages are compared without case and by their usual short names.

    `patterns`: regular expression by language name, tried with regex.MULTILINE in their order; a match must not be
    empty, and one that takes longer than PATTERN_SECONDS on a text is none. `priorities`: factor on the code bonus by language name, default 1.

    Raises InvalidInput for a pattern that is no text or does not compile, and for a factor that is negative or not finite.
    """

    patterns: Mapping[str, str] = field(default_factory=dict)
    priorities: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for language, pattern in self.patterns.items():
            if not isinstance(pattern, str):
                raise InvalidInput(f"the code pattern of {language!r} is {pattern!r:.80}; pass it as text")
            _compiled(language, pattern)
        for language, factor in self.priorities.items():
            if not (isinstance(factor, int | float) and math.isfinite(factor) and factor >= 0):
                raise InvalidInput(
                    f"the priority of the language {language!r} is {factor!r}; pass a finite number, 0 or more"
                )


_NO_RULES: Final = CodeRules()


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundCode:
    """Code in a text. `language` is None where nothing tells; `kinds` are the reasons, sorted; `share` is in (0, 1]:
    the characters of code (fences, inline spans, lines that look like code) over all characters."""

    language: str | None
    kinds: tuple[str, ...]
    share: float


def find_code(text: str, rules: CodeRules = _NO_RULES) -> FoundCode | None:
    """The code in `text`, or None without any. Never raises, and takes time in proportion to the text's length.

    >>> find_code("I will return the import forms to the function manager")
    >>> find_code("def calculate():")
    FoundCode(language='python', kinds=('keywords',), share=1.0)
    """
    found = Evidence()
    users = _by_patterns(text, rules, found)
    fenced: str | None = None
    prose_from = 0
    for fence in _fences(text):
        read_prose(text[prose_from : fence.start], prose_from, found)
        prose_from = fence.end
        found.kinds.add("fenced")
        found.ranges.append((fence.start, fence.end))
        fenced = fenced or fence.language
        if fence.language is None:
            read_lines(text[fence.body : fence.end], fence.body, Evidence(votes=found.votes))
    read_prose(text[prose_from:], prose_from, found)
    if not found.kinds:
        return None
    return FoundCode(
        language=users or fenced or found.language(),
        kinds=tuple(sorted(found.kinds)),
        share=min(1.0, found.chars() / len(text)),
    )


def has_code(text: str, rules: CodeRules = _NO_RULES) -> bool:
    """True if `find_code` finds any."""
    return find_code(text, rules) is not None


def code_priority(text: str, rules: CodeRules, *, base: float) -> float:
    """The bonus of a text for its code: 0 without any, else `base` times the factor of its language (default 1)."""
    found = find_code(text, rules)
    if found is None:
        return 0.0
    factors = {_canonical(language): factor for language, factor in rules.priorities.items()}
    return base * (factors.get(_canonical(found.language), 1.0) if found.language else 1.0)


# The user's patterns


@lru_cache(maxsize=256)
def _compiled(language: str, pattern: str) -> regex.Pattern[str]:
    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise InvalidInput(
            f"the code pattern of {language!r}, {pattern!r:.200}, is no regular expression ({exc});"
            " mend it, or escape characters that are meant literally with a backslash"
        ) from exc


def _by_patterns(text: str, rules: CodeRules, found: Evidence) -> str | None:
    """The language of the first pattern that matches."""
    first: str | None = None
    for language, pattern in rules.patterns.items():
        try:
            matches = _compiled(language, pattern).finditer(text, timeout=PATTERN_SECONDS)
            ranges = [match.span() for match in matches if match.end() > match.start()]
        except TimeoutError:
            continue
        if ranges:
            found.kinds.add("pattern")
            found.ranges += ranges
            first = first or language
    return first


def _canonical(language: str) -> str:
    name = language.strip().casefold()
    return _ALIASES.get(name, name)


# Fences

_FENCE: Final = lazily(re.compile, r"`{3,}|^[ \t>]{0,12}~{3,}", re.MULTILINE)
_CLOSING_TILDES: Final = lazily(re.compile, r"^[ \t>]{0,12}~{3,}[ \t\r]*$", re.MULTILINE)
_INFO: Final = lazily(re.compile, r"[ \t]*\{?\.?([\w+#-]{1,30})")
_LINE_OF_INFO: Final = lazily(re.compile, r"[ \t]*+[\w+#-]{0,30}+[ \t\r]*+\n\s*+\S")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fence:
    """A fenced block: its characters, fences included, where what is in it begins, and the language it names."""

    start: int
    end: int
    body: int
    language: str | None


def _fences(text: str) -> Iterator[_Fence]:
    """The fenced blocks with something in them, in order."""
    if "```" not in text and "~~~" not in text:
        return
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
            yield from _block(text, opened, mark.start(), mark.end())
            opened = None
    if opened is not None and (_starts_line(text, opened.start()) or _LINE_OF_INFO.match(text, opened.end())):
        yield from _block(text, opened, len(text), len(text))


def _block(text: str, opened: re.Match[str], body_end: int, end: int) -> Iterator[_Fence]:
    body = opened.end()
    language: str | None = None
    line_end = text.find("\n", body, body_end)
    info = _INFO.match(text, body, body_end)
    if info and (line_end >= 0 or info.end() < body_end):
        word = info[1].casefold()
        alone = line_end >= 0 and not text[info.end() : line_end].strip()
        # ```const a = 1: code may begin beside the fence, and its first word is no language.
        if alone or word in _ALIASES or word in _NO_LANGUAGE:
            language = None if word in _NO_LANGUAGE else _canonical(word)
            body = info.end()
    if text[body:body_end].strip():
        yield _Fence(start=opened.start(), end=end, body=body, language=language)


def _starts_line(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip(" \t>")
