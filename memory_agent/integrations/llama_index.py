"""LlamaIndex's memory over a memory: a block that recalls and remembers, and a Memory that hands it each message at once."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.memory.memory import DEFAULT_MEMORY_BLOCKS_TEMPLATE
from llama_index.core.prompts import RichPromptTemplate
from pydantic import Field, PrivateAttr

from memory_agent.domain import TurnInput, new_id
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, TurnForgotten, Unavailable
from memory_agent.integrations.shared import Loop, recalled

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)


class MemoryBlock(BaseMemoryBlock[str]):
    """A thread of a memory as a block: `MemoryBlock(memory=service.agent("ada", "holidays"))`, for RememberingMemory.

    In LlamaIndex's own Memory it remembers a message when that is ejected from the history. Made where the memory's event loop runs.
    """

    name: str = "memory_agent"
    memory: Any = Field(exclude=True)
    """A MemoryAgent or MemoryClient."""
    _loop: Loop = PrivateAttr(default_factory=lambda: Loop("MemoryBlock"))
    _owed: dict[str, list[TurnInput]] = PrivateAttr(default_factory=dict)
    """What could not be stored yet, by its idempotency key."""

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        """The context for the user's last words; empty behind an answer, and while the memory is away."""
        said = [(message.role.value, _text(message)) for message in messages or ()]
        if not said or said[-1][0] == "assistant":  # agents read the memory after their answer as well
            return ""
        question = next((text for role, text in reversed(said) if role == "user" and text), "")
        return await self._loop.reach(recalled(self.memory, question, shown=(text for _, text in said)))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Remember what was said: of an agent's messages in a row the last, which is its answer."""
        await self._loop.reach(self._remember(_turns(messages)))

    async def _remember(self, turns: list[TurnInput]) -> None:
        if turns:
            self._owed[f"llama-index {new_id()}"] = turns
        for key, owed in list(self._owed.items()):
            try:
                await self.memory.add_turns(owed, idempotency_key=key)
            except Unavailable as exc:
                log.warning("to be remembered with what is said next: %s", exc)
                return
            except (InvalidInput, TurnForgotten, IdempotencyKeyReused) as exc:
                # It never can be stored, and is not to hold up what follows it.
                log.warning("left out: %s", exc)
            self._owed.pop(key, None)


class _Texts(RichPromptTemplate):  # type: ignore[no-redef]  # of a field that LlamaIndex calls kwargs
    """LlamaIndex's template of memory blocks, which compiles itself at each use: 7 ms of a read. Texts need none of it."""

    def format_messages(self, llm: Any = None, **given: Any) -> list[ChatMessage]:
        told = ["<memory>"]
        for name, blocks in given["memory_blocks"]:
            if not all(isinstance(block, TextBlock) for block in blocks):
                return super().format_messages(llm, **given)
            told += [f"<{name}>", *(block.text for block in blocks), f"</{name}>"]
        return [ChatMessage("\n".join([*told, "</memory>"]))]


class RememberingMemory(Memory):
    """LlamaIndex's Memory, whose MemoryBlocks get each message when it is put: `RememberingMemory.from_defaults(memory_blocks=[…])`."""

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        # Copies: the caller's blocks stay as they are. They have had what is ejected.
        had = {"accept_short_term_memory": False}
        self.memory_blocks = [
            block.model_copy(update=had) if isinstance(block, MemoryBlock) else block
            for block in self.memory_blocks
        ]
        if self.memory_blocks_template is DEFAULT_MEMORY_BLOCKS_TEMPLATE:
            same = DEFAULT_MEMORY_BLOCKS_TEMPLATE.template_str
            self.memory_blocks_template = _Texts(same, template_vars=["memory_blocks"])  # type: ignore[call-arg]  # as above

    def get(self, *args: Any, **kwargs: Any) -> list[ChatMessage]:
        """See `aget`. Raises InvalidInput where an event loop runs, which would wait for itself."""
        _check_no_loop("aget")
        return super().get(*args, **kwargs)

    def put(self, message: ChatMessage) -> None:
        """See `aput`. Raises InvalidInput where an event loop runs, which would wait for itself."""
        _check_no_loop("aput")
        super().put(message)

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """See `aput_messages`. Raises InvalidInput where an event loop runs, which would wait for itself."""
        _check_no_loop("aput_messages")
        super().put_messages(messages)

    async def aput(self, message: ChatMessage) -> None:
        """Add a message to the history, and remember it."""
        await super().aput(message)
        await self._remember([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the history, and remember them."""
        await super().aput_messages(messages)
        await self._remember(messages)

    async def _remember(self, messages: list[ChatMessage]) -> None:
        for block in self._blocks():
            await block.aput(messages)

    def _blocks(self) -> list[MemoryBlock]:
        return [block for block in self.memory_blocks if isinstance(block, MemoryBlock)]


def _check_no_loop(instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InvalidInput(f"an event loop runs here, which the call would wait for; await {instead} instead")


def _turns(messages: Sequence[ChatMessage]) -> list[TurnInput]:
    said = [(message, _text(message)) for message in messages if message.role.value != "system"]
    found, now = [], datetime.now(UTC)  # it may be stored later
    for (message, text), (following, _) in zip(said, [*said[1:], (None, "")], strict=True):
        if text and message.role.value == "user":
            found.append(TurnInput(role="user", content=text, timestamp=now))
        elif text and message.role.value == "assistant":
            calls = any(isinstance(block, ToolCallBlock) for block in message.blocks)
            if not calls and (following is None or following.role.value == "user"):
                found.append(TurnInput(role="assistant", content=text, timestamp=now))
    return found


def _text(message: ChatMessage) -> str:
    return (message.content or "").strip()
