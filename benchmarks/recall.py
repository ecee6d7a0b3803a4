"""How much of the known evidence is found: `python -m benchmarks.recall FILE [FILE ...] [--store sqlite|mongodb]`.

Reads recall sets (`benchmarks.recall_sets`), remembers each corpus through the public API as its own user, asks all its
questions, and only then scores the answers (`benchmarks.scoring` says what the figures are): turn recall@5 to @50, session
any@5 and all@5, the evidence in `fetch_memory` contexts, by type of question, each with a bootstrap interval.

JSON with figures and times goes to standard output, progress and a table to standard error. `--json OUT` keeps the result of every
question as well, from which `--compare A.json B.json` (paired differences) and `--misses N FILE --from RUN.json` (what was found
instead of the evidence) need no new run. `--ablation` remembers once and asks again with each signal of the search switched off.

What is remembered is role, speaker, date and text; what is asked is the question's text, told when it is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from benchmarks import ablation
from benchmarks.measure import machine, mongo_uri, open_service, percentiles
from benchmarks.misses import misses_report
from benchmarks.recall_sets import BadRecallSet, read_date, read_with_gold
from benchmarks.runs import BadRun, Run, comparison, read_run, table, write_runs
from benchmarks.scoring import DEPTH, Answer, Result, Shown, score
from memory_agent import TurnInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Gold, Question, SetTurn
    from memory_agent import MemoryAgent, MemoryService, Turn

BUDGETS: Final = (1_000, 2_000)
INGEST_BATCH: Final = 200
SYSTEM: Final = "memory_agent"


@dataclass(slots=True)
class Times:
    """How long it took, in seconds; `turns`: how many were remembered."""

    turns: int = 0
    ingest: float = 0.0
    search: list[float] = field(default_factory=list)
    fetch: list[float] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Sums, and percentiles in milliseconds of what was measured."""
        per_turn = round(1_000 * self.ingest / max(self.turns, 1), 2)
        figures: dict[str, Any] = {
            "turns": self.turns,
            "ingest_s": round(self.ingest, 1),
            "ingest_ms_per_turn": per_turn,
        }
        for name, seconds in (("search", self.search), ("fetch", self.fetch)):
            if seconds:
                figures[name] = percentiles(seconds)
        return figures


@dataclass(frozen=True, kw_only=True, slots=True)
class Remembered:
    """A corpus that a service has: whose it is there, and which of the set's turns each of the service's turns is."""

    set: str
    corpus: Corpus
    gold: Gold
    user_id: str
    origin: Mapping[str, str]


def as_input(turn: SetTurn) -> TurnInput:
    """A turn as a caller would hand it in; a role that is a person's name becomes the speaker."""
    return TurnInput(
        role="user" if turn.speaker else turn.role,
        speaker=turn.speaker,
        content=turn.text,
        timestamp=read_date(turn.date),
    )


async def remember(memory: MemoryAgent, corpus: Corpus) -> dict[str, str]:
    """Store a corpus and wait until it is settled; the service's turn ids and which of the set's they are."""
    turns = [turn for turn in corpus.turns if any(map(str.isprintable, turn.text.strip()))]
    origin: dict[str, str] = {}
    for start in range(0, len(turns), INGEST_BATCH):
        batch = turns[start : start + INGEST_BATCH]
        stored = await memory.add_turns([as_input(turn) for turn in batch])
        origin |= {ours.id: theirs.id for ours, theirs in zip(stored, batch, strict=True)}
    await memory.settle(timeout=3_600)
    return origin


async def remember_apart(service: MemoryService, user_id: str, corpus: Corpus) -> dict[str, str]:
    """The same with each session in a thread of its own."""
    origin: dict[str, str] = {}
    for session in dict.fromkeys(turn.session for turn in corpus.turns):
        said = tuple(turn for turn in corpus.turns if turn.session == session)
        origin |= await remember(
            service.agent(user_id=user_id, thread_id=f"session {session}"), replace(corpus, turns=said)
        )
    return origin


