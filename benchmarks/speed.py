"""How long the calls take: `python -m benchmarks.speed [--turns 10000]`, on SQLite and on MongoDB.

Prints p50 and p95 of acknowledging an exchange, of search and fetch with and without embedding the question (a
question embedded a moment ago is not embedded again), the first search of a user who is not in memory, the time
from acknowledged to settled, and the time of `import memory_agent`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import machine, open_service, percentiles
from memory_agent import MemoryConfig
from memory_agent.adapters import wanted_model
from memory_agent.models.local.embedder import LocalEmbedder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from memory_agent import MemoryAgent, MemoryService

WHO: Final = [
    "my sister",
    "my boss",
    "our neighbour",
    "the doctor",
    "a friend from school",
    "my daughter",
    "the landlord",
    "uncle Tom",
]
DID: Final = [
    "bought",
    "painted",
    "lost",
    "recommended",
    "cooked",
    "repaired",
    "forgot",
    "wrote about",
    "dreamed of",
    "complained about",
]
WHAT: Final = [
    "an old bicycle",
    "the kitchen",
    "a train ticket",
    "a book on whales",
    "mushroom soup",
    "the garden fence",
    "a birthday",
    "the new office",
    "a week in Norway",
    "the piano",
    "two kittens",
    "a broken phone",
    "the marathon",
    "a job in Lyon",
]
WHEN: Final = [
    "yesterday",
    "last summer",
    "on Monday",
    "two years ago",
    "before breakfast",
    "in March",
    "after the storm",
]
BATCH: Final = 500


def sentence(number: int) -> str:
    """The same sentence for the same number, a different one (nearly always) for another."""
    pick = random.Random(number)
    parts = (pick.choice(WHO), pick.choice(DID), pick.choice(WHAT), pick.choice(WHEN))
    return f"{parts[0]} {parts[1]} {parts[2]} {parts[3]}, note {number}"


async def timed(times: int, call: Callable[[int], Awaitable[Any]]) -> list[float]:
    """Seconds of each call."""
    seconds = []
    for number in range(times):
        began = time.perf_counter()
        await call(number)
        seconds.append(time.perf_counter() - began)
    return seconds


async def fill(memory: MemoryAgent, turns: int) -> float:
    """Remember so many turns; seconds until settled."""
    began = time.perf_counter()
    for start in range(0, turns, BATCH):
        numbers = range(start, min(start + BATCH, turns))
        await memory.add_turns([{"role": "user", "content": sentence(number)} for number in numbers])
    await memory.settle(timeout=3_600)
    return time.perf_counter() - began


async def measure(service: MemoryService, turns: int, unheard: int) -> dict[str, Any]:
    """All figures on one store. Questions numbered from `unheard` on were never embedded before."""
    memory = service.agent(user_id="one user", thread_id="one thread")
    other = service.agent(user_id="another user", thread_id="one thread")
    figures: dict[str, Any] = {"turns": turns, "fill_s": round(await fill(memory, turns), 1)}

    async def first_search(_: int) -> None:
        service.core.residents.drop("one user")
        await memory.fetch_long_term("who bought an old bicycle?")

    async def settle_lag(number: int) -> None:
        await other.update_memory(f"{sentence(-number)} indeed", "I see.")
        await other.settle(timeout=60)

    warm = [f"who recommended {what}?" for what in WHAT]
    for question in warm:
        await memory.fetch_memory(question)
    figures["first_search"] = percentiles(await timed(5, first_search))
    figures["search_without_embedding"] = percentiles(
        await timed(200, lambda n: memory.fetch_long_term(warm[n % len(warm)]))
    )
    figures["fetch_without_embedding"] = percentiles(
        await timed(200, lambda n: memory.fetch_memory(warm[n % len(warm)]))
    )
    figures["search_with_embedding"] = percentiles(
        await timed(50, lambda n: memory.fetch_long_term(f"what was said about {sentence(unheard + n)}?"))
    )
    figures["fetch_with_embedding"] = percentiles(
        await timed(50, lambda n: memory.fetch_memory(f"what do you know of {sentence(unheard + n)}?"))
    )
    figures["settle_lag"] = percentiles(await timed(30, settle_lag))
    return figures


async def acknowledge(store: str, arguments: argparse.Namespace, embedder: Any) -> dict[str, float]:
    """Acknowledge alone, without the worker's own work beside it."""
    async with open_service(store, uri=arguments.mongo_uri, embedder=embedder, run_worker=False) as service:
        memory = service.agent(user_id="one user", thread_id="one thread")
        return percentiles(await timed(300, lambda n: memory.update_memory(sentence(n), "I see.")))


async def run(arguments: argparse.Namespace) -> None:
    """Measure every store asked for with one loaded model, and print."""
    cfg = MemoryConfig(
        local_embedding_model="all-MiniLM-L6-v2",
        embedding_backend=arguments.backend,
        embedding_precision=arguments.precision,
    )
    embedder = LocalEmbedder(wanted_model(cfg), cache_size=4 * arguments.turns)
    report: dict[str, Any] = {
        "machine": machine(),
        "backend": arguments.backend,
        "precision": arguments.precision,
        "import_memory_agent_s": import_seconds(),
    }
    try:
        for unheard, store in enumerate(arguments.store, start=1):
            async with open_service(store, uri=arguments.mongo_uri, embedder=embedder) as service:
                figures = await measure(service, arguments.turns, unheard * 10**6)
            report[store] = {"acknowledge": await acknowledge(store, arguments, embedder), **figures}
    finally:
        await embedder.close()
    print(json.dumps(report, indent=2))


def import_seconds() -> float:
    """Median of seven: a fresh process that imports memory_agent, less one that imports nothing."""

    def process(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    pairs = [process("import memory_agent") - process("pass") for _ in range(7)]
    return round(sorted(pairs)[3], 3)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--turns", type=int, default=10_000, help="turns of the user asked (default %(default)s)"
    )
    parser.add_argument("--store", nargs="+", choices=("sqlite", "mongodb"), default=["sqlite", "mongodb"])
    parser.add_argument("--mongo-uri", help="a server to use; a fresh one is started without it")
    parser.add_argument("--backend", choices=("auto", "onnx", "torch"), default="auto")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
