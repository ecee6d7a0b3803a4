"""What the adapters share: values of a framework in turns, recalling for a prompt, and the loop that a memory lives on.

A value is kept word for word: what it says is the turn's text, the value itself is in its metadata. The texts of a value
stand apart from its frame of ids, kinds and times, so that what is redacted before storing is the texts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_agent.concurrency import together
from memory_agent.domain import VERBATIM, TurnInput, new_id
from memory_agent.errors import InvalidInput, NotFound, NotOpen, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.client.memory import MemoryClient
    from memory_agent.client.service import ServiceClient
    from memory_agent.domain import GivenRole, ThreadsPage, ThreadSummary, Turn
    from memory_agent.service import MemoryService

    Memory = MemoryAgent | MemoryClient
    Service = MemoryService | ServiceClient


T = TypeVar("T")

_PART_CHARS: Final = 40_000
"""Of a value in one turn, whose metadata may take 100,000 as Python writes them: what is escaped counts twice there."""
_FRAME: Final = frozenset(
    {
        *("id", "type", "role", "kind", "status", "name", "timestamp", "revision", "branches", "forked_from"),
        *("threads", "scope", "encrypted_content", "signature", "thought_signature"),
        *("data", "image_url", "file_data", "url"),
    }
)
"""What a framework has to know again, and bytes and addresses of files: fields that hold no text."""
_FRAME_ENDS: Final = ("_id", "_kind", "_type", "_name", "_at")
_FREE: Final = frozenset({"args", "metadata", "attributes"})
"""What tools and applications put in, whose fields may be called anything."""
_BYTES: Final = frozenset({"kind", "media_type", "data", "identifier"})
"""Of a file in a message of Pydantic AI, which may stand in what a tool returned."""
_UNSTORABLE: Final = re.compile("[\\ud800-\\udfff\\ue000]")
_ESCAPED: Final = re.compile("\\ue000([0-9a-f]{4})")
_PAGE: Final = 1_000
AT_ONCE: Final = 16
"""Calls that are made side by side."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A value, the turn that says it, and all turns that keep it."""

    value: Any
    turn: Turn
    turn_ids: tuple[str, ...]


def turns_of(role: GivenRole, text: str, value: Any, **metadata: Any) -> list[TurnInput]:
    """The turns that keep a value of JSON: one, or several of a large one."""
    texts: list[str] = []

    def apart(each: str) -> str:
        texts.append(_escaped(each))
        return ""

    frame = json.dumps(_with_texts(value, apart), separators=(",", ":"))
    parts: list[dict[str, Any]] = []
    room = 0
    for n, whole in enumerate([frame, *texts]):
        for piece in _pieces(whole):
            size = len(repr([n, piece])) + 2
            if size > room:
                parts.append({"kept": "", VERBATIM: []})
                room = _PART_CHARS
            room -= size
            if n:
                parts[-1][VERBATIM].append([n, piece])
            else:
                parts[-1]["kept"] += piece
    value_id = new_id()
    return [
        TurnInput(
            role="tool" if n else role,
            content="[continued]" if n else text,
            metadata={**metadata, "value": value_id, **part, "part": n, "parts": len(parts)},
        )
        for n, part in enumerate(parts)
    ]


