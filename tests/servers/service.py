"""The memory service: as processes of its own (`memory-agent serve`, `worker`), or in the test's own event loop.

Either way requests come over a real socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from memory_agent import MemoryConfig, MemoryService
from memory_agent.keys import new_key
from tests.constants import settings_of
from tests.servers.forks import Forked, forks

if TYPE_CHECKING:  # whoever serves nothing does not load what serving takes
    from fastapi import FastAPI

SECONDS = 240


class Command:
    """A `memory-agent` command as a process: started, told to stop, killed, started again in place."""

    forked = False
    """From a process that has imported everything (see `tests.servers.forks`); benchmarks start theirs from nothing."""
    python = sys.executable
    """Where it is started from nothing; that of another checkout runs the other checkout's."""

    def __init__(self, folder: Path, *arguments: str, settings: Mapping[str, Any]) -> None:
        """`settings` go into its environment; whatever settings surround the tests don't."""
        self.folder = folder
        self.arguments = arguments
        own = {
            name: value for name, value in os.environ.items() if not name.upper().startswith("MEMORY_AGENT_")
        }
        given = {f"MEMORY_AGENT_{name.upper()}": str(value) for name, value in settings.items()}
        self.environment = {**own, **given, "HF_HUB_OFFLINE": "1"}
        self.process: subprocess.Popen[str] | Forked | None = None
        self._stdout: IO[str] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.arguments[0]}-{id(self)}.log"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        ours, theirs = os.pipe()
        with self.log.open("ab") as log, open(os.devnull) as nothing, os.fdopen(theirs, "w") as out:
            where: Any = {"cwd": self.folder, "env": self.environment}
            if self.forked:
                streams = (nothing.fileno(), out.fileno(), log.fileno())
                self.process = forks().fork(self.arguments, streams, **where)
            else:
                command = [self.python, "-m", "memory_agent.cli", *self.arguments]
                self.process = subprocess.Popen(command, stdin=nothing, stdout=out, stderr=log, **where)
        self._stdout = os.fdopen(ours)

    def stop(self) -> int:
        """Ask it to end, wait until it did; its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without warning."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            self._told_all()

    def _told_all(self) -> None:
        assert self._stdout is not None
        self._stdout.close()


class ServiceProcess(Command):
    """`memory-agent serve` on a port that stays the same when it is started again."""

    def __init__(self, folder: Path, *options: str, settings: Mapping[str, Any], port: int = 0) -> None:
        super().__init__(folder, "serve", *options, settings={**settings, "server_port": port})
        self.address = ""

    def start(self) -> None:
        """Start it and wait until it listens. Raises RuntimeError with its log if it ends instead."""
        super().start()
        assert self.process is not None
        assert self._stdout is not None
        line = self._stdout.readline()
        if not line.startswith("memory-agent listens on "):
            code = self.process.wait(SECONDS)
            self._told_all()
            self.process = None
            raise RuntimeError(f"serve ended with {code} and said {line!r}:\n{self.log.read_text()[-3000:]}")
        self.address = line.split()[-1]
        self.environment["MEMORY_AGENT_SERVER_PORT"] = self.address.rpartition(":")[2]


class Served:
    """A service that is served in this event loop: where, and keys for it."""

    def __init__(self, address: str, app: FastAPI, cfg: MemoryConfig) -> None:
        self.address = address
        self.app = app
        self.cfg = cfg

    async def key(self, tenant: str = "default", **options: Any) -> str:
        """A new key's token."""
        from memory_agent.adapters import open_keys
        from memory_agent.clock import SystemClock

        key, token = new_key(tenant, **{"now": SystemClock().now(), **options})
        async with contextlib.AsyncExitStack() as stack:
            keys = await open_keys(self.cfg, None, stack)
            await keys.put(key)
        return token

    async def headers(self, tenant: str = "default", **options: Any) -> dict[str, str]:
        """Headers with a new key."""
        return {"Authorization": f"Bearer {await self.key(tenant, **options)}"}


@contextlib.asynccontextmanager
async def served(
    service: MemoryService, *, insecure_no_auth: bool = False, **settings: Any
) -> AsyncIterator[Served]:
    """Serve an open service on a free port of 127.0.0.1 until the block ends; `settings` change its server's."""
    from memory_agent.server.app import create_app
    from memory_agent.server.run import Server, bind, live

    with settings_of(settings) as known:
        cfg = service.cfg.model_copy(update=known)
        on_stop: list[Any] = []
        app = create_app(cfg, on_stop=on_stop, service=service, insecure_no_auth=insecure_no_auth)
        server = Server(app, cfg, on_stop=on_stop)
        with contextlib.closing(bind("127.0.0.1", 0)) as listening:
            running = asyncio.create_task(live(app, server, listening))
            while not server.started:
                if running.done():
                    running.result()
                await asyncio.sleep(0.005)
            assert server.address is not None
            try:
                yield Served(server.address, app, cfg)
            finally:
                server.should_exit = True
                await running
