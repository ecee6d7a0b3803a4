"""Reading a file of turns: JSONL turns, or OpenAI-style message lists. Pure; nothing is stored here.

Accepted are a JSON array of messages, or lines that each hold one turn (`{"role": …, "content": …}`) or one
conversation (`{"messages": […]}`). A turn goes through the same door as `add_turns`, so a file that reads
without bad lines can be stored whole. A message without anything to see in it is left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from memory_agent.checks import checked_id, has_visible
from memory_agent.domain import TurnInput
from memory_agent.errors import InvalidInput
from memory_agent.work.admit import admit

_TAKEN: Final = frozenset(
    {"role", "content", "speaker", "name", "timestamp", "metadata", "importance", "thread", "user"}
)
# Fields of OpenAI messages that say nothing a memory could keep.
_PASSED_OVER: Final = frozenset(
    {"id", "refusal", "annotations", "audio", "tool_calls", "tool_call_id", "function_call"}
)
_CALLS: Final = ("tool_calls", "function_call")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadTurn:
    """One turn of the file: where it stood, and whose it is if the line says so."""

    where: int
    turn: TurnInput
    thread: str | None
    user: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BadLine:
    """A line (or message) that cannot be remembered, and why. `where` as people say it: `line 3, message 2`."""

    where: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnFile:
    """A file's turns, good and bad, in order. `invisible`: the number of messages left out for having no text."""

    turns: tuple[ReadTurn, ...]
    bad: tuple[BadLine, ...]
    invisible: int = 0


class _NoCount:
    margin = 0.0

    def count(self, text: str) -> int:
        return 0


def read_turns(data: bytes) -> TurnFile:
    """All turns of a file's content, with every bad line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        return TurnFile(turns=(), bad=(BadLine(where=f"line {line}", reason="is not UTF-8 text"),))
    turns: list[ReadTurn] = []
    bad: list[BadLine] = []
    invisible = 0
    for number, (where, item) in enumerate(_items(text), start=1):
        try:
            turn = _read_turn(number, item)
        except InvalidInput as exc:
            bad.append(BadLine(where=where, reason=str(exc)))
            continue
        if turn is None:
            invisible += 1
        else:
            turns.append(turn)
    return TurnFile(turns=tuple(turns), bad=tuple(bad), invisible=invisible)


def _items(text: str) -> Iterator[tuple[str, object]]:
    """Every message, or the InvalidInput that stands in its place, with the words for that place."""
    if text.lstrip().startswith("["):
        yield from _array_items(text)
        return
    # Not splitlines: JSON text may hold U+2028 and its kind unescaped.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as exc:
            item = InvalidInput(f"is not JSON ({exc})")
        yield from _messages(f"line {number}", f"line {number}", item)


def _array_items(text: str) -> Iterator[tuple[str, object]]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as exc:
        yield "the file", InvalidInput(f"starts with '[' but is not a JSON array ({exc})")
        return
    for number, item in enumerate(items, start=1):
        yield from _messages(f"message {number}", f"item {number}", item)


def _messages(where: str, whole: str, item: object) -> Iterator[tuple[str, object]]:
    """The messages of a conversation, whose place is called `whole`, or the one that stands for itself."""
    if not isinstance(item, dict) or "messages" not in item:
        yield where, item
        return
    messages = item["messages"]
    if not isinstance(messages, list):
        yield whole, InvalidInput(f"messages is a {type(messages).__name__}; it must be a list")
        return
    whose = {key: item[key] for key in ("thread", "user") if key in item}
    for number, message in enumerate(messages, start=1):
        yield f"{whole}, message {number}", {**whose, **message} if isinstance(message, dict) else message


def _read_turn(number: int, item: object) -> ReadTurn | None:
    """The turn of a message; None if it has nothing to see. Raises InvalidInput."""
    if isinstance(item, InvalidInput):
        raise item
    if not isinstance(item, Mapping):
        raise InvalidInput(f"is a {type(item).__name__}, not an object with role and content")
    if unknown := [key for key in item if key not in _TAKEN | _PASSED_OVER]:
        known = ", ".join(sorted(_TAKEN))
        raise InvalidInput(
            f"has the key {unknown[0]!r:.80}; known are {known}. Put anything else into metadata"
        )
    if "role" not in item or "content" not in item:
        raise InvalidInput("has no role or no content; both are needed")
    content = _text_of(item["content"])
    # An assistant that calls a tool says nothing meanwhile.
    if content is None and any(item.get(key) for key in _CALLS):
        content = ""
    if isinstance(content, str) and not has_visible(content):
        return None
    turn = TurnInput(
        role=item["role"],
        content=content,
        speaker=item.get("speaker", item.get("name")),
        timestamp=_time_of(item.get("timestamp")),
        metadata=item.get("metadata"),
        importance=item.get("importance"),
    )
    draft = admit([turn], now=_EPOCH, counter=_NoCount(), idempotency_key=None, stages=())[0]
    thread, user = (
        None if item.get(key) is None else checked_id(key, item[key]) for key in ("thread", "user")
    )
    kept = replace(turn, role=draft.role, metadata=draft.metadata)
    return ReadTurn(where=number, turn=kept, thread=thread, user=user)


def _text_of(content: object) -> Any:
    """The text of a message's content; a part that is no text leaves its type in brackets, so that it shows."""
    if not isinstance(content, list):
        return content
    parts = []
    for part in content:
        match part:
            case str(text) | {"text": str(text)}:
                parts.append(text)
            case {"type": str(kind)}:
                parts.append(f"[{kind}]")
            case _:
                raise InvalidInput("content has a part that is neither text nor an object with a type")
    return "\n".join(parts)


def _time_of(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        example = "2026-03-01T18:30:00+01:00"
        raise InvalidInput(f"timestamp is {value!r:.80}; write ISO 8601 with a zone, e.g. {example}")
    return time
