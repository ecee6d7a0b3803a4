"""A held folder shared: its memory served on loopback to whoever may read the folder, while its holder goes on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memory_agent.clock import SystemClock
from memory_agent.data_dir import LocalService, say_leaving
from memory_agent.domain import ALL_TENANTS
from memory_agent.keys import MAX_LIMIT, new_key
from memory_agent.server.app import create_app
from memory_agent.server.edge.run import bind, make_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from memory_agent.config import MemoryConfig
    from memory_agent.service import MemoryService

_LARGEST_BODY: Final = 1_000_000_000
_SHUTDOWN_SECONDS: Final = 3.0
"""That requests of other processes may take once the holder is told to end; they then turn to whoever comes next."""
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


@contextlib.asynccontextmanager
async def sharing(service: MemoryService) -> AsyncIterator[None]:
    """Serve an open service, which holds its folder, on a free loopback port as long as the block lasts.

    Nobody but who reads its key beside the lock gets in. Raises ConfigError where nothing can listen on loopback.
    """
    # Pages of no origin have anything to ask here, where no person ever made a key.
    changed = {"server_shutdown_seconds": _SHUTDOWN_SECONDS, "server_cors_origins": ()}
    cfg = service.cfg.model_copy(update=changed)
    own = OwnAddress(cfg)
    server = make_server(
        lambda edge: create_app(cfg, edge=edge, service=service, own_key=own.key, only_own_key=True),
        cfg,
        on_ready=own.leave,
        catch_signals=False,
    )
    with contextlib.closing(bind("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve(sockets=[listening]), name="memory-agent sharing")
        try:
            yield
        finally:
            await own.take_away()
            server.should_exit = True
            await asyncio.wait({running})
