"""The commands that list who is remembered, with their options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from typing import Annotated

import typer

from memory_agent.cli.options import TENANT, THREAD, USER, AsJson, DataDir, MemoryTyper, Tenant, User, Where
from memory_agent.cli.running import run

app = MemoryTyper()

_PAGE = 100
_MAX_PAGE = 1_000

After = Annotated[
    str | None, typer.Option("--after", help="Only those that sort after this one.", metavar="ID")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, max=_MAX_PAGE, help="How many at most.", show_default=str(_PAGE)),
]
Everything = Annotated[bool, typer.Option("--all", help="To the end, however many.")]


def _limit(limit: int | None, everything: bool) -> int | None:
    if everything and limit is not None:
        raise typer.BadParameter("--all prints every one and --limit so many: choose one")
    return None if everything else limit or _PAGE


@app.command()
def users(
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    after: After = None,
    limit: Limit = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """List who is remembered: each user's threads, turns, and when the last one was said.

    By id, a page at a time: where more follows, the command that goes on is named.

    **Examples**

        memory-agent users

        memory-agent users --all --json | jq -r '.users[].user'
    """
    most = _limit(limit, everything)
    from memory_agent.cli.people import show_users

    where = Where(user_id=USER, thread_id=THREAD, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(show_users(where, after=after, limit=most))


@app.command()
def threads(
    user: User = USER,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    after: After = None,
    limit: Limit = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """List a user's threads: how many turns each has, and when the last one was said.

    Of an unknown user the nearest names are told, with exit code 1.

    **Examples**

        memory-agent threads --user ada

        memory-agent threads --user ada --json | jq -r '.threads[] | select(.turns > 100) | .thread'
    """
    most = _limit(limit, everything)
    from memory_agent.cli.people import show_threads

    where = Where(user_id=user, thread_id=THREAD, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(show_threads(where, after=after, limit=most))
