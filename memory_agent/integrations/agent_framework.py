"""A context provider of Microsoft's Agent Framework over a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_framework import ContextProvider

from memory_agent.domain import new_id
from memory_agent.integrations.recall import recalled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agent_framework import AgentSession, Message, SessionContext, SupportsAgentRun

    from memory_agent.integrations.values import Memory


_RUN = "memory_agent_run"


class MemoryProvider(ContextProvider):
    """Recalls before each run, and remembers the exchange after it: `Agent(…, context_providers=[MemoryProvider(…)])`.

    What is recalled is an instruction of that run alone: no session, no history provider and no turn holds it.
    """

    def __init__(
        self,
        memory_of: Callable[[AgentSession], Memory],
        *,
        source_id: str = "memory_agent",
    ) -> None:
        """`memory_of` says whose memory a session uses, such as
        `lambda session: service.agent(session.state["user_id"], session.session_id)`.
        """
        super().__init__(source_id)
        self._memory_of = memory_of

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Add what should be remembered to the instructions; nothing, while the memory is away."""
        context.metadata[_RUN] = new_id()
        shown = context.get_messages(include_input=True)
        question = _said(context.input_messages, "user") or _said(shown, "user")
        text = await recalled(self._memory_of(session), question, shown=(each.text for each in shown))
        if text:  # the framework puts one line break before it
            context.extend_instructions(self.source_id, f"\n{text}")

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Remember what the user said in this run, and the answer. A repeat changes nothing."""
        said = "\n\n".join(_texts(context.input_messages, "user"))
        answer = _said(context.response.messages[-1:] if context.response else (), "assistant")
        if said and answer:  # a run that waits for an approval has none yet
            await self._memory_of(session).update_memory(
                said, answer, idempotency_key=f"agent-framework {context.metadata[_RUN]}"
            )


def _texts(messages: Iterable[Message], role: str) -> list[str]:
    return [text for each in messages if each.role == role and (text := each.text.strip())]


def _said(messages: Iterable[Message], role: str) -> str:
    """The last words of a role; empty where there are none."""
    return next(reversed(_texts(messages, role)), "")
