"""Agents of Microsoft's Agent Framework with the provider: the framework's own loop, a real HTTP server as the model."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, SessionContext, tool
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

from memory_agent import MemoryService
from memory_agent.integrations.agent_framework import MemoryProvider
from tests.frameworks.pages import calling, recalled_and_kept_apart, said, sent_to, streamed
from tests.frameworks.talks import CAT, Talk, Talks
from tests.servers.openai_script import ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")


def provider_of(service: MemoryService) -> MemoryProvider:
    return MemoryProvider(lambda session: service.agent(session.state["user_id"], session.session_id))


@pytest.fixture
async def agent(service: MemoryService, openai_server: ScriptedOpenAI) -> AsyncIterator[Agent[Any]]:
    @tool(approval_mode="never_require")
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"snow in {city}"

    async with AsyncOpenAI(base_url=openai_server.base_url, api_key="none", max_retries=0) as client:
        yield Agent(
            OpenAIChatCompletionClient("scripted", async_client=client),
            instructions="Answer briefly.",
            tools=[weather],
            context_providers=[provider_of(service)],
        )


def session(user: str = "ada", thread: str = "t") -> AgentSession:
    made = AgentSession(session_id=thread)
    made.state["user_id"] = user
    return made


@pytest.fixture
def talk(agent: Agent[Any], openai_server: ScriptedOpenAI) -> Talk:
    async def say(text: str, *, user: str = "ada", thread: str = "t") -> None:
        await agent.run(text, session=session(user, thread))

    return Talk(say, openai_server)


class TestTalks(Talks):
    after_cancelled = (("user", CAT), ("assistant", "Noted."))


async def test_nothing_that_was_recalled_is_stored_or_becomes_a_fact(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI
) -> None:
    async with recalled_and_kept_apart(service):
        openai_server.then(calling("weather", '{"city": "Bergen"}'), "You live in the north.", "Yes.")
        one = session()
        await agent.run("Where do I live?", session=one)
        await agent.run("Really?", session=one)
        assert all("Oslo" in sent for sent in sent_to(openai_server))
        assert "Oslo" not in str(one.to_dict())
        assert openai_server.chats[0]["messages"][0]["content"].startswith("Answer briefly.\n\n<")


async def test_what_the_history_shows_is_not_told_again(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI
) -> None:
    from agent_framework import InMemoryHistoryProvider

    agent.context_providers.insert(0, InMemoryHistoryProvider())
    openai_server.then("Noted.", "By tram.")
    one = session()
    await agent.run("My tram stop is called Marktplatz.", session=one)
    await service.settle()
    await agent.run("How do I get to my stop?", session=one)
    assert sent_to(openai_server)[1].count("My tram stop") == 1


async def test_a_stream_is_remembered_once_and_whole_when_it_was_read_to_its_end(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(streamed("It snows in Oslo."), streamed("Nobody hears this."))
    async for _ in agent.run("How is it?", stream=True, session=session()):
        pass
    stream = agent.run("And now?", stream=True, session=session())
    await anext(aiter(stream))
    assert await said(service) == [("user", "How is it?"), ("assistant", "It snows in Oslo.")]


async def test_a_run_that_is_handed_on_twice_is_stored_once(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI
) -> None:
    class Twice(MemoryProvider):
        async def after_run(self, **run: Any) -> None:
            await asyncio.gather(*(super(Twice, self).after_run(**run) for _ in range(3)))

    agent.context_providers[:] = [Twice(lambda session: service.agent("ada", session.session_id))]
    openai_server.then("Noted.")
    await agent.run("I like trams.", session=session())
    assert await said(service) == [("user", "I like trams."), ("assistant", "Noted.")]


async def test_a_run_without_an_answer_stores_nothing(service: MemoryService, agent: Agent[Any]) -> None:
    context, provider = SessionContext(input_messages=[]), provider_of(service)
    await provider.before_run(agent=agent, session=session(), context=context, state={})
    await provider.after_run(agent=agent, session=session(), context=context, state={})
    assert context.instructions == []
    assert await said(service) == []
