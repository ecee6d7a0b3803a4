"""The commands that look after a memory, with their options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from typing import Annotated

import typer

from memory_agent.cli.options import (
    PATIENCE_SECONDS,
    TENANT,
    THREAD,
    USER,
    AsJson,
    DataDir,
    MemoryTyper,
    Patience,
    Tenant,
    Thread,
    User,
)
from memory_agent.cli.running import run

app = MemoryTyper()


@app.command()
def status(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Whose memory.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", "-t", help="Which conversation.")] = None,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Count turns, owed work and parked turns: of everybody, of a user, or of a thread.

    Leaves with exit code 3 if turns are parked.

    **Examples**

        memory-agent status

        memory-agent status --user ada --thread work --json
    """
    from memory_agent.cli import reading

    if user is None and thread is not None:
        raise typer.BadParameter("a thread belongs to a user: give --user as well")
    if user is None and tenant != TENANT:
        raise typer.BadParameter("a user belongs to a tenant: give --user as well")
    run(
        reading.show_status(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    )


@app.command()
def worker(
    data_dir: DataDir = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Leave when nothing is owed (3: parked, or a part is down).")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Instead: what a running service's does.")] = False,
    pause: Annotated[
        bool, typer.Option("--pause", help="Instead: let a running service's leave everything owed.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Instead: let it go on.")] = False,
    as_json: AsJson = False,
    patience: Patience = PATIENCE_SECONDS,
) -> None:
    """Run the worker as a process of its own, until SIGTERM or ctrl-C; or look after that of a running service.

    Any number of workers may run beside each other with MongoDB and a Chroma server; set
    MEMORY_AGENT_RUN_WORKER=false for the processes that are not to work themselves.

    **Examples**

        memory-agent worker

        memory-agent worker --until-idle

        memory-agent worker --pause && mongodump --out backup && memory-agent worker --resume
    """
    if (show, pause, resume, until_idle).count(True) > 1:
        raise typer.BadParameter(
            "--until-idle, --show, --pause and --resume are each for themselves: choose one"
        )
    if as_json and not (show or pause or resume):
        raise typer.BadParameter("--json is for --show, --pause and --resume")
    from memory_agent.cli.worker import control, show_worker, work

    if show:
        run(show_worker(data_dir, as_json=as_json))
    if pause or resume:
        run(control(data_dir, pause=pause, as_json=as_json))
    run(work(data_dir=data_dir, until_idle=until_idle, patience=patience))


@app.command()
def sweep(
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be done; nothing changes.")
    ] = False,
    list_actions: Annotated[bool, typer.Option("--list", help="List what is done, one line each.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing unless something went wrong, for cron.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let faded topics of all users go, and forget turns past retention_days. For cron; see config/crontab.example.

    A thread with more than max_topics topics loses those whose priority fell below 0.05, never the current
    one: decay_policy says whether they are archived (`topic restore` brings them back) or deleted for good.

    One sweep runs at a time, whoever starts it. Where one was interrupted the next goes on.

    **Exit codes**: 0 done · 1 failed (a store is down, data_dir is in use) · 2 wrong usage · 3 done but not whole
    (something failed and is tried again by the next sweep, or a part was down and a worker erases there later) ·
    4 another sweep is running · 130 interrupted.

    **Examples**

        memory-agent sweep --dry-run

        memory-agent sweep --quiet

        memory-agent sweep --list --json | jq .report
    """
    if quiet and (dry_run or list_actions):
        raise typer.BadParameter("--quiet prints nothing and --dry-run and --list do: choose one")
    from memory_agent.cli.sweep import SweepOptions
    from memory_agent.cli.sweep import sweep as run_sweep

    options = SweepOptions(
        data_dir=data_dir,
        dry_run=dry_run,
        list_actions=list_actions or dry_run,
        quiet=quiet,
        as_json=as_json,
    )
    run(run_sweep(options), quiet=quiet)


@app.command()
def rebuild(
    user: User = USER, tenant: Tenant = TENANT, data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Make a user's vector index, and the search rows that need it, anew from the stored turns.

    After the vector index was lost, or when another embedding model or search_language was set. Vectors that
    the current model made are used again; nothing is forgotten, and reading goes on meanwhile.

    **Examples**

        memory-agent rebuild --user ada
    """
    from memory_agent.cli.worker import rebuild_index

    run(rebuild_index(user_id=user, tenant=tenant, data_dir=data_dir, as_json=as_json))


@app.command()
def forget(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    turn: Annotated[list[str] | None, typer.Option("--turn", help="Id of a turn (may be repeated).")] = None,
    whole_thread: Annotated[bool, typer.Option("--whole-thread", help="All turns of the thread.")] = False,
    whole_user: Annotated[bool, typer.Option("--whole-user", help="Everything of the user.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase turns from every tier and index, for good, with a receipt.

    If the thread has no turn of an id, that is an error (1), and nothing is erased.

    **Examples**

        memory-agent forget --user ada --thread work --turn 01890a5d-ac96-774b-bcce-b302099a8057

        memory-agent forget --user ada --whole-user --yes
    """
    if (bool(turn), whole_thread, whole_user).count(True) != 1:
        raise typer.BadParameter("give exactly one of --turn, --whole-thread and --whole-user")
    from memory_agent.cli.output import many

    what = (
        f"{many(len(turn), 'turn')} of thread {thread!r} of user {user!r}"
        if turn
        else f"the whole thread {thread!r} of user {user!r}"
        if whole_thread
        else f"everything of user {user!r}, in all threads,"
    )
    if tenant != TENANT:
        what += f" of tenant {tenant!r}"
    if not yes:
        typer.confirm(f"Erase {what} for good?", abort=True, err=True)
    from memory_agent.cli.forget import erase

    run(
        erase(
            user_id=user,
            thread_id=thread,
            tenant=tenant,
            turn_ids=turn or [],
            whole_user=whole_user,
            data_dir=data_dir,
            as_json=as_json,
        )
    )
