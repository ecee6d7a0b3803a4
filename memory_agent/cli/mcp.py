"""`memory-agent mcp`: the memory as MCP tools, over standard input and output."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from memory_agent.cli.opening import named_service, told_to_stop
from memory_agent.cli.options import MemoryTyper, TalkOptions, flag, working_settings
from memory_agent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from memory_agent.mcp.serving import AgentOf
    from memory_agent.mcp.tools import Memory
    from memory_agent.server.auth import Principal


app = MemoryTyper()


@app.command()
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
    from memory_agent.mcp.serving import build_server
    from memory_agent.mcp.stdio import serve_stdio, wire
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
    from memory_agent.cli.following import FolderMemory
    from memory_agent.service import MemoryService

    cfg = working_settings(data_dir)
    client = named_service(data_dir)
    opening = client or (FolderMemory(cfg) if cfg.embedded else MemoryService(cfg))
    async with opening as memory:

        def of_tenant(principal: Principal, user_id: str, thread_id: str) -> Memory:
            return memory.agent(user_id, thread_id, tenant=principal.tenant)

        yield of_tenant
