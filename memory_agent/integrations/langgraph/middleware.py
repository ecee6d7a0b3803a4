"""LangChain's middleware over a memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from memory_agent.integrations.loop import Loop
from memory_agent.integrations.recall import joined, recalled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import AgentState, ModelRequest, ModelResponse
    from langchain_core.messages import AnyMessage
    from langgraph.runtime import Runtime

    from memory_agent.integrations.values import Memory


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Recalls before each call of the model, and remembers the exchange after the run. For `ainvoke` and `astream`.

    What is recalled goes into the system message of that request alone: no state, no checkpoint and no turn holds it.
    """

    def __init__(self, memory_of: Callable[[Runtime[Any]], Memory]) -> None:
        """`memory_of` says whose memory a run uses, such as
        `lambda run: service.agent(run.context.user_id, run.execution_info.thread_id)`.
        """
        super().__init__()
        self._loop = Loop("MemoryMiddleware")
        self._memory_of = memory_of

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with what it should remember; without, while the memory is away."""
        question = next((_said(each) for each in reversed(request.messages) if _is_users(each)), "")
        shown = map(_said, request.messages)
        text = await self._loop.reach(recalled(self._memory_of(request.runtime), question, shown=shown))
        if text:
            request = request.override(system_message=_with(request.system_message, text))
        return await handler(request)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Remember what was said since the last answer, and this one. A repeat changes nothing."""
        schema = type(state.get("structured_response")).__name__
        said, answer = _exchange(state["messages"], schema)
        if said and answer is not None:
            await self._loop.reach(
                self._memory_of(runtime).update_memory(
                    "\n\n".join(_said(each) for each in said),
                    _said(answer) or _structured(answer, schema),
                    idempotency_key=f"langchain {said[-1].id} {answer.id}",
                )
            )


def _with(given: SystemMessage | None, text: str) -> SystemMessage:
    """The application's system message with what was recalled after it; its beginning stays as prompt caches know it."""
    own = given.content if given else ""
    if isinstance(own, str):
        return SystemMessage(joined(own, text))
    return SystemMessage([*own, {"type": "text", "text": text}])


def _is_users(message: AnyMessage) -> bool:
    """True for what the user said; SummarizationMiddleware writes what it sums up as if it were the user."""
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs


def _said(message: AnyMessage) -> str:
    return str(message.text).strip()


def _structured(message: AIMessage, schema: str) -> str:
    """The answer in a call of the schema's tool, by which ToolStrategy has a model answer."""
    return next((json.dumps(call["args"]) for call in message.tool_calls if call["name"] == schema), "")


def _exchange(messages: Sequence[AnyMessage], schema: str) -> tuple[list[AnyMessage], AIMessage | None]:
    """The last answer, and the user's messages that no answer stands between; a run that was cancelled left some."""
    answer: AIMessage | None = None
    said: list[AnyMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage) and (
            (_said(message) and not message.tool_calls) or _structured(message, schema)
        ):
            if answer is not None or said:
                break
            answer = message
        elif _is_users(message) and _said(message):
            said.append(message)
    return said[::-1], answer
