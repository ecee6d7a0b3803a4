"""How fast others are on the same turns: `python -m benchmarks.peers FILE [FILE …] --speed [--turns 10000] [--peer …]`.

Each system gets the turns of the recall sets, repeated with other names until there are as many as wanted, and then, one at a time:
turns that are remembered, and questions never heard before. Each is in a process of its own, one after the other, so
that none pays for another's libraries; memory_agent as it is installed (SQLite, embedded Chroma, ONNX Runtime), the others as in
`benchmarks.peers`, with the same model by sentence-transformers. The history's vectors are made before it is remembered.

- `acknowledged`: one turn, until the call returns. The others embed it in that call; memory_agent has written it durably by then and embeds
  it afterwards, so there are also `acknowledged_busy`, turn after turn with its worker beside, and `searchable`, from the call to its being
  indexed, by which it is compared as well.
- `search`: the best five for a question. `fetch`: a whole prompt of memory_agent, which others don't make.

`besides`: without the time in which the model worked, which is what differs between ONNX Runtime and torch.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import open_service, percentiles, side_by_side
from benchmarks.meter import LoopLag, Meter, Others, say
from benchmarks.peers.base import MODEL, Embedder, document, version_of
from benchmarks.peers.systems import PEERS
from benchmarks.recall_sets import Corpus, Question, SetTurn
from benchmarks.texts import FRESH, conversations
from benchmarks.vectors import KnowingEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.peers.base import Peer
    from benchmarks.texts import Texts

    Figures = Mapping[str, Mapping[str, float]]

OURS: Final = "memory_agent"
USUAL: Final = ("chroma", "langgraph", "mem0")
TOP: Final = 5
WARM_UP: Final = 3
BATCH: Final = 500
SETTLE_SECONDS: Final = 14_400


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One system's run. `calls`: of each kind."""

    name: str
    files: tuple[Path, ...]
    turns: int
    calls: int


