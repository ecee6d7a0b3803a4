"""What calls cost as many users' histories grow: `python -m benchmarks.scale --store mongodb --users 20000 --turns 1000000`.

Users come one after the other, each with the same number of turns in one thread, through MemoryService with everything on that is on by
default but the model: vectors are made up of words' (`WordVectors`), so that the time is the store's and ours. With `--store mongodb` there
are a MongoDB and a Chroma server, else SQLite and embedded Chroma in one folder.

At 10,000 turns, ten times as many, and so on to `--turns`, the service is opened anew and a sample of users asked: the first search of
a user who is not in memory, the second, a fetch, an exchange acknowledged and then settled, `status`; besides, a sweep over everybody, memory
and disk. Each stage is printed as it is reached, with its ratio to the first. With `--folder` what is remembered stays there, and the same
command goes on where it was ended (on MongoDB with `--mongo-uri` and `--chroma` as well: servers that are started here end with it).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from benchmarks.measure import disk_bytes, machine, open_service, peak_mib, side_by_side
from benchmarks.meter import LoopLag, Meter, MeteredEmbedder, Others, say
from benchmarks.texts import FRESH, text_option, texts_of
from benchmarks.word_vectors import WordVectors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from benchmarks.texts import Texts
    from memory_agent import MemoryAgent, MemoryService

FIRST_STAGE: Final = 10_000
GROUP: Final = 100
"""Users whose histories come in at the same time, until they are settled."""
AT_ONCE: Final = 8
SETTLE_SECONDS: Final = 14_400
DB_NAME: Final = "scale"
STATE: Final = "scale.json"


# --- the run -------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class State:
    """How far a run has come. `of`: what it is a run of; `stages`: reports of those that are measured."""

    of: dict[str, Any]
    users: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    """Of the ingest so far, all in all."""
    stages: list[dict[str, Any]] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Write it down, so that a run that is ended goes on from here."""
        kept = {name: getattr(self, name) for name in self.__slots__}
        (folder / STATE).write_text(json.dumps(kept), encoding="utf-8")


def state_in(folder: Path, of: dict[str, Any]) -> State:
    """The state of the run in that folder; a fresh one in an empty folder. Raises ValueError if it is a run of something else."""
    file = folder / STATE
    if not file.exists():
        return State(of)
    state = State(**json.loads(file.read_text("utf-8")))
    if state.of != of:
        raise ValueError(
            f"{folder} holds a run of {state.of}, not of {of}; give another --folder, or the same options"
        )
    return state


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What is measured, and where. `processes`: the servers that were started for it, by name."""

    texts: Texts
    store: str
    turns_each: int
    folder: Path
    sample: int
    settings: Mapping[str, Any]
    processes: Mapping[str, int]

    def opened(self) -> AbstractAsyncContextManager[MemoryService]:
        """The service."""
        return open_service(
            self.store,
            uri=self.uri,
            embedder=_EMBEDDER,
            folder=self.data,
            db_name=DB_NAME,
            **self.settings,
        )

    @property
    def data(self) -> Path:
        """Where all is that takes room on the disk, but for MongoDB's."""
        return self.folder / "data"

    @property
    def uri(self) -> str | None:
        """MongoDB's address."""
        return self.settings.get("mongo_uri")

    def user(self, service: MemoryService, number: int) -> MemoryAgent:
        """The only thread of a user."""
        return service.agent(user_id=f"user-{number:07}", thread_id="thread")


_EMBEDDER: Final = MeteredEmbedder(WordVectors())


async def ingest(run: Run, state: State, users: int) -> dict[str, float]:
    """Have users come until there are so many, group by group; what the longest hold of the loop was."""
    first, began = state.users, time.perf_counter()
    async with run.opened() as service, LoopLag() as lag:
        while state.users < users:
            wall, processor = time.perf_counter(), time.process_time()
            group = range(state.users, min(state.users + GROUP, users))
            gate = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(_come(run, service, number, gate) for number in group))
            await service.settle(timeout=SETTLE_SECONDS)
            state.users = group.stop
            state.seconds += time.perf_counter() - wall
            state.processor += time.process_time() - processor
            state.save(run.folder)
            speed = (state.users - first) / (time.perf_counter() - began)
            say(
                f"{state.users * run.turns_each:,} turns of {state.users:,} users, {speed * run.turns_each:.0f} turns/s,"
                f" {(users - state.users) / speed / 60:.0f} min to the next stage"
            )
        return lag.take().report()


async def _come(run: Run, service: MemoryService, number: int, gate: asyncio.Semaphore) -> None:
    """One user's history; by its key one that a run which was ended has left is not remembered twice."""
    async with gate:
        first = number * run.turns_each
        turns = [run.texts.turn(first + n).at(n) for n in range(run.turns_each)]
        await run.user(service, number).add_turns(turns, idempotency_key="history")


async def measure(run: Run, state: State) -> dict[str, Any]:
    """All figures at the size that is there."""
    stage = len(state.stages)
    sample = random.Random(stage).sample(range(1, state.users), min(run.sample, state.users - 1))
    others, process = Others(), psutil.Process()
    async with run.opened() as service, LoopLag() as lag:
        await run.user(service, 0).fetch_memory("what is loaded when the first one asks?")
        meter = Meter(lag, _EMBEDDER)
        for place, number in enumerate(sample):
            memory, place = run.user(service, number), stage * run.sample + place
            question = (run.texts.question(3 * place + n) for n in range(3))
            await meter.time("cold_search", memory.fetch_long_term(next(question)))
            await meter.time("warm_search", memory.fetch_long_term(next(question)))
            await meter.time("fetch", memory.fetch_memory(next(question)))
            said = [run.texts.turn(FRESH + 2 * place + n).text for n in range(2)]
            await meter.time("acknowledged", memory.update_memory(*said))
            await meter.time("settled", memory.settle(timeout=SETTLE_SECONDS))
            await meter.time("status", memory.status())
        await meter.time("status_of_all", service.status())
        say("sweeping")
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
            "acted_on": swept.merged + swept.archived + swept.deleted,
        },
        "mib": {name: round(of) for name, of in mib.items()} | {"indexes_in_memory": round(resident / 2**20)},
        "others_busy": others.share(),
    }


