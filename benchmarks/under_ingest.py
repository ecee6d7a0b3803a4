"""How long `fetch_memory` takes while another user's history comes in: `python -m benchmarks.under_ingest`.

One service, Chroma embedded, and a real local embedder. A user with a history asks a question never heard before, so
that it must be embedded, every 200 ms: first alone, then from the first to the last moment of another user's ingest.
Prints p50, p95 and the longest of both, and what the ingest took with the questions beside it and (a third user's)
without them.

`call` is the time of the call itself; `due` counts from the moment at which the question was due, so that it holds the
wait for a busy event loop, or for the answer before, too. `hold_ms` is the longest time that the loop was not free, `hold_own_ms` what its
thread computed of one; `others_busy` is the share of the machine's time that other
processes took meanwhile: compare only figures where it is next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine, open_service, percentiles
from benchmarks.meter import Hold, LoopLag, Others, say
from benchmarks.texts import made_up, sentences, text_option, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.texts import Texts
    from memory_agent import MemoryAgent, MemoryService

PACE_SECONDS: Final = 0.2
CHUNK: Final = 200
"""Turns of one `add_turns`."""
WARM_UP: Final = 10


@dataclass(slots=True)
class Fetches:
    """What was measured of fetches, in seconds."""

    calls: list[float] = field(default_factory=list)
    since_due: list[float] = field(default_factory=list)
    degraded: int = 0
    others_busy: float = 0.0
    hold: Hold = field(default_factory=Hold)

    def report(self) -> dict[str, Any]:
        """Percentiles and the longest."""
        return {
            "fetches": len(self.calls),
            "degraded": self.degraded,
            "others_busy": self.others_busy,
            "call": _with_longest(self.calls),
            "due": _with_longest(self.since_due),
            **self.hold.report(),
        }


async def ingest(memory: MemoryAgent, texts: Texts, numbers: range) -> float:
    """Remember the turns of these numbers; seconds until settled."""
    began = time.perf_counter()
    for start in range(0, len(numbers), CHUNK):
        await memory.add_turns([texts.turn(n).at(n) for n in numbers[start : start + CHUNK]])
    await memory.settle(timeout=3_600)
    return time.perf_counter() - began


async def fetch_paced(
    memory: MemoryAgent, questions: Iterator[str], goes_on: Callable[[int], bool]
) -> Fetches:
    """One fetch every PACE_SECONDS, as long as `goes_on` says so of the number of fetches so far."""
    fetches, others = Fetches(), Others()
    began = time.perf_counter()
    async with LoopLag() as lag:
        while goes_on(len(fetches.calls)):
            due = began + PACE_SECONDS * len(fetches.calls)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            called = time.perf_counter()
            context = await memory.fetch_memory(next(questions))
            ended = time.perf_counter()
            fetches.calls.append(ended - called)
            fetches.since_due.append(ended - due)
            fetches.degraded += bool(context.degraded)
        fetches.hold = lag.take()
    fetches.others_busy = others.share()
    return fetches


async def measure(service: MemoryService, texts: Texts, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures. The three users have different turns, so that none is known from another."""
    size, history = arguments.turns, arguments.history
    asking, coming, alone = (service.agent(user_id=f"user {n}", thread_id="one thread") for n in range(3))
    await ingest(asking, texts, range(history))
    questions = map(texts.question, itertools.count())
    for question in itertools.islice(questions, WARM_UP):
        await asking.fetch_memory(question)

    before = await fetch_paced(asking, questions, lambda count: count < arguments.fetches)
    say("fetched alone")
    task = asyncio.create_task(ingest(coming, texts, range(history, history + size)))
    during = await fetch_paced(asking, questions, lambda _: not task.done())
    with_fetches = await task
    say("fetched during an ingest")
    others = Others()
    without = await ingest(alone, texts, range(history + size, history + 2 * size))
    return {
        "alone": before.report(),
        "during": during.report(),
        "ratio": {
            "call": _ratios(during.calls, before.calls),
            "due": _ratios(during.since_due, before.since_due),
        },
        "ingest_ms_per_turn": {
            "with_fetches": round(1_000 * with_fetches / size, 2),
            "without": round(1_000 * without / size, 2),
            "ratio": round(with_fetches / without, 2),
            "others_busy_without": others.share(),
        },
    }


def _with_longest(seconds: Sequence[float]) -> dict[str, float]:
    return percentiles(seconds) | {"max_ms": round(1_000 * max(seconds), 2)}


def _ratios(during: Sequence[float], before: Sequence[float]) -> dict[str, float]:
    return {
        "p50": round(float(np.percentile(during, 50) / np.percentile(before, 50)), 2),
        "p95": round(float(np.percentile(during, 95) / np.percentile(before, 95)), 2),
        "max": round(max(during) / max(before), 2),
    }


async def run(arguments: argparse.Namespace, texts: Texts) -> None:
    """Open a fresh service, measure, print."""
    settings = {"embedding_backend": arguments.backend, "embedding_precision": arguments.precision}
    async with open_service(arguments.store, uri=arguments.mongo_uri, **settings) as service:
        figures = await measure(service, texts, arguments)
    report = {
        "store": arguments.store,
        "backend": arguments.backend,
        "precision": arguments.precision,
        "machine": machine(),
        "text": texts.name,
        "history": arguments.history,
        "turns": arguments.turns,
        **figures,
    }
    print(json.dumps(report, indent=2))


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--turns", type=int, default=5_000, help="turns that come in (default %(default)s)")
    parser.add_argument(
        "--history", type=int, default=1_000, help="turns of the user asked (default %(default)s)"
    )
    parser.add_argument("--fetches", type=int, default=150, help="fetches alone (default %(default)s)")
    text_option(parser)
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    parser.add_argument("--mongo-uri", help="a server to use; a fresh one is started without it")
    parser.add_argument("--backend", choices=("auto", "onnx", "torch"), default="auto")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    arguments = parser.parse_args(given)
    asyncio.run(run(arguments, texts_of(parser, arguments.text, otherwise=made_up(sentences))))


if __name__ == "__main__":
    main()
