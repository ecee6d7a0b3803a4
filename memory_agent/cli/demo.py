"""`memory-agent demo`: one process remembers, another one answers, and each shows what it does."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from memory_agent.cli.options import FAILED, OK, Commands, option
from memory_agent.cli.output import complain, note, out, print_facts, progress_bar, say
from memory_agent.demo import THREAD_ID, TOP_K, USER_ID, conversation, questions, sessions
from memory_agent.models.local.atomic_build import Making, child_command, child_environment

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.config import MemoryConfig
    from memory_agent.demo import Question
    from memory_agent.service import MemoryService

app = Commands()


@app.command()
def demo(
    keep: Path | None = option("--keep", "Keep the memory in this new or empty folder."),
    half: Literal["remember", "answer"] | None = option("--half", "One of its two processes.", hidden=True),
) -> int:
    """Ten weeks of a conversation, remembered, and found again by another process.

    One process remembers a shipped conversation in a fresh folder and ends. A second one opens the folder and
    answers questions from weeks ago. Nothing leaves this machine and no language model is asked. Fails if one
    of the expected turns isn't found.

    Examples:
        memory-agent demo
        memory-agent demo --keep ./demo_data && memory-agent ask "Where is my Dutch class?" --data-dir ./demo_data -u mara -t diary
    """
    if half is not None and keep is not None:
        return asyncio.run(_remember(keep) if half == "remember" else _answer(keep))
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="memory-agent-demo-") as folder:
            return _demonstrate(Path(folder), kept=False)
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise typer.BadParameter(f"{keep} is not an empty folder; name a new one", param_hint="--keep")
    keep.mkdir(parents=True, exist_ok=True)
    return _demonstrate(keep, kept=True)


def _demonstrate(folder: Path, *, kept: bool) -> int:
    """Remember, end, open again and ask; OK if every expected turn was found."""
    started = time.perf_counter()
    _prepare_model()
    for half in ("remember", "answer"):
        sys.stdout.flush()
        command = child_command("memory_agent.cli", "demo", "--half", half, "--keep", str(folder))
        if code := subprocess.call(command, env=child_environment(), stdin=subprocess.DEVNULL):  # noqa: S603 - ours
            return code
    seconds = time.perf_counter() - started
    say(("✓ ", "bold green"), f"All {len(questions())} questions found their turn. {seconds:.0f} s in all.")
    _tell_next(folder if kept else None)
    return OK


def _prepare_model() -> None:
    """Make the model's files if this is its first use on this machine, so that it is told how long that takes."""
    from memory_agent.adapters import wanted_model
    from memory_agent.config import MemoryConfig
    from memory_agent.models.local.choose import choose, prepare

    _headline("0", "The embedding model")
    wanted = wanted_model(MemoryConfig(use_local_embeddings=True))
    choice = choose(wanted)
    made, started = not choice.ready, time.perf_counter()
    choice = prepare(choice, wanted, Making(progress=lambda stage: note(f"   {stage} …")))
    seconds = time.perf_counter() - started
    by = "ONNX Runtime" if choice.backend == "onnx" else "torch"
    how = f"made ready in {seconds:.1f} s, once for this machine" if made else choice.why
    say(f"   {wanted.model} by {by}, {choice.precision}: {how}.\n")


# --- the two processes ---------------------------------------------------------------------------------------
def _embedded(folder: Path) -> MemoryConfig:
    """The embedded default, whatever servers and models the environment names: the demo leaves those alone."""
    from memory_agent.config import MemoryConfig

    return MemoryConfig(
        data_dir=folder,
        mongo_uri=None,
        chroma_host=None,
        chroma_db_dir=None,
        openai_api_key=None,
        openai_base_url=None,
        use_local_embeddings=True,
        enable_fact_extraction=True,
        run_worker=True,
    )


