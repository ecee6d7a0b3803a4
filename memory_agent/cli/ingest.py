"""`memory-agent ingest`: remember a file of turns, in batches that a second run recognises."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.opening import opened, tell_if_idle
from memory_agent.cli.options import FAILED, OK, UNFINISHED, MemoryTyper, ThreadOptions, argument, flag
from memory_agent.cli.output import complain, many, note, out, print_json, progress_bar
from memory_agent.cli.status import NO_TIMEOUT, PATIENCE, settled, status_as_json, tell_what_is_owed
from memory_agent.domain import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memory_agent.cli.opening import Service
    from memory_agent.cli.turn_files import ReadTurn, TurnFile
    from memory_agent.domain import MemoryStatus, TurnInput

app = MemoryTyper()

BATCH_TURNS: Final = 100
BATCH_CHARS: Final = 1_000_000
"""What a service takes at once is some megabytes."""
BAD_LINES_SHOWN: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Turns of one thread for one call; `key` is the same in every run over the same file."""

    user_id: str
    thread_id: str
    key: str
    turns: tuple[TurnInput, ...]


@app.command()
async def ingest(
    where: ThreadOptions,
    file: str = argument("A file of turns, or - for standard input."),
    skip_bad: bool = flag("--skip-bad", "Leave bad lines out (exit code 3)."),
    no_wait: bool = flag("--no-wait", "Leave when stored; a worker does the rest later."),
    patience: float = PATIENCE,
) -> int:
    """Remember a file of turns.

    The file holds one JSON object per line, {"role": "user", "content": "…"}, with "speaker", "timestamp"
    (ISO 8601 with a zone), "metadata", "importance", "thread" and "user" if you like; or a JSON array of such
    messages; or lines of {"messages": [...]} as chat models are trained on. Roles are user, assistant, system
    and tool; a person's name goes into "speaker".

    Bad lines are named by number, and then nothing is stored unless you pass --skip-bad. Running the command
    again over the same content stores nothing twice; an interrupted run is completed. A file that has grown is
    another content: ingest the new lines alone.

    Examples:
        memory-agent ingest chat.jsonl --user ada --thread work
        jq -c '.[]' export.json | memory-agent ingest - --user ada
    """
    from memory_agent.cli.turn_files import read_turns  # the rules of what may be stored take a moment

    data, wait = _read(file), not no_wait
    turns = read_turns(data)
    if turns.bad and not _may_skip(turns, skip_bad=skip_bad):
        return FAILED
    if not turns.turns:
        complain(f"{file} holds no turns{_left_out(turns)}; nothing was stored")
        return FAILED
    batches = batches_of(turns, data, user_id=where.user, thread_id=where.thread)
    # Without waiting no work is begun that leaving would have to wait for.
    async with opened(where.data_dir, works=wait, new=True) as service:
        before = (await service.worker_status()).usage
        new = await _store(service, batches, where)
        left = await _settled(service, batches, where, patience) if wait else None
        after = (await service.worker_status()).usage
    usage = None if before is None or after is None else after - before
    told = {
        "turns": len(turns.turns),
        "new": new,
        "already_there": len(turns.turns) - new,
        "threads": len({(batch.user_id, batch.thread_id) for batch in batches}),
        "invisible": turns.invisible,
        "skipped": turns.bad,
        "settled": wait and left is None,
        "left": None if left is None else status_as_json(left),
        "llm": usage,
    }
    if where.as_json:
        print_json(told)
    else:
        _report(turns, told, searchable=wait and (left is None or not left.pending.get("index")))
        if left is not None:
            tell_what_is_owed(left, where.data_dir)
        if usage is not None:
            tokens = f"{usage.prompt_tokens} + {usage.completion_tokens} tokens"
            note(f"language model: {usage.requests} requests, {tokens}")
    return UNFINISHED if turns.bad or left is not None else OK


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    if not Path(file).is_file():
        raise typer.BadParameter(f"{file} is not a file", param_hint="FILE")
    return Path(file).read_bytes()