async def stages(run: Run, state: State, turns: Sequence[int]) -> AsyncIterator[dict[str, Any]]:
    """The report of each size, those of an earlier run included, as it is reached."""
    for report in state.stages:
        yield report
    for size in turns[len(state.stages) :]:
        hold = await ingest(run, state, -(-size // run.turns_each))
        last: dict[str, Any] = state.stages[-1] if state.stages else {"turns": 0, "ingest": {}}
        remembered = state.users * run.turns_each
        added = max(1, remembered - last["turns"])
        seconds = state.seconds - last["ingest"].get("seconds_so_far", 0.0)
        processor = state.processor - last["ingest"].get("processor_seconds_so_far", 0.0)
        disk = disk_bytes(run.data, run.uri, DB_NAME)
        say(f"measuring at {remembered:,} turns")
        report = {
            "turns": remembered,
            "users": state.users,
            "ingest": {
                "ms_a_turn": round(1_000 * seconds / added, 3),
                "processor_ms_a_turn": round(1_000 * processor / added, 3),
                "seconds_so_far": round(state.seconds, 1),
                "processor_seconds_so_far": round(state.processor, 1),
                **hold,
            },
            "bytes_a_turn": {name: round(size / remembered, 1) for name, size in disk.items()},
            "disk_mb": round(sum(disk.values()) / 1e6, 1),
            **await measure(run, state),
        }
        state.stages.append(report)
        state.save(run.folder)
        yield report


# --- the report ----------------------------------------------------------------------------------------------
def rows(report: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """What a stage's column shows, by the name of the row."""
    for name, of in report["figures"].items():
        yield name, (of["p50_ms"], of["p95_ms"], of["processor_ms"])
    for part in ("ingest", "sweep", "mib", "bytes_a_turn"):
        for name, value in report[part].items():
            yield f"{part}: {name}", (value,)
    yield "disk, MB", (report["disk_mb"],)
    yield "busy with other things", (report["others_busy"],)


def table(reports: Sequence[Mapping[str, Any]]) -> str:
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


@contextlib.contextmanager
def servers(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """Settings that name the servers, and the processes of those that had to be started."""
    settings: dict[str, Any] = {}
    processes: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        if arguments.store == "mongodb":
            from tests.servers.chroma import ChromaProcess
            from tests.servers.mongod import Mongod

            settings["mongo_uri"] = arguments.mongo_uri
            if arguments.mongo_uri is None:
                mongod = stack.enter_context(Mongod())
                settings["mongo_uri"], processes["mongod"] = mongod.uri, mongod.pid
            host, _, port = (arguments.chroma or "").rpartition(":")
            if arguments.chroma is None:
                chroma = ChromaProcess(folder / "data" / "chroma").start()
                stack.callback(chroma.stop)
                host, port, processes["chroma"] = chroma.host, str(chroma.port), chroma.pid
            settings |= {"chroma_host": host, "chroma_port": int(port)}
        yield settings, processes


async def run_all(arguments: argparse.Namespace, texts: Texts, folder: Path, state: State) -> dict[str, Any]:
    """Go through all stages, printing the table at each."""
    reports = []
    with servers(arguments, folder) as (settings, processes):
        run = Run(
            texts=texts,
            store=arguments.store,
            turns_each=arguments.turns // arguments.users,
            folder=folder,
            sample=arguments.sample,
            settings=settings,
            processes=processes,
        )
        async for report in stages(run, state, arguments.stages or sizes(arguments.turns)):
            reports.append(report)
            say(table(reports))
    return {"machine": machine(), **state.of, "stages": reports}


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.scale", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    add = parser.add_argument
    add("--users", type=int, default=1_000, help="in the end (default %(default)s)")
    add("--turns", type=int, default=50_000, help="of all users, in the end (default %(default)s)")
    add(
        "--stages",
        type=int,
        nargs="+",
        help="turns at which is measured (default: 10000, ten times as many …, all)",
    )
    add("--sample", type=int, default=100, help="users that are asked at each stage (default %(default)s)")
    text_option(parser)
    add("--store", choices=("sqlite", "mongodb"), default="sqlite")
    add("--mongo-uri", help="a server to use; a fresh one is started without it")
    add(
        "--chroma",
        metavar="HOST:PORT",
        help="a Chroma server to use beside MongoDB; a fresh one is started without it",
    )
    add("--folder", type=Path, help="where data stays, so that the same command goes on from there")
    add("--json", type=Path, metavar="OUT", help="a file to write the figures to, too")
    arguments = parser.parse_args(given)
    if arguments.users < 2 or arguments.turns < arguments.users:
        parser.error("--users and --turns: at least two users, and one turn for each")
    if arguments.store == "mongodb" and arguments.folder and not (arguments.mongo_uri and arguments.chroma):
        parser.error(
            "--folder with --store mongodb needs --mongo-uri and --chroma: servers started here keep nothing"
        )
    texts = texts_of(parser, arguments.text)
    of = {name: getattr(arguments, name) for name in ("users", "turns", "store")} | {"text": texts.name}
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            state = state_in(folder, of)
        except ValueError as exc:
            parser.error(str(exc))
        text = json.dumps(asyncio.run(run_all(arguments, texts, folder, state)), indent=2)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
