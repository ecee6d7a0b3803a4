"""How long `fetch_memory` takes while another user's history comes in: `python -m benchmarks.under_ingest`.

One service, Chroma embedded, and a real local embedder. A user with a history asks a question never heard before, so
that it must be embedded, every 200 ms: first alone, then from the first to the last moment of another user's ingest.
Prints p50, p95 and the longest of both, and what the ingest took with the questions beside it and (a third user's)
without them.

`call` is the time of the call itself; `due` counts from the moment at which the question was due, so that it holds the
wait for a busy event loop, or for the answer before, too. `others_busy` is the share of the machine's time that other
processes took meanwhile: compare only figures where it is next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psutil

from benchmarks.measure import machine, open_service, percentiles
from benchmarks.recall_sets import read_corpora
from benchmarks.speed import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memory_agent import MemoryAgent, MemoryService

PACE_SECONDS: Final = 0.2
CHUNK: Final = 200
"""Turns of one `add_turns`."""
WARM_UP: Final = 10


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


@dataclass(slots=True)
class Fetches:
    """What was measured of fetches, in seconds."""

    calls: list[float] = field(default_factory=list)
    since_due: list[float] = field(default_factory=list)
    degraded: int = 0
    others_busy: float = 0.0

    def report(self) -> dict[str, Any]:
        """Percentiles and the longest."""
        return {
            "fetches": len(self.calls),
            "degraded": self.degraded,
            "others_busy": self.others_busy,
            "call": _with_longest(self.calls),
            "due": _with_longest(self.since_due),
        }


def made_up_turn(number: int) -> str:
    """Two or three sentences, about 37 of MiniLM's tokens; another text for every number."""
    return ". ".join(sentence(3 * number + part) for part in range(3 if number % 3 else 2))


def file_turns(file: Path) -> Callable[[int], str]:
    """By number: the turns of a recall set; beyond its end they come again, with a number that makes them new."""
    texts = list(dict.fromkeys(turn.text for corpus in read_corpora(file) for turn in corpus.turns))
    texts = [text for text in texts if text.strip()]

    def turn(number: int) -> str:
        again, index = divmod(number, len(texts))
        return f"{texts[index]} ({again})" if again else texts[index]

    return turn


def never_heard() -> Iterator[str]:
    """Questions, none twice."""
    return (f"what do you know of {sentence(number)}?" for number in itertools.count(10**9))


async def ingest(memory: MemoryAgent, texts: Sequence[str]) -> float:
    """Remember the texts; seconds until settled."""
    began = time.perf_counter()
    for start in range(0, len(texts), CHUNK):
        await memory.add_turns([{"role": "user", "content": text} for text in texts[start : start + CHUNK]])
    await memory.settle(timeout=3_600)
    return time.perf_counter() - began


async def fetch_paced(
    memory: MemoryAgent, questions: Iterator[str], goes_on: Callable[[int], bool]
) -> Fetches:
    """One fetch every PACE_SECONDS, as long as `goes_on` says so of the number of fetches so far."""
    fetches, others = Fetches(), Others()
    began = time.perf_counter()
    while goes_on(len(fetches.calls)):
        due = began + PACE_SECONDS * len(fetches.calls)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        called = time.perf_counter()
        context = await memory.fetch_memory(next(questions))
        ended = time.perf_counter()
        fetches.calls.append(ended - called)
        fetches.since_due.append(ended - due)
        fetches.degraded += bool(context.degraded)
    fetches.others_busy = others.share()
    return fetches


async def measure(
    service: MemoryService, turn: Callable[[int], str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """All figures. The three users have different turns, so that none is known from another."""
    size, history = arguments.turns, arguments.history
    asking, coming, alone = (service.agent(user_id=f"user {n}", thread_id="one thread") for n in range(3))
    texts = [turn(number) for number in range(history + 2 * size)]
    await ingest(asking, texts[:history])
    questions = never_heard()
    for question in itertools.islice(questions, WARM_UP):
        await asking.fetch_memory(question)

    before = await fetch_paced(asking, questions, lambda count: count < arguments.fetches)
    _say("fetched alone")
    task = asyncio.create_task(ingest(coming, texts[history : history + size]))
    during = await fetch_paced(asking, questions, lambda _: not task.done())
    with_fetches = await task
    _say("fetched during an ingest")
    others = Others()
    without = await ingest(alone, texts[history + size :])
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


def _say(what: str) -> None:
    print(what, file=sys.stderr)


async def run(arguments: argparse.Namespace) -> None:
    """Open a fresh service, measure, print."""
    turn = file_turns(arguments.file) if arguments.file else made_up_turn
    settings = {"embedding_backend": arguments.backend, "embedding_precision": arguments.precision}
    async with open_service(arguments.store, uri=arguments.mongo_uri, **settings) as service:
        figures = await measure(service, turn, arguments)
    report = {
        "store": arguments.store,
        "backend": arguments.backend,
        "precision": arguments.precision,
        "machine": machine(),
        "file": arguments.file.name if arguments.file else None,
        "history": arguments.history,
        "turns": arguments.turns,
        **figures,
    }
    print(json.dumps(report, indent=2))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--turns", type=int, default=5_000, help="turns that come in (default %(default)s)")
    parser.add_argument(
        "--history", type=int, default=1_000, help="turns of the user asked (default %(default)s)"
    )
    parser.add_argument("--fetches", type=int, default=150, help="fetches alone (default %(default)s)")
    parser.add_argument("--file", type=Path, help="a recall set whose turns are taken; else they are made up")
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    parser.add_argument("--mongo-uri", help="a server to use; a fresh one is started without it")
    parser.add_argument("--backend", choices=("auto", "onnx", "torch"), default="auto")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
