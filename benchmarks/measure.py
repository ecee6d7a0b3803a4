"""What the benchmarks share: percentiles, the machine's description, peaks of memory, a service on the store asked for."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psutil

from benchmarks.vectors import KeptVectors, KnowingEmbedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from memory_agent import MemoryService

SEARCH_ONLY: Final[Mapping[str, Any]] = {"enable_topics": False, "enable_compression": False}
"""Settings that leave out what no search depends on. It does on facts: they tell whom a name in a question means."""


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p95 in milliseconds."""
    return {f"p{q}_ms": round(float(np.percentile(seconds, q)) * 1_000, 2) for q in (50, 95)}


def side_by_side(
    corner: str,
    heads: Sequence[str],
    columns: Sequence[Mapping[str, Sequence[float]]],
    bases: Sequence[Mapping[str, Sequence[float]]],
) -> str:
    """Figures by row in columns, as Markdown. Those that a column's base has too are followed by what they are times that."""
    lines = [f"| {corner} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = []
        for column, base in zip(columns, bases, strict=True):
            now, then = column.get(name, ()), base.get(name, ())
            cell = " / ".join(f"{value:g}" for value in now)
            if now and then and all(then):
                cell += f" (× {' / '.join(f'{new / old:.2f}' for new, old in zip(now, then, strict=True))})"
            cells.append(cell)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def machine() -> str:
    """The machine's size, for the record."""
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def peak_mib(process: int | str = "self") -> float:
    """The most memory (resident, MiB) that a process has had since its program was started (Linux: VmHWM)."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1_024


def disk_bytes(folder: Path, uri: str | None, db_name: str) -> dict[str, int]:
    """Bytes on disk by the file's name below `folder`, and by MongoDB's collection with its indexes.

    What Chroma keeps in folders with a random name is summed up by file. Logs don't count.
    """
    sizes: Counter[str] = Counter()
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".log":
            parts = ("*" if len(part) == 36 else part for part in file.relative_to(folder).parts)
            sizes["/".join(parts)] += file.stat().st_size
    if uri is not None:
        import pymongo

        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            client.admin.command("fsync")  # sizes are told as of the last checkpoint
            for name in client[db_name].list_collection_names():
                stats = client[db_name].command("collStats", name)
                sizes[f"mongodb {name}"] += int(stats["storageSize"]) + int(stats["totalIndexSize"])
    return {name: size for name, size in sizes.most_common() if size}


def drop_database(uri: str | None, db_name: str) -> None:
    """Drop what a benchmark has kept on a MongoDB, if it used one."""
    if uri is not None:
        import pymongo

        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            client.drop_database(db_name)


@contextlib.contextmanager
def mongo_uri(given: str | None) -> Iterator[str]:
    """`given`, or the address of a fresh one-node replica set that ends with the block."""
    if given:
        yield given
        return
    from tests.servers.mongod import Mongod

    with Mongod() as server:
        yield server.uri


@contextlib.asynccontextmanager
async def open_service(
    store: str,
    *,
    uri: str | None = None,
    embedder: Any = None,
    folder: Path | None = None,
    cache: Path | None = None,
    **settings: Any,
) -> AsyncIterator[MemoryService]:
    """A service on `sqlite`, or `mongodb` (a fresh server without `uri`); Chroma embedded.

    Its data is in a fresh folder and goes with the block, or stays in `folder`: opened again there, with other settings or
    the same, a service has what the one before remembered. On MongoDB that takes the same `uri` and `db_name` as well.
    `cache`: a folder that keeps vectors from run to run (`benchmarks.vectors`).
    """
    # Peers are measured in an environment of their own, which has what this module needs but not the package's needs.
    from memory_agent import MemoryConfig, MemoryService
    from memory_agent.adapters import make_embedder

    async with contextlib.AsyncExitStack() as stack:
        data_dir = folder or stack.enter_context(tempfile.TemporaryDirectory())
        if store == "mongodb":
            settings["mongo_uri"] = stack.enter_context(mongo_uri(uri))
        cfg = MemoryConfig(data_dir=data_dir, **settings)
        if cache is not None:
            embedder = KnowingEmbedder(make_embedder(cfg, stack), KeptVectors(cache))
        async with MemoryService(cfg, embedder=embedder) as service:
            yield service
