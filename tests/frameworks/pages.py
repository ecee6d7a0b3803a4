"""The program of a page, run as it stands, by a process of its own, on a memory in its folder.

Below it what tests of several frameworks say to a model and ask of the memory.
"""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_agent import MemoryService
from tests.servers.forks import forks
from tests.servers.openai_script import Reply, ScriptedOpenAI

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = 240


def program_of(page: str, number: int = 1) -> str:
    """The first program of a page, or another block of it."""
    return (DOCS / page).read_text("utf-8").split("```python\n")[number].split("```")[0]


@dataclass
class Reader:
    """Somebody who follows a page. `environment`: of the programs, which run in processes that are forked."""

    folder: Path
    environment: dict[str, str]

    async def runs(self, program: str) -> list[str]:
        """The lines that a program prints."""
        environment = {**os.environ, **self.environment}
        done = await asyncio.to_thread(
            forks().run, ["-"], stdin=program, cwd=self.folder, env=environment, timeout=SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def environment_with(openai_server: ScriptedOpenAI, folder: Path) -> dict[str, str]:
    """The model that a page names is the scripted one; facts are extracted without it."""
    return {
        "OPENAI_BASE_URL": openai_server.base_url,
        "OPENAI_API_KEY": "none",
        "CHAT_MODEL": "scripted",
        "MEMORY_AGENT_DATA_DIR": str(folder / "data"),
        "MEMORY_AGENT_ENABLE_FACT_EXTRACTION": "false",
        "HF_HUB_OFFLINE": "1",
    }


def streamed(text: str) -> Reply:
    """A model's answer that comes word by word."""
    told: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    told += [{"content": word} for word in re.findall(r"\S+\s*", text)]
    return _stream(told, "stop")


def streamed_call(name: str, arguments: str, said: str = "") -> Reply:
    """A model's call of a tool that comes in parts, behind some words."""
    function = {"name": name, "arguments": arguments}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    told: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        {"content": said},
        {"tool_calls": [call]},
    ]
    return _stream(told, "tool_calls")


def _stream(deltas: list[dict[str, Any]], finish: str) -> Reply:
    body: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    lines = [f"data: {json.dumps({**body, 'choices': [choice]})}\n\n" for choice in choices]
    return Reply(raw="".join([*lines, "data: [DONE]\n\n"]), content_type="text/event-stream")


def calling(name: str, arguments: str, *, call_id: str = "call_1") -> Reply:
    """A model's answer that is a call of a tool."""
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return _reply({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def _reply(message: dict[str, Any], finish: str) -> Reply:
    choice = {"index": 0, "finish_reason": finish, "message": message}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return Reply(raw=json.dumps({**body, "usage": usage}))


def sent_to(server: ScriptedOpenAI) -> list[str]:
    """All that each request told the model, as text."""
    return [json.dumps(chat["messages"]) for chat in server.chats]


async def said(service: MemoryService, user: str = "ada", thread: str = "t") -> list[tuple[str, str]]:
    """A thread's turns: who said what."""
    return [(turn.role, turn.content) for turn in (await service.agent(user, thread).history()).turns]


@contextlib.asynccontextmanager
async def recalled_and_kept_apart(service: MemoryService) -> AsyncIterator[None]:
    """For two exchanges that recall where Ada lives: they are stored as they were said, and nothing recalled becomes a turn or a fact."""
    await service.agent("ada", "old").update_memory("My name is Ada and I live in Oslo.", "Hello.")
    await service.settle()
    before = await service.agent("ada", "old").fetch_facts()
    yield
    await service.settle()
    assert await said(service) == [
        ("user", "Where do I live?"),
        ("assistant", "You live in the north."),
        ("user", "Really?"),
        ("assistant", "Yes."),
    ]
    assert await service.agent("ada", "t").fetch_facts(scope="thread") == {}
    assert await service.agent("ada", "t").fetch_facts() == before
