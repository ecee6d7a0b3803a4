"""LlamaIndex's agents with the block: the framework's own loop and Memory, a real HTTP server as Ollama."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.llms.ollama import Ollama
from ollama import AsyncClient
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from memory_agent import MemoryService, ServiceClient
from memory_agent.errors import InvalidInput
from memory_agent.integrations.llama_index import MemoryBlock, RememberingMemory
from tests.frameworks.pages import recalled_and_kept_apart, said
from tests.over_http import both_ways_by_day
from tests.servers.mongod import free_port
from tests.servers.ollama_script import ScriptedOllama

pytestmark = [
    pytest.mark.usefixtures("both_ways"),
    # of LlamaIndex's workflows
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
]


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    server = ScriptedOllama("scripted", []).start()
    yield server
    server.stop()


def block_of(service: MemoryService, user: str = "ada", thread: str = "t") -> MemoryBlock:
    return MemoryBlock(memory=service.agent(user, thread))


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """Where LlamaIndex keeps its messages; it closes none that it has opened itself."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'history.db'}")
    yield engine
    await engine.dispose()


def memory_of(
    history: AsyncEngine, block: MemoryBlock, kind: type[Memory] = RememberingMemory, **how: Any
) -> Memory:
    return kind.from_defaults(memory_blocks=[block], async_engine=history, **how)


@asynccontextmanager
async def agent_of(ollama: ScriptedOllama) -> AsyncIterator[FunctionAgent]:
    async def weather(city: str) -> str:
        """The weather in a city."""
        if city == "Atlantis":
            await asyncio.sleep(100)
        return f"snow in {city}"

    async with AsyncClient(host=ollama.url) as client:
        llm = Ollama(model="scripted", context_window=8_192, async_client=client)
        yield FunctionAgent(llm=llm, tools=[weather], system_prompt="Answer briefly.")


@pytest.fixture
async def agent(ollama: ScriptedOllama) -> AsyncIterator[FunctionAgent]:
    async with agent_of(ollama) as made:
        yield made


def calling(city: str) -> dict[str, Any]:
    call = {"function": {"name": "weather", "arguments": {"city": city}}}
    return {"content": "Let me look.", "tool_calls": [call]}


def sent_to(ollama: ScriptedOllama) -> list[str]:
    return [json.dumps(chat["messages"]) for chat in ollama.chats]


@both_ways_by_day
async def test_what_one_thread_told_another_of_the_same_user_recalls_and_nobody_else(
    service: MemoryService, agent: FunctionAgent, ollama: ScriptedOllama, history: AsyncEngine
) -> None:
    ollama.replies[:] = ["Noted.", "In Lisbon.", "I don't know."]
    await agent.run(
        "My sister Ida lives in Lisbon.", memory=memory_of(history, block_of(service, thread="first"))
    )
    await service.settle()
    await agent.run(
        "Where does my sister live?", memory=memory_of(history, block_of(service, thread="second"))
    )
    await agent.run("Where does my sister live?", memory=memory_of(history, block_of(service, "eve", "hers")))
    first, ada, eve = sent_to(ollama)
    assert first.count("Lisbon") == 1
    assert "Lisbon" in ada
    assert "Lisbon" not in eve


async def test_what_cannot_be_stored_is_left_out_and_holds_nothing_up(
    service: MemoryService, history: AsyncEngine
) -> None:
    memory = memory_of(history, block_of(service))
    for text in ("\u200b", "I like trams."):
        await memory.aput(ChatMessage(role="user", content=text))
    assert await said(service) == [("user", "I like trams.")]


async def test_a_call_that_would_wait_for_its_own_loop_is_refused(
    service: MemoryService, history: AsyncEngine
) -> None:
    memory = memory_of(history, block_of(service))
    with pytest.raises(InvalidInput, match="await aput instead"):
        memory.put(ChatMessage(role="user", content="I like trams."))
    await memory.aput(ChatMessage(role="user", content="I like boats."))
    assert await said(service) == [("user", "I like boats.")]


async def test_nothing_that_was_recalled_is_stored_or_becomes_a_fact(
    service: MemoryService, agent: FunctionAgent, ollama: ScriptedOllama, history: AsyncEngine
) -> None:
    async with recalled_and_kept_apart(service):
        ollama.replies[:] = [calling("Bergen"), "You live in the north.", "Yes."]
        memory = memory_of(history, block_of(service))
        await agent.run("Where do I live?", memory=memory)
        await agent.run("Really?", memory=memory)
        assert all("Oslo" in sent for sent in sent_to(ollama))
        assert "Oslo" not in str(await memory.aget_all())


