"""How long the calls take as one user's history grows: `python -m benchmarks.speed [--text FILE …] [--turns 100 1000 10000 50000]`.

One user in one thread, Chroma embedded, the real model, on SQLite and on MongoDB; with `--text` on conversations between real people
and on made-up sentences, which alone say little (`benchmarks.texts`). Each size is remembered in a
store of its own, whose disk is weighed once it is closed; then it is opened again, and in milliseconds:

- `embedding`, `search_new`, `fetch_new`: questions never heard before, in turns, so that what the machine does besides meets all
  three. `besides`: without the time in which the model worked. `search_known`, `fetch_known`: questions embedded before.
- `first_search`: of a user who is not in memory. `status`, `list_topics`: as they are called.
- `acknowledged`, `settled`: an exchange, and from then until nothing is owed to it. `acknowledged_busy`: exchanges one after another
  while the worker has a backlog.
- `ingest`: what a turn costs in bulk besides its embedding, which was done before (`own`). `with_model`: turns of another user that
  are embedded as they come in, beside the model's own time for as many others.

`processor_ms`: all threads' processor time, at the median. `hold_ms`: the longest time that the event loop was not free, and of that
what its own thread computed (`hold_own_ms`). `--topics N …` makes so many topics at the largest size. `--profile` says where a
fetch and a settled exchange spend their time, by part (`benchmarks.parts`). The figures are printed as JSON, a table on
standard error; `--against FILE` puts beside each what an earlier `--json FILE` has of the same case, as now ÷ then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import disk_bytes, drop_database, machine, mongo_uri, open_service
from benchmarks.meter import Hold, LoopLag, Meter, MeteredEmbedder, Others, say
from benchmarks.speed_table import PROFILED, key, tables
from benchmarks.texts import FRESH, made_up, text_option, texts_of
from memory_agent import MemoryConfig
from memory_agent.adapters import wanted_model
from memory_agent.cli.opening import stay_long
from memory_agent.models.local.embedder import LocalEmbedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from benchmarks.texts import Texts
    from memory_agent import MemoryAgent, MemoryService

BATCH: Final = 500
BACKLOG: Final = 500
"""Turns that the worker has in hand when exchanges are acknowledged beside it."""
EXCHANGES, BACKLOG_FROM, PROFILED_FROM, MODEL_FROM = (FRESH * place for place in range(1, 5))
"""From which number on the turns are that are remembered while measuring: a text that was embedded before costs nothing."""
SETTLE_SECONDS: Final = 14_400
EVERY_TURN_NEW: Final = {"similarity_threshold": 2.0}
NO_TURN_NEW: Final = {"similarity_threshold": -1.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Where one user's history is kept. `topics`: how many are made of it; None: what the texts give."""

    store: str
    texts: Texts
    embedder: MeteredEmbedder
    folder: Path
    uri: str | None
    topics: int | None = None

    @property
    def db_name(self) -> str:
        """Another for each case on MongoDB, where all share a server."""
        return "speed" if self.uri is None else f"speed_{self.folder.name}"

    @contextlib.asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncIterator[tuple[MemoryService, MemoryAgent]]:
        """The service, and the user's thread."""
        async with open_service(
            self.store,
            uri=self.uri,
            embedder=self.embedder,
            folder=self.folder,
            db_name=self.db_name,
            **settings,
        ) as service:
            stay_long()  # as `serve` and `worker` do
            yield service, service.agent(user_id="one user", thread_id="one thread")

    def bytes_a_turn(self, turns: int) -> dict[str, float]:
        """What the turns take on disk, by file or collection; `text`: their texts alone."""
        sizes = disk_bytes(self.folder, self.uri, self.db_name)
        shown = {name: round(size / turns, 1) for name, size in sizes.items()}
        text = sum(len(self.texts.turn(number).text.encode()) for number in range(turns))
        return {**shown, "all": round(sum(sizes.values()) / turns, 1), "text": round(text / turns, 1)}


