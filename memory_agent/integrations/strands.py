"""A memory store of Strands Agents over a memory."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

from strands.memory import ExtractionConfig, InvocationTrigger, MemoryEntry, MemoryStore

from memory_agent.domain import TurnInput, new_id
from memory_agent.errors import IdempotencyKeyReused, TurnForgotten
from memory_agent.integrations.loop import Loop

if TYPE_CHECKING:
    from strands.memory import AddMessagesContext, SearchOptions
    from strands.types.content import Message

    from memory_agent.domain import Recollection
    from memory_agent.integrations.values import Memory


class StrandsMemoryStore(MemoryStore):
    """A thread of a memory as a store: `Agent(…, memory_manager=MemoryManager(stores=[StrandsMemoryStore(memory)]))`.

    The manager searches it before the model answers the user, and hands it the conversation after each invocation. Made where the
    memory's event loop runs, one for each Agent, whose messages it knows by their numbers.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        name: str = "memory",
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
    ) -> None:
        """`memory`: a thread, such as `service.agent("ada", "holidays")`. `writable=False`: recall only."""
        self.name, self.description, self.max_search_results = name, description, max_search_results
        self.writable = writable
        self.extraction = ExtractionConfig(trigger=[InvocationTrigger()]) if writable else None
        self._memory, self._agent = memory, new_id()
        self._loop = Loop("StrandsMemoryStore")

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Find turns of all the user's threads that answer the query, best first."""
        limit = (options or {}).get("max_search_results", self.max_search_results)
        if not query.strip():
            return []
        return [_entry(each) for each in await self._loop.reach(self._memory.fetch_long_term(query, limit))]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> None:
        """Remember a text that the model or the application wants kept."""
        await self._loop.reach(self._memory.add_turn("assistant", content, metadata=metadata))

    async def add_messages(self, messages: list[Message], context: AddMessagesContext | None = None) -> None:
        """Remember what was said: of an agent's messages in a row the last, which is its answer. A repeat changes nothing."""
        numbers = (context and context.sequence_numbers) or itertools.repeat(None)
        said = [(number, message["role"], _text(message)) for number, message in zip(numbers, messages)]  # noqa: B905 - repeat never ends
        said = [each for each in said if each[2]]
        for at, (number, role, text) in enumerate(said):
            if role == "assistant" and said[at + 1 : at + 2] and said[at + 1][1] == "assistant":
                continue  # words before a call of a tool
            key = None if number is None else f"strands {self._agent} {number}"
            turn = TurnInput(role=role, content=text)
            with contextlib.suppress(IdempotencyKeyReused, TurnForgotten):
                await self._loop.reach(self._memory.add_turns([turn], idempotency_key=key))


def _text(message: Message) -> str:
    return "\n".join(block["text"] for block in message["content"] if "text" in block).strip()


def _entry(found: Recollection) -> MemoryEntry:
    turn = found.turn
    said = f"[{turn.timestamp:%Y-%m-%d}] {turn.speaker or turn.role}: {turn.content}"
    return MemoryEntry(
        content=said,
        metadata={"turn_id": turn.id, "thread_id": turn.thread_id, "confidence": found.confidence},
    )
