"""How long the calls take as one user's history grows: `python -m benchmarks.speed [--text FILE …] [--turns N …]`.

One user in one thread, no Chroma, the real model, on SQLite and on MongoDB. Each size is remembered in a store of its own, weighed
on disk once it is closed, and opened again. What the figures are is in docs/benchmarks.md, "Speed". They are printed as JSON, a table on
standard error; `--against FILE` puts beside each what an earlier `--json FILE` has of the same case, as now ÷ then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import (
    Meter,
    Others,
    disk_bytes,
    figure_rows,
    loop_lag,
    machine,
    mongo_uri,
    open_service,
    print_report,
    say,
    side_by_side,
)
from benchmarks.texts import FRESH, text_option, texts_of
from benchmarks.vectors import KnowingEmbedder
from memory_agent import MemoryConfig
from memory_agent.adapters import wanted_model
from memory_agent.cli.opening import stay_long
from memory_agent.models.local.embedder import LocalEmbedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from benchmarks.texts import Texts
    from memory_agent import MemoryAgent, MemoryService

BATCH: Final = 500
BACKLOG: Final = 500
"""Turns that the worker has in hand when exchanges are acknowledged beside it."""
EXCHANGES, BACKLOG_FROM, MODEL_FROM = (FRESH * place for place in range(1, 4))
"""From which number on the turns are that are remembered while measuring: a text that was embedded before costs nothing."""
SETTLE_SECONDS: Final = 14_400
DB_NAME: Final = "speed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Where one user's history is kept."""

    store: str
    texts: Texts
    embedder: KnowingEmbedder
    folder: Path
    uri: str | None

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[MemoryService, MemoryAgent]]:
        """The service, and the user's thread."""
        async with open_service(
            self.store, uri=self.uri, embedder=self.embedder, folder=self.folder, db_name=DB_NAME
        ) as service:
            stay_long()  # as `serve` and `worker` do
            yield service, service.agent(user_id="one user", thread_id="one thread")

    def bytes_a_turn(self, turns: int) -> dict[str, float]:
        """What the turns take on disk, by file or collection; `text`: their texts alone."""
        sizes = disk_bytes(self.folder, self.uri, DB_NAME)
        shown = {name: round(size / turns, 1) for name, size in sizes.items()}
        text = sum(len(self.texts.turn(number).text.encode()) for number in range(turns))
        return {**shown, "all": round(sum(sizes.values()) / turns, 1), "text": round(text / turns, 1)}


# --- filling -------------------------------------------------------------------------------------------------
async def fill(case: Case, turns: int) -> dict[str, Any]:
    """Remember a history of so many turns, with their vectors known before; what a turn of it took."""
    say(f"{case.store}, {case.texts.name}, {turns:,} turns: embedding those that are new, then remembering")
    learnt = await case.embedder.learn([case.texts.turn(number).embedded for number in range(turns)])
    async with case.opened() as (_, memory), loop_lag() as lag:
        began, processor_began = time.perf_counter(), time.process_time()
        await ingest(case, memory, range(turns))
        wall, processor = time.perf_counter() - began, time.process_time() - processor_began
        hold = lag.take()
    return {
        "embedding_ms": round(1_000 * learnt, 3),
        "own_ms": round(1_000 * wall / turns, 3),
        "own_processor_ms": round(1_000 * processor / turns, 3),
        **hold.report(),
    }


async def ingest(case: Case, memory: MemoryAgent, numbers: range) -> None:
    """Remember these turns of the texts in bulk, until nothing is owed."""
    for start in range(0, len(numbers), BATCH):
        some = enumerate(numbers[start : start + BATCH], start=start)
        await memory.add_turns([case.texts.turn(number).at(place) for place, number in some])
    await memory.settle(timeout=SETTLE_SECONDS)


