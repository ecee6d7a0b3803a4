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
    service_options,
)
from memory_agent.cli.running import run, run_plain

app = MemoryTyper()


@app.command()
def mcp(
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Whose memory.", show_default=f"{USER}, but for --http")
    ] = None,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only the tools that change nothing.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP at /mcp; keys needed.")] = False,
    host: Annotated[
        str | None, typer.Option("--host", help="With --http: where to listen.", show_default="server_host")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, help="With --http: the port.", show_default="server_port"),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            help="With --http: a name that requests may be for (may be repeated).",
            show_default="loopback names; any, if it listens elsewhere",
        ),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-origin",
            help="With --http: an origin whose web pages may ask (may be repeated).",
            show_default="server_cors_origins",
        ),
    ] = None,
) -> None:
    """Give the memory to an MCP client (Claude Desktop, Claude Code, an IDE) as tools.

    Without --http it speaks over standard input and output, for a client that starts it, and ends when the client
    does. The client's user is trusted, so no key is asked for; the tools see this one user's memory. Several may run over
    one folder and have one memory. With --url, or service_url set, it is a running service's, asked with the key in
    --key-file or MEMORY_AGENT_SERVICE_API_KEY.

    With --http every request brings an API key (`memory-agent keys create`), which says whose memory it may ask for.
    `memory-agent serve` has the same at /mcp, beside everything else.

    **Examples**

        memory-agent mcp --user ada

        memory-agent mcp --user ada --url https://memory.example.org

        memory-agent mcp --http --port 8081
    """
    only_http = {
        "--host": host,
        "--port": port,
        "--allowed-host": allowed_host,
        "--allowed-origin": allowed_origin,
    }
    wrong = [name for name, value in only_http.items() if value is not None and not http]
    if wrong:
        raise typer.BadParameter(f"{' and '.join(wrong)}: only with --http")
    url, key_file = service_options()
    if http and (url, key_file) != (None, None):
        raise typer.BadParameter(
            "--http serves this process's memory; the service at --url has /mcp of its own"
        )
    if http and read_only:
        raise typer.BadParameter("with --http the key says whether it may only read")
    if tenant != TENANT and http:
        raise typer.BadParameter("--tenant: the key says whose users they are")
    from memory_agent.cli import mcp as serving

    if http:
        where = serving.Listening(
            host=host, port=port, allowed_hosts=allowed_host, allowed_origins=allowed_origin
        )
        run_plain(
            lambda: serving.over_http(where, user_id=user, thread_id=thread, data_dir=data_dir), quiet=True
        )
    whose = serving.Whose(tenant=tenant, user_id=user or USER, thread_id=thread, read_only=read_only)
    run(serving.over_stdio(whose, data_dir=data_dir))
