"""`memory-agent status` and `settings`: how a memory stands; and waiting for owed work, with an end where a part is down."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from memory_agent.cli import options
from memory_agent.cli.opening import opened, say_if_unknown
from memory_agent.cli.options import (
    OK,
    THREAD,
    UNFINISHED,
    Commands,
    FolderOptions,
    TenantOptions,
    argument,
    flag,
    option,
    scope_of,
)
from memory_agent.cli.output import (
    complain,
    cost_as_json,
    cost_text,
    err,
    grid_of,
    line,
    many,
    note,
    out,
    outage_text,
    picked,
    print_json,
    print_table,
    settle_bar,
)
from memory_agent.domain import DEFAULT_TENANT, VECTORS
from memory_agent.text.writing import MULTILINGUAL

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from memory_agent.cli.opening import Service
    from memory_agent.domain import MemoryStatus, Outage, Scope

app = Commands()

PATIENCE_SECONDS: Final = 30.0
"""Longer than a restart of a model's server takes, and shorter than people look at a bar that stands still."""
PATIENCE: Final[Any] = option(
    "--patience",
    "Seconds without progress until what waits for a part that is down is left owed.",
    PATIENCE_SECONDS,
    min=0,
)
WITHOUT_FACTS: Final[Any] = flag(
    "--without-facts", "Wait for all but facts, which a model may take long over."
)
NO_TIMEOUT: Final = math.inf
"""For `settle` within `settled`, whose patience is asked for; its own would end sooner than a longer one."""
_LOOK_SECONDS: Final = 0.5


@app.command(on_memory=True)
async def status(
    *,
    user: str | None = option("--user -u", "Whose memory."),
    thread: str | None = option("--thread -t", "Which conversation."),
    where: TenantOptions,
) -> int:
    """Count turns, owed work and parked turns: of everybody, of a user, or of a thread.

    Leaves with exit code 3 if turns are parked.

    Examples:
        memory-agent status
        memory-agent status --user ada --thread work --json
    """
    scope = scope_of(user, thread, where.tenant)
    async with opened(where.data_dir) as service:
        found = await service.status(scope)
        if user is not None:
            agent = service.agent(user, thread or THREAD, tenant=where.tenant)
            await say_if_unknown(agent, reach="user" if thread is None else "thread")
    if where.as_json:
        print_json(status_as_json(found))
    else:
        print_status(found)
    return UNFINISHED if found.parked_count else OK


def status_as_json(status: MemoryStatus) -> dict[str, Any]:
    """The counts with stable keys."""
    parked = [
        {
            "turn_id": turn.turn_id,
            **picked(turn.scope, "user=tenants_user_id tenant"),
            **picked(turn, "thread=thread_id pending attempts last_error"),
        }
        for turn in status.parked
    ]
    return {
        **picked(
            status,
            "turns pending lag_seconds erasures parked_count unread_scripts unread_language to_rebuild vectors_missing warnings",
        ),
        "parked": parked,
        "extraction": cost_as_json(status.extraction),
        "outages": status.outages,
        "store_schema": status.store_schema,
    }


def print_status(status: MemoryStatus) -> None:
    """Print the counts, what is down, and the parked turns."""
    rows = [
        ("turns", f"{status.turns:,}"),
        *((f"owing {stage}", f"{owed:,}") for stage, owed in status.pending.items()),
        ("oldest owed", f"{status.lag_seconds:.1f} s"),
        ("forgetting under way", f"{status.erasures:,}"),
        ("parked", f"{status.parked_count:,}"),
        ("to rebuild", f"{status.to_rebuild:,}" if status.to_rebuild else ""),
        ("missing in Chroma", f"{status.vectors_missing:,}" if status.vectors_missing else ""),
        ("upgrade", _upgrade_text(status)),
        ("extracting facts took", cost_text(status.extraction) if status.extraction.requests else ""),
    ]
    drawn: list[Table | Text] = [grid_of(rows), *map(outage_text, status.outages)]
    if status.parked:
        table = Table("turn", "user", "thread", "owes", "attempts", "last error", title="Parked")
        for turn in status.parked:
            owes, attempts = ", ".join(turn.pending), str(turn.attempts)
            cells = (turn.turn_id, _whose(turn.scope), turn.thread_id, owes, attempts, turn.last_error)
            table.add_row(*map(line, cells))
        drawn.append(table)
    for part in drawn:
        out.print(part, soft_wrap=isinstance(part, Text))
    if status.outages:
        note("It goes on by itself once that is mended.")
    for warning in status.warnings:
        note(f"{warning}.")
    if status.to_rebuild:
        note(
            f"{many(status.to_rebuild, 'turn')} were embedded by another model and are found by their words alone;"
            " run: memory-agent rebuild --all"
        )
    if status.unread_scripts:
        scripts = ", ".join(status.unread_scripts)
        note(
            f"The embedding model knows no words in {scripts}; such turns are found by their words alone: {MULTILINGUAL}"
        )
    if status.unread_language:
        note(
            f"The newest turns are in a language ({status.unread_language}) of which the embedding model hardly knows a word; what they"
            f" mean is seldom found: {MULTILINGUAL}"
        )
    for kept in () if status.store_schema is None else status.store_schema.kept:
        note(
            f"Kept from before the upgrade: {kept}. Remove it once you need it no longer; erasing does so too."
        )
    if status.parked:
        note("Mend the cause, then run: memory-agent retry")


