"""`memory-agent inspect`: the pages of an embedded memory, in the browser of whoever may read its folder."""

from __future__ import annotations

import asyncio
import webbrowser
from typing import TYPE_CHECKING, Annotated, Final

import typer

from memory_agent.cli.opening import opened, told_to_stop
from memory_agent.cli.options import Commands, ThreadOptions, flag, settings
from memory_agent.cli.output import note
from memory_agent.data_dir import LocalService
from memory_agent.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from memory_agent.config import MemoryConfig

app = Commands()
_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.05
Folder = Annotated[ThreadOptions, "data_dir"]


@app.command()
async def inspect(
    where: Folder, no_browser: bool = flag("--no-browser", "Print the address, and open nothing.")
) -> None:
    """Look into the memory of a folder in the browser: what is remembered, found, left out and owed.

    The pages are served on this machine alone, until ctrl-C, or by the process that holds the folder. The address works once,
    within two minutes. A service on servers has them at /inspect.

    Examples:
        memory-agent inspect
        memory-agent inspect --no-browser --data-dir ./data
    """
    from memory_agent.service import MemoryService

    cfg = settings(where.data_dir)
    if not cfg.embedded:
        raise ConfigError(
            "this memory is on servers; `memory-agent serve` has its pages at /inspect, for whoever has a key"
        )
    stop = told_to_stop()
    async with opened(where.data_dir, works=True, shares=True, stores=True) as service:
        address = await _address(cfg)
        typer.echo(address)
        if not no_browser and not await asyncio.to_thread(webbrowser.open, address):
            note("No browser could be opened: open the address yourself.")
        if isinstance(service, MemoryService):
            note("Press ctrl-C to end.")
            await stop.wait()


async def _address(cfg: MemoryConfig) -> str:
    """An address that lets one browser in. Raises ConfigError where nobody serves the folder, Unavailable."""
    import httpx

    left, tries = LocalService.left_in(cfg.data_dir), 0
    while left is None and tries < _TRIES:  # it is written once the server listens
        await asyncio.sleep(_PAUSE_SECONDS)
        left, tries = LocalService.left_in(cfg.data_dir), tries + 1
    if left is None:
        raise ConfigError(
            "nothing serves this folder: install memory_agent with its extra `server`, and see that loopback is there"
        )
    headers = {"Authorization": f"Bearer {left.api_key}"}
    try:
        async with httpx.AsyncClient(headers=headers, trust_env=False) as http:
            answer = await http.post(f"{left.url}/inspect/ticket")
            answer.raise_for_status()
    except httpx.HTTPError as exc:
        raise Unavailable(
            f"the service at {left.url} gave no address: {type(exc).__name__}; try again"
        ) from exc
    return f"{left.url}/inspect/enter?ticket={answer.json()['ticket']}"
