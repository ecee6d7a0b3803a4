"""Pydantic AI's capability over a memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import DeferredToolRequests
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart
from pydantic_core import to_json

from memory_agent.integrations.pydantic_ai.messages import said_by_model, said_by_user
from memory_agent.integrations.recall import recalled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai import AgentRunResult, RunContext
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext

    from memory_agent.integrations.values import Memory


class MemoryCapability(AbstractCapability[Any]):
    """Recalls before each request to the model, and remembers the exchange after the run: `Agent(…, capabilities=[…])`.

    What is recalled is a system prompt of that request alone: no history, no store and no turn holds it.
    """

    def __init__(self, memory_of: Callable[[RunContext[Any]], Memory], *, remember: bool = True) -> None:
        """`memory_of` says whose memory a run uses, such as `lambda run: service.agent(run.deps.user_id, run.conversation_id)`.

        `remember=False`: where a MemoryConversationStore keeps the messages, which remembers them.
        """
        self._memory_of, self._remember = memory_of, remember

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add what should be remembered; nothing, while the memory is away."""
        messages = request_context.messages
        question = next(filter(None, map(said_by_user, reversed(messages))), "")
        shown = [*map(said_by_user, messages), *map(said_by_model, messages)]
        text = await recalled(self._memory_of(ctx), question, shown=shown)
        return replace(request_context, messages=_with(messages, text)) if text else request_context

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Remember what the user said since the last answer, and this one. A repeat changes nothing."""
        answer = _answer(result.output)
        said = _unanswered(result.all_messages())
        if self._remember and said and answer:
            await self._memory_of(ctx).update_memory(
                "\n\n".join(said), answer, idempotency_key=f"pydantic-ai {result.run_id}"
            )
        return result


def _with(messages: list[ModelMessage], text: str) -> list[ModelMessage]:
    """The messages with a system prompt more, behind those that the first one begins with; they themselves stay as they are."""
    first, *others = messages
    if not isinstance(first, ModelRequest):
        return [ModelRequest([SystemPromptPart(text)]), *messages]
    parts = sorted(  # which leaves all others in their order
        [*first.parts, SystemPromptPart(text)], key=lambda part: not isinstance(part, SystemPromptPart)
    )
    return [replace(first, parts=parts), *others]


def _answer(output: object) -> str:
    """The answer as text: a structured one as JSON; empty for a run that waits for its tools."""
    if isinstance(output, DeferredToolRequests):
        return ""
    return output.strip() if isinstance(output, str) else to_json(output, fallback=str).decode()


def _unanswered(messages: Sequence[ModelMessage]) -> list[str]:
    """What the user said since the answer before the last one, oldest first; a run that was cancelled left some."""
    said: list[str] = []
    run_id: str | None = None
    for message in reversed(messages):
        # A structured answer of an earlier run is a call of a tool.
        is_over = said_by_model(message) or (isinstance(message, ModelResponse) and message.run_id != run_id)
        if said and is_over:
            break
        if text := said_by_user(message):
            said.append(text)
            run_id = message.run_id
    return said[::-1]
