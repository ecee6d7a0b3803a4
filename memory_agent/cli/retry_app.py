"""The command `memory-agent retry`, with its options and help text."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from typing import Annotated

import typer

from memory_agent.cli.options import TENANT, AsJson, DataDir, MemoryTyper, Tenant
from memory_agent.cli.running import run

app = MemoryTyper()


@app.command()
def retry(
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Whose turns.", show_default="everybody's")
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", "-t", help="Of which conversation.", show_default="all")
    ] = None,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Leave at once; a worker takes them up.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make parked turns due again, once the cause is mended, and wait until they are done.

    `memory-agent status` shows which are parked, and why. Leaves with exit code 3 if some are parked again.

    **Examples**

        memory-agent retry

        memory-agent retry --user ada --thread work --no-wait
    """
    if user is None and thread is not None:
        raise typer.BadParameter("a thread belongs to a user: give --user as well")
    if user is None and tenant != TENANT:
        raise typer.BadParameter("a user belongs to a tenant: give --user as well")
    from memory_agent.cli.worker import retry as retry_parked

    run(
        retry_parked(
            user_id=user,
            thread_id=thread,
            tenant=tenant,
            data_dir=data_dir,
            wait=not no_wait,
            as_json=as_json,
        )
    )