# --- filling -------------------------------------------------------------------------------------------------
async def fill(case: Case, turns: int) -> dict[str, Any]:
    """Remember a history of so many turns, with their vectors known before; what a turn of it took."""
    of = f"{case.store}, {case.texts.name}, {turns:,} turns"
    say(f"{of}: embedding those that are new")
    learnt = await case.embedder.learn([case.texts.turn(number).embedded for number in range(turns)])
    say(f"{of}: remembering them")
    steps: list[tuple[Mapping[str, Any], int | None]] = [({}, None)]
    if case.topics is not None:
        steps = [(EVERY_TURN_NEW, case.topics), (NO_TURN_NEW, None)]
    wall, processor, hold = 0.0, 0.0, Hold()
    for settings, topics in steps:
        async with case.opened(**settings) as (_, memory), LoopLag() as lag:
            began, processor_began = time.perf_counter(), time.process_time()
            await _remember(case, memory, turns, topics)
            wall += time.perf_counter() - began
            processor += time.process_time() - processor_began
            hold |= lag.take()
    embedding = {"embedding_ms": round(1_000 * learnt, 3)} if learnt else {}
    return {
        **embedding,
        "own_ms": round(1_000 * wall / turns, 3),
        "own_processor_ms": round(1_000 * processor / turns, 3),
        **hold.report(),
    }


async def _remember(case: Case, memory: MemoryAgent, turns: int, topics: int | None) -> None:
    """Remember what is not there yet of the turns, or until there are so many topics."""
    done = (await memory.status()).turns
    while done < turns:
        left = BATCH if topics is None else topics - len(await memory.topics())
        if left <= 0:
            break
        numbers = range(done, min(done + min(BATCH, left), turns))
        await memory.add_turns([case.texts.turn(number).at(number) for number in numbers])
        done = numbers.stop
        if topics is not None:
            await memory.settle(timeout=SETTLE_SECONDS)
    await memory.settle(timeout=SETTLE_SECONDS)


async def with_model(case: Case, service: MemoryService, turns: int) -> dict[str, float]:
    """The ingest of so many turns of another user beside the model's own time for as many others, one after the other."""
    begin = MODEL_FROM + 2 * turns * (case.store == "mongodb")  # the other store's are known by now
    fresh = [case.texts.turn(number) for number in range(begin, begin + 2 * turns)]
    alone, coming = fresh[:turns], fresh[turns:]
    model = turns * await case.embedder.learn([said.embedded for said in alone])
    memory = service.agent(user_id="another user", thread_id="one thread")
    began = time.perf_counter()
    for start in range(0, turns, BATCH):
        await memory.add_turns([said.at(start + n) for n, said in enumerate(coming[start : start + BATCH])])
    await memory.settle(timeout=SETTLE_SECONDS)
    whole = time.perf_counter() - began
    return {
        "turns": turns,
        "model_ms": round(1_000 * model / turns, 3),
        "all_ms": round(1_000 * whole / turns, 3),
        "all / model": round(whole / model, 2),
    }


