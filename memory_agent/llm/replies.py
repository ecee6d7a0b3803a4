"""A language model's reply: the JSON in it, whatever stands around it, and whether it refuses. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_READ_CHARS: Final = 100_000
"""Of a reply; what a model says beyond that is a loop."""
_TAGS: Final = "think|thinking|thought|reasoning"
# Closed thinking; what comes before a closing tag whose opening one the server's template wrote; thinking cut off.
_THINKING: Final = lazily(
    regex.compile,
    rf"<({_TAGS})\b[^<>]*+>.*?</\1\s*+>|\A(?:(?!<(?:{_TAGS})\b).)*+\n[ \t]*+</(?:{_TAGS})\s*+>"
    rf"|\A(?:(?!<(?:{_TAGS})\b|[{{\[]).)*</(?:{_TAGS})\s*+>|\A\s*+<(?:{_TAGS})\b[^<>]*+>.*\Z",
    regex.DOTALL | regex.IGNORECASE,
)
_PIECE: Final = lazily(re.compile, r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_CLOSES: Final = {"}": "{", "]": "["}
_MAX_REFUSAL_CHARS: Final = 400
_REFUSAL: Final = lazily(
    regex.compile,
    r"^\W*(?:"
    r"(?:(?:i'?m|i am) (?:so |very |really |truly )?sorry|sorry|(?:my )?apologies|i apologi[sz]e|unfortunately)\b.{0,60}?"
    r"\b(?:can'?t|cannot|can not|won'?t|unable|not able|not comfortable)\b"
    r"|i (?:can'?t|cannot|can not|won'?t|will not|must decline|have to decline|am unable|am not able)\b"
    r"|i'?m (?:unable|not able|not comfortable|afraid (?:that )?i)\b"
    r"|as an? (?:ai|artificial intelligence|(?:large )?language model|assistant)\b"
    r"|(?:es )?tut mir (?:sehr )?leid|(?:(?:da(?:bei|zu)|das) kann ich|ich kann (?:das|dir|ihnen|diese[nrs]?|hierbei|dabei))\b.{0,80}\bnicht\b"
    r"|je suis (?:vraiment )?désolée?|désolée?\b|je ne (?:peux|suis)\b|lo siento|no puedo\b"
    r"|sinto muito|desculpe|não posso\b|mi dispiace|non posso\b|helaas|het spijt me"
    r"|죄송|미안하지만|抱歉|对不起|對不起|很遗憾|我(?:无法|不能)|申し訳|すみません|ごめんなさい|お手伝いできません"
    r"|извините|простите|к сожалению"
    r")",
    regex.IGNORECASE | regex.DOTALL,
)


def without_thinking(reply: str) -> str:
    """A reply without the model's thinking.

    >>> without_thinking("<think>Hm, [1]?</think> {}")
    '{}'
    """
    return _THINKING.sub("", reply[:MAX_READ_CHARS]).strip()


def json_values(reply: str) -> list[Any]:
    """The objects and lists of a reply outside of thinking; of one cut off, its whole parts.

    What is no sound JSON (single quotes, comments, bare line breaks) is mended where json_repair can.

    >>> json_values('Sure: {"facts": [{"path": "name"}, {"pa')
    [{'path': 'name'}]
    """
    text = without_thinking(reply)
    read = (_loaded(text[start:end]) for start, end in _spans(text))
    return [value for value in read if isinstance(value, dict | list)]


def _spans(text: str) -> list[tuple[int, int]]:
    """Where brackets that belong together begin and end; only the outermost ones."""
    opened: list[tuple[str, int]] = []
    found: list[tuple[int, int]] = []
    for piece in _PIECE.finditer(text):
        mark = piece[0]
        if mark in "{[":
            opened.append((mark, piece.start()))
        elif mark in _CLOSES and any(each == _CLOSES[mark] for each, _ in opened[-3:]):
            while (last := opened.pop())[0] != _CLOSES[mark]:
                pass  # one that was never closed
            while found and found[-1][0] > last[1]:
                found.pop()
            found.append((last[1], piece.end()))
    return found


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        import json_repair  # only for the replies that need it

        try:
            return json_repair.loads(text, skip_json_loads=True)
        except Exception:  # whatever a repair tool trips over: then there is nothing to read
            return None


def objects_in(
    value: Any, keys: tuple[str, ...] = (), *, depth: int = 20
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every object within a value, outermost first, with the keys that lead to it."""
    if depth and isinstance(value, dict):
        yield keys, value
        for key, inner in value.items():
            yield from objects_in(inner, (*keys, str(key)), depth=depth - 1)
    elif depth and isinstance(value, list):
        for element in value:
            yield from objects_in(element, keys, depth=depth - 1)


def is_refusal(text: str) -> bool:
    """True if a reply that should be prose says that the model will not: by its words, for nothing else tells it.

    A summary speaks of a conversation; what speaks for itself, briefly and in the first person, is none.

    >>> is_refusal("I'm sorry, I can't help with that."), is_refusal("Ann is sorry that she can't come.")
    (True, False)
    """
    said = text.strip().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return len(said) <= _MAX_REFUSAL_CHARS and bool(_REFUSAL.match(said))
