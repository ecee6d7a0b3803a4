"""Code outside of fences: spans in backticks and lines that look like code, gathered as evidence. All pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.code.languages import ATTACHED, ENOUGH, SIGNS, command_points, regex_like
from memory_agent.text.languages import stop_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memory_agent.text.code.languages import Sign

    _Reason = tuple[str, str | None, int]  # kind, language, points

PIECE_CHARS: Final = 400
"""Lines are looked at in pieces of at most so many characters, which bounds what a pattern can cost."""

_TOGETHER: Final = 3
"""The points that make code of neighbouring lines none of which is code alone; one less with indentation."""
_PROSE_WORDS: Final = 3  # with so many function words a line is prose around code


@dataclass(slots=True)
class Evidence:
    """Evidence found: votes for languages, reasons, and ranges of characters in the whole text."""

    votes: Counter[str] = field(default_factory=Counter)
    kinds: set[str] = field(default_factory=set)
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def vote(self, reasons: Iterable[_Reason]) -> None:
        """Add each reason's points to its language."""
        for _, language, points in reasons:
            if language:
                self.votes[language] += points

    def language(self) -> str | None:
        """The language with the most votes, of equal ones the first."""
        return self.votes.most_common(1)[0][0] if self.votes else None

    def chars(self) -> int:
        """The number of characters that the ranges cover; overlaps count once."""
        total, reached = 0, 0
        for start, end in sorted(self.ranges):
            total += max(0, end - max(start, reached))
            reached = max(reached, end)
        return total


@dataclass(slots=True)
class _Line:
    """A line, or a piece of a long one: where it is, its points and what they are for."""

    start: int
    end: int
    indented: bool
    points: int = 0
    reasons: list[_Reason] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    is_code: bool = False


def read_prose(section: str, offset: int, found: Evidence) -> None:
    """Add the inline code and the lines of code of `section`, which begins at `offset` of the text, to `found`."""
    if "`" in section:
        section = _read_spans(section, offset, found)
    if "://" in section:
        section = _URL.sub(lambda url: "/" + "x" * (len(url[0]) - 1), section)
    read_lines(section, offset, found)


# Inline code

_SPAN: Final = lazily(re.compile, r"(?<!`)(`{1,2})(?!`)([^`\n]{1,300})\1(?!`)")
_URL: Final = lazily(re.compile, r"\b[a-z]{3,6}://[^\s\"'<>)\]]+")
_DOCUMENT: Final = lazily(
    re.compile, r"[\w.-]+\.(?:md|txt|pdf|docx?|xlsx?|pptx?|csv|png|jpe?g|gif|log|zip|com|net|org)"
)
_WORD_OF_CODE: Final = lazily(
    re.compile,
    r"[A-Za-z]+_\w+|_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Za-z]+\d\w*\(|[\w$]+(?:\.[\w$]+)+|--?[a-z][\w-]*(?:=\S+)?"
    r"|[$@#][A-Za-z_]\w*|\.?\.?~?/[\w.-]+.*|[\w.]+\(.*\)|<[/!]?\w[^>]*>|\\[dwsbnt]\S*|\.[a-z]\w+"
    r"|null|undefined|nullptr|elif|def|async|await|const|bool|int|str|dict|tuple|kwargs|printf|println|stdin|stdout|stderr"
    r"|NaN|npm|npx|pip|sudo|grep|ls|cd|mkdir|chmod|enum|struct|typeof|instanceof|SELECT|JOIN|None|True|False",
    re.ASCII,
)
_EXPRESSION: Final = lazily(
    re.compile,
    r"(?:return|import|def|class|const|let|var|new|throw|raise|await|yield|del|static|public|private|export) [\w.]+$|[\w)\]]\s*(?:[=!<>]=|=>?|[<>]|&&|\|\||[-+*/%]|->|::|<-)\s*[\w(\['\"$-]|\w\(|\w\[[^\]]*\]|[{;]\s*$|[{\[]\s*[\w'\"]+\s*[:,]",
    re.ASCII,
)
_NOUN = (
    "function|method|class|variable|module|package|command|option|flag|parameter|argument|keyword|field|column|attribute"
    "|decorator|library|endpoint|property|constant|type|script|branch|hook|component|operator|statement|import|env var"
    "|함수|메서드|메소드|변수|클래스|모듈|명령|옵션|파라미터|인자|매개변수|속성|필드|컬럼|패키지|라이브러리"
    "|関数|変数|メソッド|クラス|引数|モジュール|コマンド|オプション|函数|变量|方法|参数|模块|命令|类"
)
_BESIDE: Final = (
    lazily(
        re.compile, rf"(?:{_NOUN})s?\s+(?:called |named )?$|(?:{_NOUN})[은는이가을를の]?\s*$", re.IGNORECASE
    ),
    lazily(re.compile, rf"\s?(?:{_NOUN})(?:s?\b|(?=[^A-Za-z]))", re.IGNORECASE),
)
_TALK: Final = lazily(
    re.compile,
    r"\b(?:python|javascript|typescript|codebase|refactor\w*|regex|compiler?s?|compil(?:e|es|ed|ing)|stack ?trace|runtime error|npm"
    r"|syntax error|unit tests?|debug(?:ger|ging)?|sql quer(?:y|ies)|source code|pull request|null pointer|recursion|rust|golang)\b"
    r"|파이썬|자바스크립트|컴파일|코딩|디버깅|プログラム|コンパイル|编译|编程",
    re.IGNORECASE,
)
_BESIDE_CHARS: Final = 24
_ABOUT: Final = lazily(
    re.compile,
    r"\b(?:code|snippet|function|script|endpoint|variable|bug)s?\b|코드|함수|변수|스크립트|버그|コード|関数|変数|代码|函数|变量",
    re.IGNORECASE,
)


