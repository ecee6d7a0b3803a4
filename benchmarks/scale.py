"""How the calls of one user hold up as users come: `python -m benchmarks.scale [--users 1000] [--turns 50000] [--store …]`.

All is as it is installed by default but the model: vectors are made up of words (`HashEmbedder`), so that the time is the store's and ours.
What is measured is in docs/benchmarks.md, "Many users". Each stage is printed as it is reached, with its ratio to the first.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from benchmarks.measure import (
    Meter,
    Others,
    disk_bytes,
    figure_rows,
    loop_lag,
    machine,
    open_service,
    peak_mib,
    print_report,
    say,
    servers,
    side_by_side,
    store_option,
)
from benchmarks.texts import FRESH, text_option, texts_of
from benchmarks.vectors import KnowingEmbedder
from memory_agent.testing import HashEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from benchmarks.texts import Texts
    from memory_agent import MemoryAgent, MemoryService

    Report = dict[str, Any]

FIRST_STAGE: Final = 10_000
GROUP: Final = 100
"""Users whose histories come in at the same time, until they are settled."""
AT_ONCE: Final = 8
SAMPLE: Final = 100
"""Users that are asked at each stage."""
SETTLE_SECONDS: Final = 14_400
DB_NAME: Final = "scale"
_EMBEDDER: Final = KnowingEmbedder(HashEmbedder(dimension=384))  # as long as MiniLM's vectors


@dataclass(frozen=True, slots=True)
class Run:
    """What is measured, and where. `processes`: the servers that were started for it, by name."""

    texts: Texts
    store: str
    turns_each: int
    folder: Path
    settings: Mapping[str, Any]
    processes: Mapping[str, int]

    def opened(self) -> AbstractAsyncContextManager[MemoryService]:
        """The service."""
        return open_service(
            self.store,
            embedder=_EMBEDDER,
            folder=self.folder,
            uri=self.settings.get("mongo_uri"),
            db_name=DB_NAME,
            **self.settings,
        )

    def user(self, service: MemoryService, number: int) -> MemoryAgent:
        """The only thread of a user."""
        return service.agent(user_id=f"user-{number:07}", thread_id="thread")


async def ingest(run: Run, users: range) -> dict[str, float]:
    """Have these users come, group by group; what it took, and the longest hold of the loop."""
    gate, began, processor = asyncio.Semaphore(AT_ONCE), time.perf_counter(), time.process_time()

    async def come(service: MemoryService, number: int) -> None:
        async with gate:
            first = number * run.turns_each
            turns = [run.texts.turn(first + n).at(n) for n in range(run.turns_each)]
            await run.user(service, number).add_turns(turns)

    async with run.opened() as service, loop_lag() as lag:
        for start in range(users.start, users.stop, GROUP):
            group = range(start, min(start + GROUP, users.stop))
            await asyncio.gather(*(come(service, number) for number in group))
            await service.settle(timeout=SETTLE_SECONDS)
            speed = (group.stop - users.start) / (time.perf_counter() - began)
            left = (users.stop - group.stop) / speed / 60
            say(
                f"{group.stop:,} users, {speed * run.turns_each:.0f} turns/s, {left:.0f} min to the next stage"
            )
        hold = lag.take().report()
    added = max(1, len(users) * run.turns_each)
    return {
        "ms_a_turn": round(1_000 * (time.perf_counter() - began) / added, 3),
        "processor_ms_a_turn": round(1_000 * (time.process_time() - processor) / added, 3),
        **hold,
    }


async def measure(run: Run, users: int, stage: int) -> Report:
    """All figures at the size that is there."""
    sample = random.Random(stage).sample(range(1, users), min(SAMPLE, users - 1))
    others, process = Others(), psutil.Process()
    async with run.opened() as service, loop_lag() as lag:
        await run.user(service, 0).fetch_memory("what is loaded when the first one asks?")
        meter = Meter(lag, _EMBEDDER)
        for place, number in enumerate(sample, start=stage * SAMPLE):
            memory = run.user(service, number)
            question = (run.texts.question(3 * place + n) for n in range(3))
            await meter.time("cold_search", memory.fetch_long_term(next(question)))
            await meter.time("warm_search", memory.fetch_long_term(next(question)))
            await meter.time("fetch", memory.fetch_memory(next(question)))
            said = [run.texts.turn(FRESH + 2 * place + n).text for n in range(2)]
            await meter.time("acknowledged", memory.update_memory(*said))
            await meter.time("settled", memory.settle(timeout=SETTLE_SECONDS))
            await meter.time("status", memory.status())
        await meter.time("status_of_all", service.status())
        began = time.perf_counter()
        swept = await service.sweep()
        sweep = time.perf_counter() - began
        resident = service.core.residents.nbytes
    mib = {"process": process.memory_info().rss / 2**20, "process_peak": peak_mib()}
    mib |= {name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in run.processes.items()}
    return {
        "figures": meter.report(),
        "sweep": {
            "seconds": round(sweep, 2),
            "topics": swept.topics,
            "ms_a_topic": round(1_000 * sweep / max(swept.topics, 1), 3),
        },
        "mib": {name: round(of) for name, of in mib.items()} | {"indexes_in_memory": round(resident / 2**20)},
        "others_busy": others.share(),
    }


# --- the report ----------------------------------------------------------------------------------------------
def rows(report: Report) -> Iterator[tuple[str, tuple[float, ...]]]:
    """What a stage's column shows, by the name of the row."""
    yield from figure_rows(report, "ingest", "sweep", "mib", "bytes_a_turn")
    yield "disk, MB", (report["disk_mb"],)
    yield "busy with other things", (report["others_busy"],)


