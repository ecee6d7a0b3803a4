"""Serving: uvicorn on a socket of ours, for everybody or for whoever may read a held folder.

It has no limits on slow or many connections; `config/nginx.conf` has them, for a proxy in front of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import math
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

import uvicorn

from memory_agent.data_dir import OwnAddress
from memory_agent.errors import ConfigError
from memory_agent.server.incoming import is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

    from memory_agent.config import MemoryConfig
    from memory_agent.service import MemoryService

    OnStop = list[Callable[[], Awaitable[None]]]
    """Awaited as soon as the server is to stop, before it waits for requests in progress: streams end here."""

# What the application will need, which is made later.
for needed in ("fastapi", "fastapi_offline", "jinja2", "opentelemetry", "prometheus_client", "websockets"):
    if importlib.util.find_spec(needed) is None:
        raise ModuleNotFoundError(f"{needed} is not installed", name=needed)

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 60
"""Of a connection between two requests; longer than a proxy in front of this keeps one."""
_BACKLOG: Final = 1_024
_PING_SECONDS: Final = 20.0
_MESSAGE_BYTES: Final = 4_096
"""That a WebSocket's client may send at once: it has a key to say, and nothing else."""


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
                ws="websockets-sansio",
                ws_max_size=_MESSAGE_BYTES,
                ws_ping_interval=_PING_SECONDS,
                ws_ping_timeout=_PING_SECONDS,
                ws_per_message_deflate=False,  # events are short, and what is sent may unpack to a thousand times its size
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


_SHUTDOWN_SECONDS: Final = 3.0
"""That requests of other processes may take once the holder is told to end; they then turn to whoever comes next."""
_SOON: Final = 5.0
"""Seconds after the start in which the application is made, asked or not: a hook that asks has no time for that."""


class _OnDemand:
    """The application, made for the first request or soon: to load it takes two seconds of processor time, and many processes end before.

    `give_up`: asked where it can't be made.
    """

    def __init__(self, make: Callable[[], Starlette], give_up: Callable[[], Awaitable[None]]) -> None:
        self._make, self._give_up = make, give_up
        self._asked, self._made = asyncio.Event(), asyncio.Event()
        self._app: Starlette | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._asked.set()
        await self._made.wait()
        if self._app is None:
            raise RuntimeError("the application could not be made")
        await self._app(scope, receive, send)

    async def live(self, stop: asyncio.Event) -> None:
        """From start to stop, in one task, which what the application opens is bound to."""
        stopped = asyncio.ensure_future(stop.wait())
        asked = asyncio.ensure_future(self._asked.wait())
        await asyncio.wait({stopped, asked}, return_when=asyncio.FIRST_COMPLETED, timeout=_SOON)
        try:
            if not stopped.done():
                app = await asyncio.to_thread(self._make)
                async with app.router.lifespan_context(app):
                    self._app = app
                    self._made.set()
                    await stopped
        except Exception:
            log.exception(
                "other processes can't use this folder while this one runs: the service for them could not be made"
            )
            self._made.set()  # whoever asked already is answered
            await self._give_up()
            await stopped
        finally:
            asked.cancel()
            self._made.set()


@contextlib.asynccontextmanager
async def sharing(
    service: MemoryService, own: OwnAddress | None = None, listening: socket.socket | None = None
) -> AsyncIterator[None]:
    """Serve an open service, which holds its folder, on a free loopback port as long as the block lasts.

    Nobody but who reads its key beside the lock gets in. Raises ConfigError where nothing can listen on loopback. `own`, `listening`:
    where others have been told already that it listens.
    """
    # Pages of no origin have anything to ask here, where no person ever made a key.
    changed = {"server_shutdown_seconds": _SHUTDOWN_SECONDS, "server_cors_origins": ()}
    cfg = service.cfg.model_copy(update=changed)
    own = own or OwnAddress(cfg)

    on_stop: OnStop = []

    def application() -> Starlette:
        from memory_agent.server.app import create_app

        return create_app(cfg, on_stop=on_stop, service=service, own_key=own.key, only_own_key=True)

    on_demand, stop = _OnDemand(application, own.take_away), asyncio.Event()
    server = Server(on_demand, cfg, on_stop=on_stop, on_ready=own.leave)
    with contextlib.closing(listening or bind("127.0.0.1", 0)) as listening:
        open_app = asyncio.create_task(on_demand.live(stop), name="memory-agent sharing's application")
        running = asyncio.create_task(server.serve(sockets=[listening]), name="memory-agent sharing")
        try:
            yield
        finally:
            await own.take_away()
            server.should_exit = True
            await asyncio.wait({running})
            stop.set()
            await asyncio.wait({open_app})
