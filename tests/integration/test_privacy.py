"""What was said stays where it belongs: not in the vector index, not in the log; and is embedded once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder
from tests.fixtures import on_both_by_day, outgrown
from tests.integration.fact_script import add, reply
from tests.servers.chroma import ChromaProcess
from tests.servers.openai_script import Reply, ScriptedOpenAI

SECRET = "My name is Ottokar and the narwhal vault opens with 905512."
ANSWER = "I keep the pumpernickel combination safe."
TELLING = ("ottokar", "narwhal", "905512", "pumpernickel")
"""Words of the exchange that no other test says: the servers are shared."""
API_KEY = "sk-windhover-0123456789"


def files_with(folder: Path, words: tuple[str, ...]) -> list[str]:
    """Names of the files under `folder` that hold one of the words, in whichever case.

    Not hnswlib's file of vectors: it writes the memory it has reserved and not used yet, and that may be the test's own.
    """
    return [
        file.name
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and file.name != "data_level0.bin"
        and any(word.encode() in file.read_bytes().lower() for word in words)
    ]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """All that our loggers said, tracebacks too, in small letters."""
    formatter = logging.Formatter("%(message)s")
    ours = [record for record in caplog.records if record.name.split(".")[0] == "memory_agent"]
    return "\n".join(formatter.format(record) for record in ours).casefold()


def openai_settings(settings: dict[str, Any], server: ScriptedOpenAI) -> dict[str, Any]:
    """Settings that ask the scripted server for facts and embeddings."""
    return {
        **settings,
        "use_local_embeddings": False,
        "openai_base_url": server.base_url,
        "openai_api_key": API_KEY,
        "max_attempts": 2,
    }


async def test_no_text_is_stored_in_the_vector_index(
    server_settings: dict[str, Any], shared_embedder: LocalEmbedder, chroma_server: ChromaProcess
) -> None:
    """The files of a Chroma server hold the ids of an exchange's turns, but none of its words."""
    async with MemoryService(MemoryConfig(**server_settings), embedder=shared_embedder) as service:
        await outgrown(service, "ann")
        memory = service.agent("ann", "chat")
        receipt = await memory.update_memory(SECRET, ANSWER, metadata={"place": "narwhal"})
        await memory.settle(timeout=60)
        assert (await memory.fetch_facts())["name"] == "Ottokar"
        assert await service.core.vectors.turn_ids("ann") == set(receipt.turn_ids)
        assert files_with(chroma_server.path, receipt.turn_ids), "what it has of them is found"
        assert files_with(chroma_server.path, TELLING) == []
        await memory.forget(receipt.turn_ids)


@on_both_by_day
async def test_nothing_said_and_no_key_is_logged(
    settings: dict[str, Any], openai_server: ScriptedOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """At DEBUG level our loggers tell neither what was said, asked or stated, nor the API key."""
    caplog.set_level(logging.DEBUG)
    stated = add("name", "Ottokar", "My name is Ottokar")
    openai_server.answer = lambda _: reply([stated])
    cfg = MemoryConfig(**openai_settings(settings, openai_server))
    async with MemoryService(cfg) as service:
        memory = service.agent("ann", "chat")
        receipt = await memory.update_memory(SECRET, ANSWER)
        await memory.settle(timeout=60)
        assert SECRET in str(await memory.fetch_memory("What opens the narwhal vault?"))
        assert "Ottokar" in str(await memory.fetch_facts())
        await memory.forget(receipt.turn_ids)
    assert all(request.headers["authorization"] == f"Bearer {API_KEY}" for request in openai_server.requests)
    for word in (*TELLING, API_KEY):
        assert word not in logged(caplog)


@pytest.mark.parametrize(
    "failing",
    [
        Reply(status=500, text="overloaded"),
        Reply(status=401, text="no such key"),
        Reply(status=400, text="invalid input: 'Ottokar and the narwhal vault opens with 905512'"),
        Reply(text="I gather that Ottokar owns a narwhal vault, 905512, and pumpernickel."),
        Reply(text='{"facts": [{"path": "name", "value": "Ottokar, narwhal 905512, pumpernickel'),
        Reply(raw="not JSON: Ottokar, narwhal, 905512, pumpernickel"),
    ],
    ids=["server-error", "key-refused", "error-that-echoes", "prose", "cut-off-object", "no-completion"],
)
async def test_nothing_said_is_logged_when_a_model_fails(
    embedded_settings: dict[str, Any],
    openai_server: ScriptedOpenAI,
    caplog: pytest.LogCaptureFixture,
    failing: Reply,
) -> None:
    """Warnings of a model's outage or of its nonsense quote neither the turn, nor its reply, nor the API key."""
    caplog.set_level(logging.DEBUG)
    openai_server.answer = lambda _: failing
    cfg = MemoryConfig(**openai_settings(embedded_settings, openai_server))
    async with MemoryService(cfg) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message(SECRET)
        async with asyncio.timeout(60):
            while True:
                status = await memory.status()
                if status.parked_count or status.outages or not status.owed_count:
                    break
                await asyncio.sleep(0.02)
    for word in (*TELLING, API_KEY):
        assert word not in logged(caplog)
        # Everybody sees it, whoever said what.
        assert word not in str(status.outages)


async def test_a_question_is_embedded_once(settings: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """The embedding made to fetch for a message is reused when the message is then remembered."""
    question, answer = "Where did I park the yellow car?", "On the third deck."
    async with MemoryService(MemoryConfig(**openai_settings(settings, openai_server))) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("I have a yellow car.", "A fine colour.")
        await memory.settle(timeout=60)
        await memory.fetch_memory(question)
        receipt = await memory.update_memory(question, answer)
        await memory.settle(timeout=60)
        assert set(receipt.turn_ids) <= {row.turn_id for row in await service.core.store.search_rows("ann")}
        found = await memory.fetch_long_term(question, top_k=4)
        (asked,) = (one for one in found if one.text == question)
        assert asked.similarity == pytest.approx(1, abs=1e-2)
    embedded = [text for request in openai_server.embeddings for text in request["input"]]
    assert (embedded.count(question), embedded.count(answer)) == (1, 1)
