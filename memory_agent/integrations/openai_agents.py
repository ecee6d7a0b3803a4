"""A session of the OpenAI Agents SDK in a memory, which also recalls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents import SessionSettings

from memory_agent.domain import new_id
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, TurnForgotten
from memory_agent.integrations.shared import (
    all_turns,
    joined,
    last_values,
    recalled,
    to_its_end,
    turns_of,
    values_in,
)
from memory_agent.messages import read_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents import RunContextWrapper, TResponseInputItem
    from agents.run import CallModelData, ModelInputData

    from memory_agent.domain import TurnInput
    from memory_agent.integrations.shared import Memory


class MemorySession:
    """A thread of a memory as a session: `Runner.run(…, session=session, run_config=RunConfig(call_model_input_filter=session.recall))`.

    Every item is a turn: messages by their text, which is searched and from which facts are extracted; calls of tools, their
    results and all else by their names. The item itself, unchanged, is in the turn's metadata.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        memory: Memory | Callable[[Any], Memory],
        *,
        session_id: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """`memory`: a thread, such as `service.agent("ada", "holidays")`, or what makes one of a run's context.

        `session_id`: a name for the SDK; by default the thread's, or "memory". `session_settings`: how many of the last items
        a run is shown at most.
        """
        self._memory = memory
        thread = "memory" if callable(memory) else memory.scope.thread_id
        self.session_id = session_id or thread or "memory"
        self.session_settings = session_settings or SessionSettings()

    def _of(self, context: Any) -> Memory:
        return self._memory(context) if callable(self._memory) else self._memory

    def _of_run(self, wrapper: RunContextWrapper[Any] | None) -> Memory:
        if wrapper is None and callable(self._memory):
            raise InvalidInput("this session's thread is known by a run's context; pass it as wrapper=")
        return self._of(None if wrapper is None else wrapper.context)

    # --- the SDK's protocol ----------------------------------------------------------------------------------
    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """The last `limit` items (default: those of the settings, else all), oldest first."""
        memory = self._of_run(wrapper)
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is None:
            return [kept.value for kept in values_in(await all_turns(memory))]
        return [kept.value for kept in await last_values(memory, max(limit, 0))]

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Remember the items, all of them or none; a run that is cancelled meanwhile waits for it."""
        if turns := [turn for item in items for turn in _turns(dict(item))]:
            await to_its_end(self._of_run(wrapper).add_turns(turns))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Forget the last item and return it; None if there is none. Of two at once each gets one of its own."""
        return await to_its_end(self._pop(self._of_run(wrapper)))

    async def _pop(self, memory: Memory) -> TResponseInputItem | None:
        while last := await last_values(memory, 1):
            claim = await _claim(memory, last[0].turn.id)
            await memory.forget([*last[0].turn_ids, *claim])
            if claim:  # else somebody else was first
                item: TResponseInputItem = last[0].value
                return item
        return None

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Forget the thread, and what was derived from it."""
        await to_its_end(self._of_run(wrapper).clear())

    # --- what a model is told --------------------------------------------------------------------------------
    async def recall(self, data: CallModelData[Any]) -> ModelInputData:
        """The input of a call of the model with what should be remembered after the instructions: for `call_model_input_filter`.

        That call alone sees it; no item holds it. While the memory is away the model answers without.
        """
        said = [_said(dict(item)) for item in data.model_data.input]
        question = next((text for role, text in reversed(said) if role == "user"), "")
        text = await recalled(self._of(data.context), question, shown=[text for _, text in said])
        return replace(data.model_data, instructions=joined(data.model_data.instructions, text) or None)


async def _claim(memory: Memory, turn_id: str) -> list[str]:
    """The turn by which this call pops an item; none if another one did."""
    try:
        turn = await memory.add_turn(
            "tool", "[popped]", metadata={"by": new_id()}, idempotency_key=f"pop {turn_id}"
        )
    except (IdempotencyKeyReused, TurnForgotten):
        return []
    return [turn.id]


def _turns(item: dict[str, Any]) -> list[TurnInput]:
    """The turns that keep an item."""
    role, text = _said(item)
    if role and text:
        return turns_of(role, text, item)  # type: ignore[arg-type]  # read_messages knows the role
    named = " ".join(str(part) for part in (item.get("type", "item"), item.get("name")) if part)
    return turns_of("tool", f"[{named}]", item)


def _said(item: dict[str, Any]) -> tuple[str, str]:
    """The role and the text of a message; empty of anything else."""
    if not item.get("role"):
        return "", ""
    (message,) = read_messages([item])
    return message.role, message.content.strip()
