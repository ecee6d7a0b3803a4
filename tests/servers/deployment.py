"""A whole service as it is run for many: two `memory-agent serve`, one `memory-agent worker`, stores of their own.

Without pytest, for the benchmarks too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import psutil

from benchmarks.measure import peak_mib
from memory_agent import MemoryConfig
from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import ApiKey
from memory_agent.keys import new_key
from tests.servers.service import Command, ServiceProcess


class Deployment:
    """Services `api 0`, `api 1`, … that only answer, and a `worker`; each can be killed and started again."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        *,
        environment: Mapping[str, str] | None = None,
        apis: int = 2,
    ) -> None:
        """`settings` name the stores, which must be of servers, for several processes share them.

        `environment`: further variables, as they are called. A `config/memory.toml` in `folder` is read, too.
        """
        self.folder = folder
        self.settings: dict[str, Any] = {"run_worker": False, **settings}
        self.apis = [ServiceProcess(folder, settings=self.settings) for _ in range(apis)]
        self.worker = self.command("worker")
        for process in self.processes.values():
            process.environment.update(environment or {})
        self.used: dict[str, Used] = {name: Used() for name in self.processes}

    def command(self, *arguments: str) -> Command:
        """Another command with the same settings, not started yet."""
        return Command(self.folder, *arguments, settings=self.settings)

    @property
    def processes(self) -> dict[str, Command]:
        """By name."""
        return {**{f"api {number}": api for number, api in enumerate(self.apis)}, "worker": self.worker}

    @property
    def addresses(self) -> list[str]:
        """Where the services listen; they keep their addresses."""
        return [api.address for api in self.apis]

    def __enter__(self) -> Self:
        try:
            for name in self.processes:
                self.start(name)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, name: str) -> None:
        """Start a process; a service listens when this returns."""
        process = self.processes[name]
        process.start()
        assert process.process is not None
        self.used[name].began(process.process.pid)

    def kill(self, name: str) -> None:
        """End a process without warning."""
        self.used[name].look()
        self.processes[name].kill()

    def stop(self, name: str) -> int:
        """Ask a process to end; its exit code."""
        self.used[name].look()
        return self.processes[name].stop()

    def end(self) -> None:
        """End all that still run."""
        for name, process in self.processes.items():
            self.used[name].look()
            process.kill()

    def key(self, tenant: str, **options: Any) -> tuple[ApiKey, str]:
        """A new key and its token."""
        return asyncio.run(made_key(self.settings, tenant, **options))


async def made_key(settings: Mapping[str, Any], tenant: str, **options: Any) -> tuple[ApiKey, str]:
    """A new key of the service with these settings, and its token."""
    where = {name: settings[name] for name in ("mongo_uri", "db_name", "data_dir") if name in settings}
    key, token = new_key(tenant, now=SystemClock().now(), **options)
    async with contextlib.AsyncExitStack() as stack:
        await (await open_keys(MemoryConfig(**where), None, stack)).put(key)
    return key, token


class Used:
    """What a process took, over all its lives. `look` must be called before each ends."""

    def __init__(self) -> None:
        self.peak_mib = 0.0
        self.cpu_seconds = 0.0
        self.lives = 0
        self._before = 0.0
        self._process: psutil.Process | None = None
        self._began = time.monotonic()

    def began(self, pid: int) -> None:
        """A new life."""
        self.lives += 1
        self._before = self.cpu_seconds
        self._process = psutil.Process(pid)

    def look(self) -> None:
        """Read the figures."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.Error, OSError, StopIteration):
            # A process that was killed and not waited for has no peak any more; what was read before stands.
            times = self._process.cpu_times()
            self.cpu_seconds = self._before + times.user + times.system
            self.peak_mib = max(self.peak_mib, peak_mib(self._process.pid))
