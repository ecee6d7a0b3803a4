"""How fast a sweep is and what memory it takes: `python -m benchmarks.sweep [--topics N...]`.

For each number a fresh SQLite store is filled with so many topics, last touched weeks ago but for the newest few. `max_topics` is 20, so
how many of them have to be archived is known: if the counts differ, the exit code is 1. A dry run and then a sweep, each in a process
of its own that does nothing else, beside one of an empty store, for its peak of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine, peak_mib, print_report, say
from benchmarks.texts import sentence
from memory_agent import MemoryConfig, MemoryService
from memory_agent.domain import Scope
from memory_agent.testing import BruteForceIndex, HashEmbedder
from tests.conformance.values import a_draft, a_topic

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.ports import DocumentStore

MAX_TOPICS: Final = 20
TOPICS_PER_THREAD: Final = (25, 40)
TURNS_PER_TOPIC: Final = (2, 6)
DIMENSION: Final = 384
STALE_DAYS: Final = 30
DAY: Final = timedelta(days=1)


# --- filling -------------------------------------------------------------------------------------------------
async def fill(store: DocumentStore, topics: int, now: datetime) -> tuple[int, int]:
    """Fill a store by its port, a thread's turns in one call; how many turns, and topics that a sweep has to archive."""
    pick, sizes = random.Random(topics), list[int]()
    while (left := topics - sum(sizes)) > 0:
        sizes.append(min(pick.randint(*TOPICS_PER_THREAD), left))
    turns = [await fill_thread(store, number, size, now) for number, size in enumerate(sizes)]
    return sum(turns), sum(max(0, size - MAX_TOPICS) for size in sizes)


async def fill_thread(store: DocumentStore, number: int, size: int, now: datetime) -> int:
    """One thread of a user of its own; how many turns it has."""
    pick, scope = random.Random(number), Scope(user_id=f"user-{number:06}", thread_id="thread")
    plan = [topic for topic in range(size) for _ in range(pick.randint(*TURNS_PER_TOPIC))]
    drafts = [
        a_draft(sentence(number * 1_000 + i), index=i, size=len(plan), timestamp=now - _age(topic, size))
        for i, topic in enumerate(plan)
    ]
    members: dict[int, list[Any]] = {}
    for topic, turn in zip(plan, await store.append_turns(scope, drafts), strict=True):
        members.setdefault(topic, []).append(turn)
    await store.assign_topics(scope, {turn.id: of[0].id for of in members.values() for turn in of})
    embeddings = np.random.default_rng(number).normal(size=(size, DIMENSION))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    for topic, of in members.items():
        told = {"created_at": of[0].timestamp, "last_access": of[-1].timestamp, "access_count": len(of) // 2}
        vector = {"embedding": embeddings[topic].astype(np.float16), "embedded": len(of)}
        title = {"title": of[0].content[:80], "given_importance": None, "through": of[-1].seq}
        await store.save_topics([a_topic(of[0].id, scope=scope, **title, **told, **vector)])
    return len(plan)


def _age(topic: int, size: int) -> timedelta:
    """Of the thread's last topics one a day, all before them a month older: faded for certain."""
    newer = size - 1 - topic
    return newer * DAY if newer < MAX_TOPICS // 2 else (STALE_DAYS + newer) * DAY


# --- one process for each run --------------------------------------------------------------------------------
def open_here(folder: str) -> MemoryService:
    """The service on the store under measurement; no model, no Chroma, no worker."""
    cfg = MemoryConfig(data_dir=folder, max_topics=MAX_TOPICS, run_worker=False)
    return MemoryService(cfg, embedder=HashEmbedder(), vectors=BruteForceIndex())


async def sweep(folder: str, *, dry_run: bool) -> dict[str, Any]:
    """Sweep in this process; figures and this process' peak."""
    async with open_here(folder) as service:
        began = time.perf_counter()
        report = await service.sweep(dry_run=dry_run)
        seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 2),
        "topics": report.topics,
        "archived": report.archived,
        "failed": report.failed,
        "topics_per_s": round(report.topics / seconds),
        "archived_per_s": round(report.archived / seconds),
        "peak_mib": round(peak_mib(), 1),
    }


def sweep_here(folder: str, how: str) -> dict[str, Any]:
    """`sweep`, for a process that does nothing else."""
    return asyncio.run(sweep(folder, dry_run=how == "dry_run"))


def apart(folder: str, how: str = "sweep") -> dict[str, Any]:
    """`sweep_here` in a fresh process; `how`: `sweep` or `dry_run`."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(sweep_here, folder, how).result()


# --- the process that fills and starts the others ------------------------------------------------------------
def measure(topics: int) -> dict[str, Any]:
    """Fill a store, then a dry run and a sweep of it."""

    async def prepare() -> tuple[int, int]:
        async with open_here(folder) as service:
            return await fill(service.core.store, topics, service.clock.now())

    with tempfile.TemporaryDirectory() as folder:
        turns, to_archive = asyncio.run(prepare())
        runs = {how: apart(folder, how) for how in ("dry_run", "sweep")}
    as_planned = all(
        (run["topics"], run["archived"], run["failed"]) == (topics, to_archive, 0) for run in runs.values()
    )
    say(f"{topics:,} topics: {runs}")
    return {"topics": topics, "turns": turns, "to_archive": to_archive, "as_planned": as_planned, **runs}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    sizes = [1_000, 10_000, 30_000, 100_000]
    parser.add_argument("--topics", type=int, nargs="+", default=sizes, help="(default %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        apart(folder)  # creates the tables
        empty = apart(folder)["peak_mib"]
    measured = [measure(topics) for topics in arguments.topics]
    print_report({"machine": machine(), "empty_store_peak_mib": empty, "sizes": measured})
    sys.exit(not all(size["as_planned"] for size in measured))


if __name__ == "__main__":
    main()
