"""Serving: uvicorn on a socket of ours, until it is told to stop.

It has no limits on slow or many connections; `config/nginx.conf` has them, for a proxy in front of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

import uvicorn

from memory_agent.errors import ConfigError
from memory_agent.server.incoming import is_loopback

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from memory_agent.config import MemoryConfig

    OnStop = list[Callable[[], Awaitable[None]]]
    """Awaited as soon as the server is to stop, before it waits for requests in progress: streams end here."""

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 60
"""Of a connection between two requests; longer than a proxy in front of this keeps one."""
_BACKLOG: Final = 1_024


class Server(uvicorn.Server):
    """uvicorn that says where it listens, ends streams when it is to stop, and leaves signals alone.

    `live` runs it until `should_exit`. Whether the application is open is no concern of its own.
    """

    def __init__(
        self,
        app: ASGIApp,
        cfg: MemoryConfig,
        *,
        on_stop: OnStop,
        on_ready: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                interface="asgi3",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=math.ceil(cfg.server_shutdown_seconds),
            )
        )
        self.address: str | None = None
        """Such as http://127.0.0.1:8080; None until it listens."""
        self._shutdown_seconds = cfg.server_shutdown_seconds
        self._on_stop = on_stop
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets:
            self.address = address_of(sockets[0])
            self._on_ready(self.address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # All at once: whatever one of them hangs on must not keep the others' streams open.
        endings = [asyncio.ensure_future(ending()) for ending in self._on_stop]
        if endings:
            done, late = await asyncio.wait(endings, timeout=self._shutdown_seconds)
            for ending in late:
                ending.cancel()
            for exc in [ending.exception() for ending in done if not ending.cancelled()]:
                if exc is not None:
                    log.error("what was to end before the stop failed: %s", type(exc).__name__)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0: any free one. Raises ConfigError."""
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
        # Connections inherit it. asyncio sets it only where a socket names its protocol, which this one does not; without
        # it the second part of an answer waits for the client's delayed acknowledgement of the first: 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as exc:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {exc.strerror or exc}; set server_host and server_port"
        ) from exc
    return listening


def address_of(listening: socket.socket) -> str:
    """A listening socket's address as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def print_address(address: str) -> None:
    """Tell the caller on standard output."""
    sys.stdout.write(f"memory-agent listens on {address}\n")
    sys.stdout.flush()


async def live(app: Starlette, server: Server, listening: socket.socket) -> None:
    """Open the application, serve it until the server is to stop, and close it. Raises what it failed to open with."""
    async with app.router.lifespan_context(app):
        await server.serve(sockets=[listening])


def serve(
    make_app: Callable[[OnStop], Starlette],
    cfg: MemoryConfig,
    *,
    insecure_no_auth: bool = False,
    on_ready: Callable[[str], None] = print_address,
) -> None:
    """Serve until SIGTERM or SIGINT; requests in progress are finished, then the application closes.

    `on_ready` is given the address as soon as it listens. Raises ConfigError for an address that cannot be had or must
    not be, and what the application failed to open with. A second SIGINT does not wait.
    """
    if insecure_no_auth and not is_loopback(cfg.server_host):
        raise ConfigError(
            f"server_host is {cfg.server_host}, where others can connect, and no keys would be asked for; "
            "set server_host=127.0.0.1, or ask for keys"
        )
    on_stop: OnStop = []
    app = make_app(on_stop)
    server = Server(app, cfg, on_stop=on_stop, on_ready=on_ready)

    _allow_open_files()
    with (
        contextlib.closing(bind(cfg.server_host, cfg.server_port)) as listening,
        _told_by_signals(server),
        asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner,
    ):
        runner.run(live(app, server, listening))


@contextlib.contextmanager
def _told_by_signals(server: Server) -> Iterator[None]:
    """SIGTERM and SIGINT tell the server to stop, from before the application opens."""
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _allow_open_files() -> None:
    """As many as this user may have: each connection and each reader of events takes one, and 1,024 are usual."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limit, macOS another
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