def talks_of_code(text: str) -> bool:
    """True if `text` names code or what one does with it: "Which function parses the dates?"."""
    return _ABOUT.search(text) is not None or _TALK.search(text) is not None


def _read_spans(section: str, offset: int, found: Evidence) -> str:
    """`section` with its spans in backticks blanked out, so that a line is judged by what is around them."""
    talk: bool | None = None
    parts, after = [], 0
    for span in _SPAN.finditer(section):
        content = span[2].strip()
        code = _looks_like_code(content)
        if not code and content.isascii() and content.replace("-", "").isalnum():
            talk = _TALK.search(section) is not None if talk is None else talk
            code = talk or _beside_a_noun(section, span)
        if code:
            found.kinds.add("inline")
            found.ranges.append((offset + span.start(), offset + span.end()))
            found.vote(_judged(content, 0, SIGNS).reasons)
        parts += [section[after : span.start()], "x" * (span.end() - span.start())]
        after = span.end()
    return "".join([*parts, section[after:]])


def _looks_like_code(content: str) -> bool:
    if not content or _DOCUMENT.fullmatch(content):
        return False
    if _WORD_OF_CODE.fullmatch(content) or regex_like(content) or command_points(content) >= ENOUGH:
        return True
    if not any(char.isalnum() for char in content) or _has_function_words(content):
        return False
    return _EXPRESSION.search(content) is not None or _judged(content, 0, SIGNS).points >= ENOUGH


def _beside_a_noun(section: str, span: re.Match[str]) -> bool:
    before, after = _BESIDE
    return (
        before.search(section[max(0, span.start() - _BESIDE_CHARS) : span.start()]) is not None
        or after.match(section, span.end(), span.end() + _BESIDE_CHARS) is not None
    )


# Lines

_LINE: Final = lazily(re.compile, r"[^\n]+")
_MARKS: Final = lazily(re.compile, r"\s*(?:>\s?){0,5}(?:(?:[-+*•]|\d{1,3}[.)]|\$|%|\.\.\.|In \[\d+\]:)\s+)?")
_ATTACHED_BRACKET: Final = lazily(re.compile, r"\((?<=\w\()")
_NOT_ASCII_LETTER: Final = lazily(re.compile, r"[^\W\d_A-Za-z]")


def read_lines(section: str, offset: int, found: Evidence) -> None:
    """Add the lines of code of `section`, which begins at `offset` of the text, to `found`."""
    signs = _hinted(section, SIGNS)
    lines = [
        _judged(section[start:end], offset + start, signs)
        for start, end in _pieces(section)
        if not section[start:end].isspace()
    ]
    _mark_yaml(section, offset, lines)
    for run in _runs(lines):
        _decide(run)
    for line in lines:
        if line.is_code:
            found.ranges += line.ranges
            found.kinds.update(kind for kind, _, _ in line.reasons)
            found.vote(line.reasons)


