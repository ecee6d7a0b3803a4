"""Damaged records, put aside: taken out of the store, and kept as lines of JSON in a file until a person removes it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from memory_agent.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from memory_agent.domain import DamagedRecord, Scope


def put_aside(file: Path, scope: Scope, records: Sequence[DamagedRecord], *, now: datetime) -> None:
    """Append the records to the file, which its owner alone may read, durably. Raises StoreUnavailable if that fails.

    Bytes are written as hexadecimal digits, what JSON has no type for as text.
    """
    whose = {"tenant": scope.tenant, "user_id": scope.tenants_user_id, "thread_id": scope.thread_id}
    lines = [
        {
            "at": now.isoformat(),
            **whose,
            "table": one.table,
            "id": one.of,
            "error": one.error,
            "stored": {**one.stored},
        }
        for one in records
    ]
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        with open(handle, "w", encoding="utf-8") as stream:
            for line in lines:
                stream.write(json.dumps(line, default=_plain) + "\n")
            stream.flush()
            os.fsync(handle)
    except OSError as exc:
        raise StoreUnavailable(
            f"{file}, into which damaged records are put, cannot be written: {exc}"
        ) from exc


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
