"""The lock on `data_dir`: an embedded memory is one process's at a time, whose caches nobody else's writes would reach.

The process that holds a folder may serve its memory to the others. Then it leaves beside the lock where, with a key of
its own, for whoever may read the folder; what a process left that was killed lets nobody in, for its key died with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from memory_agent.clock import SystemClock
from memory_agent.domain import ALL_TENANTS
from memory_agent.errors import ConfigError, DataDirInUse, NotFound
from memory_agent.keys import MAX_LIMIT, new_key

if TYPE_CHECKING:
    from memory_agent.config import MemoryConfig


def check_memory(cfg: MemoryConfig) -> None:
    """Raise NotFound where nothing was ever kept in data_dir: looking must not make a memory in a wrong folder."""
    kept = (f"{cfg.db_name}.sqlite3", "keys.sqlite3")
    if cfg.mongo_uri is None and not any((cfg.data_dir / name).is_file() for name in kept):
        folder = cfg.data_dir.resolve()
        raise NotFound(
            f"there is no memory in data_dir {folder}; name the folder that has it (--data-dir, or"
            " MEMORY_AGENT_DATA_DIR), or make one there: `memory-agent ingest` does, for example"
        )


_ADDRESS: Final = ".service.json"
_HOLDER: Final = ".lock-holder.json"
_LARGEST_BODY: Final = 1_000_000_000
_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what is listened on, not listening


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalService:
    """Address and key of the service in the process that holds a folder; valid as long as it lives."""

    url: str
    api_key: str = field(repr=False)
    db_name: str
    """Which of the memories that a folder may hold."""

    def leave_in(self, folder: Path) -> None:
        """Write it beside the lock, for this user's eyes alone. Raises OSError."""
        half = folder / f"{_ADDRESS}.{os.getpid()}"
        half.unlink(missing_ok=True)
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)
        half.replace(folder / _ADDRESS)

    @classmethod
    def left_in(cls, folder: Path) -> Self | None:
        """The note beside the lock, if there is one that can be read."""
        try:
            left = json.loads((folder / _ADDRESS).read_text(encoding="utf-8"))
            return cls(url=str(left["url"]), api_key=str(left["api_key"]), db_name=str(left["db_name"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


class OwnAddress:
    """Where this process serves the folder it holds, with a key that dies with it."""

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
        """Write the service's address beside the lock. Only while this process holds the folder."""
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


def take_away_address(folder: Path) -> None:
    """Leave no address in the folder. Only for the process that holds it; an OSError changes nothing."""
    with contextlib.suppress(OSError):
        (folder / _ADDRESS).unlink(missing_ok=True)


def unchanged_for(folder: Path, now: datetime) -> float:
    """For how many seconds its holder has had the folder, or been about to leave it; 0 if it doesn't say so yet."""
    try:
        holder = json.loads((folder / _HOLDER).read_text(encoding="utf-8"))
        changed = holder.get("leaves") or holder["since"]
        return (now - datetime.fromisoformat(changed)).total_seconds()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0.0


def say_leaving(folder: Path) -> None:
    """Let nobody new in, and say that the folder will be free soon. Only for the process that holds it."""
    take_away_address(folder)
    file = folder / _HOLDER
    with contextlib.suppress(OSError, ValueError):
        holder = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**holder, "leaves": _now()}), encoding="utf-8")


def is_held(folder: Path) -> bool:
    """True if some process, this one too, holds the folder; also where that cannot be found out."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", is_singleton=False)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class DataDirLock:
    """Holds a folder from `acquire` to `release`. The operating system frees it if the process dies."""

    def __init__(self, folder: Path, *, setting: str = "data_dir") -> None:
        """`setting`: what names the folder."""
        self._folder, self._setting = folder, setting
        from filelock import FileLock

        self._lock = FileLock(folder / ".lock", is_singleton=False)
        self._holder = folder / _HOLDER

    def acquire(self) -> None:
        """Take the folder, making it if needed. Raises DataDirInUse, naming the holder, or ConfigError."""
        from filelock import Timeout

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            server = "chroma_host" if self._setting == "chroma_db_dir" else "mongo_uri"
            raise DataDirInUse(
                f"{self._setting} {self._folder} is in use by {self._described_holder()}; embedded stores serve one process "
                f"at a time. Close it, use another {self._setting}, {self._or_ask()}or run with servers: set {server}."
            ) from exc
        except OSError as exc:
            raise ConfigError(
                f"{self._setting} {self._folder} cannot be used: {exc}. Set it to a writable folder."
            ) from exc
        take_away_address(self._folder)  # of a holder that was killed
        try:
            self._describe_holder()
        except OSError as exc:
            self._lock.release()
            raise ConfigError(
                f"{self._setting} {self._folder} cannot be written to: {exc}; use another one"
            ) from exc

    def _describe_holder(self) -> None:
        command = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": command,
            "since": _now(),
        }
        self._holder.write_text(json.dumps(holder), encoding="utf-8")

    def release(self) -> None:
        """Give the folder back. Idempotent."""
        if self._lock.is_locked:
            take_away_address(self._folder)
            self._holder.unlink(missing_ok=True)
            self._lock.release()

    def _or_ask(self) -> str:
        served = LocalService.left_in(self._folder)
        return "" if served is None else f"ask the service that it runs (ServiceClient at {served.url}), "

    def _described_holder(self) -> str:
        try:
            holder = json.loads(self._holder.read_text(encoding="utf-8"))
            return (
                f"process {holder['pid']} ({holder['command']}) on {holder['host']} since {holder['since']}"
            )
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
