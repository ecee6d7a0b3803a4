"""Pydantic AI's agents with the capability: the framework's own loop, a real HTTP server as the model."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from memory_agent import MemoryService
from memory_agent.integrations.pydantic_ai import MemoryCapability, MemoryConversationStore
from tests.frameworks.pages import calling, recalled_and_kept_apart, said, sent_to, streamed
from tests.frameworks.talks import CAT, Talk, TalksWithHistory
from tests.servers.openai_script import ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")


@dataclass
class Person:
    user_id: str = "ada"


@pytest.fixture
async def model(openai_server: ScriptedOpenAI) -> AsyncIterator[OpenAIChatModel]:
    async with AsyncOpenAI(base_url=openai_server.base_url, api_key="none", max_retries=0) as client:
        yield OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))


@pytest.fixture
def agent(service: MemoryService, model: OpenAIChatModel) -> Agent[Person, str]:
    return agent_of(service, model)


def agent_of(service: MemoryService, model: OpenAIChatModel, **how: Any) -> Agent[Person, Any]:
    remember = how.pop("remember", True)
    capability = MemoryCapability(
        lambda run: service.agent(run.deps.user_id, str(run.conversation_id)), remember=remember
    )
    agent = Agent(model, deps_type=Person, instructions="Answer briefly.", capabilities=[capability], **how)

    @agent.tool
    def weather(run: RunContext[Person], city: str) -> str:
        """The weather in a city."""
        return f"snow in {city}"

    return agent


async def say(
    agent: Agent[Person, Any], text: str, *, user: str = "ada", thread: str = "t", **how: Any
) -> Any:
    return await agent.run(text, deps=Person(user), conversation_id=thread, **how)


@pytest.fixture
def talk(agent: Agent[Person, str], openai_server: ScriptedOpenAI) -> Talk:
    shown: dict[str, Any] = {}

    async def say_on(text: str, *, user: str = "ada", thread: str = "t") -> None:
        result = await say(agent, text, user=user, thread=thread, message_history=shown.get(thread))
        shown[thread] = result.all_messages()

    return Talk(say_on, openai_server)


class TestTalks(TalksWithHistory):
    after_cancelled = (("user", CAT), ("assistant", "Noted."))


async def test_nothing_that_was_recalled_is_stored_or_becomes_a_fact(
    service: MemoryService, agent: Agent[Person, str], openai_server: ScriptedOpenAI
) -> None:
    async with recalled_and_kept_apart(service):
        openai_server.then(calling("weather", '{"city": "Bergen"}'), "You live in the north.", "Yes.")
        first = await say(agent, "Where do I live?")
        second = await say(agent, "Really?", message_history=first.all_messages())
        assert all("Oslo" in sent for sent in sent_to(openai_server))
        assert "Oslo" not in str(second.all_messages())
        roles = [message["role"] for message in openai_server.chats[0]["messages"]]
        assert roles == ["system", "system", "user"]


async def test_a_structured_answer_is_remembered_as_json(
    service: MemoryService, model: OpenAIChatModel, openai_server: ScriptedOpenAI
) -> None:
    class City(BaseModel):
        name: str

    openai_server.then(calling("final_result", '{"name": "Lisbon"}'))
    await say(agent_of(service, model, output_type=City), "Where does Ida live?")
    assert await said(service) == [("user", "Where does Ida live?"), ("assistant", '{"name":"Lisbon"}')]


@pytest.mark.parametrize("way", ["run_stream", "iter"])
async def test_a_stream_is_remembered_once_and_whole(
    service: MemoryService, agent: Agent[Person, str], openai_server: ScriptedOpenAI, way: str
) -> None:
    openai_server.then(streamed("It snows in Oslo.") if way == "run_stream" else "It snows in Oslo.")
    how: Any = {"deps": Person(), "conversation_id": "t"}
    if way == "run_stream":
        async with agent.run_stream("How is it?", **how) as result:
            assert await result.get_output() == "It snows in Oslo."
    else:
        async with agent.iter("How is it?", **how) as run:
            async for _ in run:
                pass
    assert await said(service) == [("user", "How is it?"), ("assistant", "It snows in Oslo.")]


@pytest.mark.parametrize("way", ["run_stream", "iter"])
async def test_of_a_stream_that_is_left_early_nothing_is_stored(
    service: MemoryService, agent: Agent[Person, str], openai_server: ScriptedOpenAI, way: str
) -> None:
    openai_server.then(streamed("Nobody hears this.") if way == "run_stream" else "Nobody hears this.")
    how: Any = {"deps": Person(), "conversation_id": "t"}
    if way == "run_stream":
        async with agent.run_stream("How is it?", **how) as result:
            async for _ in result.stream_text():
                break
    else:
        async with agent.iter("How is it?", **how) as run:
            async for _ in run:
                break
    assert await said(service) == []


async def test_with_the_store_each_message_is_remembered_once(
    service: MemoryService, model: OpenAIChatModel, openai_server: ScriptedOpenAI
) -> None:
    await service.agent("ada", "old").update_memory("My sister Ida lives in Lisbon.", "Noted.")
    await service.settle()
    openai_server.then(calling("weather", '{"city": "Lisbon"}'), "Sun.", "Still.")
    agent, store = agent_of(service, model, remember=False), MemoryConversationStore(service, "ada")
    result = await say(agent, "How is the weather where Ida lives?")
    await store.save(result)
    conversation = await store.load("t")
    result = await agent.run("And now?", deps=Person(), conversation=conversation)
    await store.save(result)
    assert "Lisbon." in sent_to(openai_server)[0]
    turns = [each for each in await said(service) if each[0] != "tool"]
    assert turns == [
        ("user", "How is the weather where Ida lives?"),
        ("assistant", "Sun."),
        ("user", "And now?"),
        ("assistant", "Still."),
    ]
    found = await store.load("t")
    assert found is not None
    assert "remembered from earlier" not in str(found.messages)


async def test_a_run_that_is_repeated_stores_nothing_twice(
    service: MemoryService, agent: Agent[Person, str], openai_server: ScriptedOpenAI
) -> None:
    openai_server.then("Noted.")
    result = await say(agent, "I like trams.")
    capability = MemoryCapability(lambda _: service.agent("ada", "t"))
    await asyncio.gather(*(capability.after_run(None, result=result) for _ in range(3)))  # type: ignore[arg-type]
    assert await said(service) == [("user", "I like trams."), ("assistant", "Noted.")]


class Town(BaseModel):
    name: str


async def test_runs_with_structured_answers_store_each_question_once(
    service: MemoryService, model: OpenAIChatModel, openai_server: ScriptedOpenAI
) -> None:
    agent = agent_of(service, model, output_type=Town)
    history = None
    for number, question in enumerate(("Where does Ida live?", "And Bo?", "And Cy?")):
        openai_server.then(calling("final_result", '{"name": "Lisbon"}', call_id=f"call{number}"))
        history = (await say(agent, question, message_history=history)).all_messages()
    assert [text for role, text in await said(service) if role == "user"] == [
        "Where does Ida live?",
        "And Bo?",
        "And Cy?",
    ]