def batches_of(file: TurnFile, data: bytes, *, user_id: str, thread_id: str) -> list[Batch]:
    """The file's turns by thread, in its order, up to BATCH_TURNS and BATCH_CHARS a batch.

    The key is made of the content's hash and the batch's first and last place in the file, so a second run over
    the same content stores nothing twice and an interrupted one is completed.
    """
    by_thread: dict[tuple[str, str], list[ReadTurn]] = {}
    for read in file.turns:
        by_thread.setdefault((read.user or user_id, read.thread or thread_id), []).append(read)
    digest = hashlib.sha256(data).hexdigest()[:32]
    return [
        Batch(
            user_id=user,
            thread_id=thread,
            key=f"ingest:{digest}:{chunk[0].where}-{chunk[-1].where}",
            turns=tuple(read.turn for read in chunk),
        )
        for (user, thread), reads in by_thread.items()
        for chunk in _chunks(reads)
    ]


def _chunks(reads: list[ReadTurn]) -> Iterator[list[ReadTurn]]:
    """The turns in their order, up to BATCH_TURNS and BATCH_CHARS together, but one at least."""
    chunk: list[ReadTurn] = []
    chars = 0
    for read in reads:
        chars += len(read.turn.content)
        if chunk and (len(chunk) == BATCH_TURNS or chars > BATCH_CHARS):
            yield chunk
            chunk, chars = [], len(read.turn.content)
        chunk.append(read)
    if chunk:
        yield chunk


async def _store(service: Service, batches: list[Batch], where: ThreadOptions) -> int:
    """Store what is not there yet; how many turns that was."""
    from memory_agent.imports.run import added

    stored = new = 0
    newest: dict[tuple[str, str], int] = {}
    total = sum(len(batch.turns) for batch in batches)
    with progress_bar("Remembering turns", total, show=not where.as_json) as moved:
        for batch in batches:
            thread = batch.user_id, batch.thread_id
            agent = service.agent(*thread, tenant=where.tenant)
            if thread not in newest:
                newest[thread] = max((turn.seq for turn in await agent.fetch_short_term(1)), default=0)
            turns = await added(agent, batch.turns, batch.key)
            # A call that is repeated gives back the turns of the first one.
            new += sum(turn.seq > newest[thread] for turn in turns)
            stored += len(turns)
            moved(stored)
    return new


async def _settled(
    service: Service, batches: list[Batch], where: ThreadOptions, patience: float
) -> MemoryStatus | None:
    """Wait for the work on these threads; how everything stands if a part stays down, None if all is done."""
    turns: Counter[tuple[str, str]] = Counter()
    for batch in batches:
        turns[batch.user_id, batch.thread_id] += len(batch.turns)
    await tell_if_idle(service)

    async def settle(moved: Callable[..., None]) -> None:
        before = 0
        for thread, of in turns.items():
            agent = service.agent(*thread, tenant=where.tenant)
            await agent.settle(NO_TIMEOUT, progress=functools.partial(moved, before=before, of=of))
            before += of

    # Of one user, for whom any key may ask that may store.
    scope = Scope.of(batches[0].user_id, tenant=where.tenant)
    show = not where.as_json
    return await settled(service, settle, patience=patience, show=show, scope=scope, turns=turns.total())


def _left_out(file: TurnFile) -> str:
    return f"; {many(file.invisible, 'message')} without visible text left out" if file.invisible else ""


def _may_skip(file: TurnFile, *, skip_bad: bool) -> bool:
    for bad in file.bad[:BAD_LINES_SHOWN]:
        complain(f"{bad.where}: {bad.reason}")
    if len(file.bad) > BAD_LINES_SHOWN:
        complain(f"… and {len(file.bad) - BAD_LINES_SHOWN} more bad lines")
    if not skip_bad:
        complain(f"{len(file.bad)} bad line(s), nothing was stored; mend them or pass --skip-bad")
    return skip_bad


def _report(file: TurnFile, told: dict[str, Any], *, searchable: bool) -> None:
    """Print what was stored. `searchable`: all of it can be found by now."""
    turns, waited = many(told["turns"], "turn"), "stored; a worker makes them searchable"
    if searchable:
        waited = "all searchable"
    if told["already_there"]:
        waited = f"{told['new']:,} new, {told['already_there']:,} already there, {waited}"
    said = (
        f"{turns} in {many(told['threads'], 'thread')}: {waited}"
        if told["new"]
        else f"{turns}: already there"
    )
    skipped = f"; {many(len(file.bad), 'bad line')} skipped" if file.bad else ""
    out.print(f"{said}{skipped}{_left_out(file)}.")
