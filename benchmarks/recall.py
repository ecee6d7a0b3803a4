"""How much of the known evidence is found: `python -m benchmarks.recall FILE [FILE ...] [--requests FILE]`.

Reads recall sets (`benchmarks.recall_sets`; a folder stands for all in it), remembers each corpus through the public API as its own
user, asks all its questions, and only then scores the answers (`benchmarks.scoring` says what the figures are). With `--requests`
messages are asked in the place of questions, each of a memory that ends before it (`benchmarks.requests`). Topics and
compression are off, for no figure depends on them.

A table by set and type goes to standard error, each figure with its interval and with its difference from the last run on the
set; a star marks a difference that is none of chance. JSON with figures and times goes to standard output. The last runs, and the
vectors of every text, are kept in the folder `--cache`, so that a second run embeds only what is new to it.

`--json OUT` keeps the result of every question as well, from which `--compare A.json B.json` (paired differences) and `--misses N
FILE --from RUN.json` (what was found instead of the evidence) need no new run. `--ablation` remembers once and asks again with
each signal of the search switched off.

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
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from benchmarks import ablation, requests
from benchmarks.measure import SEARCH_ONLY, machine, mongo_uri, open_service, percentiles
from benchmarks.misses import misses_report
from benchmarks.recall_sets import BadRecallSet, files_in, read_date, read_sets
from benchmarks.runs import (
    BadRun,
    Run,
    comparison,
    keep_last,
    last_table,
    read_run,
    read_runs,
    systems_table,
    write_runs,
)
from benchmarks.scoring import DEPTH, Answer, Result, score
from benchmarks.vectors import cache_option
from memory_agent import TurnInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Gold, Question, Sets, SetTurn
    from memory_agent import MemoryAgent, MemoryService

INGEST_BATCH: Final = 200
SYSTEM: Final = "memory_agent"
TOKENS: Final = 1_000
"""The context that a message is answered with; more than DEPTH turns are considered for one of this size."""


@dataclass(slots=True)
class Times:
    """How long it took, in seconds. `turns`: how many were remembered; `embedded`: texts whose vectors were not kept."""

    turns: int = 0
    embedded: int = 0
    ingest: float = 0.0
    processor: float = 0.0
    search: list[float] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Sums, and percentiles in milliseconds of what was measured."""
        figures: dict[str, Any] = {
            "turns": self.turns,
            "embedded": self.embedded,
            "ingest_s": round(self.ingest, 1),
            "ingest_processor_s": round(self.processor, 1),
        }
        return figures | ({"search": percentiles(self.search)} if self.search else {})

    @contextlib.contextmanager
    def ingesting(self, service: MemoryService) -> Iterator[None]:
        """Add the time that the block takes to remember."""
        embedder: Any = service.core.embedder.current
        began, at_work, computed = time.perf_counter(), time.process_time(), embedder.computed
        yield
        self.ingest += time.perf_counter() - began
        self.processor += time.process_time() - at_work
        self.embedded += embedder.computed - computed


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


async def search(memory: MemoryAgent, question: Question) -> list[str]:
    """Ids of the turns that are found for a question, best first."""
    if question.before is None:
        # Only what "last week" is told from: it leaves out nothing, and evidence may be dated after its question.
        now = read_date(question.date)
        return [found.turn.id for found in await memory.fetch_long_term(question.text, top_k=DEPTH, now=now)]
    # A message may mean what was said right before it, and only fetch_memory looks there; without a window, for what that shows
    # whole is not ranked.
    context = await memory.fetch_memory(question.text, max_tokens=TOKENS, preset="recall")
    recalled = [entry for entry in context.ledger if entry.tier == "long_term"]
    return [entry.item for entry in sorted(recalled, key=lambda entry: -(entry.score or 0.0))]


async def ask(
    memory: MemoryAgent, questions: Iterable[Question], origin: Mapping[str, str], times: Times
) -> list[Answer]:
    """Search for each question."""
    answers = []
    for question in questions:
        began = time.perf_counter()
        found = await search(memory, question)
        times.search.append(time.perf_counter() - began)
        turns = [origin[turn] for turn in found]
        others = tuple(turn for turn in turns if turn not in question.shown)[:DEPTH]
        answers.append(Answer(question=question.id, turns=others))
    return answers


async def remember_and_ask(
    service: MemoryService, user_id: str, corpus: Corpus, times: Times, *, apart: bool
) -> tuple[dict[str, str], list[Answer]]:
    """Remember a corpus and ask its questions, each as soon as what it is asked of is remembered; origin and answers.

    `apart`: each session in a thread of its own, so that the questions come in a new one.
    """
    memory = service.agent(user_id=user_id, thread_id="history")
    origin: dict[str, str] = {}
    answers: list[Answer] = []
    done = 0
    for place, questions in corpus.stages():
        part = replace(corpus, turns=corpus.turns[done:place])
        with times.ingesting(service):
            origin |= await (remember_apart(service, user_id, part) if apart else remember(memory, part))
        done = place
        answers += await ask(memory, questions, origin, times)
    times.turns += len(origin)
    return origin, answers


async def measure(
    service: MemoryService, sets: Sets, *, apart: bool = False
) -> tuple[list[Remembered], list[Result], dict[str, Times]]:
    """Remember and ask every corpus; what is remembered now, the results, and the times by set."""
    remembered: list[Remembered] = []
    results: list[Result] = []
    times = {name: Times() for name in sets}
    for name, corpora in sets.items():
        for corpus, gold in corpora:
            user_id = f"{name}-{corpus.name}"
            origin, answers = await remember_and_ask(service, user_id, corpus, times[name], apart=apart)
            remembered.append(Remembered(set=name, corpus=corpus, gold=gold, user_id=user_id, origin=origin))
            results += score(name, corpus, answers, gold)
            print(f"{user_id}: {len(origin)} turns, {len(corpus.questions)} questions", file=sys.stderr)
    return remembered, results, times


