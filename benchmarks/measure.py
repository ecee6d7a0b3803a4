"""What the benchmarks share: the machine, sizes, a service on the store asked for, and a meter of calls on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import psutil

from benchmarks.vectors import KeptVectors, KnowingEmbedder

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence

    from memory_agent import MemoryService

SEARCH_ONLY: Final[Mapping[str, Any]] = {"enable_topics": False, "enable_compression": False}
"""Settings that leave out what no search depends on. It does on facts: they tell whom a name in a question means."""


def percentiles(seconds: Sequence[float], *which: int) -> dict[str, float]:
    """In milliseconds p50 and p95, or `which`; nothing of nothing."""
    if not seconds:
        return {}
    return {f"p{q}_ms": round(float(np.percentile(seconds, q)) * 1_000, 2) for q in which or (50, 95)}


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def side_by_side(
    corner: str,
    heads: Sequence[str],
    columns: Sequence[Mapping[str, Sequence[float]]],
    bases: Sequence[Mapping[str, Sequence[float]]],
) -> str:
    """Figures by row in columns, as Markdown. Those that a column's base has too are followed by what they are times that."""
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = []
        for column, base in zip(columns, bases, strict=True):
            now, then = column.get(name, ()), base.get(name, ())
            cell = " / ".join(f"{value:g}" for value in now)
            if now and then and all(then):
                cell += f" (× {' / '.join(f'{new / old:.2f}' for new, old in zip(now, then, strict=True))})"
            cells.append(cell)
        rows.append([name, *cells])
    return markdown([corner, *heads], rows)


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
            kept = client[db_name]
            for name in kept.list_collection_names():
                stats = kept.command("collStats", name)
                sizes[f"mongodb {name}"] += int(stats["storageSize"]) + int(stats["totalIndexSize"])
    return {name: size for name, size in sizes.most_common() if size}


# --- stores, options, reports --------------------------------------------------------------------------------
def store_option(parser: ArgumentParser) -> None:
    """Add `--store`; for MongoDB a fresh server is started."""
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")


def say(what: str) -> None:
    """Tell how far a benchmark is, on standard error; its standard output holds the figures alone."""
    print(what, file=sys.stderr, flush=True)


def print_report(report: Mapping[str, Any], file: Path | None = None) -> None:
    """Print a report as JSON, and write it into the file, if there is one."""
    text = json.dumps(report, indent=2)
    if file:
        file.write_text(text + "\n", encoding="utf-8")
    print(text)


@contextlib.contextmanager
def mongo_uri() -> Iterator[str]:
    """The address of a fresh one-node replica set that ends with the block."""
    from tests.servers.mongod import Mongod

    with Mongod() as server:
        yield server.uri