# --- measuring -----------------------------------------------------------------------------------------------
async def measure(case: Case, calls: int) -> dict[str, Any]:
    """All figures at the size that is there; `calls` of each kind."""
    case.embedder.clear_cache()  # so that questions are new on each store
    asked = map(case.texts.question, itertools.count())
    others = Others()
    async with case.opened() as (service, memory), LoopLag() as lag:
        meter = Meter(lag, case.embedder)
        for question in itertools.islice(asked, 3):
            await memory.fetch_long_term(question)  # a fetch that shows all there is asks no model
            await memory.fetch_memory(question)
        for question in itertools.islice(asked, 3):
            service.core.residents.drop(memory.scope.user_id)
            await meter.time("first_search", memory.fetch_long_term(question), asks_model=True)
        known = []
        for _ in range(calls):
            alone, searched, fetched = itertools.islice(asked, 3)
            await meter.time("embedding", case.embedder.embed([alone], purpose="query"))
            await meter.time("search_new", memory.fetch_long_term(searched), asks_model=True)
            await meter.time("fetch_new", memory.fetch_memory(fetched), asks_model=True)
            known.append(searched)
        for question in known:
            await meter.time("search_known", memory.fetch_long_term(question))
            await meter.time("fetch_known", memory.fetch_memory(question))
        for _ in range(min(calls, 20)):
            await meter.time("status", memory.status())
            await meter.time("list_topics", memory.topics())
        topics = len(await memory.topics(include_archived=True))
        exchange = exchanges(case.texts, memory, EXCHANGES)
        for _ in range(calls):
            await meter.time("acknowledged", exchange())
            await meter.time("settled", memory.settle(timeout=SETTLE_SECONDS))
        owed = await _busy(case.texts, meter, exchange, memory, calls)
    return {
        "topics": topics,
        "calls": calls,
        "owed_after_busy": owed,
        "others_busy": others.share(),
        "figures": meter.report(),
    }


def exchanges(texts: Texts, memory: MemoryAgent, first: int) -> Callable[[], Awaitable[Any]]:
    """A function that remembers one more exchange, another each time."""
    numbers = itertools.count(first, 2)

    def one_more() -> Awaitable[Any]:
        number = next(numbers)
        return memory.update_memory(texts.turn(number).text, texts.turn(number + 1).text)

    return one_more


async def _busy(
    texts: Texts, meter: Meter, exchange: Callable[[], Awaitable[Any]], memory: MemoryAgent, calls: int
) -> int:
    """Exchanges beside a backlog; how many turns of both were owed when the last was acknowledged."""
    await memory.add_turns([texts.turn(BACKLOG_FROM + n).now() for n in range(BACKLOG)])
    for _ in range(calls):
        await meter.time("acknowledged_busy", exchange())
    owed = (await memory.status()).owed_count
    await memory.settle(timeout=SETTLE_SECONDS)
    return owed


async def profiled(case: Case, times: int) -> dict[str, Any]:
    """A fetch of a new question and a settled exchange, by part."""
    from benchmarks import parts

    profiles, counts = parts.Profiles(), parts.Counts()
    with profiles.installed(), counts.statements_counted():
        async with case.opened() as (service, memory):
            asked = map(case.texts.question, itertools.count(10**5))
            exchange = exchanges(case.texts, memory, PROFILED_FROM)

            async def fetch(_: int) -> None:
                await memory.fetch_memory(next(asked))

            async def settled(_: int) -> None:
                await exchange()
                await memory.settle(timeout=SETTLE_SECONDS)

            kinds = dict(zip(PROFILED, (fetch, settled), strict=True))
            return await parts.profile(service, profiles, counts, kinds, times=times)


