"""`memory-agent serve`: the HTTP service as a process."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memory_agent.cli.output import note
from memory_agent.cli.running import OK, settings
from memory_agent.errors import ConfigError
from memory_agent.installed import how_to_install

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp

    from memory_agent.server.edge.run import Edge

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """What the command was given; None: as the settings say."""

    host: str | None
    port: int | None
    data_dir: Path | None
    insecure_no_auth: bool
    log_json: bool
    log_level: str


def serve_http(options: ServeOptions) -> int:
    """Serve until told to stop. Raises ConfigError, DataDirInUse, StoreUnavailable if it cannot start."""
    given: dict[str, Any] = {"server_host": options.host, "server_port": options.port}
    cfg = settings(options.data_dir, **{name: value for name, value in given.items() if value is not None})
    try:
        from memory_agent.server.app import create_app
        from memory_agent.server.edge.run import serve
        from memory_agent.server.logs import configure_logs
        from memory_agent.server.sharing import OwnAddress
        from memory_agent.server.tracing import configure_tracing
    except ModuleNotFoundError as exc:
        raise ConfigError(f"{exc.name} is not installed; `{how_to_install('server')}`") from exc
    configure_logs(options.log_level, json=options.log_json)
    configure_tracing()
    tell = _log_line if options.log_json else note
    own = OwnAddress(cfg) if cfg.embedded else None

    def app(edge: Edge) -> ASGIApp:
        if own is not None:
            edge.on_stop.append(own.take_away)
        return create_app(
            cfg,
            edge=edge,
            insecure_no_auth=options.insecure_no_auth,
            own_key=None if own is None else own.key,
        )

    def ready(address: str) -> None:
        if own is not None:
            own.leave(address)  # commands on this machine ask it, for the folder is held
        _ready(cfg.data_dir if cfg.embedded else None, tell, options.insecure_no_auth, address)

    serve(app, cfg, insecure_no_auth=options.insecure_no_auth, on_ready=ready)
    tell("stopped; what is still owed is taken up by the next worker")
    return OK


def _ready(data_dir: Path | None, tell: Callable[[str], None], insecure_no_auth: bool, address: str) -> None:
    """Say where it listens on standard output, for people and for scripts."""
    from memory_agent.server.edge.run import print_address

    print_address(address)
    kept = "on MongoDB and Chroma" if data_dir is None else f"embedded in {data_dir}"
    tell(f"{kept}; the API is described at {address}/docs")
    if insecure_no_auth:
        tell(
            "no API keys are asked for: whoever can connect from this machine may read and change everything"
        )


def _log_line(text: str) -> None:
    """For a log of JSON."""
    # Whoever ships the log reads one JSON object per line, and nothing between them.
    log.info(text)
