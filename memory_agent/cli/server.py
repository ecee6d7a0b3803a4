"""`memory-agent serve`, `inspect` and `mcp`: the memory over HTTP, as pages of a folder, and as MCP tools."""

from __future__ import annotations

import asyncio
import logging
import webbrowser
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from memory_agent.cli.opening import named_service, opened, stay_long, told_to_stop
from memory_agent.cli.options import (
    Commands,
    DataDir,
    TalkOptions,
    ThreadOptions,
    flag,
    option,
    settings,
    working_settings,
)
from memory_agent.cli.output import note
from memory_agent.data_dir import LocalService, OwnAddress
from memory_agent.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.applications import Starlette

    from memory_agent.config import MemoryConfig
    from memory_agent.mcp.serving import AgentOf
    from memory_agent.mcp.tools import Memory
    from memory_agent.server.auth import Principal
    from memory_agent.server.run import OnStop

log = logging.getLogger(__name__)


app = Commands()


@app.command(quiet=True)
def serve(
    host: str | None = option("--host", "Where to listen.", shown="server_host"),
    port: int | None = option("--port -p", "0: any free one.", min=0, max=65_535, shown="server_port"),
    data_dir: DataDir = None,
    insecure_no_auth: bool = flag(
        "--insecure-no-auth",
        "Ask for no keys: whoever can connect may do everything. Loopback addresses only.",
    ),
    log_format: Literal["json", "text"] = option(
        "--log-format", "One JSON object a line, or text for people.", "json"
    ),
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "--log-level", "The least that is logged.", "info"
    ),
) -> None:
    """Serve the memory over HTTP: REST and its OpenAPI document at /docs, events, MCP at /mcp.

    Every request brings an API key (`memory-agent keys create`). SIGTERM and ctrl-C finish the requests in progress and
    the worker's stage in hand, then leave; what is still owed is taken up by the next worker.

    Slow, idle and many connections are limited by a proxy in front (config/nginx.conf), not here: that is for loopback.

    Embedded, one process serves. With MongoDB and a Chroma server any number may, on any machines.

    Examples:
        memory-agent serve
        memory-agent serve --insecure-no-auth --port 8081 --log-format text
        MEMORY_AGENT_RUN_WORKER=false memory-agent serve --host 0.0.0.0
    """
    given: dict[str, Any] = {"server_host": host, "server_port": port}
    cfg = settings(data_dir, **{name: value for name, value in given.items() if value is not None})
    _serve(cfg, log_level, as_json=log_format == "json", insecure_no_auth=insecure_no_auth)


def _serve(cfg: MemoryConfig, log_level: str, *, as_json: bool, insecure_no_auth: bool) -> None:
    """Serve until told to stop. Raises ConfigError, DataDirInUse, StoreUnavailable if it cannot start."""
    try:
        from memory_agent.server.app import create_app
        from memory_agent.server.incoming import is_loopback
        from memory_agent.server.logs import configure_logs
        from memory_agent.server.run import print_address
        from memory_agent.server.run import serve as run_server
        from memory_agent.server.tracing import configure_tracing
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"{exc.name} is not installed: install memory_agent with its extra `server`"
        ) from exc
    configure_logs(log_level, json=as_json)
    configure_tracing()
    # Whoever ships a log of JSON reads one object per line, and nothing between them.
    tell = log.info if as_json else note
    own = OwnAddress(cfg) if cfg.embedded else None

    def application(on_stop: OnStop) -> Starlette:
        if own is not None:
            on_stop.append(own.take_away)
        own_key = None if own is None else own.key
        return create_app(cfg, on_stop=on_stop, insecure_no_auth=insecure_no_auth, own_key=own_key)

    def ready(address: str) -> None:
        if own is not None:
            own.leave(address)  # commands on this machine ask it, for the folder is held
        stay_long()
        print_address(address)
        kept = f"embedded in {cfg.data_dir}" if cfg.embedded else "on MongoDB and Chroma"
        tell(f"{kept}; the API is described at {address}/docs")
        if not is_loopback(cfg.server_host) and not cfg.server_trusted_proxies:
            tell(
                "others can connect, and slow or many connections are not limited here: put a proxy that limits them in "
                "front, as docker-compose.yml does with config/nginx.conf, and name it in server_trusted_proxies"
            )
        if insecure_no_auth:
            tell(
                "no API keys are asked for: whoever can connect from this machine may read and change everything"
            )

    run_server(application, cfg, insecure_no_auth=insecure_no_auth, on_ready=ready)
    tell("stopped; what is still owed is taken up by the next worker")


# --- the pages of a folder -----------------------------------------------------------------------------------
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


# --- MCP over standard input and output ----------------------------------------------------------------------
@app.command(on_memory=True)
async def mcp(
    where: TalkOptions, read_only: bool = flag("--read-only", "Only the tools that change nothing.")
) -> None:
    """Give the memory to an MCP client (Claude Desktop, Claude Code, an IDE) as tools.

    It speaks over standard input and output, for a client that starts it, and ends when the client
    does. The client's user is trusted, so no key is asked for; the tools see this one user's memory. Several may run over
    one folder and have one memory. With --url, or service_url set, it is a running service's, asked with the key in
    --key-file or MEMORY_AGENT_SERVICE_API_KEY.

    Over HTTP `memory-agent serve` has the same tools at /mcp, for whoever brings an API key.

    Examples:
        memory-agent mcp --user ada
        memory-agent mcp --user ada --url https://memory.example.org
    """
    try:
        import mcp.server  # noqa: F401
    except ImportError as exc:
        raise ConfigError(
            "the MCP server needs the package mcp: install memory_agent with its extra `mcp`"
        ) from exc
    from memory_agent.mcp.serving import build_server, serve_stdio, wire
    from memory_agent.server.auth import Principal

    stop = told_to_stop()
    # Whoever starts this process may read its files anyway. Bound to one user: no text that a model reads can make
    # it ask for another's memory.
    principal = Principal(tenant=where.tenant, user_id=where.user, read_only=read_only)
    with wire() as (reading, writing):
        async with _memory(where.data_dir) as agent_of:
            server = build_server(
                agent_of=agent_of, principal_of=lambda _: principal, default_thread=where.thread
            )
            await serve_stdio(server, stop, reading=reading, writing=writing)


@asynccontextmanager
async def _memory(data_dir: Path | None) -> AsyncIterator[AgentOf]:
    """The memory of the service that is named, else of the folder, whoever holds it, or of the servers."""
    from memory_agent.cli.opening import FolderMemory
    from memory_agent.service import MemoryService

    cfg = working_settings(data_dir)
    client = named_service(data_dir)
    opening = client or (FolderMemory(cfg) if cfg.embedded else MemoryService(cfg))
    async with opening as memory:

        def of_tenant(principal: Principal, user_id: str, thread_id: str) -> Memory:
            return memory.agent(user_id, thread_id, tenant=principal.tenant)

        yield of_tenant
