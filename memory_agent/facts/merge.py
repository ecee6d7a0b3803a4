"""Merging of facts documents: statements become events, and events change a document. All pure.

The rules of merging:

- nested objects merge;
- a scalar replaces the scalar that stood at its path, whose value stays in the history;
- lists are ordered unions: texts are the same without regard to case and white space, objects by structure;
- a change of type (scalar, list, object) is a replacement, and recorded as one;
- null, empty text, empty lists and empty objects state nothing, so they erase nothing: only a retraction does;
- keys become snake_case, free of `.`, `$` and control characters, so that the same statement in another spelling
  meets its path, also those of objects in lists; what is too deep, too long or no JSON is refused whole, never cut.

So merging the same statement twice changes nothing more, and statements about different paths may come in any order.
"""

from __future__ import annotations

import json
import math
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.domain import FactEvent
from memory_agent.facts.tree import leaves
from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_DEPTH: Final = 8
MAX_KEY_CHARS: Final = 64
MAX_TEXT_CHARS: Final = 2_000
MAX_EVENTS: Final = 200
_INT_BITS: Final = 63

# Cherokee's folded case is its upper one, which must not break words when a key is normalised again.
_WORD_BREAK: Final = lazily(
    regex.compile, r"(?<=[\p{Ll}\p{N}])(?=\p{Lu})(?!\p{Cherokee})|[^\p{L}\p{N}\p{M}]+"
)
_CONTROL: Final = lazily(regex.compile, r"[^\P{Cc}\n\t]")
# Nothing to see and nothing that tells words apart, unlike joiners and variation selectors: "Ann" with it is Ann.
_UNSEEN: Final = lazily(
    regex.compile,
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0]",
)
_INVISIBLE: Final = lazily(regex.compile, r"[\s\p{Z}\p{Cc}\p{Cf}]*")


class UnmergeableFacts(ValueError):
    """The statement is too deep, too long or of a type that a document cannot hold; the message says where."""


def statement_events(statement: Mapping[str, Any], path: tuple[str, ...] = ()) -> tuple[FactEvent, ...]:
    """The events that merging `statement` (nested JSON) into a document consists of, in its order.

    `path` is where it is merged. Raises UnmergeableFacts, rather than cut anything off.
    """
    said = _cleaned(dict(statement), path, len(path), strict=False) or {}
    events = tuple(
        FactEvent(op="add" if is_element else "set", path=where, value=leaf)
        for where, leaf, is_element in leaves(said, path)
    )
    if len(events) > MAX_EVENTS:
        raise UnmergeableFacts(f"{len(events)} facts in one statement; at most {MAX_EVENTS} are plausible")
    return events


def value_events(path: tuple[str, ...], value: Any) -> tuple[FactEvent, ...]:
    """The events that state `value` at `path`: one for a scalar, one for each leaf or element of what is nested."""
    return statement_events({path[-1]: value}, path[:-1])


def fact_key(key: str) -> str:
    """`key` in snake_case, free of `.`, `$` and control characters; empty if nothing visible remains.

    >>> fact_key("Favourite Colour"), fact_key("homeTown"), fact_key("$set.x")
    ('favourite_colour', 'home_town', 'set_x')
    """
    words = [word for word in _WORD_BREAK.split(unicodedata.normalize("NFKC", key)) if word]
    return "_".join(words).casefold()


def fact_path(path: str | Sequence[str]) -> tuple[str, ...]:
    """`path`, as text with dots or as keys, with its keys normalised.

    Raises UnmergeableFacts if it names nothing.

    >>> fact_path("preferences.Meeting time")
    ('preferences', 'meeting_time')
    """
    keys = path.split(".") if isinstance(path, str) else [str(key) for key in path]
    if not keys:
        raise UnmergeableFacts("the path names nothing")
    if len(keys) > MAX_DEPTH:
        raise UnmergeableFacts(f"the path {'.'.join(keys)!r:.120} is more than {MAX_DEPTH} keys deep")
    return tuple(_checked_key(key) for key in keys)


