"""Strands' agents with the store: the framework's own loop and memory manager, a real HTTP server as the model."""

import asyncio
import dataclasses
from typing import Any

import pytest
from strands import Agent, tool
from strands.memory import AddMessagesContext, MemoryManager
from strands.models.openai import OpenAIModel

from memory_agent import MemoryService
from memory_agent.integrations.strands import StrandsMemoryStore
from tests.frameworks.pages import recalled_and_kept_apart, said, sent_to, streamed, streamed_call
from tests.frameworks.talks import CAT, KEY, Talk, Talks
from tests.servers.openai_script import ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"snow in {city}"


class Loop:
    """An agent with a store over a thread."""

    def __init__(
        self, service: MemoryService, server: ScriptedOpenAI, user: str = "ada", thread: str = "t", **how: Any
    ) -> None:
        self.store = StrandsMemoryStore(service.agent(user, thread), **how)
        self.manager = MemoryManager(stores=[self.store])
        self.agent = Agent(
            model=OpenAIModel(
                client_args={"base_url": server.base_url, "api_key": "none", "max_retries": 0},
                model_id="scripted",
            ),
            system_prompt="Answer briefly.",
            tools=[weather],
            memory_manager=self.manager,
            callback_handler=None,
        )

    async def say(self, text: str) -> None:
        await self.agent.invoke_async(text)
        await self.manager.flush()


@pytest.fixture
def talk(service: MemoryService, openai_server: ScriptedOpenAI) -> Talk:
    async def say(text: str, *, user: str = "ada", thread: str = "t") -> None:
        await Loop(service, openai_server, user, thread).say(text)

    return Talk(say, openai_server, streamed)


class TestTalks(Talks):
    after_cancelled = (("user", KEY), ("user", CAT), ("assistant", "Noted."))


async def test_nothing_that_was_recalled_is_stored_or_becomes_a_fact(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    async with recalled_and_kept_apart(service):
        openai_server.then(
            streamed_call("weather", '{"city": "Bergen"}', "Let me look."),
            streamed("You live in the north."),
            streamed("Yes."),
        )
        talk = Loop(service, openai_server)
        await talk.say("Where do I live?")
        await talk.say("Really?")
        asked, _, again = sent_to(
            openai_server
        )  # between them Strands hands on the tool's result, without memory
        assert "Oslo" in asked
        assert "Oslo" in again
        assert "Oslo" not in str(talk.agent.messages)


async def test_the_best_come_first_and_no_more_than_asked_for(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    memory = service.agent("ada", "t")
    for text in ("I like trams.", "My sister Ida lives in Lisbon.", "Ida's cat is called Tom."):
        await memory.add_turn("user", text)
    await service.settle()
    store = StrandsMemoryStore(memory)
    first, second = await store.search("Where does my sister Ida live?", {"max_search_results": 2})
    assert first.content.endswith("user: My sister Ida lives in Lisbon.")
    assert first.metadata is not None
    assert first.metadata["thread_id"] == "t"
    assert "Ida" in second.content
    assert await store.search("  ") == []


async def test_messages_that_are_handed_on_again_are_stored_once(service: MemoryService) -> None:
    store = StrandsMemoryStore(service.agent("ada", "t"))
    words = [("user", "ok"), ("assistant", "ok"), ("user", "ok"), ("assistant", "ok")]
    messages: Any = [{"role": role, "content": [{"text": text}]} for role, text in words]
    numbers = AddMessagesContext(sequence_numbers=[0, 1, 2, 3])
    await asyncio.gather(*(store.add_messages(messages, numbers) for _ in range(2)))
    await store.add_messages(messages, numbers)
    assert sorted(await said(service)) == sorted(words)


async def test_a_store_that_is_not_writable_recalls_alone(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(streamed("Noted."))
    await Loop(service, openai_server, writable=False).say("I like trams.")
    assert await said(service) == []


async def test_what_the_model_adds_is_remembered(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    manager = MemoryManager(stores=[StrandsMemoryStore(service.agent("ada", "t"))], add_tool_config=True)
    await manager.add("Ada likes trams.", {"metadata": {"source": "model"}})
    assert await said(service) == [("assistant", "Ada likes trams.")]


async def test_an_invocation_on_another_loop_reaches_the_memory(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(streamed("Noted."))
    talk = Loop(service, openai_server)
    await asyncio.to_thread(lambda: asyncio.run(talk.say("I like trams.")))
    assert await said(service) == [("user", "I like trams."), ("assistant", "Noted.")]


async def test_a_stream_that_is_left_early_keeps_what_was_said_and_no_half_of_an_answer(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(streamed("Nobody hears this."), streamed("It snows."))
    talk = Loop(service, openai_server)
    stream: Any = talk.agent.stream_async("How is it?")
    async for event in stream:
        if event.get("data"):
            break
    await stream.aclose()
    await talk.say("And now?")
    turns = await said(service)
    assert turns[0] == ("user", "How is it?")
    assert turns[-2:] == [("user", "And now?"), ("assistant", "It snows.")]
    assert "Nobody" not in str(turns)


async def test_a_run_cancelled_in_the_middle_keeps_what_was_said_and_no_half_of_an_answer(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    late = dataclasses.replace(streamed("late"), delay_seconds=30)
    openai_server.then(streamed_call("weather", '{"city": "Oslo"}', "Let me look."), late, streamed("Noted."))
    talk = Loop(service, openai_server)
    run = asyncio.create_task(talk.say("How is it in Oslo?"))
    while len(openai_server.chats) < 2:
        await asyncio.sleep(0.01)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await talk.manager.flush()
    assert ("user", "How is it in Oslo?") in await said(service)
    await talk.say("The cat is at Bob's.")
    turns = await said(service)
    assert turns[0] == ("user", "How is it in Oslo?")
    assert turns[-2:] == [("user", "The cat is at Bob's."), ("assistant", "Noted.")]
    assert "late" not in str(turns)
    assert len(turns) == len(set(turns))