async def with_model(case: Case, service: MemoryService, turns: int) -> dict[str, float]:
    """The ingest of so many turns of another user beside the model's own time for as many others, one after the other."""
    begin = MODEL_FROM + 2 * turns * (case.store == "mongodb")  # the other store's are known by now
    alone = [case.texts.turn(number).embedded for number in range(begin, begin + turns)]
    model = turns * await case.embedder.learn(alone)
    memory = service.agent(user_id="another user", thread_id="one thread")
    began = time.perf_counter()
    await ingest(case, memory, range(begin + turns, begin + 2 * turns))
    whole = time.perf_counter() - began
    return {
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
    async with case.opened() as (service, memory), loop_lag() as lag:
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
        await memory.add_turns([case.texts.turn(BACKLOG_FROM + n).now() for n in range(BACKLOG)])
        for _ in range(calls):
            await meter.time("acknowledged_busy", exchange())
        await memory.settle(timeout=SETTLE_SECONDS)
    return {"topics": topics, "others_busy": others.share(), "figures": meter.report()}


def exchanges(texts: Texts, memory: MemoryAgent, first: int) -> Callable[[], Awaitable[Any]]:
    """A function that remembers one more exchange, another each time."""
    numbers = itertools.count(first, 2)

    def one_more() -> Awaitable[Any]:
        number = next(numbers)
        return memory.update_memory(texts.turn(number).text, texts.turn(number + 1).text)

    return one_more


async def one_case(case: Case, size: int, calls: int, *, last: bool) -> dict[str, Any]:
    """What is to say of one size; of the last one also the ingest with the model."""
    report = {
        "store": case.store,
        "text": case.texts.name,
        "turns": size,
        "ingest": await fill(case, size),
        "bytes_a_turn": case.bytes_a_turn(size),
    }
    say(f"{case.store}, {case.texts.name}, {size:,} turns: measuring")
    report |= await measure(case, calls)
    if last:
        async with case.opened() as (service, _):
            report["with_model"] = await with_model(case, service, min(1_000, size))
    return report


async def run(arguments: argparse.Namespace, texts: Texts) -> dict[str, Any]:
    """Measure every store and size asked for with one loaded model."""
    wanted = wanted_model(MemoryConfig(local_embedding_model="all-MiniLM-L6-v2"))
    embedder = KnowingEmbedder(LocalEmbedder(wanted))
    cases: list[Report] = []
    sizes = sorted(set(arguments.turns))
    try:
        for store, size in itertools.product(arguments.store, sizes):
            with contextlib.ExitStack() as stack:
                uri = stack.enter_context(mongo_uri()) if store == "mongodb" else None
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                case = Case(store=store, texts=texts, embedder=embedder, folder=folder, uri=uri)
                cases.append(await one_case(case, size, arguments.calls, last=size == sizes[-1]))
    finally:
        await embedder.close()
    return {"machine": machine(), "cases": cases}


# --- the table -----------------------------------------------------------------------------------------------
Report = dict[str, Any]


def key(case: Report) -> tuple[Any, ...]:
    """What makes cases of two reports the same."""
    return case["store"], case["text"], case["turns"]


def table(cases: Sequence[Report], before: Mapping[tuple[Any, ...], Report]) -> str:
    """The cases side by side, in Markdown; `before`: those of an earlier report by `key`, for the ratio to theirs."""
    heads = [
        f"{case['store']}, {case['text']}, {case['turns']:,} turns, {case['topics']:,} topics, {case['others_busy']:.0%} busy otherwise"
        for case in cases
    ]
    columns = [dict(rows(case)) for case in cases]
    then = [dict(rows(before[key(case)])) if key(case) in before else {} for case in cases]
    return side_by_side("p50 / p95 / processor, ms", heads, columns, then)


def rows(case: Report) -> Iterator[tuple[str, tuple[float, ...]]]:
    """What a case's column shows, by the name of the row."""
    longest = (max(of[which] for of in case["figures"].values()) for which in ("hold_ms", "hold_own_ms"))
    yield from figure_rows(case, "ingest", "with_model", "bytes_a_turn")
    yield "longest hold of the loop, its own part of it", tuple(longest)


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description="How long the calls take.")
    add = parser.add_argument
    text_option(parser)
    add("--turns", type=int, nargs="+", default=[100, 1_000, 10_000, 50_000], help="(default %(default)s)")
    add("--calls", type=int, default=100, help="of each kind (default %(default)s)")
    add("--store", nargs="+", choices=("sqlite", "mongodb"), default=["sqlite", "mongodb"])
    add("--json", type=Path, metavar="OUT", help="a file to write the figures to, too")
    add("--against", type=Path, metavar="FILE", help="an earlier --json, to compare with")
    arguments = parser.parse_args(given)
    if min(*arguments.turns, arguments.calls, 1) < 1:
        parser.error("--turns and --calls take numbers from 1 on")
    before = {}
    if arguments.against:
        try:
            before = {key(case): case for case in json.loads(arguments.against.read_text("utf-8"))["cases"]}
        except (OSError, ValueError, KeyError, TypeError) as exc:
            parser.error(f"{arguments.against} is not a report of benchmarks.speed ({exc!r:.80})")
    report = asyncio.run(run(arguments, texts_of(parser, arguments.text)))
    say(table(report["cases"], before))
    print_report(report, arguments.json)


if __name__ == "__main__":
    main()