async def ask(
    memory: MemoryAgent, question: Question, origin: Mapping[str, str], budgets: Sequence[int], times: Times
) -> Answer:
    """Search for one question, and fetch a context of each budget."""

    def ids(turns: Iterator[Turn]) -> frozenset[str]:
        return frozenset(origin[turn.id] for turn in turns)

    began = time.perf_counter()
    # Only what "last week" is told from: it leaves out nothing, and evidence may be dated after its question.
    found = await memory.fetch_long_term(question.text, top_k=DEPTH, now=read_date(question.date))
    times.search.append(time.perf_counter() - began)
    contexts: dict[int, Shown] = {}
    for budget in budgets:
        began = time.perf_counter()
        context = await memory.fetch_memory(question.text, max_tokens=budget)
        times.fetch.append(time.perf_counter() - began)
        contexts[budget] = Shown(
            recollections=ids(recollection.turn for recollection in context.long_term),
            short_term=ids(turn for turn in context.short_term),
        )
    turns = tuple(origin[recollection.turn.id] for recollection in found)
    return Answer(question=question.id, turns=turns, contexts=contexts)


async def ask_all(
    service: MemoryService, one: Remembered, budgets: Sequence[int], times: Times
) -> list[Result]:
    """Every question of a corpus asked, and then scored."""
    memory = service.agent(user_id=one.user_id, thread_id="history")
    answers = [await ask(memory, question, one.origin, budgets, times) for question in one.corpus.questions]
    return score(one.set, one.corpus, answers, one.gold)


def set_name(file: Path) -> str:
    """What a set is called in figures: its file's name up to the first dot."""
    return file.name.partition(".")[0]


async def measure(
    service: MemoryService,
    files: Sequence[Path],
    limit: int | None,
    budgets: Sequence[int],
    *,
    apart: bool = False,
) -> tuple[list[Remembered], list[Result], dict[str, Times]]:
    """Remember and ask every corpus; what is remembered now, the results, and the times by set.

    `apart`: each session in a thread of its own, so that the questions come in a new one.
    """
    remembered: list[Remembered] = []
    results: list[Result] = []
    times = {set_name(file): Times() for file in files}
    for file in files:
        its = times[set_name(file)]
        for number, (corpus, gold) in enumerate(read_with_gold(file)):
            if limit is not None and number >= limit:
                break
            user_id = f"{set_name(file)}-{corpus.name}"
            began = time.perf_counter()
            origin = await (
                remember_apart(service, user_id, corpus)
                if apart
                else remember(service.agent(user_id=user_id, thread_id="history"), corpus)
            )
            its.ingest += time.perf_counter() - began
            its.turns += len(origin)
            one = Remembered(set=set_name(file), corpus=corpus, gold=gold, user_id=user_id, origin=origin)
            remembered.append(one)
            results += await ask_all(service, one, budgets, its)
            print(f"{user_id}: {len(origin)} turns, {len(corpus.questions)} questions", file=sys.stderr)
    return remembered, results, times


async def run(arguments: argparse.Namespace) -> list[Run]:
    """Measure in a fresh folder; with --ablation, one run more for each part of the search that is switched."""
    budgets = BUDGETS if arguments.contexts else ()
    settings = {
        "top_k_memories": arguments.top_k_memories,
        "embedding_backend": arguments.backend,
        "embedding_precision": arguments.precision,
        **dict(arguments.set),
    }
    with contextlib.ExitStack() as stack:
        place: dict[str, Any] = {"folder": Path(stack.enter_context(tempfile.TemporaryDirectory()))}
        if arguments.store == "mongodb":
            place["uri"] = stack.enter_context(mongo_uri(arguments.mongo_uri))
            place["db_name"] = f"b{uuid4().hex[:12]}"  # what an earlier run left would be found as well
        async with open_service(arguments.store, **{**place, **settings}) as service:
            remembered, results, times = await measure(
                service, arguments.files, arguments.limit, budgets, apart=arguments.threads
            )
        shown = {
            "store": arguments.store,
            **({"threads": "of sessions"} if arguments.threads else {}),
            **settings,
        }
        reports = {name: its.report() for name, its in times.items()}
        runs = [_run(SYSTEM, shown, results, reports)]
        for variant in ablation.variants_of(settings) if arguments.ablation else ():
            print(variant.name, file=sys.stderr)
            try:
                async with open_service(
                    arguments.store, **{**place, **settings, **variant.settings}
                ) as service:
                    results = [
                        result for one in remembered for result in await ask_all(service, one, (), Times())
                    ]
            except ablation.NOT_AVAILABLE as exc:
                print(f"{variant.name}: not measured, {exc}", file=sys.stderr)
                continue
            runs.append(_run(f"{SYSTEM} {variant.name}", {**shown, **variant.settings}, results, {}))
    return runs


