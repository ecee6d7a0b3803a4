"""Values of a framework kept word for word in turns: what it says is the turn's text, the value itself is in its metadata."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_agent.domain import TurnInput, new_id
from memory_agent.together import together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable, Iterator

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.client.memory import MemoryClient
    from memory_agent.domain import GivenRole, Turn

    Memory = MemoryAgent | MemoryClient

T = TypeVar("T")

_PART_CHARS: Final = 40_000
"""Of a value's JSON in one turn, whose metadata may take 100,000 as Python writes them: what is escaped counts twice there."""
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
    written = json.dumps(value, separators=(",", ":"))
    value_id = new_id()
    parts = [written[at : at + _PART_CHARS] for at in range(0, len(written), _PART_CHARS)]
    return [
        TurnInput(
            role="tool" if n else role,
            content="[continued]" if n else text,
            metadata={**metadata, "value": value_id, "kept": part, "part": n, "parts": len(parts)},
        )
        for n, part in enumerate(parts)
    ]


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
                value = json.loads("".join(part.metadata["kept"] for part in parts))
                yield Kept(value=value, turn=parts[0], turn_ids=tuple(part.id for part in parts))


async def all_turns(memory: Memory) -> list[Turn]:
    """Every turn of the thread, oldest first."""
    turns: list[Turn] = []
    after: int | None = 0
    while after is not None:
        page = await memory.history(after=after, limit=_PAGE)
        turns += page.turns
        after = page.next
    return turns


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