def _escaped(text: str) -> str:
    """The text without what no store takes, halves of characters."""
    return _UNSTORABLE.sub(lambda found: f"\ue000{ord(found[0]):04x}", text)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that fit into a turn. What redacts puts them together before."""
    at = 0
    while True:
        piece = text[at : at + _PART_CHARS - 2]
        while (size := len(repr(piece))) > _PART_CHARS:
            piece = piece[: len(piece) * _PART_CHARS // size]
        at += len(piece)
        yield piece
        if at >= len(text):
            return


def _with_texts(value: Any, change: Callable[[str], str], key: str = "", *, framed: bool = True) -> Any:
    """The value with each of its texts changed, always in the same order.

    Not `framed`: below one of _FREE.
    """
    if isinstance(value, dict):
        free = _FREE | {"content"} if "tool_name" in value else _FREE
        kept: Iterable[str] = ()
        if value.get("kind") == "binary" and value.keys() >= {"media_type", "data"}:
            kept = _BYTES
        elif framed and value.get("type") == "image_generation_call":
            kept = ("result",)
        return {
            name: inner
            if name in kept
            else _with_texts(inner, change, name, framed=framed and name not in free)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_texts(inner, change, key, framed=framed) for inner in value]
    if not isinstance(value, str) or (framed and (key in _FRAME or key.endswith(_FRAME_ENDS))):
        return value
    return change(value)


def values_in(turns: Iterable[Turn]) -> Iterator[Kept]:
    """The values that are whole in these turns, in order; turns that keep none are passed over.

    Parts of several that two processes wrote at once may stand between each other.
    """
    begun: dict[str, list[Turn]] = {}
    for turn in turns:
        if "kept" not in turn.metadata:
            continue
        parts = begun.setdefault(turn.metadata["value"], [])
        if turn.metadata["part"] == len(parts):
            parts.append(turn)
            if len(parts) == turn.metadata["parts"]:
                value = _joined([part.metadata for part in parts])
                yield Kept(value=value, turn=parts[0], turn_ids=tuple(part.id for part in parts))


def _joined(parts: list[Mapping[str, Any]]) -> Any:
    texts: dict[int, list[str]] = {}
    for n, piece in (each for part in parts for each in part[VERBATIM]):
        texts.setdefault(n, []).append(piece)
    left = (_ESCAPED.sub(lambda found: chr(int(found[1], 16)), "".join(each)) for each in texts.values())
    return _with_texts(json.loads("".join(part["kept"] for part in parts)), lambda _: next(left))


async def turns_in(memory: Memory, start: int = 0, *, at_once: int = _PAGE) -> AsyncIterator[Turn]:
    """The turns of the thread behind number `start`, oldest first, read `at_once` at a time."""
    after: int | None = start
    while after is not None:
        page = await memory.history(after=after, limit=at_once)
        for turn in page.turns:
            yield turn
        after = page.next


async def all_turns(memory: Memory) -> list[Turn]:
    """Every turn of the thread, oldest first."""
    return [turn async for turn in turns_in(memory)]


async def threads_in(threads: Callable[..., Awaitable[ThreadsPage]]) -> AsyncIterator[ThreadSummary]:
    """A user's threads as `threads` gives them by pages; none if nothing is remembered of the user (any more)."""
    after: str | None = None
    while True:
        try:
            page = await threads(after=after, limit=_PAGE)
        except NotFound:
            return
        for thread in page.threads:
            yield thread
        if (after := page.next) is None:
            return


def compares(
    value: object, test: Mapping[str, Any], operators: Mapping[str, Callable[[Any, Any], bool]]
) -> bool:
    """True if a value is to all others as the `operators` that `test` names them by say.

    Raises InvalidInput for one that there is not.
    """
    for name in test:  # all of them first: whether one is refused must not depend on the value
        if name not in operators:
            raise InvalidInput(
                f"Unsupported filter operator: {name!r:.40}; use one of {', '.join(operators)}"
            )
    for name, other in test.items():
        try:
            if not operators[name](value, other):
                return False
        except TypeError:  # a missing value, or text and a number, have no order
            return False
    return True


async def last_values(memory: Memory, limit: int) -> list[Kept]:
    """The last so many values of the thread, oldest first."""
    read = limit
    while limit:
        turns = await memory.fetch_short_term(read)
        kept = list(values_in(turns))
        if len(kept) >= limit or len(turns) < read:
            return kept[-limit:]
        read *= 2  # some turns are further parts of a value, or keep none
    return []


async def to_its_end(call: Awaitable[T]) -> T:
    """Await a change to its end even if the caller is cancelled meanwhile, who then knows that it is made."""
    task = asyncio.ensure_future(call)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        raise cancelled
    return task.result()


async def side_by_side(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await the calls, a limited number at a time; what they return, in order."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(call: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await call

    return await together(*map(one, calls))


# --- what a model is told of before it answers ---------------------------------------------------------------
log = logging.getLogger(__name__)


async def recalled(memory: Memory, question: str, *, shown: Iterable[str] = ()) -> str:
    """The context for a question, as text; empty while the memory is away, with a warning.

    `shown`: the texts of messages that the model is shown anyway. If the thread's last turns are all among them, the context
    leaves them out; else the framework shows less than the memory has.
    """
    if not question.strip():
        return ""
    try:
        last = await memory.fetch_short_term()
        sent = "\n\n".join(filter(None, map(str.strip, shown)))
        repeats = all(turn.role == "tool" or turn.content.strip() in sent for turn in last)
        return str(await memory.fetch_memory(question, window=not repeats, include=()))
    except Unavailable as exc:
        log.warning("answering without memory: %s", exc)
        return ""


def joined(*parts: str | None) -> str:
    """The parts that say anything, with an empty line between them: instructions first, so that their beginning stays the same."""
    return "\n\n".join(part for part in parts if part)


# --- calls from other threads and loops ----------------------------------------------------------------------
class Loop:
    """The event loop on which the memory lives, for calls from anywhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise NotOpen(
                f"{what} is made where the memory's event loop runs, in an async function"
            ) from None

    async def reach(self, call: Coroutine[Any, Any, T]) -> T:
        """Await the call on the memory's loop."""
        if asyncio.get_running_loop() is self._loop:
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for the call from another thread.

        Raises InvalidInput on a thread with a loop, which it would hold up.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        call.close()
        raise InvalidInput(
            f"{self._what} was asked without await on an event loop's own thread; use its async methods"
        )