@contextlib.contextmanager
def servers(folder: Path, store: str = "mongodb") -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """What `store` wants until the block ends, Chroma as a server too: the settings that name it, and processes by name."""
    if store == "sqlite":
        yield {}, {}
        return
    from tests.servers.chroma import ChromaProcess
    from tests.servers.mongod import Mongod

    with Mongod() as mongod:
        chroma = ChromaProcess(folder / "chroma").start()
        settings = {"mongo_uri": mongod.uri, "chroma_host": chroma.host, "chroma_port": chroma.port}
        try:
            yield settings, {"mongod": mongod.pid, "chroma": chroma.pid}
        finally:
            chroma.stop()


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
    """A service on `sqlite`, or `mongodb` (a fresh server without `uri`); with a Chroma if `settings` name one.

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
            settings["mongo_uri"] = uri or stack.enter_context(mongo_uri())
        cfg = MemoryConfig(data_dir=data_dir, **settings)
        if cache is not None:
            embedder = KnowingEmbedder(make_embedder(cfg, stack), KeptVectors(cache))
        async with MemoryService(cfg, embedder=embedder) as service:
            yield service


# --- what is measured while it runs --------------------------------------------------------------------------
_R = TypeVar("_R")
TICK_SECONDS: Final = 0.001


class Others:
    """How busy other processes keep the machine, from when this is made: figures taken meanwhile may be false."""

    def __init__(self) -> None:
        self._start = self._now()

    def share(self) -> float:
        """Of all cores' time since then, what was neither idle nor this process's own (a mongod is another, too)."""
        total, idle, own = (now - then for now, then in zip(self._now(), self._start, strict=True))
        return round(max(0.0, total - idle - own) / total, 3) if total else 0.0

    @staticmethod
    def _now() -> tuple[float, float, float]:
        times = psutil.cpu_times()
        # Guests' time is in user's already.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return total, times.idle + getattr(times, "iowait", 0.0), time.process_time()


# --- the event loop ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Hold:
    """The longest times that the loop was not free, in seconds, by the wall's clock and by what its thread computed meanwhile.

    On a busy machine the first one holds other processes' turns as well, and waits for Python's lock; the second is ours.
    """

    wall: float = 0.0
    own: float = 0.0

    def report(self) -> dict[str, float]:
        """Both in milliseconds."""
        return {"hold_ms": round(self.wall * 1_000, 2), "hold_own_ms": round(self.own * 1_000, 2)}

    def __or__(self, other: Hold) -> Hold:
        return Hold(max(self.wall, other.wall), max(self.own, other.own))


class LoopLag:
    """Notes by how much a task that wants to run every millisecond is late (`loop_lag`)."""

    def __init__(self) -> None:
        self._longest = Hold()
        self._slept_at = _clocks()

    def take(self) -> Hold:
        """The longest holds since the last call, one that lasts until now included."""
        self._note()
        longest, self._longest = self._longest, Hold()
        return longest

    async def tick(self) -> None:
        """What the task does."""
        while True:
            self._slept_at = _clocks()
            await asyncio.sleep(TICK_SECONDS)
            self._note()

    def _note(self) -> None:
        wall, own = (now - then for now, then in zip(_clocks(), self._slept_at, strict=True))
        late = max(0.0, wall - TICK_SECONDS)
        self._longest |= Hold(late, min(own, late))
        self._slept_at = _clocks()


@contextlib.asynccontextmanager
async def loop_lag() -> AsyncIterator[LoopLag]:
    """How late the event loop is during the block."""
    lag = LoopLag()
    ticking = asyncio.create_task(lag.tick(), name="loop lag")
    try:
        yield lag
    finally:
        ticking.cancel()
        await asyncio.wait({ticking})


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


# --- calls ---------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Calls:
    """What was measured of one kind of call, in seconds each.

    `besides`: without the time in which the model worked, of calls that wait for it.
    """

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    besides: list[float] = field(default_factory=list)
    hold: Hold = field(default_factory=Hold)

    def report(self) -> dict[str, float]:
        """Percentiles in milliseconds; `processor_ms` is the median of all threads' processor time."""
        shown = percentiles(self.wall) | {"processor_ms": round(float(np.median(self.processor)) * 1_000, 2)}
        shown |= {f"besides_{name}": value for name, value in percentiles(self.besides).items()}
        return shown | self.hold.report()


class Meter:
    """Measures calls by name, one at a time."""

    def __init__(self, lag: LoopLag, embedder: KnowingEmbedder) -> None:
        self._lag = lag
        self._embedder = embedder
        self.calls: dict[str, Calls] = defaultdict(Calls)

    async def time(self, name: str, call: Awaitable[_R], *, asks_model: bool = False) -> _R:
        """What the call gives. `asks_model`: it waits for the model, which does nothing else meanwhile."""
        self._lag.take()
        model, processor, wall = self._embedder.seconds, time.process_time(), time.perf_counter()
        answer = await call
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        calls = self.calls[name]
        calls.hold |= self._lag.take()
        calls.wall.append(wall)
        calls.processor.append(processor)
        if asks_model:
            calls.besides.append(wall - (self._embedder.seconds - model))
        return answer

    def report(self) -> dict[str, Any]:
        """Every kind's figures."""
        return {name: calls.report() for name, calls in self.calls.items()}


def figure_rows(report: Mapping[str, Any], *parts: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The rows of a column: each call of a meter's report under `figures`, then the single figures of these parts."""
    for name, of in report["figures"].items():
        yield name, (of["p50_ms"], of["p95_ms"], of["processor_ms"])
        if "besides_p50_ms" in of:
            yield f"{name} besides the model, p50 / p95", (of["besides_p50_ms"], of["besides_p95_ms"])
    for part in parts:
        for name, value in report.get(part, {}).items():
            yield f"{part}: {name}", (value,)