def fact_value(value: Any, path: tuple[str, ...]) -> Any:
    """`value` as a document can hold it, with all of its keys normalised.

    Raises UnmergeableFacts; also for what states nothing, at any depth.
    """
    return _cleaned(value, path, len(path), strict=True)


def _checked_key(raw: str) -> str:
    key = fact_key(raw)
    if not key or len(key) > MAX_KEY_CHARS:
        too_long = f"is longer than {MAX_KEY_CHARS} characters"
        raise UnmergeableFacts(f"the key {raw!r:.80} names nothing or {too_long}")
    return key


def _cleaned(value: Any, path: tuple[str, ...], depth: int, *, strict: bool) -> Any:
    """`value` as a document can hold it; None if it states nothing (`strict`: then it is refused, at any depth).

    `path` is where it belongs, for messages; `depth` is how many keys and lists it is within.
    """
    said: Any
    # Keys take up room below, elements don't.
    if isinstance(value, dict | list | tuple) and depth + isinstance(value, dict) > MAX_DEPTH:
        raise UnmergeableFacts(f"nested more than {MAX_DEPTH} deep at {'.'.join(path)}")
    if isinstance(value, dict):
        said = _object(value, path, depth, strict=strict) or None
    elif isinstance(value, list | tuple):
        elements = [_element(element, path, depth, strict=strict) for element in value]
        said = [element for element in elements if element is not None] or None
    else:
        said = _scalar(value, path)
    if strict and said is None:
        raise UnmergeableFacts(f"{'.'.join(path)} is {value!r:.80}, which states nothing")
    return said


def _object(value: dict[Any, Any], path: tuple[str, ...], depth: int, *, strict: bool) -> dict[str, Any]:
    cleaned: dict[str, Any] = {}
    for raw_key, inner in value.items():
        key = _checked_key(str(raw_key))
        said = _cleaned(inner, (*path, key), depth + 1, strict=strict)
        if key in cleaned and said is not None:
            raise UnmergeableFacts(f"{'.'.join((*path, key))} is there twice, in two spellings")
        if said is not None:
            cleaned[key] = said
    return cleaned


def _element(value: Any, path: tuple[str, ...], depth: int, *, strict: bool) -> Any:
    said = _cleaned(value, path, depth + isinstance(value, list | tuple), strict=strict)
    if isinstance(said, dict | list) and len(json.dumps(said, ensure_ascii=False)) > MAX_TEXT_CHARS:
        where = ".".join(path)
        raise UnmergeableFacts(f"{where} holds an element of more than {MAX_TEXT_CHARS:,} characters")
    return said


def _scalar(value: Any, path: tuple[str, ...]) -> Any:
    where = ".".join(path)
    if isinstance(value, str):
        text = fact_text(value)
        if len(text) > MAX_TEXT_CHARS:
            most = f"a fact has at most {MAX_TEXT_CHARS:,}"
            raise UnmergeableFacts(f"{where} has {len(text):,} characters; {most}")
        return text or None
    if isinstance(value, float) and not math.isfinite(value):
        raise UnmergeableFacts(f"{where} is {value}")
    if isinstance(value, int) and value.bit_length() > _INT_BITS:
        raise UnmergeableFacts(f"{where} is a number of {value.bit_length()} bits; write it as text")
    if value is not None and not isinstance(value, int | float):
        raise UnmergeableFacts(f"{where} is a {type(value).__name__}, which is no JSON")
    return value


def fact_text(text: str) -> str:
    """`text` as a document can hold it; empty if nothing visible remains."""
    seen = _UNSEEN.sub("", _CONTROL.sub(" ", text))
    cleaned = unicodedata.normalize("NFC", encodable(seen)).strip()
    return "" if _INVISIBLE.fullmatch(cleaned) else cleaned


def encodable(text: str) -> str:
    """`text` with lone surrogates, which a model's escapes may hold and no store keeps, as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
