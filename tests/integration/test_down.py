"""With a part down, updates are acknowledged, fetch answers from what is up, and all is caught up afterwards."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService, StoreUnavailable
from memory_agent.domain import STAGES, Scope, outage_name
from memory_agent.errors import LLMUnavailable
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.stores.mongo import MongoStore
from memory_agent.work.worker import Outages
from tests.integration.fact_script import add, by_words
from tests.servers.chroma import ChromaProcess
from tests.servers.mongod import Mongod
from tests.servers.openai_script import Reply, ScriptedOpenAI

NAME = add("name", "Ann", "My name is Ann")
BEES = add("interests", ["bees"], "I keep bees")


@pytest.fixture
def own_chroma(tmp_path: Path) -> Iterator[ChromaProcess]:
    """A Chroma server that this test may stop."""
    server = ChromaProcess(tmp_path / "chroma").start()
    yield server
    server.stop()


@pytest.fixture
def llm_server() -> Iterator[ScriptedOpenAI]:
    """An OpenAI-compatible server that this test scripts."""
    server = ScriptedOpenAI().start()
    yield server
    server.stop()


@pytest.fixture
async def asks_llm(
    embedded_settings: dict[str, Any], llm_server: ScriptedOpenAI, shared_embedder: LocalEmbedder
) -> AsyncIterator[MemoryService]:
    """A service whose facts come from the scripted model."""
    cfg = MemoryConfig(
        **embedded_settings, openai_base_url=llm_server.base_url, openai_api_key="sk-secret", max_attempts=3
    )
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        yield service


def with_chroma(settings: dict[str, Any], server: ChromaProcess, resident_max_turns: int) -> MemoryConfig:
    """Settings that ask this server, and don't wait for it for long."""
    own = {"chroma_host": "127.0.0.1", "chroma_port": server.port, "store_timeout_seconds": 2}
    return MemoryConfig(**{**settings, **own, "resident_max_turns": resident_max_turns})


async def until_down(service: MemoryService, part: str) -> None:
    """Wait until the worker has found that the part is down."""
    async with asyncio.timeout(30):
        while part not in service.core.worker.down:
            await asyncio.sleep(0.02)


async def until_nothing_is_down(service: MemoryService) -> None:
    """Wait until the worker knows of no part that it waits for."""
    async with asyncio.timeout(30):
        while service.core.worker.down:
            await asyncio.sleep(0.02)


async def vectors_are(service: MemoryService, turn_ids: set[str]) -> None:
    """Wait until Chroma has just the vectors of these turns: whoever settles doesn't wait for one that is away."""
    async with asyncio.timeout(60):
        while await service.core.vectors.turn_ids("ann") != turn_ids:
            await asyncio.sleep(0.1)


async def test_chroma_stopped(
    server_settings: dict[str, Any], own_chroma: ChromaProcess, shared_embedder: LocalEmbedder
) -> None:
    """Stopped as a user outgrows the memory, and again later: remembering and finding go on, and the vectors follow."""
    own_chroma.stop()
    cfg = with_chroma(server_settings, own_chroma, 1)
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        memory = service.agent("ann", "chat")
        receipt = await memory.update_memory("My puppy is called Rufus.", "Cute!")
        await until_down(service, "vector_index")
        context = await memory.fetch_memory("Which pet do I have?")
        assert "Rufus" in str(context)
        # Until the vectors are there it is searched in RAM, so nothing that was said is missing for want of Chroma.
        assert context.degraded == ("facts",)
        assert ((await memory.fetch_long_term("Which pet do I have?"))[0].similarity or 0.0) > 0.2
        own_chroma.start()
        await vectors_are(service, set(receipt.turn_ids))
        own_chroma.kill()
        second = await memory.update_memory("I sold my boat.", "To whom?")
        await until_down(service, "vector_index")
        assert (await memory.status()).parked_count == 0
        own_chroma.start()
        await vectors_are(service, {*receipt.turn_ids, *second.turn_ids})


async def test_chroma_stopped_for_a_small_user(
    server_settings: dict[str, Any], own_chroma: ChromaProcess, shared_embedder: LocalEmbedder
) -> None:
    """Whoever is searched in memory is settled and found without it, and told what is missing there."""
    own_chroma.stop()
    cfg = with_chroma(server_settings, own_chroma, 50_000)
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("My puppy is called Rufus.", "Cute!")
        await memory.settle(timeout=60)
        status = await memory.status()
        assert (status.owed_count, status.vectors_missing) == (0, 2)
        assert [(outage.stage, outage.part) for outage in status.outages] == [("vectors", "vector_index")]
        assert ((await memory.fetch_long_term("Which pet do I have?"))[0].similarity or 0.0) > 0.2