def measure_all(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """What each job gives, each in a process of its own. Raises ModuleNotFoundError where a system is not installed."""
    spawn = multiprocessing.get_context("spawn")
    reports = []
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as processes:
        for job in jobs:
            say(f"{job.name}: {job.turns:,} turns")
            reports.append(processes.submit(measure, job).result())
    return reports


def measure(job: Job) -> dict[str, Any]:
    """One system's figures."""
    texts, others = conversations(job.files), Others()
    if job.name == OURS:
        version, figures = version_of("memory-agent"), asyncio.run(_ours(job, texts))
    else:
        cls = PEERS[job.name]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            version, figures = version_of(cls.package), _theirs(job, texts, cls, Path(folder))
    return {"system": job.name, "version": version, **figures, "others_busy": others.share()}


# --- others --------------------------------------------------------------------------------------------------
def _theirs(job: Job, texts: Texts, cls: type[Peer], folder: Path) -> dict[str, Any]:
    embedder = Embedder()
    history = [_turn(texts, number) for number in range(job.turns)]
    embedder.embed([document(turn) for turn in history])
    began = time.perf_counter()
    peer = cls(folder, embedder)
    for start in range(0, job.turns, BATCH):
        peer.remember(Corpus(name="history", turns=tuple(history[start : start + BATCH]), questions=()))
        say(
            f"{job.name}: {min(start + BATCH, job.turns):,} turns remembered in {time.perf_counter() - began:.0f} s"
        )
    filled = time.perf_counter() - began

    def remember(number: int) -> None:
        peer.remember(Corpus(name="more", turns=(_turn(texts, FRESH + number),), questions=()))

    def search(number: int) -> None:
        question = Question(id=str(number), text=texts.question(number), type="", date=None)
        if len(peer.search(question, TOP)) < min(TOP, job.turns):
            raise RuntimeError(f"{job.name} found less than {TOP} turns for question {number}")

    try:
        figures = {
            "acknowledged": _timed(remember, job.calls, embedder),
            "search": _timed(search, job.calls, embedder),
        }
    finally:
        peer.close()
    return {"fill_ms_a_turn": round(1_000 * filled / job.turns, 3), "figures": figures}


def _timed(call: Callable[[int], None], calls: int, embedder: Embedder) -> dict[str, float]:
    wall, besides = [], []
    for number in range(WARM_UP + calls):
        model, began = embedder.seconds, time.perf_counter()
        call(number)
        took = time.perf_counter() - began
        if number >= WARM_UP:
            wall.append(took)
            besides.append(took - (embedder.seconds - model))
    return percentiles(wall) | {f"besides_{name}": value for name, value in percentiles(besides).items()}


def _turn(texts: Texts, number: int) -> SetTurn:
    said = texts.turn(number)
    return SetTurn(
        id=str(number), session=str(number // 25), date=None, role=said.speaker or said.role, text=said.text
    )


# --- ours ----------------------------------------------------------------------------------------------------
async def _ours(job: Job, texts: Texts) -> dict[str, Any]:
    from memory_agent import MemoryConfig
    from memory_agent.adapters import wanted_model
    from memory_agent.models.local.embedder import LocalEmbedder

    embedder = KnowingEmbedder(LocalEmbedder(wanted_model(MemoryConfig(local_embedding_model=MODEL))))
    try:
        await embedder.learn([texts.turn(number).embedded for number in range(job.turns)])
        async with open_service("sqlite", embedder=embedder) as service, LoopLag() as lag:
            memory = service.agent(user_id="one user", thread_id="one thread")
            began = time.perf_counter()
            for start in range(0, job.turns, BATCH):
                numbers = range(start, min(start + BATCH, job.turns))
                await memory.add_turns([texts.turn(number).at(number) for number in numbers])
            await memory.settle(timeout=SETTLE_SECONDS)
            filled = time.perf_counter() - began
            meter = Meter(lag, embedder)

            async def remember(number: int) -> None:
                said = texts.turn(number)
                await memory.add_turn(said.role, said.text, speaker=said.speaker)

            for number in range(WARM_UP):
                await remember(2 * FRESH + number)
                await memory.settle(timeout=SETTLE_SECONDS)
                await memory.fetch_memory(texts.question(10**5 + number))
            searchable: list[float] = []
            for number in range(job.calls):
                began = time.perf_counter()
                await meter.time("acknowledged", remember(FRESH + number))
                await memory.settle(timeout=SETTLE_SECONDS)
                searchable.append(time.perf_counter() - began)
            for number in range(job.calls):
                await meter.time(
                    "search", memory.fetch_long_term(texts.question(2 * number), TOP), asks_model=True
                )
                await meter.time(
                    "fetch", memory.fetch_memory(texts.question(2 * number + 1)), asks_model=True
                )
            for number in range(job.calls):
                await meter.time("acknowledged_busy", remember(3 * FRESH + number))
            await memory.settle(timeout=SETTLE_SECONDS)
    finally:
        await embedder.close()
    figures = meter.report() | {"searchable": percentiles(searchable)}
    return {"fill_ms_a_turn": round(1_000 * filled / job.turns, 3), "figures": figures}


# --- the table -----------------------------------------------------------------------------------------------
COMPARED: Final = (
    ("acknowledged", "acknowledged"),
    ("acknowledged", "acknowledged_busy"),
    ("acknowledged", "searchable"),
    ("search", "search"),
    ("search", "fetch"),
)
"""A figure of theirs, and that of ours by which it is divided."""


def ratios(theirs: Figures, ours: Figures) -> dict[str, float]:
    """How many times as long another takes, at the median, by what is compared with what."""
    shown = {
        f"{their} ÷ our {our}": round(theirs[their]["p50_ms"] / ours[our]["p50_ms"], 2)
        for their, our in COMPARED
    }
    besides = theirs["search"]["besides_p50_ms"] / ours["search"]["besides_p50_ms"]
    return shown | {"search ÷ our search, besides the model": round(besides, 2)}


def table(reports: Sequence[Mapping[str, Any]]) -> str:
    """Figures of each system side by side, and how many times as long each other one takes, in Markdown."""
    columns = []
    for report in reports:
        column = {kind: (of["p50_ms"], of["p95_ms"]) for kind, of in report["figures"].items()}
        column |= {"filling, ms a turn": (report["fill_ms_a_turn"],)}
        columns.append(column | {name: (times,) for name, times in report.get("ratios", {}).items()})
    versions = [report["version"] for report in reports]
    return side_by_side("p50 / p95 ms", versions, columns, [{} for _ in columns])


def compare(names: Sequence[str], files: Sequence[Path], *, turns: int, calls: int) -> list[dict[str, Any]]:
    """The reports of memory_agent and of each peer, with its ratios to ours."""
    ours, *others = measure_all(
        [Job(name=name, files=tuple(files), turns=turns, calls=calls) for name in (OURS, *names)]
    )
    return [ours, *(other | {"ratios": ratios(other["figures"], ours["figures"])} for other in others)]