async def test_the_callers_block_stays_as_it_is_and_texts_are_shown_as_by_llamaindex_s_own_memory(
    service: MemoryService, history: AsyncEngine
) -> None:
    await service.agent("ada", "old").update_memory("My sister Ida lives in Lisbon.", "Noted.")
    await service.settle()
    block, told = block_of(service), []
    for kind in (RememberingMemory, Memory):
        memory = memory_of(history, block, kind)
        await memory.aput(ChatMessage(role="user", content="Where does Ida live?"))
        await service.settle()  # its topic is told
        told.append((await memory.aget())[0].content)
    assert "Lisbon" in str(told[0])
    assert told[0] == told[1]
    assert block.accept_short_term_memory


@pytest.mark.parametrize("kind", [RememberingMemory, Memory])
async def test_a_message_that_is_ejected_is_stored_once_and_by_llamaindex_s_own_memory_only_then(
    kind: type[Memory], service: MemoryService, history: AsyncEngine
) -> None:
    words = [
        ("user", "I like trams."),
        ("assistant", "Noted."),
        ("user", "Why?"),
        ("assistant", "Who knows?"),
    ]
    memory = memory_of(history, block_of(service), kind, token_limit=10)
    for role, text in words:
        await memory.aput(ChatMessage(role=role, content=text))
    kept = [
        (message.role.value, message.content)
        for message in await memory.aget_all(status=MessageStatus.ACTIVE)
    ]
    assert kept == words[2:]
    assert await said(service) == (words if kind is RememberingMemory else words[:2])


async def test_a_run_cancelled_in_the_middle_keeps_what_was_said_and_no_half_of_an_answer(
    service: MemoryService, agent: FunctionAgent, ollama: ScriptedOllama, history: AsyncEngine
) -> None:
    ollama.replies[:] = [calling("Atlantis"), "Noted."]
    memory = memory_of(history, block_of(service))
    run = agent.run("How is it in Atlantis?", memory=memory)
    while not ollama.chats:
        await asyncio.sleep(0.01)
    await run.cancel_run()
    await asyncio.gather(run, return_exceptions=True)
    await agent.run("The cat is at Bob's.", memory=memory)
    assert await said(service) == [
        ("user", "How is it in Atlantis?"),
        ("user", "The cat is at Bob's."),
        ("assistant", "Noted."),
    ]


async def test_two_runs_at_once_on_one_thread_store_both_exchanges_once(
    service: MemoryService, agent: FunctionAgent, ollama: ScriptedOllama, history: AsyncEngine
) -> None:
    ollama.replies[:] = ["Noted.", "Noted."]
    memory = memory_of(history, block_of(service))
    await memory.aget_all()  # the first call makes LlamaIndex's table
    await asyncio.gather(*(agent.run(text, memory=memory) for text in ("I like trams.", "I like boats.")))
    turns = [text for _, text in await said(service)]
    assert sorted(turns) == ["I like boats.", "I like trams.", "Noted.", "Noted."]


async def test_without_the_memory_the_model_answers_and_what_was_said_is_stored_once_it_is_back(
    service: MemoryService,
    agent: FunctionAgent,
    ollama: ScriptedOllama,
    history: AsyncEngine,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ollama.replies[:] = ["Noted.", "Yes."]
    memory = memory_of(history, block_of(service))
    (block,) = (each for each in memory.memory_blocks if isinstance(each, MemoryBlock))
    there = block.memory
    async with ServiceClient(f"http://127.0.0.1:{free_port()}", api_key="ma_none", max_retries=0) as away:
        block.memory = away.agent("ada", "t")
        with caplog.at_level(logging.WARNING):
            assert str(await agent.run("I like trams.", memory=memory)) == "Noted."
    assert "to be remembered with what is said next" in caplog.text
    block.memory = there
    await agent.run("Really?", memory=memory)
    assert [text for _, text in await said(service)] == ["I like trams.", "Noted.", "Really?", "Yes."]


async def test_a_run_on_another_loop_reaches_the_memory(
    service: MemoryService, ollama: ScriptedOllama, tmp_path: Path
) -> None:
    ollama.replies[:] = ["Noted."]
    block = block_of(service)

    async def run() -> None:
        history = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'history.db'}")
        async with agent_of(ollama) as agent:
            await agent.run("I like trams.", memory=memory_of(history, block))
        await history.dispose()

    await asyncio.to_thread(lambda: asyncio.run(run()))
    assert await said(service) == [("user", "I like trams."), ("assistant", "Noted.")]
