"""`memory-agent embedder migrate`: the memory moved to another embedding model while it serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from memory_agent.cli.opening import opened, tell_if_idle
from memory_agent.cli.options import OK, UNFINISHED, FolderOptions, flag, option
from memory_agent.cli.output import err, many, note, out, print_json, print_rows
from memory_agent.errors import NotFound

if TYPE_CHECKING:
    from memory_agent.cli.opening import Service
    from memory_agent.cli.options import ThreadOptions
    from memory_agent.domain import EmbedderMigration, MigrationPlan, MigrationReport

_LOOK_SECONDS: Final = 0.2
_DOING: Final = {
    "moving": "users moved to",
    "back": "users taken back from",
    "finishing": "users finished with",
    "finished": "moved to",
    "rolled back": "rolled back from",
}


async def migrate(
    where: FolderOptions,
    to: str | None = option("--to", "The model to move to: a folder or a hub name.", metavar="MODEL"),
    precision: Literal["fp32", "int8"] | None = option(
        "--precision", "How its weights are kept.", shown="embedding_precision"
    ),
    api: bool = flag("--api", "MODEL is one of the endpoint that openai_base_url names."),
    dry_run: bool = flag("--dry-run", "Say what the move would take, and change nothing."),
    report: bool = flag("--report", "Say how the results of both models differ."),
    rollback: bool = flag("--rollback", "Go back to the old model; possible until --finish."),
    finish: bool = flag("--finish", "Drop the old model's vectors, once all users are moved."),
    no_wait: bool = flag("--no-wait", "Leave at once; a worker does the work."),
) -> int:
    """Move the memory to another embedding model while it serves, or (without options) say how far that is.

    New turns are embedded by both models, and users are moved one by one, the most recently active first. Each is searched wholly by
    the old vectors until all of theirs are there by the new model. Interrupted, any worker goes on. Leaves with 3 while
    something is left to do.

    Examples:
        memory-agent embedder migrate --to ./my-model --dry-run
        memory-agent embedder migrate --to all-MiniLM-L6-v2 --precision int8
        memory-agent embedder migrate
        memory-agent embedder migrate --report
        memory-agent embedder migrate --rollback
        memory-agent embedder migrate --finish
    """
    if (to is not None, report, rollback, finish).count(True) > 1:
        raise typer.BadParameter(
            "--to, --report, --rollback and --finish are each for themselves: choose one"
        )
    if to is None and (dry_run or api or precision is not None):
        raise typer.BadParameter("--dry-run, --api and --precision are about the model that --to names")
    acts = (to is not None and not dry_run) or rollback or finish
    async with opened(where.data_dir, works=acts and not no_wait) as service:
        if report:
            _print_report(await service.compare_embedders(), as_json=where.as_json)
            return OK
        if to is not None:
            plan = await service.plan_migration(to, precision=precision, api=api)
            if not where.as_json or dry_run:
                _print_plan(plan, as_json=where.as_json)
            if dry_run:
                return OK
            await service.migrate_embedder(to, precision=precision, api=api)
        elif rollback:
            await service.roll_back_migration()
        elif finish:
            await service.finish_migration()
        if acts and not no_wait:
            await tell_if_idle(service)
            await _followed(service, where)
        found = await service.embedder_migration()
    return _print_state(found, as_json=where.as_json)


async def _followed(service: Service, where: ThreadOptions) -> None:
    """Wait until the phase in hand is done, with a bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=where.as_json) as bar:
        task = bar.add_task("", total=None)
        while (found := await service.embedder_migration()) is not None and not _is_done(found):
            bar.update(
                task, description=_DOING[found.phase], total=found.users or None, completed=found.moved
            )
            await asyncio.sleep(_LOOK_SECONDS)


def _is_done(found: EmbedderMigration) -> bool:
    return found.is_over or (found.phase == "moving" and found.looked and found.users == found.moved)


def _print_plan(plan: MigrationPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    print_rows(
        [
            ("from", f"{plan.source.name} ({plan.source.fingerprint})"),
            ("to", f"{plan.target.name} ({plan.target.fingerprint})"),
            ("users", f"{plan.users:,}"),
            ("turns", f"{plan.turns:,}"),
            ("takes about", f"{plan.seconds / 60:,.1f} min on this machine"),
            ("disk until --finish", f"{plan.disk_bytes / 1e6:,.1f} MB"),
        ]
    )


def _print_state(found: EmbedderMigration | None, *, as_json: bool) -> int:
    if found is None:
        raise NotFound("this memory was never moved to another embedding model; --to MODEL begins")
    done = _is_done(found)
    if as_json:
        print_json(found)
    else:
        count = "" if found.is_over else f"{found.moved:,} of {many(found.users, 'user')}: "
        out.print(
            f"{count}{_DOING[found.phase]} {found.target.name} (before: {found.source.name})", soft_wrap=True
        )
        if found.phase == "moving" and done:
            note("Compare with --report; then --finish, or --rollback.")
        elif found.phase == "finished":
            note(f"Name it in the settings now: {_setting(found)}")
    return OK if done else UNFINISHED


def _setting(found: EmbedderMigration) -> str:
    """The settings of the new model, as environment variables."""
    return " ".join(
        f"MEMORY_AGENT_{name.upper()}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in found.target.settings.items()
        if name != "embedding_backend"
    )


def _print_report(report: MigrationReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    print_rows(
        [
            ("questions", f"{report.questions:,} turns of moved users"),
            ("overlap", f"{report.overlap:.0%} of the first ten results are the same"),
            (
                "old finds",
                f"{report.found_by_source:.0%} of the turns by their own rarest words, by vectors alone",
            ),
            ("new finds", f"{report.found_by_target:.0%}"),
        ]
    )