async def test_chroma_stopped_for_a_large_user(
    server_settings: dict[str, Any], own_chroma: ChromaProcess, shared_embedder: LocalEmbedder
) -> None:
    """Users too large for RAM are searched in their rows meanwhile; forgetting is finished later."""
    cfg = with_chroma(server_settings, own_chroma, 0)
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        memory = service.agent("ann", "chat")
        receipt = await memory.update_memory("My puppy is called Rufus.", "Cute!")
        await memory.settle(timeout=60)
        own_chroma.stop()
        context = await memory.fetch_memory("What is my puppy called?")
        assert context.degraded == ()
        assert "Rufus" in str(context)
        assert (await memory.fetch_long_term("my puppy"))[0].text == "My puppy is called Rufus."
        forgotten = await memory.forget(receipt.turn_ids)
        assert (forgotten.turns, forgotten.owed) == (2, ("vector_index",))
        assert await memory.fetch_long_term("my puppy") == []
        own_chroma.start()
        assert len(await service.core.vectors.turn_ids("ann")) == 2
        async with asyncio.timeout(30):
            while await service.core.vectors.turn_ids("ann"):
                await asyncio.sleep(0.1)


async def test_llm_answers_500(asks_llm: MemoryService, llm_server: ScriptedOpenAI) -> None:
    """While the model's server fails nothing is parked; afterwards the facts are extracted, each turn once."""
    llm_server.answer = lambda _: Reply(status=500, text="overloaded")
    memory = asks_llm.agent("ann", "chat")
    await memory.update_memory("My name is Ann.", "Hello Ann.")
    await until_down(asks_llm, "llm")
    context = await memory.fetch_memory("Who am I?")
    assert context.degraded == ("facts", "llm")
    assert "My name is Ann." in str(context)
    await memory.update_memory("I keep bees.", "How many hives?")
    async with asyncio.timeout(30):
        # What needs no model does not wait for it.
        while (await memory.status()).pending != {**dict.fromkeys(STAGES, 0), "facts": 2}:
            await asyncio.sleep(0.02)
    assert (await memory.status()).parked_count == 0
    llm_server.answer = by_words({"I keep bees.": [BEES], "My name is Ann.": [NAME]})
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == {"name": "Ann", "interests": ["bees"]}
    assert (await memory.fetch_memory("Who am I?")).degraded == ()
    assert asks_llm.usage is not None
    assert asks_llm.usage.prompt_tokens > 0


async def test_a_part_is_down_no_longer_once_what_waits_for_it_is_forgotten(
    asks_llm: MemoryService, llm_server: ScriptedOpenAI
) -> None:
    """Nobody waits for it, and it may be up again for all that anybody knows; who comes next tells."""
    llm_server.answer = lambda _: Reply(status=500, text="overloaded")
    memory = asks_llm.agent("ann", "chat")
    for _ in range(2):
        await memory.update_memory("My name is Ann.", "Hello Ann.")
        await until_down(asks_llm, "llm")
        assert "llm" in (await memory.fetch_memory("Who am I?")).degraded
        await memory.clear()
        await until_nothing_is_down(asks_llm)
        assert (await memory.fetch_memory("Who am I?")).degraded == ()
        assert await asks_llm.core.store.load_lease(outage_name("facts")) is None


async def test_a_part_stays_down_while_an_earlier_stage_is_owed_to_what_comes_to_it(
    embedded_settings: dict[str, Any],
) -> None:
    async with MemoryService(MemoryConfig(**{**embedded_settings, "run_worker": False})) as service:
        memory, store = service.agent("ann", "chat"), service.core.store
        await memory.update_memory("My name is Ann.", "Hello Ann.")
        outages = Outages(store, service.clock, base_seconds=0, longest_seconds=0)
        await outages.hold("facts", LLMUnavailable("overloaded"))
        await outages.ended_if_idle("facts")
        assert outages.down == {"llm"}
        assert not await store.due_threads(service.clock.now(), "facts", limit=1)
        await memory.clear()
        await outages.ended_if_idle("facts")
        assert outages.down == frozenset()


