"""What a Chroma costs: `python -m benchmarks.chroma [--store sqlite] [--exchanges N] [--turns N] [--hang SECONDS]`.

Exchanges are remembered in pairs, one without Chroma and one with it, each on a store of its own; then Chroma's folder is
weighed, without and with texts. `--hang`: a server that takes connections and never answers for so long. In docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import disk_bytes, machine, open_service, print_report, say
from benchmarks.measure import mongo_uri as mongod
from benchmarks.texts import FRESH, text_option, texts_of
from tests.servers.chroma import ChromaProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.texts import Texts
    from memory_agent import MemoryAgent, MemoryService

WARM: Final = 10
"""Exchanges before any is measured."""
SETTLE_SECONDS: Final = 3_600


async def exchange(memory: MemoryAgent, texts: Texts, number: int) -> tuple[float, float, float]:
    """Milliseconds until the exchange was acknowledged, until it was settled, Chroma included, and of our processor."""
    said = [texts.turn(FRESH + 2 * number + place).text for place in (0, 1)]
    began, processor = time.perf_counter(), time.process_time()
    await memory.update_memory(*said)
    acknowledged = time.perf_counter()
    await memory.settle(SETTLE_SECONDS)
    ended, spent = time.perf_counter(), time.process_time() - processor
    return 1_000 * (acknowledged - began), 1_000 * (ended - began), 1_000 * spent


async def pairs(store: str, uri: str | None, chroma: dict[str, Any], texts: Texts, count: int) -> Any:
    """Exchanges without and with Chroma, each first in turns; the medians, and the median of the differences."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        without = open_service(store, uri=uri, folder=Path(one), db_name="without")
        beside = open_service(store, uri=uri, folder=Path(other), db_name="with", **chroma)
        async with without as plain, beside as with_it:
            memories = [service.agent("one user", "one thread") for service in (plain, with_it)]
            took: list[list[tuple[float, ...]]] = [[], []]
            for number in range(WARM + count):
                for place in (0, 1) if number % 2 else (1, 0):
                    took[place].append(await exchange(memories[place], texts, 2 * number + place))
            left = (await memories[1].status()).vectors_missing
    report: dict[str, Any] = {"store": store, "exchanges": count, "missing in Chroma": left}
    for place, name in enumerate(("acknowledged_ms", "settled_ms", "processor_ms")):
        both = [[each[place] for each in of_it[WARM:]] for of_it in took]
        more = statistics.median(b - a for a, b in zip(*both, strict=True))
        plain_ms, with_ms = map(statistics.median, both)
        report[name] = {"without": round(plain_ms, 2), "with": round(with_ms, 2), "more": round(more, 2)}
    return report


async def weigh(texts: Texts, turns: int, *, documents: bool) -> dict[str, float]:
    """Bytes a turn in the folder of a Chroma server, and milliseconds a turn to fill it from the search rows."""
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as served:
        folder = Path(served) / "chroma"
        async with open_service("sqlite", folder=Path(data)) as service:
            memory = service.agent("one user", "one thread")
            for start in range(0, turns, 500):
                some = range(start, min(start + 500, turns))
                await memory.add_turns([texts.turn(number).at(number) for number in some])
            await memory.settle(SETTLE_SECONDS)
        server = ChromaProcess(folder).start()
        try:
            own: dict[str, Any] = {"chroma_host": server.host, "chroma_port": server.port}
            async with open_service(
                "sqlite", folder=Path(data), chroma_documents=documents, **own
            ) as service:
                began = time.perf_counter()
                await service.core.store.want_vectors(None)
                async for _ in _missing(service):
                    pass
                took = time.perf_counter() - began
        finally:
            server.stop()
        size = sum(disk_bytes(folder, None, "").values())
    return {"bytes a turn": round(size / turns), "fill_ms a turn": round(1_000 * took / turns, 2)}


async def _missing(service: MemoryService) -> AsyncIterator[int]:
    while left := (await service.status()).vectors_missing:
        yield left
        await asyncio.sleep(0.1)


async def hang(seconds: float, store: str, uri: str | None, texts: Texts) -> dict[str, Any]:
    """The worst exchange, and what is done, while a server takes connections and never answers; then it does."""
    waiting: list[asyncio.StreamWriter] = []

    async def never(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting.append(writer)

    deaf = await asyncio.start_server(never, "127.0.0.1", 0)
    port = deaf.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as served:
        own = {"chroma_host": "127.0.0.1", "chroma_port": port}
        async with open_service(store, uri=uri, folder=Path(data), db_name="hang", **own) as service:
            memory = service.agent("one user", "one thread")
            await service.core.embedder.embed(["warm"], purpose="document")
            took: list[tuple[float, ...]] = []
            began = time.perf_counter()
            while time.perf_counter() - began < seconds:
                took.append(await exchange(memory, texts, 10_000 + len(took)))
            status = await memory.status()
            deaf.close()
            for writer in waiting:
                writer.close()
            server = ChromaProcess(Path(served) / "chroma", port=port).start()
            try:
                back = time.perf_counter()
                async for _ in _missing(service):
                    pass
                caught_up = time.perf_counter() - back
            finally:
                server.stop()
    settled = sorted(each[1] for each in took)
    return {
        "seconds": seconds,
        "exchanges": len(took),
        "acknowledged_ms": {"worst": round(max(each[0] for each in took), 1)},
        "settled_ms": {"median": round(statistics.median(settled), 1), "worst two": settled[-2:]},
        "owed at its end": status.owed_count,
        "missing at its end": status.vectors_missing,
        "caught up after s": round(caught_up, 1),
    }


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--store", choices=("mongodb", "sqlite"), default="mongodb")
    parser.add_argument("--exchanges", type=int, default=200)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--hang", type=float, default=0.0)
    text_option(parser)
    arguments = parser.parse_args(given)
    texts = texts_of(parser, arguments.text)

    async def run(uri: str | None) -> dict[str, Any]:
        report: dict[str, Any] = {"machine": machine(), "texts": texts.name}
        if arguments.hang:
            return report | {"hang": await hang(arguments.hang, arguments.store, uri, texts)}
        if arguments.exchanges:
            with tempfile.TemporaryDirectory() as served:
                server = ChromaProcess(Path(served) / "chroma").start()
                own = {"chroma_host": server.host, "chroma_port": server.port}
                try:
                    report["pairs"] = await pairs(arguments.store, uri, own, texts, arguments.exchanges)
                finally:
                    server.stop()
        for documents in (False, True) if arguments.turns else ():
            say(f"filling a Chroma with {arguments.turns:,} turns, chroma_documents={documents}")
            report[f"documents={documents}"] = await weigh(texts, arguments.turns, documents=documents)
        return report

    with contextlib.ExitStack() as stack:
        uri = stack.enter_context(mongod()) if arguments.store == "mongodb" else None
        print_report(asyncio.run(run(uri)))


if __name__ == "__main__":
    main()
