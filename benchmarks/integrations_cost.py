"""Processor time that each framework's adapter adds to a turn: agents with and without it, a model that answers at once.

.frameworks/bin/python -m benchmarks.integrations_cost --turns 50
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agents
from agent_framework import Agent as FrameworkAgent
from agent_framework import BaseChatClient, ChatResponse, Message
from google.adk.agents import Agent as AdkAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner as AdkRunner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.memory import Memory as Notebook
from pydantic_ai_harness.memory import MemoryOperation
from strands import Agent as StrandsAgent
from strands.memory import MemoryManager
from strands.models import Model as StrandsModel

from memory_agent import MemoryConfig, MemoryService
from memory_agent.integrations.adk import AdkMemoryService
from memory_agent.integrations.agent_framework import MemoryProvider
from memory_agent.integrations.langgraph import MemoryMiddleware, MemoryStore
from memory_agent.integrations.llama_index import MemoryBlock, RememberingMemory
from memory_agent.integrations.openai_agents import MemorySession
from memory_agent.integrations.pydantic_ai import MemoryCapability, MemoryConversationStore
from memory_agent.integrations.pydantic_ai_harness import HarnessMemoryStore
from memory_agent.integrations.strands import StrandsMemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

    Turn = Callable[[int], Awaitable[Any]]


def said(n: int) -> str:
    return f"Bed {n} of the garden gets beans and peas"


# --- an agent of each framework, alone and with a memory of its own -----------------------------------------------------
def langchain_turn(service: MemoryService | None) -> Turn:
    answers: Iterator[Any] = (AIMessage(f"Noted {n}") for n in range(1_000_000))
    middleware = [MemoryMiddleware(lambda _: service.agent("langchain", "t"))] if service else []
    agent: Any = create_agent(GenericFakeChatModel(messages=answers), middleware=middleware)
    return lambda n: agent.ainvoke({"messages": [("user", said(n))]})


class _AtOnce(agents.Model):
    async def get_response(self, *_: Any, **__: Any) -> agents.ModelResponse:
        text = ResponseOutputText(text="Noted", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="m", role="assistant", status="completed", type="message", content=[text]
        )
        return agents.ModelResponse(output=[message], usage=agents.Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def openai_turn(service: MemoryService | None) -> Turn:
    agents.set_tracing_disabled(True)
    agent = agents.Agent(name="Helper", model=_AtOnce())

    def turn(n: int) -> Awaitable[Any]:
        if service is None:
            return agents.Runner.run(agent, said(n))
        session = MemorySession(service.agent("openai", str(n)))
        config = agents.RunConfig(call_model_input_filter=session.recall)
        return agents.Runner.run(agent, said(n), session=session, run_config=config)

    return turn


def pydantic_turn(service: MemoryService | None) -> Turn:
    capabilities = [MemoryCapability(lambda _: service.agent("pydantic", "t"))] if service else []
    agent = PydanticAgent(TestModel(custom_output_text="Noted"), capabilities=capabilities)
    return lambda n: agent.run(said(n))


def pydantic_store_turn(service: MemoryService | None) -> Turn:
    agent = PydanticAgent(TestModel(custom_output_text="Noted"))

    async def turn(n: int) -> None:
        result = await agent.run(said(n), conversation=Conversation(conversation_id=f"store {n}"))
        if service is not None:
            store = MemoryConversationStore(service, "store")
            await store.save(result)
            await store.load(f"store {n}")

    return turn


def harness_turn(service: MemoryService | None) -> Turn:
    """Each with a note that is shown and none that is written."""
    notebook: list[Any] = [Notebook(HarnessMemoryStore(service, "harness"))] if service else []
    model = TestModel(custom_output_text="Noted", call_tools=[])
    agent = PydanticAgent(model, capabilities=notebook)

    async def turn(n: int) -> None:
        if service is not None and n == 0:
            await HarnessMemoryStore(service, "harness").write(
                "main/MEMORY.md", "Beans", expected_version=None
            )
        await agent.run(said(n))

    return turn


class _GeminiAtOnce(BaseLlm):
    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Noted")]))


async def _remember(callback_context: Any) -> None:
    await callback_context.add_session_to_memory()


def adk_turn(service: MemoryService | None) -> Turn:
    agent = AdkAgent(
        name="helper",
        model=_GeminiAtOnce(model="none"),
        tools=[PreloadMemoryTool()] if service else [],
        after_agent_callback=_remember if service else None,
    )
    sessions = InMemorySessionService()
    memory = AdkMemoryService(service) if service else None
    runner = AdkRunner(app=App(name="a", root_agent=agent), session_service=sessions, memory_service=memory)

    async def turn(n: int) -> None:
        await sessions.create_session(app_name="a", user_id="ada", session_id=str(n))
        message = types.Content(role="user", parts=[types.Part(text=said(n))])
        async for _ in runner.run_async(user_id="ada", session_id=str(n), new_message=message):
            pass

    return turn


class _StrandsAtOnce(StrandsModel):
    def update_config(self, **_: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "Noted"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def strands_turn(service: MemoryService | None) -> Turn:
    stores: list[Any] = [StrandsMemoryStore(service.agent("strands", "t"))] if service else []
    manager = MemoryManager(stores=stores) if stores else None

    async def turn(n: int) -> None:
        agent = StrandsAgent(model=_StrandsAtOnce(), callback_handler=None, memory_manager=manager)
        await agent.invoke_async(said(n))
        if manager is not None:
            await manager.flush()

    return turn


class _FrameworkAtOnce(BaseChatClient[Any]):
    async def _inner_get_response(self, **_: Any) -> ChatResponse:
        return ChatResponse(messages=[Message(role="assistant", contents=["Noted"])])


def agent_framework_turn(service: MemoryService | None) -> Turn:
    providers = [MemoryProvider(lambda _: service.agent("framework", "t"))] if service else []
    agent: Any = FrameworkAgent(_FrameworkAtOnce(), context_providers=providers)
    return lambda n: agent.run(said(n), session=agent.create_session())


def llama_index_turn(service: MemoryService | None) -> Turn:
    agent = FunctionAgent(llm=MockFunctionCallingLLM())

    async def turn(n: int) -> None:
        blocks: list[Any] = [MemoryBlock(memory=service.agent("llama", "t"))] if service else []
        kind = RememberingMemory if service else Memory
        await agent.run(said(n), memory=kind.from_defaults(memory_blocks=blocks))

    return turn


# --- the table -----------------------------------------------------------------------------------------------
async def measured(turn: Turn, turns: int) -> float:
    """Milliseconds of processor time a turn; the first loads what is loaded once."""
    await turn(turns)
    started = time.process_time()
    for n in range(turns):
        await turn(n)
    return (time.process_time() - started) / turns * 1000


async def main(turns: int) -> None:
    logging.disable(logging.WARNING)  # ADK misses tokens that nobody counted
    with tempfile.TemporaryDirectory() as folder:
        cfg = MemoryConfig(data_dir=Path(folder), run_worker=False, enable_fact_extraction=False)
        async with MemoryService(cfg) as service:
            memory, store = service.agent("calls", "t"), MemoryStore(service)

            async def two_calls(n: int) -> None:
                await memory.fetch_memory(said(n))
                await memory.update_memory(said(n), "Noted")

            print("ms of processor time a turn               alone   with memory")
            for name, made in (
                ("LangChain agent, MemoryMiddleware", langchain_turn),
                ("OpenAI agent, MemorySession", openai_turn),
                ("Pydantic AI agent, MemoryCapability", pydantic_turn),
                ("Pydantic AI agent, MemoryConversationStore", pydantic_store_turn),
                ("Pydantic AI agent, HarnessMemoryStore", harness_turn),
                ("ADK agent, AdkMemoryService", adk_turn),
                ("Strands agent, StrandsMemoryStore", strands_turn),
                ("Agent Framework agent, MemoryProvider", agent_framework_turn),
                ("LlamaIndex agent, MemoryBlock", llama_index_turn),
            ):
                alone, remembering = await measured(made(None), turns), await measured(made(service), turns)
                print(f"{name:42}{alone:6.1f}{remembering:14.1f}")
            print(f"{'fetch_memory and update_memory':42}{await measured(two_calls, turns):20.1f}")
            notes = HarnessMemoryStore(service, "notes")

            async def noted(n: int) -> None:
                operation = MemoryOperation(id=f"{n}", fingerprint="f")
                await notes.get_operation(operation)  # as the harness' tool does first
                before = await notes.read("main/MEMORY.md", max_chars=1)
                await notes.write(
                    "main/MEMORY.md",
                    said(n),
                    expected_version=before.version if before else None,
                    operation=operation,
                )

            calls: tuple[tuple[str, Turn], ...] = (
                ("HarnessMemoryStore, a note", noted),
                ("MemoryStore.aput, new", lambda n: store.aput(("n",), f"k{n}", {"text": said(n)})),
                ("MemoryStore.aput, update", lambda n: store.aput(("n",), f"k{n}", {"text": f"New: {n}"})),
                ("MemoryStore.aget", lambda n: store.aget(("n",), f"k{n}")),
                ("MemoryStore.asearch", lambda n: store.asearch(("n",), query=said(n))),
            )
            for name, call in calls:
                print(f"{name:42}{await measured(call, turns):20.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50)
    asyncio.run(main(parser.parse_args().turns))
