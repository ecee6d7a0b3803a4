"""LangChain's agents with the middleware: the framework's own loop, a real HTTP server as the model."""

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, SecretStr

from memory_agent import HybridMemoryStrategy, MemoryService
from memory_agent.integrations.langgraph import MemoryMiddleware
from tests.frameworks.pages import calling, said, streamed
from tests.frameworks.talks import CAT, KEY, Talk, TalksWithHistory
from tests.over_http import embedded_only
from tests.servers.openai_script import ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")


@dataclass
class Person:
    user_id: str


OPEN: list[httpx.AsyncClient] = []
"""The connections of this test: the model would share its own with tests on other event loops."""


@pytest.fixture(autouse=True)
async def connections() -> AsyncIterator[None]:
    async with httpx.AsyncClient() as http:
        OPEN[:] = [http]
        yield


def model(server: ScriptedOpenAI) -> ChatOpenAI:
    return ChatOpenAI(
        model="scripted",
        base_url=server.base_url,
        api_key=SecretStr("none"),
        max_retries=0,
        http_async_client=OPEN[0],
    )


def agent_of(
    service: MemoryService, server: ScriptedOpenAI, *tools: Any, first: Sequence[Any] = (), **how: Any
) -> Any:
    def memory_of(run: Any) -> Any:
        return service.agent(run.context.user_id, run.execution_info.thread_id)

    return create_agent(
        model(server),
        list(tools),
        system_prompt="Answer briefly.",
        middleware=[*first, MemoryMiddleware(memory_of)],
        context_schema=Person,
        checkpointer=InMemorySaver(),
        **how,
    )


async def say(agent: Any, text: str, *, user: str = "ada", thread: str = "t") -> Any:
    return await agent.ainvoke(
        {"messages": [("user", text)]}, {"configurable": {"thread_id": thread}}, context=Person(user)
    )


async def test_a_stream_is_remembered_once_and_whole_when_it_was_read_to_its_end(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(streamed("It snows in Oslo."), streamed("Nobody hears this."), "Still.")
    agent = agent_of(service, openai_server)
    how: Any = {"stream_mode": "messages", "context": Person("ada")}

    def stream(text: str, thread: str) -> Any:
        return agent.astream({"messages": [("user", text)]}, {"configurable": {"thread_id": thread}}, **how)

    parts = [part async for part in stream("How is it?", "t")]
    assert len(parts) > 3
    left = stream("And now?", "left")
    await anext(left)
    await left.aclose()
    assert await said(service) == [("user", "How is it?"), ("assistant", "It snows in Oslo.")]
    assert await said(service, thread="left") == []


def system_of(request: dict[str, Any]) -> str:
    return str(request["messages"][0]["content"])


@pytest.fixture
async def talk(service: MemoryService, openai_server: ScriptedOpenAI) -> Talk:
    return Talk(functools.partial(say, agent_of(service, openai_server)), openai_server)


class TestTalks(TalksWithHistory):
    after_cancelled = (("user", f"{KEY}\n\n{CAT}"), ("assistant", "Noted."))


async def test_nothing_that_was_injected_is_stored_or_becomes_a_fact(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    await service.agent("ada", "old").update_memory("My name is Ada and I live in Oslo.", "Hello.")
    await service.settle()
    before = await service.agent("ada", "old").fetch_facts()
    openai_server.then("You live in the north.")
    result = await say(agent_of(service, openai_server), "Where do I live?")
    system = system_of(openai_server.chats[-1])
    assert system.startswith("Answer briefly.")
    assert "Oslo" in system
    await service.settle()
    assert await said(service) == [("user", "Where do I live?"), ("assistant", "You live in the north.")]
    assert "Oslo" not in str(result)
    assert await service.agent("ada", "t").fetch_facts(scope="thread") == {}
    assert await service.agent("ada", "old").fetch_facts() == before


async def test_a_run_that_is_repeated_stores_nothing_twice(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then("Noted.")
    agent = agent_of(service, openai_server)
    state = await say(agent, "I like trams.")
    run: Any = type("Run", (), {})()
    (middleware,) = [MemoryMiddleware(lambda _: service.agent("ada", "t"))]
    await asyncio.gather(*(middleware.aafter_agent(state, run) for _ in range(3)))
    assert await said(service) == [("user", "I like trams."), ("assistant", "Noted.")]


async def test_with_tools_the_question_and_the_last_answer_are_remembered(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"snow in {city}"

    openai_server.then(calling("weather", '{"city": "Oslo"}'), "It snows.")
    await say(agent_of(service, openai_server, weather), "How is it in Oslo?")
    assert await said(service) == [("user", "How is it in Oslo?"), ("assistant", "It snows.")]


@embedded_only("a strategy works without a service")
async def test_the_strategy_takes_a_langchain_model(openai_server: ScriptedOpenAI) -> None:
    openai_server.then("They planned a garden.")
    strategy = HybridMemoryStrategy(llm=model(openai_server))
    messages = [("user" if n % 2 == 0 else "assistant", f"Garden bed {n} gets beans") for n in range(40)]
    context = await strategy.prepare_context(messages, "What grows where?")
    assert "They planned a garden." in context[0][1]


class City(BaseModel):
    """A city."""

    name: str


async def test_an_answer_by_a_schema_is_remembered_as_json(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(
        calling("City", '{"name": "Lisbon"}'), calling("City", '{"name": "Oslo"}', call_id="second")
    )
    agent = agent_of(service, openai_server, response_format=ToolStrategy(City))
    await say(agent, "Where does Ida live?")
    await say(agent, "Where does Bo live?")
    assert await said(service) == [
        ("user", "Where does Ida live?"),
        ("assistant", '{"name": "Lisbon"}'),
        ("user", "Where does Bo live?"),
        ("assistant", '{"name": "Oslo"}'),
    ]


async def test_a_summary_of_the_conversation_is_not_remembered_as_the_user_s_words(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then("Noted.", "They like trams.", "Sure.")
    summing = SummarizationMiddleware(
        model=model(openai_server), trigger=("messages", 3), keep=("messages", 1)
    )
    agent = agent_of(service, openai_server, first=[summing])
    await say(agent, "I like trams.")
    await say(agent, "I like boats.")
    assert "They like trams." in str(openai_server.chats[-1])
    assert [text for role, text in await said(service) if role == "user"] == [
        "I like trams.",
        "I like boats.",
    ]


async def test_an_agent_on_another_loop_reaches_the_memory_and_leaves_it_whole(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then("Noted.")
    remembers = MemoryMiddleware(lambda run: service.agent(run.context.user_id, "t"))

    async def run() -> None:
        async with httpx.AsyncClient() as http:
            OPEN[:] = [http]
            agent: Any = create_agent(model(openai_server), middleware=[remembers], context_schema=Person)
            await agent.ainvoke({"messages": [("user", "I like cats.")]}, context=Person("ada"))

    await asyncio.to_thread(lambda: asyncio.run(run()))
    assert await said(service) == [("user", "I like cats."), ("assistant", "Noted.")]
