"""`memory-agent worker`, `retry` and `rebuild`: the worker as a process of its own or a service's, and its work done over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from memory_agent.cli.opening import opened, say_if_unknown, stay_long, tell_if_idle, told_to_stop
from memory_agent.cli.options import (
    OK,
    TENANT,
    UNFINISHED,
    USER,
    FolderOptions,
    MemoryTyper,
    TenantOptions,
    UserOptions,
    flag,
    option,
    scope_of,
)
from memory_agent.cli.output import (
    many,
    note,
    out,
    print_json,
    print_rows,
    say,
    settle_bar,
    usage_text,
)
from memory_agent.cli.status import NO_TIMEOUT, PATIENCE, WITHOUT_FACTS, settled, tell_what_is_owed
from memory_agent.domain import Scope
from memory_agent.errors import DataDirInUse, InvalidInput, TurnsParked

if TYPE_CHECKING:
    from pathlib import Path

    from memory_agent.cli.opening import Service
    from memory_agent.cli.options import ThreadOptions
    from memory_agent.domain import WorkerStatus


app = MemoryTyper()


@app.command()
async def worker(
    where: FolderOptions,
    until_idle: bool = flag("--until-idle", "Leave when nothing is owed (3: parked, or a part is down)."),
    show: bool = flag("--show", "Instead: what a running service's does."),
    pause: bool = flag("--pause", "Instead: let a running service's leave everything owed."),
    resume: bool = flag("--resume", "Instead: let it go on."),
    patience: float = PATIENCE,
    without_facts: bool = WITHOUT_FACTS,
) -> int:
    """Run the worker as a process of its own, until SIGTERM or ctrl-C; or look after that of a running service.

    Any number of workers may run beside each other with MongoDB and a Chroma server; set
    MEMORY_AGENT_RUN_WORKER=false for the processes that are not to work themselves.

    Examples:
        memory-agent worker
        memory-agent worker --until-idle
        memory-agent worker --pause && mongodump --out backup && memory-agent worker --resume
    """
    if (show, pause, resume, until_idle).count(True) > 1:
        raise typer.BadParameter(
            "--until-idle, --show, --pause and --resume are each for themselves: choose one"
        )
    if show or pause or resume:
        return await _control(where, pause=pause, resume=resume)
    if where.as_json:
        raise typer.BadParameter("--json is for --show, --pause and --resume")
    return await _work(where.data_dir, until_idle=until_idle, patience=patience, without_facts=without_facts)


async def _work(data_dir: Path | None, *, until_idle: bool, patience: float, without_facts: bool) -> int:
    """Run until SIGTERM or SIGINT (the stage in hand is finished), or until nothing is owed that can be done.

    Where a service has the stores, and a worker of its own, wait for that one, if at all.
    """
    from memory_agent.service import MemoryService

    stop, left = told_to_stop(), None
    async with opened(data_dir, new=True, shares=True, stores=True) as service:
        working: asyncio.Task[None] | None = None
        if isinstance(service, MemoryService):
            stay_long()
            note("working; SIGTERM or ctrl-C finishes the stage in hand and leaves")
            working = asyncio.create_task(service.run_worker(stop))
        elif until_idle:
            await tell_if_idle(service)
        else:
            raise DataDirInUse(
                f"the service at {service.connection.url} has the stores, and works off what is owed itself; "
                "`worker --until-idle` waits for it, `worker --pause` and `--resume` control it"
            )
        try:
            if until_idle:
                left = await settled(
                    service,
                    lambda moved: service.settle(
                        NO_TIMEOUT, without=["facts"] * without_facts, progress=moved
                    ),
                    patience=patience,
                    working=working,
                )
        finally:
            if until_idle:
                stop.set()
            if working is not None:
                await working
    if left is not None:
        tell_what_is_owed(left, data_dir)
        return UNFINISHED
    if working is not None:
        note("stopped; what is still owed is taken up by the next worker")
    return OK


async def _control(where: ThreadOptions, *, pause: bool, resume: bool) -> int:
    """Pause the worker of a running service, or let it go on, if that is asked for; print how it stands."""
    from memory_agent.service import MemoryService

    async with opened(where.data_dir) as service:
        if not (pause or resume):
            found = await service.worker_status()
        elif isinstance(service, MemoryService):
            raise InvalidInput(
                "no other process has these stores, so there is no worker to control; name a service with --url"
            )
        else:
            found = await (service.pause_worker() if pause else service.resume_worker())
    if where.as_json:
        print_json(found)
    else:
        _print(found)
    return OK


def _print(found: WorkerStatus) -> None:
    threads = ", ".join(f"{stage} of {count:,} thread(s)" for stage, count in found.at_work.items())
    print_rows(
        [
            ("worker", "none in that process" if not found.runs else "paused" if found.paused else "runs"),
            ("at work on", threads or "nothing just now"),
            ("down", ", ".join(found.down) or "nothing"),
            ("facts by", found.extractor),
            *((f"language model, {purpose}", usage_text(used)) for purpose, used in found.usage_by.items()),
        ]
    )


@app.command()
async def retry(
    *,
    user: str | None = option("--user -u", "Whose turns.", shown="everybody's"),
    thread: str | None = option("--thread -t", "Of which conversation.", shown="all"),
    where: TenantOptions,
    no_wait: bool = flag("--no-wait", "Leave at once; a worker takes them up."),
) -> None:
    """Make parked turns due again, once the cause is mended, and wait until they are done.

    `memory-agent status` shows which are parked, and why. Leaves with exit code 3 if some are parked again.

    Examples:
        memory-agent retry
        memory-agent retry --user ada --thread work --no-wait
    """
    scope = scope_of(user, thread, where.tenant)
    wait = not no_wait
    async with opened(where.data_dir, works=wait) as service:
        turns = await service.retry_parked(scope)
        if wait:
            await _settle(service, scope, where)
    if where.as_json:
        print_json({"turns": turns, "settled": wait})
    else:
        done = "are due again, and done" if wait else "are due again; a worker takes them up"
        out.print(f"{turns:,} parked turn(s) {done}." if turns else "No turns were parked.")


async def _settle(service: Service, scope: Scope | None, where: ThreadOptions) -> None:
    await tell_if_idle(service)
    with settle_bar(show=not where.as_json) as moved:
        await service.settle(scope=scope, progress=moved)
    if missing := (await service.status(scope)).vectors_missing:
        note(f"Chroma still lacks {many(missing, 'turn')}, which a worker writes there once it takes them.")


@app.command()
async def rebuild(
    where: UserOptions,
    everybody: bool = flag(
        "--all", "Everybody's, some users after the other; interrupted, the next one goes on."
    ),
) -> None:
    """Make a user's vector index, and the search rows that need it, anew from the stored turns.

    After another embedding model or search_language was set, or where Chroma lacks something that it had. Vectors that
    the current model made are used again; nothing is forgotten, and reading goes on meanwhile.

    Examples:
        memory-agent rebuild --user ada
        memory-agent rebuild --all
    """
    if everybody:
        if (where.user, where.tenant) != (USER, TENANT):
            raise typer.BadParameter("--all is for everybody; leave out --user and --tenant")
        await _rebuild_all(where)
        return
    async with opened(where.data_dir, works=True) as service:
        turns = await service.rebuild_index(where.user, tenant=where.tenant)
        await say_if_unknown(where.agent(service), reach="user")
        await _settle(service, Scope.of(where.user, tenant=where.tenant), where)
    if where.as_json:
        print_json({"user": where.user, "turns": turns})
    else:
        say(f"Indexed {turns} turn(s) of {where.user!r} anew.")


async def _rebuild_all(where: ThreadOptions) -> None:
    turns = users = 0
    async with opened(where.data_dir, works=True) as service:
        while True:
            step = await service.rebuild_next()
            turns, users = turns + step.turns, step.users
            try:
                await _settle(service, None, where)
            except TurnsParked:
                if step.done >= step.users:
                    raise  # not before: nobody else's need wait for a turn that fails
            if not where.as_json and step.users:
                note(f"{step.done:,} of {many(step.users, 'user')} done")
            if step.done >= step.users:
                break
    if where.as_json:
        print_json({"users": users, "turns": turns})
    else:
        say(f"Indexed {many(turns, 'turn')} anew; the index of {many(users, 'user')} is whole.")
