"""The kinds of files that can be imported, and how each is known by what it holds."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import role_of
from memory_agent.errors import InvalidInput
from memory_agent.imports import chatgpt, claude, gemini, mem0, messages
from memory_agent.imports.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memory_agent.imports.files import ImportFile
    from memory_agent.imports.values import Conversation

OWN: Final = "memory-agent"
KINDS: Final = ("chatgpt", "claude", "gemini", "mem0", "langchain", "openai-jsonl", "sharegpt")
_LOOKED_AT: Final = 20
"""Values at the beginning of a file by which it is known."""


def kind_of(value: Any) -> str | None:
    """The kind of a file that begins with this value; None if it is of no kind that can be imported.

    >>> kind_of({"mapping": {}}), kind_of({"conversations": [{"from": "human", "value": "Hello"}]}), kind_of({"id": 1})
    ('chatgpt', 'sharegpt', None)
    """
    if isinstance(value, list):
        return next(filter(None, map(kind_of, value[:_LOOKED_AT])), None)
    if not isinstance(value, dict):
        return None
    match value:
        case {"memory_agent": dict()}:
            return OWN
        case {"mapping": dict()}:
            return "chatgpt"
        case {"chat_messages": list()} | {"conversations_memory": _} | {"project_memories": _}:
            return "claude"
        case {"memory": str()} | {"results": [{"memory": str()}, *_]}:
            return "mem0"
        case {"time": str(), "title": str(), "products": _} | {"time": str(), "title": str(), "header": _}:
            return "gemini"
        case {"type": str(), "data": {"content": _}}:
            return "langchain"
        case {"conversations": [{"from": _}, *_]} | {"messages": [{"from": _}, *_]}:
            return "sharegpt"
        case {"messages": [dict() as first, *_]}:
            return kind_of(first)
        case {"role": role, "content": _} if role_of(role) is not None:
            return "openai-jsonl"
    return None


def read_file(file: ImportFile, source: str, user_id: str) -> Iterator[Conversation | Unreadable]:
    """The conversations of a file. A file of another kind is Unreadable if the caller named it, else passed over.

    `source`: one of KINDS, or "auto".
    """
    try:
        with file.values() as values:
            beginning: list[Any] = []
            for value in itertools.islice(values, _LOOKED_AT):
                beginning.append(value)
                if (kind := kind_of(value)) is not None:
                    break
            else:
                kind = None
            if (why := _refusal(kind, source, beginning)) is not None:
                if file.named or kind is not None:
                    raise InvalidInput(why)
                return
            items = _numbered(itertools.chain(beginning, values), file)
            yield from _read(kind or source, items, user_id)
    except (InvalidInput, ValueError) as exc:
        yield Unreadable(where=str(file), reason=str(exc))


def _refusal(kind: str | None, source: str, beginning: list[Any]) -> str | None:
    if kind == OWN:
        return "is an export of memory_agent; import it by itself, without a user (`service.import_from`)"
    if kind is None:
        broken = next((one.reason for one in beginning if isinstance(one, Unreadable)), None)
        known = f"holds nothing that can be imported; known are {', '.join(KINDS)}"
        return broken or f"{known}. Lines of turns are for `memory-agent ingest`"
    return None if source in ("auto", kind) else f"is of the kind {kind}, not {source}; say so, or auto"


def _numbered(values: Iterator[Any], file: ImportFile) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(values, start=1):
        yield f"{file}, item {number}", value


def _read(kind: str, items: Iterator[tuple[str, Any]], user_id: str) -> Iterator[Conversation | Unreadable]:
    broken: list[Unreadable] = []

    def whole() -> Iterator[tuple[str, Any]]:
        for where, value in items:
            if isinstance(value, Unreadable):
                broken.append(value)
            else:
                yield where, value

    readers: dict[str, Callable[..., Iterator[Conversation | Unreadable]]] = {
        "chatgpt": chatgpt.conversations,
        "claude": claude.conversations,
        "gemini": gemini.conversations,
        "mem0": functools.partial(mem0.memories, user_id=user_id),
    }
    read = readers.get(kind) or functools.partial(messages.conversations, source=kind)
    for found in read(whole()):
        yield from broken
        broken.clear()
        yield found
    yield from broken