# --- running -------------------------------------------------------------------------------------------------
def import_seconds() -> float:
    """Median of seven: a fresh process that imports memory_agent, less one that imports nothing."""

    def process(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    pairs = [process("import memory_agent") - process("pass") for _ in range(7)]
    return round(sorted(pairs)[3], 3)


async def cases_of(
    arguments: argparse.Namespace, store: str, texts: Texts, embedder: MeteredEmbedder
) -> AsyncIterator[dict[str, Any]]:
    """One case after another of a store and text: each size, and the largest with each number of topics."""
    largest = max(arguments.turns)
    wanted = [(size, None) for size in sorted(set(arguments.turns))]
    with contextlib.ExitStack() as stack:
        uri = stack.enter_context(mongo_uri(arguments.mongo_uri)) if store == "mongodb" else None
        for size, topics in [*wanted, *((largest, topics) for topics in arguments.topics)]:
            with tempfile.TemporaryDirectory() as folder:
                case = Case(
                    store=store, texts=texts, embedder=embedder, folder=Path(folder), uri=uri, topics=topics
                )
                try:
                    yield await one_case(case, size, arguments, last=size == largest and topics is None)
                finally:
                    drop_database(uri, case.db_name)


async def one_case(case: Case, size: int, arguments: argparse.Namespace, *, last: bool) -> dict[str, Any]:
    """What is to say of one size; of the last one also the ingest with the model, and the profile."""
    ingest = await fill(case, size)
    weighed = case.bytes_a_turn(size)
    say(f"{case.store}, {case.texts.name}, {size:,} turns: measuring")
    report = {
        "store": case.store,
        "text": case.texts.name,
        "turns": size,
        "topics_wanted": case.topics,
        "ingest": ingest,
        "bytes_a_turn": weighed,
        **await measure(case, arguments.calls),
    }
    if last:
        async with case.opened() as (service, _):
            report["with_model"] = await with_model(case, service, min(1_000, size))
    if last and arguments.profile:
        say(f"{case.store}, {case.texts.name}, {size:,} turns: profiling")
        report["profile"] = await profiled(case, min(20, arguments.calls))
    return report


async def run(arguments: argparse.Namespace, texts: Sequence[Texts]) -> dict[str, Any]:
    """Measure every store and text asked for with one loaded model."""
    cfg = MemoryConfig(
        local_embedding_model="all-MiniLM-L6-v2",
        embedding_backend=arguments.backend,
        embedding_precision=arguments.precision,
    )
    report: dict[str, Any] = {
        "machine": machine(),
        "backend": arguments.backend,
        "precision": arguments.precision,
        "import_memory_agent_s": import_seconds(),
        "cases": [],
    }
    embedder = MeteredEmbedder(LocalEmbedder(wanted_model(cfg)))
    try:
        for text, store in itertools.product(texts, arguments.store):
            async for case in cases_of(arguments, store, text, embedder):
                report["cases"].append(case)
                if arguments.json:  # what was measured stays if a later case fails
                    arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    finally:
        await embedder.close()
    return report


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.speed", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    add = parser.add_argument
    text_option(parser)
    add(
        "--made-up",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="made-up sentences beside --text, or not",
    )
    add("--turns", type=int, nargs="+", default=[10_000], help="sizes of the user's history (default 10000)")
    add(
        "--topics",
        type=int,
        nargs="+",
        default=[],
        help="so many topics at the largest size, each in a store of its own",
    )
    add("--calls", type=int, default=60, help="of each kind (default %(default)s)")
    add("--store", nargs="+", choices=("sqlite", "mongodb"), default=["sqlite", "mongodb"])
    add("--mongo-uri", help="a server to use; a fresh one is started without it")
    add("--backend", choices=("auto", "onnx", "torch"), default="auto", help="what runs the model")
    add("--precision", choices=("fp32", "int8"), default="fp32", help="of the model")
    add(
        "--profile",
        action="store_true",
        help="also profile a fetch and a settled exchange by part, at the largest size",
    )
    add("--json", type=Path, metavar="OUT", help="a file to write the figures to, too")
    add(
        "--against",
        type=Path,
        metavar="FILE",
        help="a file of an earlier --json: the table shows now ÷ then as well",
    )
    arguments = parser.parse_args(given)
    if min([*arguments.turns, *arguments.topics, arguments.calls]) < 1:
        parser.error("--turns, --topics and --calls take numbers from 1 on")
    before = {}
    if arguments.against:
        try:
            before = {key(case): case for case in json.loads(arguments.against.read_text("utf-8"))["cases"]}
        except (OSError, ValueError, KeyError, TypeError) as exc:
            parser.error(f"--against {arguments.against}: not a report of benchmarks.speed ({exc})")
    texts = [texts_of(parser, arguments.text, otherwise=made_up())]
    if not arguments.text:
        say("no --text: made-up sentences alone, which make fewer terms and more topics than real talk")
    elif arguments.made_up:
        texts.append(made_up())
    report = asyncio.run(run(arguments, texts))
    say(tables(report["cases"], before))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