def _run(
    system: str, settings: Mapping[str, Any], results: Sequence[Result], times: Mapping[str, Any]
) -> Run:
    version = importlib.metadata.version("memory-agent")
    return Run(system=system, version=version, settings=settings, results=results, times=times)


# --- command line --------------------------------------------------------------------------------------------


def setting(text: str) -> tuple[str, Any]:
    """A setting of MemoryConfig as NAME=VALUE; a value in braces or brackets is JSON."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, as enable_topics=false is")
    if value[:1] not in ("{", "["):
        return name, value
    try:
        return name, json.loads(value)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"the value of {name} is not JSON ({exc}): {value!r:.80}") from exc


def existing_file(text: str) -> Path:
    """A file that is there."""
    file = Path(text)
    if not file.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}; give the path of a recall set")
    return file


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    made.add_argument("files", type=existing_file, nargs="*", metavar="FILE", help="a recall set, or several")
    made.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    made.add_argument("--mongo-uri", help="a server to use; a fresh one is started without it")
    made.add_argument("--backend", choices=("auto", "onnx", "torch"), default="auto")
    made.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    made.add_argument(
        "--threads", action="store_true", help="a thread for each session, and the questions in a new one"
    )
    made.add_argument("--limit", type=int, help="only the first so many corpora of each file")
    made.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of memory_agent, such as enable_topics=false; may be given several times",
    )
    made.add_argument(
        "--top-k-memories",
        type=int,
        default=DEPTH,
        help="recollections a context may hold (default %(default)s)",
    )
    made.add_argument(
        "--no-contexts", dest="contexts", action="store_false", help="search only, fetch no contexts"
    )
    made.add_argument("--json", type=Path, metavar="OUT", help="keep figures and every question's result")
    made.add_argument(
        "--ablation", action="store_true", help="ask again with each signal of the search switched off"
    )
    made.add_argument(
        "--misses", nargs=2, metavar=("N", "FILE"), help="report up to N questions that were missed"
    )
    made.add_argument(
        "--from", dest="stored", metavar="RUN", help="with --misses: use this file of --json, run nothing"
    )
    made.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="how B differs from A (files of --json, or FILE#SYSTEM)",
    )
    return made


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    command = parser()
    arguments = command.parse_args(given)
    try:
        if arguments.compare:
            before, after = (read_run(name, Path()) for name in arguments.compare)
            print(comparison(before, after))
            return
        if not arguments.files:
            command.error("name at least one FILE (a recall set), or --compare A B")
        if arguments.misses and not arguments.misses[0].isdigit():
            command.error(f"--misses takes how many questions first, not {arguments.misses[0]!r}")
        runs = [read_run(arguments.stored, Path())] if arguments.stored else asyncio.run(run(arguments))
    except (BadRun, BadRecallSet, ValueError) as exc:
        command.error(str(exc))
    _report(arguments, runs)


def _report(arguments: argparse.Namespace, runs: Sequence[Run]) -> None:
    if arguments.misses:
        most, file = int(arguments.misses[0]), Path(arguments.misses[1])
        corpora = {
            (set_name(source), corpus.name): corpus
            for source in arguments.files
            for corpus, _ in read_with_gold(source)
        }
        file.write_text(misses_report(runs[0], corpora, most), "utf-8")
    if arguments.json and not arguments.stored:
        write_runs(arguments.json, runs, machine=machine())
    print(ablation.table(runs) if len(runs) > 1 else table(runs), file=sys.stderr)
    print(json.dumps({"machine": machine(), "runs": [one.figures() for one in runs]}, indent=2))


if __name__ == "__main__":
    main()
