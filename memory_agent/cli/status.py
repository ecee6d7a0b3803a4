"""`memory-agent status`: how a memory stands, of everybody, of a user, or of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from memory_agent.cli.opening import opened, say_if_unknown
from memory_agent.cli.options import TENANT, THREAD, AsJson, DataDir, MemoryTyper, Tenant, scope_of
from memory_agent.cli.output import (
    clean,
    cost_as_json,
    cost_text,
    note,
    out,
    outage_text,
    picked,
    print_json,
    print_rows,
)
from memory_agent.cli.running import OK, UNFINISHED
from memory_agent.domain import DEFAULT_TENANT

if TYPE_CHECKING:
    from memory_agent.domain import MemoryStatus, Scope

app = MemoryTyper()


@app.command()
async def status(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Whose memory.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", "-t", help="Which conversation.")] = None,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> int:
    """Count turns, owed work and parked turns: of everybody, of a user, or of a thread.

    Leaves with exit code 3 if turns are parked.

    **Examples**

        memory-agent status

        memory-agent status --user ada --thread work --json
    """
    scope = scope_of(user, thread, tenant)
    async with opened(data_dir) as service:
        found = await service.status(scope)
        if user is not None:
            agent = service.agent(user, thread or THREAD, tenant=tenant)
            await say_if_unknown(agent, reach="user" if thread is None else "thread")
    if as_json:
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
        **picked(status, "turns pending lag_seconds erasures parked_count"),
        "parked": parked,
        "extraction": cost_as_json(status.extraction),
        "outages": status.outages,
    }


def print_status(status: MemoryStatus) -> None:
    print_rows(
        [
            ("turns", f"{status.turns:,}"),
            *((f"owing {stage}", f"{owed:,}") for stage, owed in status.pending.items()),
            ("oldest owed", f"{status.lag_seconds:.1f} s"),
            ("forgetting under way", f"{status.erasures:,}"),
            ("parked", f"{status.parked_count:,}"),
            ("extracting facts took", cost_text(status.extraction) if status.extraction.requests else ""),
        ]
    )
    for outage in status.outages:
        out.print(outage_text(outage), soft_wrap=True)
    if status.outages:
        note("It goes on by itself once that is mended.")
    if status.parked:
        parked_table = Table("turn", "user", "thread", "owes", "attempts", "last error", title="Parked")
        for parked in status.parked:
            cells = (
                parked.turn_id,
                _whose(parked.scope),
                parked.thread_id,
                ", ".join(parked.pending),
                str(parked.attempts),
            )
            parked_table.add_row(*(Text(clean(cell)) for cell in (*cells, parked.last_error)))
        out.print(parked_table)
        note("Mend the cause, then run: memory-agent retry")


def _whose(scope: Scope) -> str:
    tenant = "" if scope.tenant == DEFAULT_TENANT else f" (tenant {scope.tenant})"
    return f"{scope.tenants_user_id}{tenant}"
