"""Behind LiteLLM's proxy, as people run it: what an operator has to mend parks nothing, is told, and ends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from memory_agent import MemoryService, MemoryStatus
from memory_agent.testing import BruteForceIndex
from tests.integration.commands import CommandLine
from tests.integration.fact_script import add, by_words, opened
from tests.servers.chroma import ChromaProcess
from tests.servers.litellm import LiteLLMProxy
from tests.servers.mongod import Mongod
from tests.servers.openai_script import Reply, ScriptedOpenAI

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

ADA: Final = "My name is Ada."
SOUND: Final = by_words({"Ada": [add("name", "Ada", "My name is Ada")]})
SECONDS: Final = 120


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedOpenAI]:
    """The model behind the proxy."""
    server = ScriptedOpenAI().start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, upstream: ScriptedOpenAI) -> Iterator[LiteLLMProxy]:
    """Started once; a test may start it anew."""
    proxy = LiteLLMProxy(tmp_path_factory.mktemp("litellm"), upstream.base_url, models=("known",)).start()
    yield proxy
    proxy.stop()


def asking(proxy: LiteLLMProxy, **more: str) -> dict[str, Any]:
    """The settings of a process that asks the proxy for facts, and retries soon."""
    return {
        "MEMORY_AGENT_OPENAI_BASE_URL": proxy.base_url,
        "MEMORY_AGENT_OPENAI_API_KEY": "sk-master",
        "MEMORY_AGENT_FACT_EXTRACTION_MODEL": "known",
        "MEMORY_AGENT_ENABLE_COMPRESSION": "false",
        **more,
    }


FAULTS: Final[dict[str, tuple[dict[str, str], Reply | None, str]]] = {
    "unknown-model": ({"fact_extraction_model": "nope"}, None, "Invalid model name passed in model=nope"),
    "wrong-key": ({"openai_api_key": "sk-other"}, None, "No connected db."),
    "rate-limit": ({}, Reply(status=429, text="slow down", headers={"Retry-After": "1"}), "slow down"),
    "unknown-behind-it": ({}, Reply(status=404, text="The model scripted does not exist"), "does not exist"),
    "key-behind-it": ({}, Reply(status=401, text="Incorrect API key provided: sk-ups***ream"), "Incorrect"),
    "down-behind-it": ({}, Reply(status=503, text="overloaded"), "overloaded"),
}


async def until(service: MemoryService, seen: Callable[[MemoryStatus], object]) -> MemoryStatus:
    """The first status of everybody in which that is so."""
    async with asyncio.timeout(SECONDS):
        while not seen(status := await service.status()):
            await asyncio.sleep(0.1)
    return status


@pytest.mark.parametrize(("wrong", "answer", "words"), FAULTS.values(), ids=FAULTS.keys())
async def test_what_the_operator_has_to_mend_waits(
    embedded_settings: dict[str, Any],
    proxy: LiteLLMProxy,
    upstream: ScriptedOpenAI,
    wrong: dict[str, str],
    answer: Reply | None,
    words: str,
) -> None:
    """Nothing is parked or counted, `status` says what was answered, and mended the facts come."""
    upstream.answer = (lambda _: answer) if answer is not None else SOUND
    good = {
        **embedded_settings,
        "openai_base_url": proxy.base_url,
        "openai_api_key": "sk-master",
        "fact_extraction_model": "known",
        "max_attempts": 1,
    }
    async with opened({**good, **wrong}, vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message(ADA)
        status = await until(service, lambda status: status.outages)
        (outage,) = status.outages
        assert (outage.stage, outage.part) == ("facts", "llm")
        assert words in outage.error
        assert "sk-" not in outage.error
        assert (status.parked_count, status.pending["facts"]) == (0, 1)
        if not wrong:
            upstream.answer = SOUND
            await memory.settle(timeout=SECONDS)
    async with opened(good, vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        await memory.settle(timeout=SECONDS)
        assert await memory.fetch_facts() == {"name": "Ada"}
        assert (await memory.status()).outages == ()
    assert proxy.elsewhere() == []


@pytest.fixture
def on_servers(cli: CommandLine, mongod: Mongod, chroma_server: ChromaProcess, db_name: str) -> CommandLine:
    """The command line on MongoDB and a Chroma server."""
    cli.environment |= {
        "MEMORY_AGENT_MONGO_URI": mongod.uri,
        "MEMORY_AGENT_DB_NAME": db_name,
        "MEMORY_AGENT_CHROMA_HOST": chroma_server.host,
        "MEMORY_AGENT_CHROMA_PORT": str(chroma_server.port),
        "MEMORY_AGENT_MEMORY_COLLECTION_PREFIX": f"t{db_name[-8:]}",
        "MEMORY_AGENT_RUN_WORKER": "false",
    }
    return cli


async def test_on_servers_a_model_that_the_proxy_learns_is_used_without_a_restart(
    on_servers: CommandLine, proxy: LiteLLMProxy, upstream: ScriptedOpenAI, server_settings: dict[str, Any]
) -> None:
    """The worker goes on by itself when the operator has given the proxy the model; other processes saw why it waited."""
    upstream.answer = SOUND
    cli, asked = on_servers, asking(proxy, MEMORY_AGENT_FACT_EXTRACTION_MODEL="new")
    environment = {**cli.environment, **asked}
    async with opened({**server_settings, "run_worker": False}) as looking:
        memory = looking.agent("me", "main")
        await memory.add_user_message(ADA)
        command = cli.command("worker")
        worker = await asyncio.create_subprocess_exec(*command, cwd=cli.folder, env=environment)
        try:
            status = await until(looking, lambda status: status.outages)
            assert "Invalid model name passed in model=new" in status.outages[0].error
            assert status.parked_count == 0
            proxy.stop()
            status = await until(looking, lambda status: "cannot be reached" in str(status.outages))
            assert status.parked_count == 0
            proxy.models = ("known", "new")
            await asyncio.to_thread(proxy.start)
            status = await until(looking, lambda status: not status.pending["facts"])
            assert (status.outages, status.parked_count) == ((), 0)
            assert worker.returncode is None
        finally:
            worker.terminate()
            await worker.wait()
        assert await memory.fetch_facts() == {"name": "Ada"}
    assert proxy.elsewhere() == []
