"""Serving: uvicorn with connections of our own making, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from memory_agent.errors import ConfigError
from memory_agent.server.edge.connections import Connections, protocol
from memory_agent.server.origins import is_loopback

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from memory_agent.config import MemoryConfig

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 60.0
"""Of a connection between two requests; longer than a proxy in front of this keeps one."""
_BACKLOG: Final = 1_024


class Edge:
    """State shared by the server and the application."""

    def __init__(self, cfg: MemoryConfig) -> None:
        self.cfg = cfg
        self.connections = Connections(room_for_connections(cfg.server_max_connections))
        self.on_stop: list[Callable[[], Awaitable[None]]] = []
        """Awaited as soon as the server is to stop, before it waits for requests in progress: streams end here."""


class EdgeServer(uvicorn.Server):
    """uvicorn that says where it listens, and returns when it is told to stop instead of dying of the signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        edge: Edge,
        lifespan: _Lifespan,
        on_ready: Callable[[str], None],
        *,
        catch_signals: bool = True,
    ) -> None:
        super().__init__(config)
        self.edge = edge
        self.address: str | None = None
        """Such as http://127.0.0.1:8080; None until it listens."""
        self._lifespan = lifespan
        self._on_ready = on_ready
        self._catch_signals = catch_signals

    @property
    def failure(self) -> BaseException | None:
        """The exception that kept the application from starting or ended it."""
        return self._lifespan.failure

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            self.address = address_of(sockets[0])
            self._on_ready(self.address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # All at once: whatever one of them hangs on must not keep the others' streams open.
        endings = [asyncio.ensure_future(ending()) for ending in self.edge.on_stop]
        if endings:
            done, late = await asyncio.wait(endings, timeout=self.edge.cfg.server_shutdown_seconds)
            for ending in late:
                ending.cancel()
            for exc in [ending.exception() for ending in done if not ending.cancelled()]:
                if exc is not None:
                    log.error("what was to end before the stop failed: %s", type(exc).__name__)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if not self._catch_signals:
            yield
            return
        with super().capture_signals():
            yield
            self._captured_signals.clear()  # which uvicorn would raise again


class _Lifespan:
    """Keeps the error that starting the application failed with, which uvicorn would only log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: BaseException | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def without_trace(message: Message) -> None:
            if message["type"].endswith(".failed"):
                message = {"type": message["type"]}
            await send(message)

        try:
            await self._app(scope, receive, without_trace)
        except BaseException as exc:
            self.failure = exc
            raise


def check_exposure(cfg: MemoryConfig, *, insecure_no_auth: bool) -> None:
    """Raises ConfigError if everybody on a network could do everything."""
    if insecure_no_auth and not is_loopback(cfg.server_host):
        raise ConfigError(
            f"server_host is {cfg.server_host}, where others can connect, and no keys would be asked for; "
            "set server_host=127.0.0.1, or ask for keys"
        )


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


def make_server(
    app_factory: Callable[[Edge], ASGIApp],
    cfg: MemoryConfig,
    *,
    on_ready: Callable[[str], None] = lambda _: None,
    catch_signals: bool = True,
) -> EdgeServer:
    """A server that is not running yet; `await server.serve(sockets=[bind(…)])` runs it. Sets up no logs.

    `catch_signals`: SIGTERM and SIGINT stop it; else only `should_exit` does.
    """
    edge = Edge(cfg)
    http = protocol(
        edge.connections,
        head_seconds=cfg.server_head_seconds,
        stall_seconds=cfg.server_body_seconds,
    )
    lifespan = _Lifespan(app_factory(edge))
    settings: dict[str, Any] = {
        "http": http,
        "ws": "none",
        "interface": "asgi3",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "backlog": _BACKLOG,
        "timeout_keep_alive": _IDLE_SECONDS,
        "timeout_graceful_shutdown": math.ceil(cfg.server_shutdown_seconds),
    }
    return EdgeServer(
        uvicorn.Config(lifespan, **settings), edge, lifespan, on_ready, catch_signals=catch_signals
    )


def print_address(address: str) -> None:
    """Tell the caller on standard output."""
    sys.stdout.write(f"memory-agent listens on {address}\n")
    sys.stdout.flush()


def serve(
    app_factory: Callable[[Edge], ASGIApp],
    cfg: MemoryConfig,
    *,
    insecure_no_auth: bool = False,
    on_ready: Callable[[str], None] = print_address,
) -> None:
    """Serve until SIGTERM or SIGINT; requests in progress are finished, then the application closes.

    `on_ready` is given the address as soon as it listens. Raises ConfigError for an address that cannot be had or must
    not be, and what the application failed to start with. A second SIGINT does not wait.
    """
    check_exposure(cfg, insecure_no_auth=insecure_no_auth)
    server = make_server(app_factory, cfg, on_ready=on_ready)
    listening = bind(cfg.server_host, cfg.server_port)
    with contextlib.closing(listening):
        try:
            server.run(sockets=[listening])
        except SystemExit:
            if server.failure is None:
                raise
        if server.failure is not None:
            raise server.failure


def room_for_connections(
    wanted: int, *, besides: int = 1_536, warn: Callable[..., None] = log.warning
) -> int:
    """The connections this process may have, at most `wanted`; its limit on open files is raised as far as possible.

    `besides`: files that it needs for all else: stores, models, and connections accepted but not looked at yet.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    needed, unlimited = wanted + besides, resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft not in (unlimited, hard) and soft < needed:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as exc:
            warn("the limit on open files could not be raised from %d to %d: %s", soft, hard, exc)
    if soft == unlimited or soft >= needed:
        return wanted
    room = max(soft - besides, soft // 4, 1)
    warn("%d open files allow %d connections, not %d; raise the limit (ulimit -n)", soft, room, wanted)
    return room
