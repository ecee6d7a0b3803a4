"""Compression by a language model behind real HTTP: on top of what it said, through outages and odd replies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryService
from tests.integration.conversations import (
    everything,
    lines,
    on_each_store,
    on_each_store_by_day,
    opened,
    remains,
    said,
    settings_on,
)
from tests.servers.openai_script import Request, ScriptedOpenAI

FIRST = "KEY MOMENTS: Turn 3 (first clock), Turn 5-9 (lines 5 and 9)\nDECISIONS: clocks on line 7"
SECOND = "KEY MOMENTS: Turn 5-9 (lines 5 and 9), Turn 44 (line 44 is late)"


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path, openai_server: ScriptedOpenAI) -> dict[str, Any]:
    """A fresh database: SQLite's, unless a test is `on_each_store`."""
    return {
        **settings_on(getattr(request, "param", "sqlite"), request, tmp_path),
        "openai_base_url": openai_server.base_url,
        "openai_api_key": "sk-scripted",
    }


@pytest.fixture
async def service(settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


def prompt(body: Request) -> str:
    """What a request says besides its instructions."""
    content: str = body["messages"][-1]["content"]
    return content


async def test_the_second_summary_is_made_of_the_first_and_what_is_new(
    memory: MemoryAgent, openai_server: ScriptedOpenAI
) -> None:
    """Its cost does not rise with the conversation's length."""
    openai_server.then(FIRST, SECOND)
    await memory.add_turns(said(lines(40)))
    waiting = await memory.session_context()
    assert (waiting.metadata.made_by, openai_server.chats) == ("extractive:quotes-2", [])
    first = await memory.compress()
    assert [(i.kind, i.first_seq, i.last_seq, i.participants, i.importance) for i in first.summary] == [
        ("event", 3, 3, ("user",), 5.0),
        ("event", 5, 9, ("user", "assistant"), 5.0),
        ("decision", 7, 7, ("user",), 8.0),
    ]
    await memory.add_turns(said(lines(20, first=41)))
    second = await memory.compress()
    assert [i.text for i in second.summary] == [
        *(i.text for i in first.summary),
        "line 44 is late",
    ]
    one, two = map(prompt, openai_server.chats)
    assert "<summary_so_far>" not in one
    assert all(f"line {n} " in one for n in range(1, 41))
    assert f"<summary_so_far>\n{FIRST}\n</summary_so_far>" in two
    assert not any(f"line {n} " in two for n in range(1, 41))
    assert all(f"): line {n} " in two and f"Turn {n} (" in two for n in range(41, 61))
    made = {event.made_by for event in await memory.compressions()}
    assert made == {"llm:gpt-4o-mini:form-2"}
    assert "line 44 is late" in str(await memory.fetch_memory("What now?", max_tokens=800))
    assert [turn.content for turn in await everything(memory)] == lines(60)


@on_each_store
@pytest.mark.parametrize("reply", ["", "I'm sorry, I can't help a Quagga."])
async def test_an_extract_stands_in_for_a_reply_of_nothing(
    memory: MemoryAgent, service: MemoryService, reply: str, openai_server: ScriptedOpenAI
) -> None:
    """Nobody waits for it, the record says so, the reply is kept nowhere, and the next summary builds on the extract."""
    openai_server.answer = lambda _: reply
    texts = lines(105, words=2)
    texts[40] = "We have decided to take the train to Porto on 12 May."
    await memory.add_turns(said(texts))
    await memory.settle(timeout=60)
    (event,) = await memory.compressions()
    assert (event.through, event.made_by) == (100, "extractive:quotes-2")
    assert "Porto" in str(event.summary)
    assert len(openai_server.chats) == 2 - bool(reply)  # an empty one is asked for once more
    assert (await memory.status()).parked_count == 0
    assert await remains(service, "Quagga") == []
    openai_server.answer = lambda _: "FACTS: the clocks"
    assert (await memory.compress()).metadata.made_by == "llm:gpt-4o-mini:form-2"
    assert "Porto" in prompt(openai_server.chats[-1]).partition("</summary_so_far>")[0]


class Held:
    """A reply that waits until it is let go."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = threading.Event()
        self.go = threading.Event()

    def __call__(self, _: Request) -> str:
        self.asked.set()
        assert self.go.wait(30)
        return self.text


async def meanwhile(held: Held, work: Callable[[], Any]) -> None:
    """Do this once the model is being asked, then let it answer."""
    try:
        assert await asyncio.to_thread(held.asked.wait, 30)
        await work()
    finally:
        held.go.set()


@on_each_store_by_day
@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "by the worker"])
async def test_a_turn_that_is_forgotten_meanwhile_is_in_no_compression(
    memory: MemoryAgent, service: MemoryService, asked: bool, openai_server: ScriptedOpenAI
) -> None:
    """What the model makes of it is thrown away, and it is asked again without."""
    held = Held("DECISIONS: They sell the Quaggawagon.")
    openai_server.answer = lambda body: held(body) if not held.asked.is_set() else FIRST
    texts = lines(101, words=2)
    texts[59] = "We sell the Quaggawagon."
    if asked:
        texts = texts[:90]
    stored = await memory.add_turns(said(texts))
    compressing = asyncio.create_task(memory.compress()) if asked else None
    await meanwhile(held, lambda: memory.forget([stored[59].id]))
    if compressing is not None:
        context = await compressing
        assert "Quaggawagon" not in str(context)
    await memory.settle(timeout=60)
    events = await memory.compressions()
    assert all(stored[59].id not in event.covers for event in events)
    assert len(events) == (1 if asked else len(events)) <= 1
    assert await remains(service, "Quaggawagon") == []
    assert not any("Quaggawagon" in prompt(body) for body in openai_server.chats[1:])
