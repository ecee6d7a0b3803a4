"""Files beside a SQLite file: the copy that is made before an upgrade, and what earlier versions left."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Final

from memory_agent.errors import StoreUnavailable
from memory_agent.stores.versions import NEWEST

_PAGES: Final = 4_096
_CHROMA: Final = "chroma_db"
"""The folder in which version 0.1.0 had an index of its own."""


def copy_of(path: str) -> Path:
    """Where the copy of a file is kept that is about to be upgraded."""
    return Path(f"{path}.before-{NEWEST}")


def keep_copy(path: str) -> None:
    """Copy the file as it is committed. For the one that holds its write lock.

    Under another name until it is whole and on disk, so that a copy that is there can be relied on. Whoever was killed
    before the upgrade was committed has left one, which what was written since is not in: it is replaced.
    """
    kept = copy_of(path)
    half = kept.with_name(f"{kept.name}.part")
    try:
        half.unlink(missing_ok=True)  # of one that was killed
        os.close(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with (
            contextlib.closing(
                sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
            ) as source,
            contextlib.closing(sqlite3.connect(half)) as target,
        ):
            source.backup(target, pages=_PAGES)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        _on_disk(half)
        half.replace(kept)
        _on_disk(kept.parent)
    except (OSError, sqlite3.Error) as exc:
        with contextlib.suppress(OSError):
            half.unlink(missing_ok=True)
        raise StoreUnavailable(
            f"{path} is of an earlier memory_agent and is copied to {kept.name} before it is upgraded, which failed:"
            f" {exc}. Nothing in it was changed; make room for a file of {Path(path).stat().st_size / 1e6:,.0f} MB there"
        ) from exc


def left_over(path: str) -> list[Path]:
    """Paths beside the file that earlier versions and the upgrade left, and nobody needs any more."""
    file = Path(path)
    copies = (copy for copy in file.parent.glob(f"{file.name}.before-*"))
    chroma = file.parent / _CHROMA
    return [*sorted(copies), *([chroma] if (chroma / "chroma.sqlite3").is_file() else [])]


def remove_left_over(path: str) -> None:
    """Remove it for good. Raises StoreUnavailable."""
    for kept in left_over(path):
        try:
            if kept.is_dir():
                shutil.rmtree(kept)
            else:
                kept.unlink(missing_ok=True)
        except OSError as exc:
            raise StoreUnavailable(f"{kept}, which is left over, cannot be removed: {exc}") from exc


def _on_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
