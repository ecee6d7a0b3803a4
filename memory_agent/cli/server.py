"""`memory-agent serve`: the HTTP service as a process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from memory_agent.cli.opening import stay_long
from memory_agent.cli.options import Commands, DataDir, flag, option, settings
from memory_agent.cli.output import note
from memory_agent.errors import ConfigError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from memory_agent.config import MemoryConfig
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
        from memory_agent.server.logs import configure_logs
        from memory_agent.server.origins import is_loopback
        from memory_agent.server.run import print_address
        from memory_agent.server.run import serve as run_server
        from memory_agent.server.sharing import OwnAddress
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
