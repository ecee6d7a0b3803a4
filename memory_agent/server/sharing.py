"""A held folder shared: its memory served on loopback to whoever may read the folder, while its holder goes on."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memory_agent.clock import SystemClock
from memory_agent.data_dir import LocalService, say_leaving
from memory_agent.domain import ALL_TENANTS
from memory_agent.keys import MAX_LIMIT, new_key
from memory_agent.server.run import Server, bind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

    from memory_agent.config import MemoryConfig
    from memory_agent.server.run import OnStop
    from memory_agent.service import MemoryService

# What the application will need, which is made later.
for needed in ("fastapi", "fastapi_offline", "jinja2", "opentelemetry", "prometheus_client"):
    if importlib.util.find_spec(needed) is None:
        raise ModuleNotFoundError(f"{needed} is not installed", name=needed)

log = logging.getLogger(__name__)

_LARGEST_BODY: Final = 1_000_000_000
_SHUTDOWN_SECONDS: Final = 3.0
"""That requests of other processes may take once the holder is told to end; they then turn to whoever comes next."""
_SOON: Final = 5.0
"""Seconds after the start in which the application is made, asked or not: a hook that asks has no time for that."""
_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what is listened on, not listening


class OwnAddress:
    """The address at which this process serves the folder it holds, with a key that is in no store and dies with it."""

    def __init__(self, cfg: MemoryConfig) -> None:
        self._cfg = cfg
        self.key, self._token = new_key(
            ALL_TENANTS,
            label="commands on this machine",
            # Whoever has it could read the files instead: limits would protect nothing.
            requests_per_minute=MAX_LIMIT,
            max_body_bytes=_LARGEST_BODY,
            now=SystemClock().now(),
        )

    def leave(self, address: str) -> None:
        """Write beside the lock that the service listens at `address`. Only while this process holds the folder."""
        left = LocalService(url=here(address), api_key=self._token, db_name=self._cfg.db_name)
        left.leave_in(self._cfg.data_dir)

    async def take_away(self) -> None:
        """Let nobody new in: this process is about to leave the folder."""
        say_leaving(self._cfg.data_dir)


def here(address: str) -> str:
    """The address by which this machine reaches a service that may listen on all of them.

    >>> here("http://0.0.0.0:8080"), here("http://[::]:8080"), here("http://127.0.0.1:8080")
    ('http://127.0.0.1:8080', 'http://[::1]:8080', 'http://127.0.0.1:8080')
    """
    parts = urlsplit(address)
    host = _EVERY_ADDRESS.get(parts.hostname or "")
    return address if host is None else f"{parts.scheme}://{host}:{parts.port}"


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
async def sharing(service: MemoryService) -> AsyncIterator[None]:
    """Serve an open service, which holds its folder, on a free loopback port as long as the block lasts.

    Nobody but who reads its key beside the lock gets in. Raises ConfigError where nothing can listen on loopback.
    """
    # Pages of no origin have anything to ask here, where no person ever made a key.
    changed = {"server_shutdown_seconds": _SHUTDOWN_SECONDS, "server_cors_origins": ()}
    cfg = service.cfg.model_copy(update=changed)
    own = OwnAddress(cfg)

    on_stop: OnStop = []

    def application() -> Starlette:
        from memory_agent.server.app import create_app

        return create_app(cfg, on_stop=on_stop, service=service, own_key=own.key, only_own_key=True)

    on_demand, stop = _OnDemand(application, own.take_away), asyncio.Event()
    server = Server(on_demand, cfg, on_stop=on_stop, on_ready=own.leave)
    with contextlib.closing(bind("127.0.0.1", 0)) as listening:
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
