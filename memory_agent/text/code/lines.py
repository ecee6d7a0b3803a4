"""Code outside of fences: spans in backticks and lines that look like code. All pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.code.languages import ATTACHED, ENOUGH, SIGNS, command_points, regex_like
from memory_agent.text.languages import stop_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.text.code.languages import Sign


PIECE_CHARS: Final = 400
"""Lines are looked at in pieces of at most so many characters, which bounds what a pattern can cost."""

_TOGETHER: Final = 3
"""The points that make code of neighbouring lines none of which is code alone; one less with indentation."""
_PROSE_WORDS: Final = 3  # with so many function words a line is prose around code


@dataclass(slots=True)
class _Line:
    """A line, or a piece of a long one, and its points."""

    text: str
    points: int

    @property
    def indented(self) -> bool:
        return self.text.startswith(("  ", "\t"))


def prose_has_code(text: str) -> bool:
    """True if a span in backticks or a line of `text` is code."""
    if "`" in text:
        if _has_inline_code(text):
            return True
        text = _SPAN.sub(lambda span: "x" * len(span[0]), text)  # a line is judged by what is around them
    if "://" in text:
        text = _URL.sub(lambda url: "/" + "x" * (len(url[0]) - 1), text)
    signs = _signs_in(text)
    pieces = [piece for piece in _pieces(text) if not piece.isspace()]
    its = [signs] if len(pieces) == 1 else [_hinted(piece, signs) for piece in pieces]
    lines = [_Line(piece, _points(piece, hinted)) for piece, hinted in zip(pieces, its, strict=True)]
    return _has_yaml(lines) or any(map(_is_code_together, _runs(lines)))


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


def _has_inline_code(text: str) -> bool:
    talks: bool | None = None
    for span in _SPAN.finditer(text):
        content = span[2].strip()
        if _looks_like_code(content):
            return True
        if content.isascii() and content.replace("-", "").isalnum():
            talks = _TALK.search(text) is not None if talks is None else talks
            if talks or _beside_a_noun(text, span):
                return True
    return False


def _looks_like_code(content: str) -> bool:
    if not content or _DOCUMENT.fullmatch(content):
        return False
    if _WORD_OF_CODE.fullmatch(content) or regex_like(content) or command_points(content) >= ENOUGH:
        return True
    if not any(char.isalnum() for char in content) or _has_function_words(content):
        return False
    return _EXPRESSION.search(content) is not None or _points(content, _hinted(content, SIGNS)) >= ENOUGH


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


def _pieces(text: str) -> Iterator[str]:
    """Each line with its line feed, and the pieces of long ones, cut at a blank if there is one."""
    for line in _LINE.finditer(text):
        start, end = line.span()
        while end - start > PIECE_CHARS:
            blank = text.rfind(" ", start + PIECE_CHARS // 2, start + PIECE_CHARS)
            cut = blank + 1 if blank >= 0 else start + PIECE_CHARS
            yield text[start:cut]
            start = cut
        yield text[start : end + 1]


def _points(piece: str, hinted: Sequence[Sign]) -> int:
    """Points of a piece of a line; from `ENOUGH` on it is code alone. `hinted`: the signs that it may have."""
    piece = piece.rstrip()
    marks = _MARKS.match(piece)
    body = piece[marks.end() :] if marks else piece
    table_row = body.startswith("|")
    colon = body.find(": ")
    tail = body[colon + 2 :].lstrip() if colon >= 0 else ""
    by_kind: dict[str, int] = {}
    for sign in hinted:
        if table_row and sign.points < ENOUGH:
            continue
        strong = sign.points >= ENOUGH
        if not sign.whole:
            found = sign.pattern.search(piece)
        else:
            found = sign.pattern.match(body) or (sign.pattern.match(tail) if tail and strong else None)
        if found:
            if strong:
                return ENOUGH
            by_kind[sign.kind] = sign.points
    if ("\\" in piece or "[" in piece) and any(map(regex_like, piece.split())):
        return ENOUGH
    commands = max(command_points(body), command_points(tail) if tail else 0)
    if commands and marks and "$" in marks[0]:
        return ENOUGH
    return sum(by_kind.values()) + commands


_COMMON: Final = " etaoinshrdlucmfwygpbvk"
"""Characters of prose, the most common first."""


@cache
def _by_hint() -> dict[str, list[tuple[str, list[int]]]]:
    """By the rarest character of each hint: the hint, which many signs share, and their places."""
    found: dict[str, list[int]] = {}
    for place, sign in enumerate(SIGNS):
        for hint in sign.hints:
            found.setdefault(hint, []).append(place)
    by_char: dict[str, list[tuple[str, list[int]]]] = {}
    for hint, places in found.items():
        rarest = max(hint, key=lambda char: _COMMON.index(char) if char in _COMMON else len(_COMMON))
        by_char.setdefault(rarest, []).append((hint, places))
    return by_char


def _signs_in(text: str) -> list[Sign]:
    """All signs that `text` may have, as `_hinted` finds them."""
    looked_at = text + ATTACHED if "(" in text and _ATTACHED_BRACKET.search(text) else text
    by_char = _by_hint()
    places = set[int]()
    for char in set(looked_at):
        for hint, its in by_char.get(char, ()):
            if hint in looked_at:
                places.update(its)
    return [SIGNS[place] for place in sorted(places)]


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


def _is_code_together(run: Sequence[_Line]) -> bool:
    needed = _TOGETHER - any(line.indented for line in run)
    points = [line.points for line in run if line.points]
    return max(points) >= ENOUGH or (len(points) > 1 and sum(points) >= needed)


# YAML has hardly a sign of its own: what tells are keys below keys, and values that are no words.

_YAML_KEY: Final = lazily(re.compile, r"(\s*(?:- )?)([a-z_][\w.-]{0,60}):(?:\s+(\S.*))?$", re.ASCII)
_YAML_ITEM: Final = lazily(re.compile, r"\s*(?:- \S|#)")
_YAML_VALUE: Final = lazily(re.compile, r"(?:true|false|null|\"[^\"\s]*\"|'[^'\s]*'|\[.*\]|\{.*\}|\|)$|\$\{")
_YAML_KEYS: Final = 3


def _has_yaml(lines: Sequence[_Line]) -> bool:
    """True if some of the lines are a block of YAML."""
    keys = telling = above = 0
    in_block = False
    for line in lines:
        text = line.text.rstrip()
        key = _YAML_KEY.match(text)
        if key:
            keys += 1
            depth = len(key[1])
            telling += depth > above >= 0 or "_" in key[2] or bool(_YAML_VALUE.match(key[3] or ""))
            above = -1 if key[3] else depth
            in_block = True
        elif not (in_block and _YAML_ITEM.match(text)):
            keys = telling = 0
            in_block, above = False, -1
        if keys >= _YAML_KEYS and telling:
            return True
    return False


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


# Which language it is

_INFO_WORD: Final = lazily(re.compile, r"^[ \t>]*(?:`{3,}|~{3,})[ \t]*\{?\.?([\w+#-]{1,30})", re.MULTILINE)
_ALIASES: Final = {
    alias: name
    for name, *aliases in map(
        str.split,
        (
            "bash sh shell zsh console terminal", "c h", "cpp c++ cc hpp", "csharp c# cs", "css scss less", "go golang",
            "html htm vue", "java", "javascript js jsx node mjs", "json jsonc", "kotlin kt", "php", "python py python3",
            "ruby rb", "rust rs", "sql mysql postgresql postgres sqlite", "swift", "typescript ts tsx", "yaml yml",
        ),
    )
    for alias in aliases
}  # fmt: skip
_TELLING: Final[tuple[tuple[str, str], ...]] = (
    ("php", r"<\?php|\$\w+\s*->|\$this\b"),
    ("html", r"<!DOCTYPE|</(?:div|p|span|html|body|head|ul|table|script)>"),
    ("sql", r"\b(?:SELECT\s.{1,300}?\sFROM|INSERT INTO|CREATE TABLE|DELETE FROM)\s|\bUPDATE\s+\w+\s+SET\b"),
    ("cpp", r"\bstd::|\bcout\b|#include <\w+>|\btemplate ?<"),
    ("rust", r"\bfn \w+|\blet mut \b|^[ \t]*use \w+::|\b(?:println|vec|format)!"),
    ("go", r"\bfunc (?:\(|\w+\()|\w\s*:=\s|^package \w+$|\bfmt\.[A-Z]"),
    ("csharp", r"\busing [A-Z][\w.]*;|\bConsole\.(?:Write|Read)|\bnamespace [A-Z]"),
    ("java", r"\bpublic (?:static |final )*(?:class|void|int|String)\b|\bSystem\.out\.|^import java"),
    ("c", r"#include\b|\bint main ?\(|\b(?:printf|malloc|sizeof) ?\("),
    ("typescript", r"\binterface [A-Z]\w* ?\{|\w\??: (?:string|number|boolean)\b|\btype [A-Z]\w* ="),
    ("javascript", r"\b(?:const|let|var) [\w${\[]|=>|\bfunction\b.{0,60}\{|\bconsole\.log|===|\brequire\("),
    ("ruby", r"\bputs |\bdo \||^[ \t]*def \w+[?!]?$|^end$"),
    ("python", r"\bdef \w+\(|^[ \t]*(?:from \S+ )?import \w|\bprint\(|\bself\.|\belif\b|^[ \t]*(?:class|for|if|with) .*:$"),
    ("css", r"^[.#\w][\w .#:>-]{0,80}\{[ \t]*$|^[ \t]*[a-z-]{1,40}: [^;\n]{1,100};$"),
    ("bash", r"^[ \t]*\$ |^#!/bin/|^(?:sudo|npm|pip|git|docker|cd|curl|apt) |\becho \"?\$"),
    ("json", r"[\[{]\s{0,40}\"\w{1,80}\"\s?:"),
    ("yaml", r"^\w[\w-]*:[ \t]*\n[ \t]+(?:- )?\w"),
)  # fmt: skip
"""What tells a language, the more particular before those that others resemble."""
_LOOKED_AT: Final = 20_000


def canonical_language(name: str) -> str:
    """The usual name of a programming language: "Py" is python.

    >>> canonical_language("TS"), canonical_language("cobol")
    ('typescript', 'cobol')
    """
    name = name.strip().casefold()
    return _ALIASES.get(name, name)


def programming_language(text: str) -> str:
    """The language of the code in `text`: as its fence names it, else by its signs; "" if nothing tells.

    >>> programming_language("```py\\nx = 1\\n```"), programming_language("SELECT id FROM users")
    ('python', 'sql')
    """
    text = text[:_LOOKED_AT]
    if named := _INFO_WORD.search(text):
        return canonical_language(named[1])
    return next((name for name, pattern in _telling() if pattern.search(text)), "")


@cache
def _telling() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern, re.MULTILINE)) for name, pattern in _TELLING)
