"""Anthropic's tool runner with the memory tool: the SDK's own loop, and a real HTTP server as Claude."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic

from memory_agent import MemoryService, ServiceClient
from memory_agent.integrations.anthropic import MemoryTool
from tests.integration.conversations import opened, settings_on
from tests.over_http import both_ways_by_day, embedded_only
from tests.servers.anthropic_script import ScriptedAnthropic
from tests.servers.mongod import free_port

pytestmark = pytest.mark.usefixtures("both_ways")
LOOK = {"command": "view", "path": "/memories"}
EMPTY = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n0B\t/memories"


@pytest.fixture
def claude() -> Iterator[ScriptedAnthropic]:
    server = ScriptedAnthropic().start()
    yield server
    server.stop()


@pytest.fixture
async def service(
    both_ways: None, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[MemoryService]:
    async with opened(settings_on("sqlite", request, tmp_path)) as service:
        yield service


async def talk(claude: ScriptedAnthropic, tool: Any, *replies: Any) -> str:
    """One conversation by the SDK's runner, whose model says `replies`; its last words."""
    claude.script_of(*replies)
    return await converse(claude, tool)


async def converse(claude: ScriptedAnthropic, tool: Any) -> str:
    async with AsyncAnthropic(base_url=claude.url, api_key="none", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="scripted", max_tokens=100, tools=[tool], messages=[{"role": "user", "content": "Hello"}]
        )
        answer = await runner.until_done()
    block = answer.content[-1]
    assert block.type == "text"
    return block.text


@both_ways_by_day
async def test_claude_finds_in_the_next_conversation_what_it_wrote_and_nothing_of_another_user(
    claude: ScriptedAnthropic, service: MemoryService
) -> None:
    write = {"command": "create", "path": "/memories/trip.md", "file_text": "Porto Covo\nin June\n"}
    edit = {"command": "str_replace", "path": "/memories/trip.md", "old_str": "June", "new_str": "July"}
    more = {"command": "insert", "path": "/memories/trip.md", "insert_line": 2, "insert_text": "by train"}
    move = {"command": "rename", "old_path": "/memories/trip.md", "new_path": "/memories/trips/covo.md"}
    assert await talk(claude, MemoryTool(service, "ada"), LOOK, write, edit, more, move, "Done.") == "Done."
    assert claude.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    told = [text for text, failed in claude.results if not failed]
    assert told == [
        EMPTY,
        "File created successfully at: /memories/trip.md",
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tPorto Covo\n     2\tin July\n     3\t",
        "The file /memories/trip.md has been edited.",
        "Successfully renamed /memories/trip.md to /memories/trips/covo.md",
    ]
    again = {"command": "view", "path": "/memories/trips/covo.md", "view_range": [2, 3]}
    gone = {"command": "delete", "path": "/memories/trips"}
    await talk(claude, MemoryTool(service, "ada"), again, gone, "In July.")
    assert claude.results == [
        (
            "Here's the content of /memories/trips/covo.md with line numbers:\n     2\tin July\n     3\tby train",
            False,
        ),
        ("Successfully deleted /memories/trips", False),
    ]
    await talk(claude, MemoryTool(service, "bob"), LOOK, "Nothing.")
    assert claude.results == [(EMPTY, False)]


async def test_what_a_command_refuses_is_told_to_claude_as_an_error(
    claude: ScriptedAnthropic, service: MemoryService
) -> None:
    tool = MemoryTool(service, "ada")
    calls = [
        {"command": "view", "path": "/memories/none"},
        {"command": "create", "path": "/memories/a"},
        {"command": "format", "path": "/memories"},
        {"command": "view", "path": "/etc/passwd"},
        {"command": "view", "path": 7},
    ]
    await talk(claude, tool, *calls, "Sorry.")
    told = claude.results
    assert all(failed for _, failed in told)
    assert told[0][0] == "The path /memories/none does not exist. Please provide a valid path."
    assert "missing a required argument: 'file_text'" in told[1][0]
    assert "command is 'format'" in told[2][0]
    assert told[3][0] == "Path must start with /memories, got: /etc/passwd"
    assert told[4][0] == "path is 7; pass text"
    assert await tool.clear_all_memory() == "All memory cleared"


async def test_of_two_conversations_at_once_and_one_that_is_cancelled_no_note_is_lost_or_doubled(
    claude: ScriptedAnthropic, service: MemoryService
) -> None:
    tool = MemoryTool(service, "ada")
    insert = {"command": "insert", "path": "/memories/a.md", "insert_line": 0}
    await tool.files.create("/memories/a.md", "end\n")
    run = asyncio.create_task(talk(claude, tool, {**insert, "insert_text": "first"}, None))
    while len(claude.requests) < 2:
        await asyncio.sleep(0.01)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert await tool.files.read("/memories/a.md") == "first\nend\n"
    notes = [{**insert, "insert_text": text} for text in ("second", "third")]
    claude.script_of(*notes, "Noted.", "Noted.")
    await asyncio.gather(converse(claude, tool), converse(claude, MemoryTool(service, "ada")))
    assert sorted((await tool.files.read("/memories/a.md")).split()) == ["end", "first", "second", "third"]


@embedded_only("there is no service")
async def test_claude_is_told_that_the_memory_is_away(claude: ScriptedAnthropic) -> None:
    async with ServiceClient(f"http://127.0.0.1:{free_port()}", api_key="ma_none", max_retries=0) as away:
        assert await talk(claude, MemoryTool(away, "ada"), LOOK, "Later.") == "Later."
    ((told, failed),) = claude.results
    assert failed
    assert "cannot be reached" in told
