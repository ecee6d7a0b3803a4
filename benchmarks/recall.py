"""How much of the known evidence is found: `python -m benchmarks.recall FILE [FILE ...]`.

Remembers each corpus of recall sets (`benchmarks.recall_sets`; a folder stands for all in it) through the public API as its own user, asks
all its questions, and only then scores the answers (`benchmarks.scoring` says what the figures are). A table by set and type goes to standard
error, JSON to standard output. docs/benchmarks.md, "Recall", has the options.

What is remembered is role, speaker, date and text; what is asked is the question's text, told when it is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import (
    SEARCH_ONLY,
    machine,
    mongo_uri,
    open_service,
    percentiles,
    print_report,
    say,
    store_option,
)
from benchmarks.recall_sets import BadRecallSet, files_in, read_date, read_sets
from benchmarks.scoring import (
    DEPTH,
    Answer,
    BadRun,
    Result,
    Run,
    read_runs,
    score,
    systems_table,
    write_runs,
)
from benchmarks.vectors import cache_option
from memory_agent import TurnInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Gold, Sets, SetTurn
    from memory_agent import MemoryAgent, MemoryService

INGEST_BATCH: Final = 200
SYSTEM: Final = "memory_agent"


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


async def ask(service: MemoryService, one: Remembered, seconds: list[float]) -> list[Result]:
    """Every question of a corpus that is remembered, scored once all are answered; how long each took goes into `seconds`."""
    memory = service.agent(user_id=one.user_id, thread_id="history")
    answers = []
    for question in one.corpus.questions:
        # Only what "last week" is told from: it leaves out nothing, and evidence may be dated after its question.
        now, began = read_date(question.date), time.perf_counter()
        found = await memory.fetch_long_term(question.text, top_k=DEPTH, now=now)
        seconds.append(time.perf_counter() - began)
        answers.append(Answer(question=question.id, turns=tuple(one.origin[each.turn.id] for each in found)))
    return score(one.set, one.corpus, answers, one.gold)


async def measure(
    service: MemoryService, sets: Sets
) -> tuple[list[Remembered], list[Result], dict[str, dict[str, Any]]]:
    """Remember and ask every corpus; what is remembered now, the results, and the times by set."""
    remembered: list[Remembered] = []
    results: list[Result] = []
    times: dict[str, dict[str, Any]] = {}
    for name, corpora in sets.items():
        turns, ingest, processor, search = 0, 0.0, 0.0, list[float]()
        for corpus, gold in corpora:
            user_id = f"{name}-{corpus.name}"
            began, at_work = time.perf_counter(), time.process_time()
            origin = await remember(service.agent(user_id=user_id, thread_id="history"), corpus)
            ingest += time.perf_counter() - began
            processor += time.process_time() - at_work
            turns += len(origin)
            one = Remembered(set=name, corpus=corpus, gold=gold, user_id=user_id, origin=origin)
            remembered.append(one)
            results += await ask(service, one, search)
            say(f"{user_id}: {len(origin)} turns, {len(corpus.questions)} questions")
        times[name] = {
            "turns": turns,
            "ingest_s": round(ingest, 1),
            "ingest_processor_s": round(processor, 1),
            "search": percentiles(search),
        }
    return remembered, results, times


def without_each_signal(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By name, the settings that switch off one signal each of those that the product gives a weight."""
    from memory_agent.search.fusion import WEIGHTS

    given = settings.get("search_weights", {})
    return {
        f"without {signal}": {"search_weights": {**given, signal: 0.0}}
        for signal, weight in {**WEIGHTS, **given}.items()
        if weight
    }


async def run(arguments: argparse.Namespace, sets: Sets) -> list[Run]:
    """Measure in a fresh folder; with --ablation, one run more for each signal."""
    settings = {**SEARCH_ONLY, "top_k_memories": DEPTH, **dict(arguments.set)}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        uri = stack.enter_context(mongo_uri()) if arguments.store == "mongodb" else None
        place: dict[str, Any] = {"folder": folder, "uri": uri, "cache": arguments.cache}
        async with open_service(arguments.store, **{**place, **settings}) as service:
            remembered, results, times = await measure(service, sets)
        shown = {"store": arguments.store, **dict(arguments.set)}
        version = importlib.metadata.version("memory-agent")
        runs = [Run(system=SYSTEM, version=version, settings=shown, results=results, times=times)]
        for name, switched in without_each_signal(settings).items() if arguments.ablation else ():
            say(name)
            async with open_service(arguments.store, **{**place, **settings, **switched}) as service:
                results = [result for one in remembered for result in await ask(service, one, [])]
            about: dict[str, Any] = {"version": version, "settings": {**shown, **switched}}
            runs.append(Run(system=f"{SYSTEM} {name}", results=results, **about))
    return runs


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


def setting_option(parser: argparse.ArgumentParser) -> None:
    """Add `--set`, which can be repeated."""
    parser.add_argument(
        "--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help="a setting; repeatable"
    )


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    command = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = command.add_argument
    add("files", type=Path, nargs="*", metavar="FILE", help="recall sets, or folders of them")
    cache_option(command)
    store_option(command)
    setting_option(command)
    add("--limit", type=int, help="only the first so many corpora of each file")
    add("--json", type=Path, metavar="OUT", help="keep figures and every question's result")
    add("--ablation", action="store_true", help="ask again with each signal of the search switched off")
    add("--compare", nargs=2, metavar=("A", "B"), help="how B, or each system in it, differs from A")
    arguments = command.parse_args(given)
    try:
        if arguments.compare:
            (before, *_), after = map(read_runs, arguments.compare)
            print(systems_table([before, *after]))
            return
        if arguments.limit is not None and arguments.limit < 1:
            command.error(f"--limit takes 1 or more, not {arguments.limit}")
        if arguments.json and not arguments.json.parent.is_dir():  # else it would show after the run
            command.error(f"there is no folder {str(arguments.json.parent)!r}; make it first")
        runs = asyncio.run(run(arguments, read_sets(files_in(arguments.files), arguments.limit)))
    except (BadRun, BadRecallSet, ValueError) as exc:
        command.error(str(exc))
    if arguments.json:
        write_runs(arguments.json, runs, machine=machine())
    say(systems_table(runs))
    print_report({"machine": machine(), "runs": [one.figures() for one in runs]})


if __name__ == "__main__":
    main()
