"""The filter that is pasted into Open WebUI, called as Open WebUI calls it, on a service over HTTP."""

from __future__ import annotations

import runpy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryService
from tests.integration.conversations import everything, opened
from tests.servers.mongod import free_port
from tests.servers.service import served

FILE = Path(__file__).parents[3] / "examples" / "open_webui_filter.py"
ADA = {"id": "7f3c/ä", "name": "Ada"}


@pytest.fixture
async def service(quiet: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(quiet) as service:
        yield service


@pytest.fixture
async def pasted(service: MemoryService, tmp_path: Path) -> AsyncIterator[Any]:
    async with served(service) as server:
        made = runpy.run_path(str(FILE))["Filter"]()
        (tmp_path / "key").write_text(f"{await server.key('default')}\n")
        made.valves = made.Valves(url=f"{server.address}/", key_file=str(tmp_path / "key"), timeout=60)
        yield made


def body(chat: str, *texts: Any) -> dict[str, Any]:
    roles = ("user", "assistant") * len(texts)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    for number, message in enumerate(messages):
        message["id"] = f"{chat} {number}"
    return {"model": "m", "chat_id": chat, "messages": messages}


async def test_what_was_said_in_one_chat_is_recalled_in_the_next_and_not_for_others(
    pasted: Any, service: MemoryService
) -> None:
    told = {"chat_id": "c1"}
    said = body("c1", "I can't eat walnuts", "Noted")
    for _ in range(2):
        assert await pasted.outlet(said, ADA, told) is said
    memory = service.agent(ADA["id"], "c1")
    assert [turn.content for turn in await everything(memory)] == ["I can't eat walnuts", "Noted"]
    await service.settle(timeout=100)

    asked = body("c2", [{"type": "text", "text": "Which walnuts can I eat?"}, {"type": "image_url"}])
    found = await pasted.inlet(asked, ADA, {"chat_id": "c2"})
    first, last = found["messages"]
    assert first["role"] == "system"
    assert "I can't eat walnuts" in first["content"]
    assert last["content"][0]["text"] == "Which walnuts can I eat?"
    assert len((await pasted.inlet(body("c3", "Which walnuts?"), {"id": "bob"}, None))["messages"]) == 1

    await pasted.outlet(
        {**found, "messages": [*found["messages"], {"role": "assistant", "content": "None"}]}, ADA
    )
    expected = ["Which walnuts can I eat?", "None"]
    assert [turn.content for turn in await everything(service.agent(ADA["id"], "c2"))] == expected


async def test_what_the_model_thought_and_ran_is_not_remembered_as_its_answer(
    pasted: Any, service: MemoryService
) -> None:
    thought = (
        '<details type="reasoning" done="true" duration="3">\n<summary>Thought</summary>\n> Hm.\n</details>\n'
    )
    ran = '<details type="tool_calls" done="true" id="1" name="look">\n<summary>Ran</summary>\n</details>\n'
    answer = "Noted.\n<details><summary>More</summary>Really.</details>"
    await pasted.outlet(body("c1", "I like tea", f"{thought}{ran}{answer}"), ADA, None)
    await pasted.outlet(body("c1", "And cake", thought), ADA, None)
    turns = await everything(service.agent(ADA["id"], "c1"))
    assert [turn.content for turn in turns] == ["I like tea", answer]


def test_it_is_on_in_every_chat_for_which_nobody_chose_it() -> None:
    assert not hasattr(
        runpy.run_path(str(FILE))["Filter"](), "toggle"
    )  # Open WebUI asks for a choice where it is


async def test_a_chat_goes_on_where_there_is_nothing_to_ask_or_the_memory_is_away(pasted: Any) -> None:
    for nothing in (body("c1"), body("c1", ""), body("local:1", "Hello")):
        before = [*nothing["messages"]]
        assert (await pasted.inlet(nothing, ADA, None))["messages"] == before
        assert await pasted.outlet(nothing, ADA, None) is nothing
    assert await pasted.inlet(body("c1", "Hello"), None, None) == body("c1", "Hello")
    for address, key in (
        (f"http://127.0.0.1:{free_port()}", ""),
        (pasted.valves.url, "/no/such/file"),
        ("http://[", ""),
        ("http://a:b", ""),
    ):
        pasted.valves = pasted.Valves(url=address, key_file=key)
        assert await pasted.inlet(body("c1", "Hello"), ADA, None) == body("c1", "Hello")
        await pasted.outlet(body("c1", "Hello", "Hi"), ADA, None)
