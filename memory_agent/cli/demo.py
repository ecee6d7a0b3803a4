"""`memory-agent demo`: one process remembers, another one answers; this one shows it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from memory_agent import subprocesses as child
from memory_agent.cli.options import FAILED, OK, AsJson, Commands, option
from memory_agent.cli.output import complain, note, out, print_facts, print_json, progress_bar, say
from memory_agent.demo import THREAD_ID, TOP_K, USER_ID, conversation, questions, sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Event = dict[str, Any]

app = Commands()


@app.command()
def demo(
    keep: Path | None = option("--keep", "Keep the memory in this new or empty folder."),
    as_json: AsJson = False,
) -> int:
    """Ten weeks of a conversation, remembered, and found again by another process.

    One process remembers a shipped conversation in a fresh folder and ends. A second one opens the folder and
    answers questions from weeks ago. Nothing leaves this machine and no language model is asked. Fails if one
    of the expected turns isn't found.

    Examples:
        memory-agent demo
        memory-agent demo --keep ./demo_data && memory-agent ask "Where is my Dutch class?" --data-dir ./demo_data -u mara -t diary
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="memory-agent-demo-") as folder:
            return asyncio.run(_demonstrate(Path(folder), kept=False, as_json=as_json))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise typer.BadParameter(f"{keep} is not an empty folder; name a new one", param_hint="--keep")
    keep.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_demonstrate(keep, kept=True, as_json=as_json))


async def _demonstrate(folder: Path, *, kept: bool, as_json: bool) -> int:
    """Remember, end, open again and ask; OK if every expected turn was found."""
    started = time.perf_counter()
    model = await asyncio.to_thread(_prepare_model, show=not as_json)
    remembered = await _remember(folder, show=not as_json)
    answered = None if remembered is None else await _answer(folder, show=not as_json)
    if answered is None:
        return FAILED
    wrong = sum(event["event"] == "answer" and event["rank"] is None for event in answered)
    seconds = time.perf_counter() - started
    if as_json:
        halves = {"model": model, "remember": remembered, "answer": answered}
        print_json({**halves, "missed": wrong, "seconds": seconds})
    elif wrong:
        complain(f"{wrong} of {len(questions())} expected turns were not among the first {TOP_K} results")
    else:
        say(
            ("✓ ", "bold green"),
            f"All {len(questions())} questions found their turn. {seconds:.0f} s in all.",
        )
        _tell_next(folder if kept else None)
    return FAILED if wrong else OK


def _prepare_model(*, show: bool) -> Event:
    """Make the model's files if this is its first use on this machine, so that it is told how long that takes."""
    from memory_agent.adapters import wanted_model
    from memory_agent.config import MemoryConfig
    from memory_agent.models.local.atomic_build import Making
    from memory_agent.models.local.choose import choose, prepare

    wanted = wanted_model(MemoryConfig(use_local_embeddings=True))
    choice = choose(wanted)
    made, started = not choice.ready, time.perf_counter()
    if show:
        _headline("0", "The embedding model")
    making = Making(progress=lambda stage: note(f"   {stage} …") if show else None)
    choice = prepare(choice, wanted, making)
    seconds = time.perf_counter() - started
    if show:
        by = "ONNX Runtime" if choice.backend == "onnx" else "torch"
        how = f"made ready in {seconds:.1f} s, once for this machine" if made else choice.why
        say(f"   {wanted.model} by {by}, {choice.precision}: {how}.\n")
    about = {"backend": choice.backend, "precision": choice.precision, "made": made}
    return {"event": "model", **about, "seconds": seconds}


async def _remember(folder: Path, *, show: bool) -> list[Event] | None:
    turns = conversation()
    first, last = turns[0].timestamp, turns[-1].timestamp
    if show and first is not None and last is not None:
        weeks = round((last - first).days / 7)
        _headline("1", "Remember")
        say(
            f"   {len(turns)} turns of {sessions(turns)} conversations over {weeks} weeks, from {first:%d %B} to"
            f" {last:%d %B %Y}, in {folder}.\n   One SQLite file, no server, no language model."
        )
    events: list[Event] = []
    with progress_bar("   Turns done", len(turns), show=show) as moved:
        async for event in _half("remember", folder):
            if event["event"] == "owed":
                moved(len(turns) - event["turns"])
                continue
            events.append(event)
    if not _ended_well(events):
        return None
    if show:
        seconds = {event["event"]: event["seconds"] for event in events if "seconds" in event}
        each = seconds["settled"] * 1_000 / len(turns)
        pid = next(event["pid"] for event in events if event["event"] == "started")
        say(
            f"   The model was loaded in {seconds['loaded']:.2f} s. The turns were durable after"
            f" {seconds['stored']:.2f} s, and\n   embedded, searchable and their facts extracted"
            f" {seconds['settled']:.1f} s later ({each:.0f} ms a turn).\n"
            f"   Process {pid} has ended. All it knew is in the folder.\n"
        )
    return events