async def test_embedder_fails(embedded_settings: dict[str, Any], llm_server: ScriptedOpenAI) -> None:
    """With the embedding server failing, words decide and the context says so, to those whose turns wait for it; afterwards meaning is back."""
    loading = Reply(status=503, text="loading the model")
    llm_server.embed_fault = lambda _: loading
    cfg = MemoryConfig(
        **embedded_settings,
        use_local_embeddings=False,
        openai_base_url=llm_server.base_url,
        enable_fact_extraction=False,
    )
    async with MemoryService(cfg) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("My puppy is called Rufus.", "Cute!")
        await until_down(service, "embedder")
        context = await memory.fetch_memory("What is my puppy called?")
        assert "embedder" in context.degraded
        found = await memory.fetch_long_term("puppy")
        assert found[0].text == "My puppy is called Rufus."
        assert {recollection.similarity for recollection in found} == {None}
        # What was answered to it stands behind it, without a word of the question.
        assert [recollection.text for recollection in found[1:]] == ["Cute!"]
        assert "words" not in found[1].why
        assert (await memory.status()).pending["index"] == 2
        llm_server.embed_fault = None
        await memory.settle(timeout=60)
        assert (await memory.fetch_memory("What is my puppy called?")).degraded == ()
        assert (await memory.fetch_long_term("puppy"))[0].similarity is not None
        llm_server.embed_fault = lambda _: loading
        bobs = service.agent("bob", "chat")
        await bobs.update_memory("My kitten is called Rex.", "Cute!")
        await until_down(service, "embedder")
        assert (await memory.fetch_memory("What is my puppy called?")).degraded == ()
        await bobs.clear()
        await until_nothing_is_down(service)


async def test_the_document_store_is_down(tmp_path: Path, shared_embedder: LocalEmbedder) -> None:
    """Nothing is acknowledged that is not stored; fetch says what is missing; with the store back all goes on."""
    with Mongod() as server:
        cfg = MemoryConfig(
            data_dir=tmp_path,
            mongo_uri=server.uri,
            store_timeout_seconds=1,
        )
        async with MemoryService(cfg, embedder=shared_embedder) as service:
            memory = service.agent("ann", "chat")
            await memory.update_memory("I keep bees.", "How many hives?")
            await memory.settle(timeout=60)
            server.kill9()
            with pytest.raises(StoreUnavailable) as caught:
                await memory.update_memory("I sold my boat.", "To whom?", idempotency_key="boat")
            assert "mongodb://" not in str(caught.value) or "@" not in str(caught.value)
            context = await memory.fetch_memory("bees")
            expected = ("compression", "facts", "long_term", "short_term", "topic")
            assert context.degraded == expected
            assert str(context) == ""
            server.restart()
            async with asyncio.timeout(60):
                while True:
                    try:
                        await memory.update_memory("I sold my boat.", "To whom?", idempotency_key="boat")
                        break
                    except StoreUnavailable:
                        await asyncio.sleep(0.1)
            await memory.settle(timeout=60)
            wanted = ["I keep bees.", "How many hives?", "I sold my boat.", "To whom?"]
            assert [turn.content for turn in await memory.fetch_short_term()] == wanted


def test_calls_cancelled_while_mongodb_is_down_take_nothing_along() -> None:
    """Two hundred wait for a server to come back and are cancelled at any moment, some twice; then all is as before.

    PyMongo itself would never answer again: the lock of its topology would be held by nobody. In a process of its own, for
    PyMongo leaves a socket behind now and then where its server is killed.
    """
    run = (
        "import asyncio; from tests.integration import test_down; asyncio.run(test_down.cancel_while_down())"
    )
    done = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


async def cancel_while_down() -> None:
    """Raise if the store is not as before."""
    somewhere = Scope(user_id="ann", thread_id="chat")
    chance = random.Random(1)
    with Mongod() as server:
        store = MongoStore(server.uri, "test", timeout_seconds=3)
        await store.open()
        server.kill9()
        waiting = [asyncio.create_task(store.list_turns(somewhere)) for _ in range(200)]
        await asyncio.sleep(0.3)
        until = time.monotonic() + 2  # its waiting is looked at twice a second
        while time.monotonic() < until and not all(task.done() for task in waiting):
            for task in chance.sample(waiting, 5):
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*waiting, return_exceptions=True)
        server.restart()
        assert await asyncio.wait_for(store.list_turns(somewhere), 60) == []
        await store.close()
