"""The command `memory-agent serve`, with its options and help text."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from enum import StrEnum
from typing import Annotated

import typer

from memory_agent.cli.options import Commands, DataDir
from memory_agent.cli.running import run_plain

app = Commands()


class LogFormat(StrEnum):
    """How a line of the log looks."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """From which level on lines are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Where to listen.", show_default="server_host")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", min=0, max=65_535, help="0: any free one.", show_default="server_port"),
    ] = None,
    data_dir: DataDir = None,
    insecure_no_auth: Annotated[
        bool,
        typer.Option(
            "--insecure-no-auth",
            help="Ask for no keys: whoever can connect may do everything. Loopback addresses only.",
        ),
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="One JSON object a line, or text for people.")
    ] = LogFormat.JSON,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="The least that is logged.")
    ] = LogLevel.INFO,
) -> None:
    """Serve the memory over HTTP: REST and its OpenAPI document at /docs, events, MCP at /mcp.

    Every request brings an API key (`memory-agent keys create`). SIGTERM and ctrl-C finish the requests in progress and
    the worker's stage in hand, then leave; what is still owed is taken up by the next worker.

    Embedded, one process serves. With MongoDB and a Chroma server any number may, on any machines.

    **Examples**

        memory-agent serve

        memory-agent serve --insecure-no-auth --port 8081 --log-format text

        MEMORY_AGENT_RUN_WORKER=false memory-agent serve --host 0.0.0.0
    """
    from memory_agent.cli.server import ServeOptions, serve_http

    options = ServeOptions(
        host=host,
        port=port,
        data_dir=data_dir,
        insecure_no_auth=insecure_no_auth,
        log_json=log_format is LogFormat.JSON,
        log_level=log_level.value,
    )
    run_plain(lambda: serve_http(options), quiet=True)
