"""The lock on `data_dir`: embedded stores are one process's at a time (embedded Chroma corrupts otherwise)."""

from __future__ import annotations

import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memory_agent.errors import ConfigError, DataDirInUse, NotFound

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


class DataDirLock:
    """Holds a folder from `acquire` to `release`. The operating system frees it if the process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        from filelock import FileLock

        self._lock = FileLock(folder / ".lock", is_singleton=False)
        self._holder = folder / ".lock-holder.json"

    def acquire(self) -> None:
        """Take the folder, making it if needed. Raises DataDirInUse, naming the holder, or ConfigError."""
        from filelock import Timeout

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            raise DataDirInUse(
                f"data_dir {self._folder} is in use by {self._described_holder()}; embedded stores serve one process "
                "at a time. Close it, use another data_dir, or run with servers: set mongo_uri and chroma_host."
            ) from exc
        except OSError as exc:
            raise ConfigError(
                f"data_dir {self._folder} cannot be used: {exc}. Set it to a writable folder."
            ) from exc
        try:
            self._describe_holder()
        except OSError as exc:
            self._lock.release()
            raise ConfigError(
                f"data_dir {self._folder} cannot be written to: {exc}; use another one"
            ) from exc

    def _describe_holder(self) -> None:
        command = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": command,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._holder.write_text(json.dumps(holder), encoding="utf-8")

    def release(self) -> None:
        """Give the folder back. Idempotent."""
        if self._lock.is_locked:
            self._holder.unlink(missing_ok=True)
            self._lock.release()

    def _described_holder(self) -> str:
        try:
            holder = json.loads(self._holder.read_text(encoding="utf-8"))
            return (
                f"process {holder['pid']} ({holder['command']}) on {holder['host']} since {holder['since']}"
            )
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
