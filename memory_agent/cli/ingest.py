"""`memory-agent ingest`: remember a file of turns, in batches that a second run recognises."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.cli.opening import opened, tell_if_idle
from memory_agent.cli.output import complain, note, out, print_json, progress_bar, settle_bar, status_as_json
from memory_agent.cli.running import FAILED, OK, UNFINISHED
from memory_agent.cli.turn_files import ReadTurn, TurnFile, read_turns
from memory_agent.cli.waiting import StillOwed, patiently, tell_what_is_owed
from memory_agent.domain import Scope
from memory_agent.errors import SettleTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory_agent.cli.opening import Service
    from memory_agent.domain import MemoryStatus, TurnInput, Usage

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


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOptions:
    """What the command line asked for."""

    name: str
    user_id: str
    thread_id: str
    tenant: str
    data_dir: Path | None
    skip_bad: bool
    wait: bool
    patience: float
    as_json: bool


async def ingest(data: bytes, options: IngestOptions) -> int:
    """Remember the file; nothing of it if a line is bad (unless these are to be skipped)."""
    file = read_turns(data)
    if file.bad and not _may_skip(file, options):
        return FAILED
    if not file.turns:
        complain(f"{options.name} holds no turns; nothing was stored")
        return FAILED
    batches = batches_of(file, data, user_id=options.user_id, thread_id=options.thread_id)
    # Without waiting no work is begun that leaving would have to wait for.
    async with opened(options.data_dir, works=options.wait) as service:
        before = (await service.worker_status()).usage
        await _store(service, batches, options.tenant, show=not options.as_json)
        left = await _settled(service, batches, options) if options.wait else None
        after = (await service.worker_status()).usage
    _report(None if before is None or after is None else after - before, file, batches, options, left)
    return UNFINISHED if file.bad or left is not None else OK


async def _settled(service: Service, batches: list[Batch], options: IngestOptions) -> MemoryStatus | None:
    """Wait for the work on these threads; how everything stands if a part stays down, None if all is done."""
    show = not options.as_json
    await tell_if_idle(service)
    # Of one user, for whom any key may ask that may store.
    scope = Scope.of(batches[0].user_id, tenant=options.tenant)
    try:
        with settle_bar(show=show) as bar:
            async with patiently(service, bar, scope=scope, patience=options.patience, show=show) as moved:
                for user_id, thread_id in dict.fromkeys((b.user_id, b.thread_id) for b in batches):
                    agent = service.agent(user_id=user_id, thread_id=thread_id, tenant=options.tenant)
                    await agent.settle(progress=moved)
    except StillOwed as exc:
        return exc.status
    except SettleTimeout:  # what is asked for here is more patience than settle has
        return await service.status(scope)
    return None


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


async def _store(service: Service, batches: list[Batch], tenant: str, *, show: bool) -> None:
    stored = 0
    with progress_bar("Remembering", sum(len(batch.turns) for batch in batches), show=show) as moved:
        for batch in batches:
            agent = service.agent(user_id=batch.user_id, thread_id=batch.thread_id, tenant=tenant)
            await agent.add_turns(list(batch.turns), idempotency_key=batch.key)
            stored += len(batch.turns)
            moved(stored)


def _may_skip(file: TurnFile, options: IngestOptions) -> bool:
    for bad in file.bad[:BAD_LINES_SHOWN]:
        complain(f"{bad.where}: {bad.reason}")
    if len(file.bad) > BAD_LINES_SHOWN:
        complain(f"… and {len(file.bad) - BAD_LINES_SHOWN} more bad lines")
    if not options.skip_bad:
        complain(f"{len(file.bad)} bad line(s), nothing was stored; mend them or pass --skip-bad")
    return options.skip_bad


def _report(
    usage: Usage | None,
    file: TurnFile,
    batches: list[Batch],
    options: IngestOptions,
    left: MemoryStatus | None,
) -> None:
    """`left`: how everything stands, if not all work could be done."""
    threads = len({(batch.user_id, batch.thread_id) for batch in batches})
    if options.as_json:
        print_json(
            {
                "turns": len(file.turns),
                "threads": threads,
                "skipped": [{"where": bad.where, "reason": bad.reason} for bad in file.bad],
                "settled": options.wait and left is None,
                "left": None if left is None else status_as_json(left),
                "llm": None
                if usage is None
                else {
                    "requests": usage.requests,
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                },
            }
        )
        return
    skipped = f", {len(file.bad)} bad line(s) skipped" if file.bad else ""
    done = options.wait and (left is None or not left.pending.get("index"))
    waited = "searchable" if done else "stored; a worker makes them searchable"
    out.print(f"{len(file.turns):,} turn(s) in {threads:,} thread(s) are {waited}{skipped}.")
    if left is not None:
        tell_what_is_owed(left, options.data_dir)
    if usage is not None:
        note(
            f"language model: {usage.requests} requests, {usage.prompt_tokens} + {usage.completion_tokens} tokens"
        )
