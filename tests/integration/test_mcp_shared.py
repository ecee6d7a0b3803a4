"""Several MCP clients that each start a process over one folder have one memory, whichever of them comes and goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent.data_dir import LocalService
from tests.integration.commands import MONDAY as PIANO
from tests.integration.test_mcp import SECONDS, Process, ask, finish, requests

pytestmark = pytest.mark.timeout(300)


class Server:
    """`memory-agent mcp` as a client that starts it has it: a pipe in, a pipe out, one request after the other."""

    def __init__(self, process: Process) -> None:
        self.running = process.start("mcp", "--user", "ada")
        self._asked = 0
        self._say(requests())
        self._answer()

    def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool that doesn't fail."""
        self._asked += 1
        call = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1_000 + self._asked, "method": "tools/call", "params": call}
        self._say(json.dumps(message) + "\n")
        result = self._answer()["result"]
        assert not result.get("isError"), result
        found: dict[str, Any] = result["structuredContent"]
        return found

    def _say(self, text: str) -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(text)
        self.running.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        assert line, self.running.stderr and self.running.stderr.read()
        answer: dict[str, Any] = json.loads(line)
        return answer


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


@pytest.fixture
def servers(process: Process) -> Iterator[list[Server]]:
    """Those that a test started; what is left of them is ended with it."""
    started: list[Server] = []
    yield started
    for server in started:
        if server.running.poll() is None:
            server.running.kill()
        server.running.communicate()


def command(process: Process, *arguments: str) -> str:
    """What another command says of the same folder."""
    ran = process.start(*arguments)
    return finish(ran)[0]


def test_of_two_clients_of_one_memory_the_second_takes_over(process: Process, servers: list[Server]) -> None:
    """What one remembers the other recalls; other commands work beside them; when the first leaves, the second goes on."""
    first = Server(process)
    servers.append(first)
    second = Server(process)
    servers.append(second)
    first.ask("remember", text=PIANO)
    assert second.ask("context", message="piano?")["text"].count(PIANO) >= 1
    second.ask("correct_fact", path="home.city", value="Delft")
    assert first.ask("facts")["facts"]["home"] == {"city": "Delft"}
    assert json.loads(command(process, "status", "--json"))["turns"] == 1
    finish(first.running)  # its client closes the pipe
    assert second.ask("remember", text="The tuner's name is Bo.")["turn_ids"]
    assert second.ask("facts")["facts"]["home"] == {"city": "Delft"}
    assert json.loads(command(process, "status", "--json"))["turns"] == 2
    finish(second.running)
    assert LocalService.left_in(process.data) is None
    assert json.loads(command(process, "status", "--json"))["turns"] == 2


def test_the_second_goes_on_when_the_first_is_killed(process: Process, servers: list[Server]) -> None:
    """Nothing that was acknowledged is lost, nothing is stored twice, and no call fails."""
    servers += [Server(process), Server(process)]
    first, second = servers
    assert second.ask("remember", text=PIANO)["turn_ids"]
    os.kill(json.loads((process.data / ".lock-holder.json").read_text())["pid"], signal.SIGKILL)
    first.running.wait(SECONDS)
    assert second.ask("remember", text="It barks.")["turn_ids"]
    third = Server(process)
    servers.append(third)
    assert PIANO in third.ask("context", message="piano?")["text"]
    assert json.loads(command(process, "status", "--json"))["turns"] == 2


def test_of_two_that_start_at_once_one_holds_the_folder_and_both_have_it(
    process: Process, servers: list[Server]
) -> None:
    running = [process.start("mcp", "--user", "ada") for _ in range(2)]
    answers = []
    try:
        for one in running:
            assert one.stdin is not None
            one.stdin.write(requests(("tools/call", {"name": "remember", "arguments": {"text": PIANO}})))
            one.stdin.flush()
        for one in running:
            assert one.stdout is not None
            answers.append([json.loads(one.stdout.readline()) for _ in range(2)][1])
        assert [answer["result"].get("isError", False) for answer in answers] == [False, False], answers
        assert json.loads(command(process, "status", "--json"))["turns"] == 2
    finally:
        for one in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.communicate(timeout=SECONDS)


async def test_a_client_beside_a_running_service_has_its_memory(process: Process) -> None:
    """`serve` holds the folder: the process of the client asks it, and once more when it was started again."""
    from tests.servers.service import ServiceProcess

    service = ServiceProcess(process.folder / "logs", settings={"data_dir": process.data})
    await asyncio.to_thread(service.start)
    try:
        async with process.client("--user", "ada") as client:
            await ask(client, "remember", text=PIANO)
            assert service.stop() == 0
            assert PIANO in (await ask(client, "context", message="piano?"))["text"]
            assert json.loads(await asyncio.to_thread(command, process, "status", "--json"))["turns"] == 1
    finally:
        service.kill()
