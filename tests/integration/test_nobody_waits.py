"""Nobody waits for the language model: topics, packing and compression go on while it is away, slow or clumsy."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from memory_agent import InvalidInput, MemoryAgent, TurnsParked
from tests.integration.commands import Quick, asking, user
from tests.integration.conversations import START, counted, opened, said
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

SUMMARY: Final = "They talk on."
_MESSAGE: Final = re.compile(r"<message [^>]*>\n(.*?)\n</message>", re.DOTALL)
_SONG: Final = re.compile(r"I like song (\d+)\.")


def songs(count: int, *, first: int = 1) -> list[str]:
    """Texts that each state a fact, whose number says which."""
    return [f"I like song {number}." for number in range(first, first + count)]


TALK: Final = songs(110)
"""More than a conversation and a topic hold uncompressed."""


@pytest.fixture
def llm_server() -> Iterator[ScriptedOpenAI]:
    """A server that this test may stop, and start again."""
    server = ScriptedOpenAI().start()
    yield server
    server.stop()


@pytest.fixture
def settings(embedded_settings: dict[str, Any], llm_server: ScriptedOpenAI) -> dict[str, Any]:
    return {
        **embedded_settings,
        "openai_base_url": llm_server.base_url,
        "openai_api_key": "sk-scripted",
        "enable_topics": True,
        "enable_compression": True,
        "enable_fact_extraction": True,
    }


def read_by(body: Request) -> list[str]:
    """The numbers of the songs in the messages that a request for facts asks about."""
    messages = _MESSAGE.findall(body["messages"][-1]["content"])
    return [number for message in messages for number in _SONG.findall(message)]


def answer(body: Request) -> str:
    """A model that does all that it is asked for: facts come in a form, summaries as text."""
    if "response_format" not in body:
        return SUMMARY
    liked = [
        {"quote": f"I like song {n}.", "about": "me", "path": "likes", "value": f"song {n}", "over": False}
        for n in read_by(body)
    ]
    return json.dumps({"facts": liked})


async def is_packed_and_compressed(memory: MemoryAgent, *made_by: str) -> None:
    """All stages but facts are through, and summaries say by whom they were made."""
    status = await memory.status()
    assert {stage for stage, turns in status.pending.items() if turns} <= {"facts"}
    assert status.parked_count == 0
    (event,) = await memory.compressions()
    assert event.through == 100
    topics = await memory.topics()
    makers = [event.made_by, *(topic.summary_made_by for topic in topics if topic.summary_made_by)]
    assert {maker.partition(":")[0] for maker in makers} <= set(made_by)
    assert sum(topic.compressed_messages for topic in topics) > 0


async def facts_in_order(memory: MemoryAgent) -> list[int]:
    """The numbers of the songs that are known, as they came in."""
    records = sorted(await memory.fact_history(), key=lambda record: record.said_at)
    return [int(str(record.value).removeprefix("song ")) for record in records if record.stands]


async def test_with_the_model_away_all_but_facts_are_done(
    settings: dict[str, Any], llm_server: ScriptedOpenAI
) -> None:
    """Extracts stand in for summaries and say so, whoever asks; a fetch says that facts are missing. They come in order."""
    llm_server.stop()
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns(said(TALK))
        await memory.settle(timeout=60, without=["facts"])
        await service.settle(timeout=60, without=["facts"])
        await is_packed_and_compressed(memory, "extractive")
        assert (await memory.status()).pending["facts"] == 55
        context = await memory.fetch_memory("What now?")
        assert "facts" in context.degraded
        assert context.short_term[-1].content == TALK[-1]
        await memory.add_turns(said(songs(20, first=111), start=START + timedelta(days=1)))
        assert (await memory.compress()).metadata.made_by == "extractive:quotes-2"
        llm_server.answer = answer
        llm_server.start()
        await memory.settle(timeout=60)
        assert await facts_in_order(memory) == list(range(1, 131, 2))
        assert (await memory.fetch_memory("What now?")).degraded == ()


class Slow:
    """A model that answers about facts only once it is let go, and one request after the other."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.lock = threading.Lock()

    def __call__(self, body: Request) -> str:
        if "response_format" not in body:
            return SUMMARY
        self.asked.set()
        with self.lock:
            assert self.go.wait(200)
        return answer(body)


async def test_a_backlog_of_facts_at_a_slow_model_holds_up_nothing_else(
    settings: dict[str, Any], llm_server: ScriptedOpenAI
) -> None:
    """What is said while it reads 200 turns gets its topic, is packed and compressed, before the first reply about facts."""
    slow = llm_server.answer = Slow()
    async with opened(settings) as service:
        backlog, memory = service.agent("ann", "backlog"), service.agent("ann", "chat")
        await backlog.add_turns(said(songs(200)))
        assert await asyncio.to_thread(slow.asked.wait, 200)
        await memory.add_turns(said(TALK))
        await memory.settle(timeout=60, without=["facts"])
        await is_packed_and_compressed(memory, "llm", "extractive")
        (turn,) = await backlog.add_turns(said(songs(1, first=201), start=START + timedelta(days=1)))
        await backlog.settle(timeout=60, without=["facts"])
        assert await backlog.turn_topic(turn.id) is not None
        assert (await backlog.status()).pending["facts"] == 101
        assert not slow.go.is_set()
        slow.go.set()
        await service.settle(timeout=60)
        assert await facts_in_order(backlog) == list(range(1, 202, 2))