def _upgrade_text(status: MemoryStatus) -> str:
    return (
        ""
        if status.store_schema is None or not status.store_schema.left
        else f"{status.store_schema.left:,} users left"
    )


def _whose(scope: Scope) -> str:
    tenant = "" if scope.tenant == DEFAULT_TENANT else f" (tenant {scope.tenant})"
    return f"{scope.tenants_user_id}{tenant}"


# --- waiting -------------------------------------------------------------------------------------------------
async def settled(
    service: Service,
    settle: Callable[[Callable[..., None]], Coroutine[Any, Any, None]],
    *,
    patience: float,
    show: bool = True,
    scope: Scope | None = None,
    turns: int | None = None,
    working: asyncio.Task[None] | None = None,
) -> MemoryStatus | None:
    """Wait for `settle`, which takes the progress of `settle_bar`; None once it, or the worker `working`, is done.

    Else how everything stands: a part is down, and nothing of the scope (None: anybody's) has moved for `patience`
    seconds. `show`: say which part, and why, as soon as that is known.
    """
    log = logging.getLogger("memory_agent.work.worker")
    was, log.disabled = log.disabled, True  # it would say the same once more, in the middle of the bar
    owed, since = -1, time.monotonic()
    told: set[tuple[str, str]] = set()
    with settle_bar(show=show, turns=turns) as bar:
        settling = asyncio.create_task(settle(bar))
        waiting = {settling} if working is None else {settling, working}
        done: set[asyncio.Task[None]] = set()
        try:
            while not done:
                status = await service.status(scope)
                now, left = time.monotonic(), sum(status.pending.values())
                down = await _down(service, status)
                if left != owed or not down:
                    owed, since = left, now
                for outage in down:
                    if show and (outage.stage, outage.error) not in told:
                        told.add((outage.stage, outage.error))
                        err.print(outage_text(outage), soft_wrap=True)
                if now - since >= patience:
                    return status
                done, _ = await asyncio.wait(
                    waiting, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
            for task in done:
                task.result()
            return None
        finally:
            settling.cancel()
            await asyncio.wait({settling})
            log.disabled = was


async def _down(service: Service, status: MemoryStatus) -> list[Outage]:
    """The parts that stages wait for now.

    As the worker there says: an outage is kept until somebody has done the work.
    """
    outages = [outage for outage in status.outages if outage.stage != VECTORS]
    if not outages:
        return []
    worker = await service.worker_status()
    return [outage for outage in outages if not worker.runs or outage.part in worker.down]


def tell_what_is_owed(status: MemoryStatus, data_dir: Path | None) -> None:
    """Print the pending work, what it waits for, and how to go on."""
    owed = ", ".join(f"{count:,} {stage}" for stage, count in status.pending.items() if count)
    note(f"Still owed: {owed}. Nothing of it is lost.")
    where = "" if data_dir is None else f" --data-dir {data_dir}"
    note(f"Once that is mended, go on with: memory-agent worker --until-idle{where}")


# --- settings ------------------------------------------------------------------------------------------------
@app.command()
def settings(
    where: FolderOptions, part: str = argument("Part of a name; without it, all.", "", shown=False)
) -> int:
    """List the settings: value, where it comes from, and what it may be.

    Arguments of a command win over MEMORY_AGENT_* variables, these over the settings file, that over the defaults.
    Secrets are not shown.

    Examples:
        memory-agent settings
        memory-agent settings model
        memory-agent settings --json | jq -r '.[] | select(.from != "default") | .setting'
    """
    from memory_agent.config import setting_rows

    cfg = options.settings(where.data_dir)
    rows = setting_rows(cfg, part)
    for row in rows:
        if row["from"] == "argument":  # there is but this one
            row["from"] = "--data-dir"
    if where.as_json:
        print_json(rows)
    elif not rows:
        complain(f"no setting has {part!r} in its name; `memory-agent settings` lists them all")
        return options.FAILED
    else:
        print_table(("+setting", "+value", "+from", "+may be"), map(_cells, rows))
    return options.OK


def _cells(row: dict[str, Any]) -> list[Text]:
    faint = " dim" if row["from"] == "default" else ""
    shown = "" if row["value"] is None else str(row["value"])
    styled = ((row["setting"], f"bold{faint}"), (shown, faint), (row["from"], faint), (row["may_be"], "dim"))
    return [line(cell) for cell in styled]
