"""Facts documents: what was stated becomes events, and a document is the fold of its events. All pure.

Rules: nested objects merge; a scalar replaces what stood at its path; a list is an ordered union, texts compared
without regard to case and white space, anything else by structure; a change of type replaces; null and empty
text state nothing. Keys become snake_case, so that the same statement in another spelling meets its path.
"""

from __future__ import annotations

import copy
import json
import math
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.domain import FactEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memory_agent.domain import FactChange

MAX_DEPTH: Final = 8
MAX_KEY_CHARS: Final = 64
MAX_TEXT_CHARS: Final = 2_000
MAX_EVENTS: Final = 200

_WORD_BREAK: Final = regex.compile(r"(?<=[\p{Ll}\p{N}])(?=\p{Lu})|[^\p{L}\p{N}\p{M}]+")


class UnmergeableFacts(ValueError):
    """The statement is too deep, too long or of a type that a document cannot hold; the message says where."""


def statement_events(statement: Mapping[str, Any]) -> tuple[FactEvent, ...]:
    """The events that merging `statement` (nested JSON) into a document consists of, in its order.

    Raises UnmergeableFacts, rather than cut anything off.
    """
    events = tuple(_events(statement, ()))
    if len(events) > MAX_EVENTS:
        raise UnmergeableFacts(f"{len(events)} facts in one statement; at most {MAX_EVENTS} are plausible")
    return events


def apply_event(document: dict[str, Any], event: FactEvent) -> None:
    """Change `document` in place by one event; applying it twice in a row changes nothing more."""
    inner = document
    for key in event.path[:-1]:
        if not isinstance(inner.get(key), dict):
            inner[key] = {}
        inner = inner[key]
    last = event.path[-1]
    if event.op == "set":
        inner[last] = copy.deepcopy(event.value)
        return
    elements = inner.get(last)
    if not isinstance(elements, list):
        elements = inner[last] = []
    if not any(same_element(element, event.value) for element in elements):
        elements.append(copy.deepcopy(event.value))


def fold(changes: Iterable[FactChange], onto: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The document that `changes` give, in their order, beginning with `onto` (or nothing)."""
    document: dict[str, Any] = copy.deepcopy(dict(onto)) if onto else {}
    for change in changes:
        for event in change.events:
            apply_event(document, event)
    return document


def in_order_of_turns(changes: Iterable[FactChange]) -> list[FactChange]:
    """`changes` as their statements were made: a turn that was parked and retried speaks for its own time.

    Turn ids are UUIDv7, so they sort by when the turns were stored.
    """
    return sorted(changes, key=lambda change: (change.turn_id, change.seq))


def same_element(one: Any, other: Any) -> bool:
    """Whether two list elements say the same."""
    if isinstance(one, str) and isinstance(other, str):
        return _comparable(one) == _comparable(other)
    if isinstance(one, bool) is not isinstance(other, bool):
        return False  # True == 1 in Python, but not as facts
    return bool(one == other)


def fact_key(key: str) -> str:
    """`key` in snake_case, free of `.`, `$` and control characters; empty if nothing visible remains.

    >>> fact_key("Favourite Colour"), fact_key("homeTown"), fact_key("$set.x")
    ('favourite_colour', 'home_town', 'set_x')
    """
    words = [word for word in _WORD_BREAK.split(unicodedata.normalize("NFKC", key)) if word]
    return "_".join(words).casefold()


def _events(value: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[FactEvent]:
    if len(path) >= MAX_DEPTH:
        raise UnmergeableFacts(f"nested more than {MAX_DEPTH} deep at {'.'.join(path)}")
    for raw_key, inner in value.items():
        key = fact_key(str(raw_key))
        if not key or len(key) > MAX_KEY_CHARS:
            raise UnmergeableFacts(
                f"the key {raw_key!r:.80} is empty or longer than {MAX_KEY_CHARS} characters"
            )
        here = (*path, key)
        if isinstance(inner, dict):
            yield from _events(inner, here)
        elif isinstance(inner, list):
            for element in inner:
                if not _states_nothing(element):
                    yield FactEvent(op="add", path=here, value=_checked(element, here))
        elif not _states_nothing(inner):
            yield FactEvent(op="set", path=here, value=_checked(inner, here))


def _states_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value in ([], {})


def _checked(value: Any, path: tuple[str, ...]) -> Any:
    where = ".".join(path)
    if isinstance(value, str):
        if len(value) > MAX_TEXT_CHARS:
            raise UnmergeableFacts(
                f"{where} has {len(value):,} characters; a fact has at most {MAX_TEXT_CHARS:,}"
            )
        return unicodedata.normalize("NFC", _encodable(value)).strip()
    if isinstance(value, dict | list):
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except ValueError as exc:
            raise UnmergeableFacts(f"{where} holds a number that is not finite") from exc
        if len(text) > MAX_TEXT_CHARS:
            raise UnmergeableFacts(f"{where} holds an element of more than {MAX_TEXT_CHARS:,} characters")
        return json.loads(_encodable(text))
    if isinstance(value, float) and not math.isfinite(value):
        raise UnmergeableFacts(f"{where} is {value}")
    return value


def _encodable(text: str) -> str:
    """`text` with lone surrogates, which a model's escapes may hold and no store keeps, as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _comparable(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