async def test_a_server_that_is_stopped_halfway_reads_each_turn_once(
    settings: dict[str, Any], llm_server: ScriptedOpenAI
) -> None:
    """Facts come in the order of the turns, nothing is lost, and no message that was answered is sent again."""
    read: list[str] = []
    halfway = threading.Event()

    def until_halfway(body: Request) -> Reply | str:
        if len(read) >= 20:
            halfway.set()
        if halfway.is_set():
            return Reply(drop=True)
        read.extend(read_by(body))
        return answer(body)

    llm_server.answer = until_halfway
    texts = songs(60)
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns([{"role": "user", "content": text} for text in texts])
        assert await asyncio.to_thread(halfway.wait, 200)
        llm_server.stop()
        await memory.settle(timeout=60, without=["facts"])
        assert 0 < (await memory.status()).pending["facts"] < 60

        def again(body: Request) -> str:
            read.extend(read_by(body))
            return answer(body)

        llm_server.answer = again
        llm_server.start()
        await memory.settle(timeout=60)
        assert read == [str(number) for number in range(1, 61)]
        assert await facts_in_order(memory) == list(range(1, 61))


UNUSABLE: Final = {
    "nothing": "",
    "a refusal": "I'm sorry, I can't help with that.",
    "400": Reply(status=400, text="the prompt exceeds the available context size"),
    "500": Reply(status=500, text="overloaded"),
    "hangs up": Reply(drop=True),
}


@pytest.mark.parametrize("reply", UNUSABLE.values(), ids=UNUSABLE)
async def test_whatever_it_answers_to_be_summed_up_parks_nothing(
    settings: dict[str, Any], llm_server: ScriptedOpenAI, reply: Reply | str
) -> None:
    llm_server.answer = lambda body: answer(body) if "response_format" in body else reply
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns(said(TALK))
        await memory.settle(timeout=60)
        await is_packed_and_compressed(memory, "extractive")


async def test_a_model_that_is_away_is_left_alone_for_a_while(
    settings: dict[str, Any], llm_server: ScriptedOpenAI
) -> None:
    """Each try may take as long as its timeout, so that the summaries of many threads would."""
    llm_server.answer = lambda _: Reply(status=500, text="overloaded")
    async with opened(settings, enable_fact_extraction=False, enable_topics=False) as service:
        for thread in ("first", "second", "third"):
            memory = service.agent("ann", thread)
            await memory.add_turns(said(TALK))
            await memory.settle(timeout=60)
            assert len(await memory.compressions()) == 1
            if thread == "first":
                tried = len(llm_server.chats)
        assert len(llm_server.chats) == tried > 0


async def test_whose_facts_are_parked_is_settled_without_them_and_fetched_with_as_many_reads(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings, run_worker=False) as service:
        memory, store = service.agent("ann", "chat"), service.core.store
        (turn,) = await memory.add_turns(said(["I keep bees."]))
        await store.strike_off(memory.scope, [turn.id], "index", "topics", "compact", "compress")
        await store.postpone(memory.scope, [turn.id], error="broken", due_at=None, counted=True)
        await memory.settle(timeout=0, without=["facts"])
        await service.settle(timeout=0, without=["facts"])
        with pytest.raises(TurnsParked):
            await memory.settle(timeout=0)
        await memory.fetch_memory("bees")
        calls = counted(service, monkeypatch)
        assert (await memory.fetch_memory("bees")).degraded == ("facts",)
        with_facts = calls.copy()
        await store.strike_off(memory.scope, [turn.id], "facts")
        calls.clear()
        assert (await memory.fetch_memory("bees")).degraded == ()
        assert calls == with_facts


@pytest.mark.parametrize("without", ["facts", ["fact"], ["facts", "summaries"]])
async def test_a_stage_that_there_is_not_is_refused(settings: dict[str, Any], without: Any) -> None:
    async with opened(settings, run_worker=False) as service:
        with pytest.raises(InvalidInput, match="index, topics, compact, compress, facts"):
            await service.agent("ann", "chat").settle(without=without)


def test_commands_wait_for_all_but_facts(tmp_path: Path, llm_server: ScriptedOpenAI) -> None:
    model = asking(llm_server)
    llm_server.answer = lambda _: Reply(status=503, text="overloaded")
    quick = Quick(tmp_path)
    stored = quick.json("ingest", quick.file(user("I keep bees.")), "--without-facts", **model)
    assert (stored["settled"], stored["left"]) == (False, None)
    quick("worker", "--until-idle", "--without-facts", **model)
    pending = quick.json("status", **model)["pending"]
    assert {stage: turns for stage, turns in pending.items() if turns} == {"facts": 1}