def table(reports: Sequence[Report]) -> str:
    """The stages side by side in Markdown, each figure with its ratio to the first stage's."""
    heads = [f"{report['turns']:,} turns, {report['users']:,} users" for report in reports]
    first, *later = [dict(rows(report)) for report in reports]
    return side_by_side("p50 / p95 / processor, ms", heads, [first, *later], [{}, *(first for _ in later)])


def sizes(turns: int) -> list[int]:
    """The sizes that are measured: 10,000, ten times as many and so on, and all."""
    found, size = [], FIRST_STAGE
    while size < turns:
        found.append(size)
        size *= 10
    return [*found, turns]


async def run_all(arguments: argparse.Namespace, texts: Texts, folder: Path) -> Report:
    """Go through all stages, printing the table at each."""
    reports: list[Report] = []
    turns_each, users = arguments.turns // arguments.users, 0
    with servers(folder, arguments.store) as (settings, processes):
        run = Run(texts, arguments.store, turns_each, folder, settings, processes)
        for stage, size in enumerate(arguments.stages or sizes(arguments.turns)):
            before, users = users, -(-size // turns_each)
            took = await ingest(run, range(before, users))
            disk = disk_bytes(folder, settings.get("mongo_uri"), DB_NAME)
            say(f"measuring at {users * turns_each:,} turns")
            report: Report = {
                "turns": users * turns_each,
                "users": users,
                "ingest": took,
                "bytes_a_turn": {name: round(of / users / turns_each, 1) for name, of in disk.items()},
                "disk_mb": round(sum(disk.values()) / 1e6, 1),
            }
            reports.append(report | await measure(run, users, stage))
            say(table(reports))
    return {"machine": machine(), "store": arguments.store, "text": texts.name, "stages": reports}


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description="The calls of one user among many.")
    add = parser.add_argument
    add("--users", type=int, default=1_000, help="in the end (default %(default)s)")
    add("--turns", type=int, default=50_000, help="of all users, in the end (default %(default)s)")
    add("--stages", type=int, nargs="+", help="turns at which is measured (default: 10000, tenfold …, all)")
    text_option(parser)
    store_option(parser)
    add("--json", type=Path, metavar="OUT", help="a file to write the figures to, too")
    arguments = parser.parse_args(given)
    if arguments.users < 2 or arguments.turns < arguments.users:
        parser.error("--users and --turns: at least two users, and one turn for each")
    texts = texts_of(parser, arguments.text)
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(run_all(arguments, texts, Path(folder)))
    print_report(report, arguments.json)


if __name__ == "__main__":
    main()
