"""Reading JSON out of a language model's reply. Pure.

What is repaired: prose, code fences and thinking around the object; single quotes, trailing commas, comments and
Python's literals within it; a list of objects where one object was asked for. What is not: a reply that was cut
off, for its last value may be half a value; and a reply without any object.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from memory_agent.errors import MalformedReply

_THINKING: Final = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_OPENING: Final = re.compile(r"[{\[]")
_LOOKS_LIKE_JSON: Final = re.compile(r"[{\[]\s*(?:[\"'{\[}\]]|\w+\s*:)")
_CLOSES: Final = {"{": "}", "[": "]"}


def parse_object(reply: str, *, truncated: bool = False) -> dict[str, Any]:
    """The JSON object that `reply` holds. Raises MalformedReply, keeping the reply, if there is none to trust."""
    if truncated:
        raise MalformedReply("the reply was cut off at the model's length limit", reply=reply)
    text = _THINKING.sub("", reply)
    for candidate in [*_FENCE.findall(text), text]:
        found = _first_object(candidate)
        if found is not None:
            return found
    raise MalformedReply("the reply holds no complete JSON object", reply=reply)


def _first_object(text: str) -> dict[str, Any] | None:
    """The first complete object in `text`; None if there is none, or if one begins but is never closed."""
    position = 0
    while match := _OPENING.search(text, position):
        end = _balanced_end(text, match.start())
        if end is None:
            if _LOOKS_LIKE_JSON.match(text, match.start()):
                return None  # cut off: what is inside it must not be taken for the whole
            position = match.end()
            continue
        found = _as_object(text[match.start() : end])
        if found is not None:
            return found
        position = end
    return None


def _as_object(text: str) -> dict[str, Any] | None:
    """`text`, a balanced bracket, as an object: read strictly if possible, else repaired; None if it is no object."""
    try:
        value = json.loads(text)
    except RecursionError:
        return None
    except ValueError:
        import json_repair  # only for the replies that need it

        value = json_repair.loads(text) if _LOOKS_LIKE_JSON.match(text) else None
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        merged: dict[str, Any] = {}
        for item in value:
            _merge_into(merged, item)
        return merged
    return None


def _balanced_end(text: str, start: int) -> int | None:
    """Where the bracket at `start` is closed (exclusive), quotes respected; None if it never is."""
    open_brackets: list[str] = []
    quote = ""
    position = start
    while position < len(text):
        char = text[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char == '"' or (char == "'" and text[position - 1] in "{[,: "):
            quote = char
        elif char in _CLOSES:
            open_brackets.append(_CLOSES[char])
        elif char in "}]":
            if not open_brackets or open_brackets.pop() != char:
                return None
            if not open_brackets:
                return position + 1
        position += 1
    return None


def _merge_into(target: dict[str, Any], extra: dict[str, Any]) -> None:
    for key, value in extra.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge_into(target[key], value)
        elif isinstance(value, list) and isinstance(target.get(key), list):
            target[key] = target[key] + value
        else:
            target[key] = value