async def _remember(folder: Path) -> int:
    """Store the conversation and wait until all of it is indexed."""
    from memory_agent.service import MemoryService

    turns = conversation()
    first, last = turns[0].timestamp, turns[-1].timestamp
    assert first is not None and last is not None  # noqa: S101, PT018 - each shipped turn has its time
    _headline("1", "Remember")
    say(
        f"   {len(turns)} turns of {sessions(turns)} conversations over {round((last - first).days / 7)} weeks, from"
        f" {first:%d %B} to {last:%d %B %Y}, in {folder}.\n   One SQLite file, no server, no language model."
    )
    async with MemoryService(_embedded(folder)) as service:
        agent = service.agent(user_id=USER_ID, thread_id=THREAD_ID)
        loaded = await _load(service)
        started = time.perf_counter()
        await agent.add_turns(turns, idempotency_key="demo")
        stored = time.perf_counter()
        with progress_bar("   Turns done", len(turns), show=True) as moved:
            await agent.settle(progress=lambda status: moved(len(turns) - status.owed_count))
        settled = time.perf_counter()
    say(
        f"   The model was loaded in {loaded:.2f} s. The turns were durable after {stored - started:.2f} s, and\n"
        f"   embedded, searchable and their facts extracted {settled - stored:.1f} s later"
        f" ({(settled - stored) * 1_000 / len(turns):.0f} ms a turn).\n"
        f"   Process {os.getpid()} ends here. All it knows is in the folder.\n"
    )
    return OK


async def _answer(folder: Path) -> int:
    """Open what the other process left, and ask."""
    from memory_agent.service import MemoryService

    _headline("2", "Restart, and ask")
    say(f"   Process {os.getpid()} opens the same folder.")
    today = conversation()[-1].timestamp
    assert today is not None  # noqa: S101 - as above
    started = time.perf_counter()
    async with MemoryService(_embedded(folder)) as service:
        agent = service.agent(user_id=USER_ID, thread_id=THREAD_ID)
        status = await agent.status()
        await _load(service)
        opened = time.perf_counter() - started
        say(f"   {status.turns} turns are there, and the model is, after {opened:.2f} s.\n")
        found = [await _ask(agent, question, today) for question in questions()]
        if wrong := found.count(False):
            complain(f"{wrong} of {len(found)} expected turns were not among the first {TOP_K} results")
            return FAILED
        _headline("3", "Facts, from what Mara said about herself")
        print_facts(await agent.fetch_facts(), indent=3)
        out.print()
        context = await agent.fetch_memory(questions()[0].question, include=())
    note(
        f"   A model would be sent {context.tokens} tokens of context (at most {context.budget}): facts,"
        " recollections and the last turns.\n"
    )
    return OK


async def _load(service: MemoryService) -> float:
    """Have the model loaded, which its first use does; how many seconds that took."""
    started = time.perf_counter()
    await service.core.embedder.embed(["Where is it?"], purpose="query")
    return time.perf_counter() - started


async def _ask(agent: MemoryAgent, question: Question, today: datetime) -> bool:
    """Ask, and show what was found; True if the expected turn was."""
    started = time.perf_counter()
    found = await agent.fetch_long_term(question.question, TOP_K)
    took = f"{(time.perf_counter() - started) * 1000:.0f} ms"
    say("   ", (question.question, "bold"))
    hits = [(place, hit) for place, hit in enumerate(found, start=1) if question.expected in hit.text]
    if not hits:
        say("   ", ("✗ expected: ", "bold red"), question.expected)
        for other in found:
            say((f"     found: {other.text}", "dim"))
    for place, hit in hits[:1]:
        when = hit.turn.timestamp
        weeks = round((today - when).days / 7)
        ago = f"{weeks} week{'s' if weeks != 1 else ''} earlier" if weeks else "the same week"
        say("   ", ("✓ ", "bold green"), hit.text)
        say((f"     {when:%d %B}, {ago} · result {place} of at most {TOP_K} · {took}", "dim"))
    out.print()
    return bool(hits)


def _headline(number: str, words: str) -> None:
    say((f"{number}. {words}", "bold"))


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
