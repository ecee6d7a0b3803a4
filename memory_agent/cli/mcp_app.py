"""The command `memory-agent mcp`, with its options and help text."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from typing import Annotated

import typer

from memory_agent.cli.options import (
    TENANT,
    THREAD,
    USER,
    DataDir,
    MemoryTyper,
    Tenant,
    Thread,
    User,
)
from memory_agent.cli.running import run

app = MemoryTyper()


@app.command()
def mcp(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only the tools that change nothing.")
    ] = False,
) -> None:
    """Give the memory to an MCP client (Claude Desktop, Claude Code, an IDE) as tools.

    It speaks over standard input and output, for a client that starts it, and ends when the client
    does. The client's user is trusted, so no key is asked for; the tools see this one user's memory. Several may run over
    one folder and have one memory. With --url, or service_url set, it is a running service's, asked with the key in
    --key-file or MEMORY_AGENT_SERVICE_API_KEY.

    Over HTTP `memory-agent serve` has the same tools at /mcp, for whoever brings an API key.

    **Examples**

        memory-agent mcp --user ada

        memory-agent mcp --user ada --url https://memory.example.org
    """
    from memory_agent.cli import mcp as serving

    whose = serving.Whose(tenant=tenant, user_id=user, thread_id=thread, read_only=read_only)
    run(serving.over_stdio(whose, data_dir=data_dir))