async def _answer(folder: Path, *, show: bool) -> list[Event] | None:
    if show:
        _headline("2", "Restart, and ask")
    today = conversation()[-1].timestamp
    events: list[Event] = []
    async for event in _half("answer", folder):
        events.append(event)
        if show and today is not None:
            _show(event, today)
    return events if _ended_well(events) else None


def _show(event: Event, today: datetime) -> None:
    """Print what the second process did."""
    match event["event"]:
        case "started":
            say(f"   Process {event['pid']} opens the same folder.")
        case "opened":
            say(f"   {event['turns']} turns are there, and the model is, after {event['seconds']:.2f} s.\n")
        case "answer":
            _show_answer(event, today)
        case "facts":
            _headline("3", "Facts, from what Mara said about herself")
            print_facts(event["facts"], indent=3)
            out.print()
        case "context":
            note(
                f"   A model would be sent {event['tokens']} tokens of context (at most {event['budget']}):"
                " facts, recollections and the last turns.\n"
            )


async def _half(name: str, folder: Path) -> AsyncIterator[Event]:
    """The events of one half, run as a process of its own, which has ended when this has."""
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            *child.command("memory_agent.demo", name, str(folder)),
            env=child.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            limit=2**20,
        )
        assert process.stdout is not None  # noqa: S101  (asked for above)
        try:
            async for line in process.stdout:
                yield json.loads(line)
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        said.seek(0)
        yield {"event": "ended", "code": code, "stderr": said.read().decode(errors="replace")}


def _ended_well(events: list[Event]) -> bool:
    ended = events[-1]
    if ended["code"] == 0:
        return True
    failure = next((event["error"] for event in events if event["event"] == "failed"), None)
    if failure is None:
        note(ended["stderr"].strip())
    complain(failure or f"the demo's process ended with exit code {ended['code']}")
    return False


def _headline(number: str, words: str) -> None:
    say((f"{number}. {words}", "bold"))


def _show_answer(event: Event, today: datetime) -> None:
    say("   ", (event["question"], "bold"))
    if event["rank"] is None:
        say("   ", ("✗ expected: ", "bold red"), event["expected"])
        for other in event["found_instead"]:
            say((f"     found: {other}", "dim"))
    else:
        when = datetime.fromisoformat(event["timestamp"])
        weeks = round((today - when).days / 7)
        ago = f"{weeks} week{'s' if weeks != 1 else ''} earlier" if weeks else "the same week"
        place, took = f"result {event['rank']} of at most {TOP_K}", f"{event['seconds'] * 1000:.0f} ms"
        say("   ", ("✓ ", "bold green"), event["text"])
        say((f"     {when:%d %B}, {ago} · {place} · {took}", "dim"))
    out.print()


def _tell_next(kept: Path | None) -> None:
    """The commands that somebody who has just seen it will want, to be typed as they stand."""
    first = "memory-agent demo --keep demo_data"
    if kept is not None:
        whose = f"--user {USER_ID} --thread {THREAD_ID}"
        folder = shlex.quote(str(kept))
        first = f'memory-agent ask "{questions()[0].question}" --data-dir {folder} {whose}'
    say("\nType next:")
    enter = activation(Path(sys.prefix), Path.cwd(), os.environ.get("VIRTUAL_ENV"))
    for line in (*enter, first, "memory-agent chat --user me"):
        say((f"   {line}", "bold"))


def activation(prefix: Path, here: Path, active: str | None) -> list[str]:
    """The command that puts the virtual environment `prefix` in use, as seen from `here`; none if it is, or is none.

    `active`: the environment in use, as the shell names it.
    """
    script = prefix / "bin" / "activate"
    if not script.is_file() or (active is not None and Path(active).resolve() == prefix.resolve()):
        return []
    shown = script.relative_to(here) if script.is_relative_to(here) else script
    return [f"source {shlex.quote(str(shown))}"]
