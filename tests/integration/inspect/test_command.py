"""`memory-agent inspect`: an address that lets one browser in, while the command holds the folder and beside who does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from memory_agent import MemoryConfig, MemoryService
from memory_agent.server.run import sharing
from tests.integration.commands import CommandLine
from tests.integration.inspect.looking import tell_of_walnuts
from tests.servers.service import Command


async def first_page(address: str) -> tuple[int, str]:
    """The page that a browser comes to."""
    async with httpx.AsyncClient(follow_redirects=True) as http:
        answer = await http.get(address)
    return answer.status_code, answer.text


async def test_the_address_that_it_prints_lets_one_browser_in_until_it_is_told_to_end(tmp_path: Path) -> None:
    async with MemoryService(MemoryConfig(data_dir=tmp_path / "data")) as service:
        await tell_of_walnuts(service)
    command = Command(tmp_path, "inspect", "--no-browser", settings={"data_dir": tmp_path / "data"})
    command.start()
    assert command._stdout is not None
    address = (await asyncio.to_thread(command._stdout.readline)).strip()
    assert address.startswith("http://127.0.0.1:")
    status, page = await first_page(address)
    assert (status, ">ann<" in page) == (200, True)
    assert (await first_page(address))[0] == 401
    assert command.stop() == 0


async def test_beside_the_process_that_holds_the_folder_it_prints_that_ones_address(
    tmp_path: Path, cli: CommandLine
) -> None:
    cfg = MemoryConfig(data_dir=tmp_path / "memory")
    async with MemoryService(cfg) as service, sharing(service):
        await tell_of_walnuts(service)
        printed = await asyncio.to_thread(cli, "inspect", "--no-browser")
        assert (await first_page(printed.stdout.strip()))[0] == 200


async def test_of_a_memory_on_servers_it_says_where_the_pages_are(cli: CommandLine) -> None:
    refused = await asyncio.to_thread(cli, "inspect", code=1, MEMORY_AGENT_MONGO_URI="mongodb://127.0.0.1:1")
    assert "`memory-agent serve` has its pages at /inspect" in refused.stderr