def _pieces(section: str) -> Iterator[tuple[int, int]]:
    """Start and end of each line with its line feed, and of the pieces of long ones, cut at a blank if there is one."""
    for line in _LINE.finditer(section):
        start, end = line.span()
        while end - start > PIECE_CHARS:
            blank = section.rfind(" ", start + PIECE_CHARS // 2, start + PIECE_CHARS)
            cut = blank + 1 if blank >= 0 else start + PIECE_CHARS
            yield start, cut
            start = cut
        yield start, min(end + 1, len(section))


def _judged(piece: str, start: int, signs: Sequence[Sign]) -> _Line:
    """The piece of a line that begins at `start` of the text, with its points."""
    line = _Line(start=start, end=start + len(piece), indented=piece.startswith(("  ", "\t")))
    piece = piece.rstrip()
    marks = _MARKS.match(piece)
    body = piece[marks.end() :] if marks else piece
    table_row = body.startswith("|")
    colon = body.find(": ")
    tail = body[colon + 2 :].lstrip() if colon >= 0 else ""
    by_kind: dict[str, int] = {}
    whole = False
    for sign in _hinted(piece, signs):
        if table_row and sign.points < ENOUGH:
            continue
        if sign.whole:
            if not sign.match(body) and not (tail and sign.points >= ENOUGH and sign.match(tail)):
                continue
            whole = True
        elif match := sign.match(piece):
            line.ranges.append((start + match.start(), start + match.end()))
        else:
            continue
        by_kind[sign.kind] = max(by_kind.get(sign.kind, 0), sign.points)
        line.reasons.append((sign.kind, sign.language, sign.points))
        if sign.points >= ENOUGH:
            break  # signs of one language come before general ones: what follows would tell little more
    commands = max(command_points(body), command_points(tail) if tail else 0)
    if commands:
        if commands < ENOUGH and marks and "$" in marks[0]:
            commands = ENOUGH
        whole, by_kind["command"] = True, commands
        line.reasons.append(("command", "bash", commands))
    if ("\\" in piece or "[" in piece) and any(map(regex_like, piece.split())):
        by_kind["regex"] = ENOUGH
        line.reasons.append(("regex", "regex", ENOUGH))
    line.points = sum(by_kind.values())
    if line.points and (whole or not line.ranges or not _is_prose(piece)):
        line.ranges = [(line.start, line.end)]
    return line


def _hinted(text: str, signs: Sequence[Sign]) -> list[Sign]:
    """The signs that `text` may have."""
    if "(" in text and _ATTACHED_BRACKET.search(text):
        text += ATTACHED
    hinted = []
    for sign in signs:
        for hint in sign.hints:
            if hint in text:
                hinted.append(sign)
                break
    return hinted


def _is_prose(piece: str) -> bool:
    return _NOT_ASCII_LETTER.search(piece) is not None or _has_function_words(piece.lower())


def _has_function_words(text: str) -> bool:
    return sum(word in stop_words("english") for word in text.split()) >= _PROSE_WORDS


def _runs(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """Neighbouring lines with points, and the indented lines below them: comments, arguments, texts of a body."""
    run: list[_Line] = []
    for line in lines:
        if line.points or (run and line.indented):
            run.append(line)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _decide(run: Sequence[_Line]) -> None:
    needed = _TOGETHER - any(line.indented for line in run)
    points = [line.points for line in run if line.points]
    if max(points) >= ENOUGH or (len(points) > 1 and sum(points) >= needed):
        for line in run:
            line.is_code = True
            line.ranges = line.ranges or [(line.start, line.end)]


# YAML has hardly a sign of its own: what tells are keys below keys, and values that are no words.

_YAML_KEY: Final = lazily(re.compile, r"(\s*(?:- )?)([a-z_][\w.-]{0,60}):(?:\s+(\S.*))?$", re.ASCII)
_YAML_ITEM: Final = lazily(re.compile, r"\s*(?:- \S|#)")
_YAML_VALUE: Final = lazily(re.compile, r"(?:true|false|null|\"[^\"\s]*\"|'[^'\s]*'|\[.*\]|\{.*\}|\|)$|\$\{")
_YAML_KEYS: Final = 3


def _mark_yaml(section: str, offset: int, lines: Sequence[_Line]) -> None:
    """Give the lines of a YAML block their points."""
    if ":" not in section:
        return
    block: list[_Line] = []
    keys = telling = above = 0
    for line in [*lines, None]:
        text = "" if line is None else section[line.start - offset : line.end - offset].rstrip()
        key = _YAML_KEY.match(text)
        if line is not None and (key or (block and _YAML_ITEM.match(text))):
            block.append(line)
            if key:
                keys += 1
                depth = len(key[1])
                telling += depth > above >= 0 or "_" in key[2] or bool(_YAML_VALUE.match(key[3] or ""))
                above = -1 if key[3] else depth
            continue
        if keys >= _YAML_KEYS and telling:
            for member in block:
                member.points += ENOUGH
                member.reasons.append(("data", "yaml", ENOUGH))
                member.ranges = [(member.start, member.end)]
        block, keys, telling, above = [], 0, 0, -1
