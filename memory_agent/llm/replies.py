"""A language model's reply: finding JSON in it, and telling that it refuses. Pure.

Prose, code fences and thinking are passed over; single quotes, trailing commas, comments and Python's literals mended; a
reply that was cut off is refused. Every step is linear in the reply's length, and the repair tool, which is slow, gets
`MAX_MENDED_CHARS` at most.

"I'm sorry, I can't help with that." is an answer: asking again and again brings no other.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

import regex

from memory_agent.errors import MalformedReply
from memory_agent.lazily import lazily

MAX_DEPTH: Final = 64
"""Levels of nesting that are read; facts have a few."""
_TOO_DEEP: Final = f"the reply's JSON is nested more than {MAX_DEPTH} deep"

MAX_MENDED_CHARS: Final = 50_000
"""Of a reply's text that is not sound JSON; more is refused."""

MAX_DOCUMENTS: Final = 10_000
_LEAST_MENDED_CHARS: Final = 500
"""What a document that is not sound counts for at least: finding out costs as much as its place in the reply."""
_MAX_SLIPS: Final = 100
"""Strings with no mark between them and what is next to them, which cost the repair tool the rest of the text each."""
_LEAD_CHARS: Final = 60

_TAGS: Final = "think|thinking|thought|reasoning"
# What begins outside of any document: a bracket that looks like JSON's (not "[1]" or "{sic}"), or a tag.
_BEGINNING: Final = lazily(
    re.compile,
    r"""(?P<open>\{(?=\s*+(?:["'“{\[}]|\w++\s*+:|//|/\*|\#\s))|\[(?=\s*+(?:["'“{\[\]]|//|/\*|\#\s)))"""
    rf"|<(?P<close>/?)(?P<tag>{_TAGS})\b[^<>]*+>",
    re.IGNORECASE,
)
# Many models' replies begin in the middle of their thinking. No string of sound JSON holds a line break, so a
# closing tag at the beginning of a line is never a part of what somebody said.
_END_OF_THINKING: Final = lazily(
    re.compile, rf"<(?:{_TAGS})\b[^<>]*+>|^[ \t]*+(?P<end></(?:{_TAGS})>)", re.I | re.M
)
# A document that is no sound JSON, piece by piece; what lies between the pieces is of no interest.
_PIECE: Final = lazily(
    re.compile,
    r"""(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+"|“[^”]*+”"""
    r"""|(?<=[{\[(,:\s])'(?:[^'\\]|\\.|'(?!\s*+[,:}\])]))*+')"""
    r"|(?P<comment>//[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))"
    r"""|(?P<cut>["“]|(?<=[{\[(,:\s])')"""
    r"|(?P<elided>\.\.\.|…)"
    r"|(?P<mark>[{}\[\](),:])",
    re.DOTALL,
)
_CLOSES: Final = {"{": "}", "[": "]", "(": ")"}
_GOES_ON: Final = lazily(re.compile, r"\s*+(?:[}\]]|,\s*+[\"'“])")


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON object or list of a reply. `lead` is the text right before it.

    `problem` says why it cannot be read; then `value` is None.
    """

    value: Any
    lead: str = ""
    problem: str = ""


def json_documents(reply: str) -> list[Document]:
    """All complete objects and lists that `reply` holds outside of thinking, in order; none within another.

    Strict JSON comes back as it is, but that numbers that are not finite become None and lone surrogates "?". Raises
    MalformedReply, keeping the reply, if a document or a block of thinking is begun and never ended.
    """
    return _Reading(reply).documents()


class _Broken(ValueError):
    """A document that is not to be read; the message says why."""


class _Reading:
    """One pass over a reply."""

    def __init__(self, reply: str) -> None:
        self._reply = reply
        self._text = _spoken(reply)
        self._mendable = MAX_MENDED_CHARS
        self._decoder = json.JSONDecoder(strict=False, object_pairs_hook=_object)

    def documents(self) -> list[Document]:
        found: list[Document] = []
        position = 0
        while begun := _BEGINNING.search(self._text, position):
            if begun["open"]:
                document, position = self._document(begun.start())
                found.append(document)
                if len(found) > MAX_DOCUMENTS:
                    raise self._malformed(f"the reply holds more than {MAX_DOCUMENTS:,} JSON documents")
            elif begun["close"]:
                found.clear()  # all so far was thinking
                position = begun.end()
            else:
                position = self._end_of_thinking(begun)
        return found

    def _end_of_thinking(self, begun: re.Match[str]) -> int:
        end = re.compile(rf"</{begun['tag']}\s*+>", re.IGNORECASE).search(self._text, begun.end())
        if end is None:
            raise self._malformed("the reply was cut off while the model was thinking")
        return end.end()

    def _document(self, start: int) -> tuple[Document, int]:
        """The document that begins at `start`, and where it ends."""
        lead = self._text[max(0, start - _LEAD_CHARS) : start]
        try:
            value, end = self._decoder.raw_decode(self._text, start)
            document = Document(_sound(value), lead)
        except (ValueError, RecursionError) as unsound:
            shape = self._closed(start)
            end = shape.end
            try:
                if isinstance(unsound, RecursionError):
                    raise _Broken(_TOO_DEEP) from unsound
                if isinstance(unsound, _Broken):
                    raise
                document = Document(_mended(self._text[start:end], shape), lead)
            except _Broken as exc:
                document = Document(None, lead, str(exc))
        if _GOES_ON.match(self._text, end):
            raise self._malformed("the reply's JSON goes on after its last bracket is closed")
        return document, end

    def _closed(self, start: int) -> _Shape:
        """The brackets from `start` to where the first is closed, by a reading that tolerates slips."""
        shape = _shape(self._text, start, start + self._mendable)
        if shape is None and len(self._text) - start > self._mendable:
            raise self._malformed("the reply's JSON is cut off, or is not sound and too long to be mended")
        if shape is None:
            raise self._malformed("the reply is cut off, or a bracket in it is missing")
        self._mendable = max(0, self._mendable - max(shape.end - start, _LEAST_MENDED_CHARS))
        return shape

    def _malformed(self, message: str) -> MalformedReply:
        return MalformedReply(message, reply=self._reply)


def _spoken(reply: str) -> str:
    """`reply` without the thinking that it begins in the middle of, out of its string if it is one JSON string."""
    text = reply
    if reply.lstrip("\ufeff \t\r\n").startswith('"'):
        try:
            inner = json.loads(reply.strip("\ufeff \t\r\n"))
        except ValueError:
            inner = None
        text = inner if isinstance(inner, str) else reply
    tag = _END_OF_THINKING.search(text)
    return text[tag.end() :] if tag and tag["end"] else text


# --- what is not sound ---------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Shape:
    """Counts of the tokens between two brackets: a value that was mended has to have as much of everything."""

    end: int = 0
    objects: int = 0
    lists: int = 0
    members: int = 0
    slips: int = 0
    elided: bool = False


def _shape(text: str, start: int, limit: int) -> _Shape | None:
    """Counts between the bracket at `start` and its end; None if it is not closed before `limit`, or by another."""
    shape = _Shape()
    expected: list[str] = []
    before: str | None = None
    position = start
    for piece in _PIECE.finditer(text, start, limit):
        if piece.lastgroup == "cut":
            return None
        glued = bool(text[position : piece.start()].strip()) or before == piece.lastgroup
        shape.slips += glued and "string" in (before, piece.lastgroup)
        before, position = piece.lastgroup, piece.end()
        if piece.lastgroup == "elided":
            shape.elided = True
        elif piece.lastgroup == "mark":
            mark = piece.group()
            if mark in _CLOSES:
                expected.append(_CLOSES[mark])
                shape.objects += mark == "{"
                shape.lists += mark != "{"
            elif mark == ":":
                shape.members += 1
            elif mark != ",":
                if expected.pop() != mark:
                    return None
                if not expected:
                    shape.end = piece.end()
                    return shape
    return None


def _mended(text: str, shape: _Shape) -> Any:
    """`text`, which has that shape, as JSON. Raises _Broken rather than leave anything out."""
    if shape.elided:
        raise _Broken("the model left something out of its JSON with an ellipsis")
    if shape.slips > _MAX_SLIPS:
        raise _Broken("the reply's JSON has too many slips to be mended")
    import json_repair  # only for the replies that need it

    try:
        value = _sound(json_repair.loads(_PIECE.sub(_plainly, text), skip_json_loads=True))
    except _Broken:
        raise
    except Exception as exc:  # whatever a repair tool trips over
        raise _Broken(f"the reply's JSON cannot be mended: {type(exc).__name__}") from exc
    found = _Shape(end=shape.end, slips=shape.slips)
    _count(value, found)
    if found != shape:
        raise _Broken("the reply's JSON cannot be mended without guessing")
    return value


def _plainly(piece: re.Match[str]) -> str:
    """A piece as JSON has it: no comments, and texts in double quotes, whose apostrophes mislead nobody."""
    said = piece.group()
    if piece.lastgroup == "comment":
        return " "
    if piece.lastgroup != "string" or said.startswith('"'):
        return said
    inner = re.sub(
        r"\\.|\"", lambda char: {"\\'": "'", '"': '\\"'}.get(char[0], char[0]), said[1:-1], flags=re.S
    )
    return f'"{inner}"'


def _count(value: Any, shape: _Shape) -> None:
    within: list[Any] = []
    if isinstance(value, dict):
        shape.objects += 1
        shape.members += len(value)
        within = list(value.values())
    elif isinstance(value, list):
        shape.lists += 1
        within = value
    for inner in within:
        _count(inner, shape)


# --- values --------------------------------------------------------------------------------------------------
def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. What is said twice under one key is kept once or joined; what would be lost is refused."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    found = {}
    for key, value in pairs:
        before = found.get(key)
        if before is None or before == value:
            found[key] = value
        elif _are_objects(before) and _are_objects(value) and len(pairs) <= _MAX_SLIPS:
            found[key] = before + value
        elif value is not None:
            raise _Broken(f"the reply's JSON says {key!r:.80} twice and differently")
    return found


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(element, dict) for element in value)


def _sound(value: Any, depth: int = 0) -> Any:
    """`value` as every store can hold it: no lone surrogates, no infinity. Raises _Broken if it is too deep."""
    if depth > MAX_DEPTH:
        raise _Broken(_TOO_DEEP)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_sound(key): _sound(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_sound(inner, depth + 1) for inner in value]
    return value


MAX_PROSE_CHARS: Final = 600
"""Of a reply without any JSON; what is longer is an answer that went wrong, and worth another try."""
_MAX_REFUSAL_CHARS: Final = 400
_MAX_THOUGHT_CHARS: Final = 100_000
_THOUGHT: Final = lazily(regex.compile, r"</(?:think|thinking|thought|reasoning)\s*+>", regex.IGNORECASE)
_JSON_OR_THINKING: Final = lazily(
    regex.compile, r"""[{}]|\[\s*+["'\[\]]|<(?:think|thinking|thought|reasoning)\b""", regex.IGNORECASE
)
_REFUSAL: Final = lazily(
    regex.compile,
    r"^\W*(?:"
    r"(?:(?:i'?m|i am) (?:so |very |really |truly )?sorry|sorry|(?:my )?apologies|i apologi[sz]e|unfortunately)\b.{0,60}?"
    r"\b(?:can'?t|cannot|can not|won'?t|unable|not able|not comfortable)\b"
    r"|i (?:can'?t|cannot|can not|won'?t|will not|must decline|have to decline|am unable|am not able)\b"
    r"|i'?m (?:unable|not able|not comfortable|afraid (?:that )?i)\b"
    r"|as an? (?:ai|artificial intelligence|(?:large )?language model|assistant)\b"
    r"|(?:es )?tut mir (?:sehr )?leid|ich kann (?:das|dir|ihnen|diese[nrs]?|hierbei|dabei)\b.{0,80}\bnicht\b"
    r"|je suis (?:vraiment )?désolée?|désolée?\b|je ne (?:peux|suis)\b|lo siento|no puedo\b"
    r"|sinto muito|desculpe|não posso\b|mi dispiace|non posso\b|helaas|het spijt me"
    r"|죄송|미안하지만|抱歉|对不起|對不起|很遗憾|我(?:无法|不能)|申し訳|すみません|ごめんなさい|お手伝いできません"
    r"|извините|простите|к сожалению"
    r")",
    regex.IGNORECASE | regex.DOTALL,
)


def prose_in(reply: str) -> str:
    """The few sentences that a reply, which should be JSON, is outside of thinking; empty if it is anything else.

    >>> prose_in("<think>Hm.</think> I'm sorry, I can't help with that [1]."), prose_in('{"additions": [')
    ("I'm sorry, I can't help with that [1].", '')
    """
    if len(reply) > _MAX_THOUGHT_CHARS:
        return ""
    text = _THOUGHT.split(reply)[-1].strip()
    return text if len(text) <= MAX_PROSE_CHARS and not _JSON_OR_THINKING.search(text) else ""


def is_refusal(text: str) -> bool:
    """True if a reply that should be prose says that the model will not: by its words, for nothing else tells it.

    A summary speaks of a conversation; what speaks for itself, briefly and in the first person, is none.

    >>> is_refusal("I'm sorry, I can't help with that."), is_refusal("Ann is sorry that she can't come.")
    (True, False)
    """
    said = text.strip().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return len(said) <= _MAX_REFUSAL_CHARS and bool(_REFUSAL.match(said))