async def run(arguments: argparse.Namespace, sets: Sets) -> list[Run]:
    """Measure in a fresh folder; with --ablation, one run more for each part of the search that is switched."""
    settings = {**SEARCH_ONLY, "top_k_memories": DEPTH, **dict(arguments.set)}
    with contextlib.ExitStack() as stack:
        place: dict[str, Any] = {
            "folder": Path(stack.enter_context(tempfile.TemporaryDirectory())),
            "cache": arguments.cache,
        }
        if arguments.store == "mongodb":
            place["uri"] = stack.enter_context(mongo_uri(arguments.mongo_uri))
            place["db_name"] = f"b{uuid4().hex[:12]}"  # what an earlier run left would be found as well
        async with open_service(arguments.store, **{**place, **settings}) as service:
            remembered, results, times = await measure(service, sets, apart=arguments.threads)
        shown = {
            "store": arguments.store,
            **({"threads": "of sessions"} if arguments.threads else {}),
            **dict(arguments.set),
        }
        reports = {name: its.report() for name, its in times.items()}
        runs = [_run(SYSTEM, shown, results, reports)]
        for variant in ablation.variants_of(settings) if arguments.ablation else ():
            print(variant.name, file=sys.stderr)
            try:
                async with open_service(
                    arguments.store, **{**place, **settings, **variant.settings}
                ) as service:
                    results = [result for one in remembered for result in await ask_again(service, one)]
            except ablation.NOT_AVAILABLE as exc:
                print(f"{variant.name}: not measured, {exc}", file=sys.stderr)
                continue
            runs.append(_run(f"{SYSTEM} {variant.name}", {**shown, **variant.settings}, results, {}))
    return runs


async def ask_again(service: MemoryService, one: Remembered) -> list[Result]:
    """Every question of a corpus that is remembered already, scored."""
    memory = service.agent(user_id=one.user_id, thread_id="history")
    return score(one.set, one.corpus, await ask(memory, one.corpus.questions, one.origin, Times()), one.gold)


def _run(
    system: str, settings: Mapping[str, Any], results: Sequence[Result], times: Mapping[str, Any]
) -> Run:
    return Run(
        system=system,
        version=importlib.metadata.version("memory-agent"),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        settings=settings,
        results=results,
        times=times,
    )


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


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    made.add_argument("files", type=Path, nargs="*", metavar="FILE", help="recall sets, or folders of them")
    made.add_argument(
        "--requests", type=Path, metavar="FILE", help="ask these messages, not the sets' questions"
    )
    cache_option(made)
    made.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    made.add_argument("--mongo-uri", help="a server to use; a fresh one is started without it")
    made.add_argument(
        "--threads", action="store_true", help="a thread for each session, and the questions in a new one"
    )
    made.add_argument(
        "--limit",
        type=int,
        help="only the first so many corpora of each file; such a run is not kept as the last",
    )
    made.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of memory_agent, such as second_stage=off; may be given several times",
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
        help="how B, or each system in it, differs from A (files of --json, or FILE#SYSTEM)",
    )
    return made


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    command = parser()
    arguments = command.parse_args(given)
    try:
        if arguments.compare:
            before, after = read_run(arguments.compare[0], Path()), read_runs(arguments.compare[1], Path())
            print(comparison(before, after[0]) if len(after) == 1 else systems_table([before, *after]))
            return
        if arguments.misses and not arguments.misses[0].isdigit():
            command.error(f"--misses takes how many questions first, not {arguments.misses[0]!r}")
        if arguments.requests and (arguments.ablation or arguments.threads):
            command.error("--requests asks before all is remembered; run --ablation and --threads without it")
        if arguments.limit is not None and arguments.limit < 1:
            command.error(f"--limit takes 1 or more, not {arguments.limit}")
        for out in (arguments.json, Path(arguments.misses[1]) if arguments.misses else None):
            if out is not None and not out.parent.is_dir():  # else it would show after the run
                command.error(f"there is no folder {str(out.parent)!r} for {out.name}; make it first")
        sets = read_sets(files_in(arguments.files), arguments.limit)
        if arguments.requests:
            sets = requests.in_place_of_questions(sets, arguments.requests)
        runs = [read_run(arguments.stored, Path())] if arguments.stored else asyncio.run(run(arguments, sets))
    except (BadRun, BadRecallSet, ValueError) as exc:
        command.error(str(exc))
    _report(arguments, sets, runs)


def _report(arguments: argparse.Namespace, sets: Sets, runs: Sequence[Run]) -> None:
    run = runs[0]
    if arguments.misses:
        most, file = int(arguments.misses[0]), Path(arguments.misses[1])
        corpora = {(name, corpus.name): corpus for name, its in sets.items() for corpus, _ in its}
        file.write_text(misses_report(run, corpora, most), "utf-8")
    if arguments.json and not arguments.stored:
        write_runs(arguments.json, runs, machine=machine())
    if len(runs) > 1:
        print(systems_table(runs), file=sys.stderr)
    for name in run.sets if len(runs) == 1 else ():
        print(f"{last_table(arguments.cache, run, name)}\n", file=sys.stderr)
    if arguments.limit is None and not arguments.stored:
        keep_last(arguments.cache, run)
    print(json.dumps({"machine": machine(), "runs": [one.figures() for one in runs]}, indent=2))


if __name__ == "__main__":
    main()
