"""`memory-agent users` and `threads`: who is remembered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from memory_agent.cli.opening import opened
from memory_agent.cli.options import (
    TENANT,
    THREAD,
    USER,
    AsJson,
    DataDir,
    MemoryTyper,
    Tenant,
    ThreadOptions,
    User,
)
from memory_agent.cli.output import clean, columns, note, picked, print_json, print_table, when

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from memory_agent.domain import ThreadSummary, UserSummary

app = MemoryTyper()

_PAGE: Final = 100
_MAX_PAGE: Final = 1_000

After = Annotated[
    str | None, typer.Option("--after", help="Only those that sort after this one.", metavar="ID")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, max=_MAX_PAGE, help="How many at most.", show_default=str(_PAGE)),
]
Everything = Annotated[bool, typer.Option("--all", help="To the end, however many.")]


@app.command()
async def users(
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
    async with opened(data_dir) as service:
        ask = partial(service.users, tenant=tenant)
        found, following = await _pages(ask, "users", after, most)
    if as_json:
        shown = [picked(user, "user=user_id threads turns last_activity") for user in found]
        print_json({"users": shown, "next": following})
    elif found:
        _print("user", [(user.user_id, user.threads, user) for user in found])
        _note_more(_where(USER, tenant, data_dir), "users", following, most)
    else:
        whose = "" if tenant == TENANT else f" under tenant {tenant!r}"
        note(f"Nobody is remembered{whose} yet.")


@app.command()
async def threads(
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
    async with opened(data_dir) as service:
        ask = partial(service.threads, user, tenant=tenant)
        found, following = await _pages(ask, "threads", after, most)
    if as_json:
        shown = [picked(thread, "thread=thread_id turns last_activity") for thread in found]
        print_json({"user": user, "threads": shown, "next": following})
    else:
        _print("thread", [(thread.thread_id, None, thread) for thread in found])
        _note_more(_where(user, tenant, data_dir), "threads", following, most)


async def _pages(
    ask: Callable[..., Awaitable[Any]], what: str, after: str | None, most: int | None
) -> tuple[list[Any], str | None]:
    """A page of at most so many, or (None) all of them; and what the next one is to follow."""
    page = await ask(after=after, limit=most or _MAX_PAGE)
    found = [*getattr(page, what)]
    while page.next is not None and most is None:
        page = await ask(after=page.next, limit=_MAX_PAGE)
        found += getattr(page, what)
    return found, page.next


def _limit(limit: int | None, everything: bool) -> int | None:
    if everything and limit is not None:
        raise typer.BadParameter("--all prints every one and --limit so many: choose one")
    return None if everything else limit or _PAGE


def _where(user: str, tenant: str, data_dir: DataDir) -> ThreadOptions:
    return ThreadOptions(user_id=user, thread_id=THREAD, tenant=tenant, data_dir=data_dir, as_json=False)


def _print(what: str, rows: Sequence[tuple[str, int | None, UserSummary | ThreadSummary]]) -> None:
    table = columns(f"+{what}", *([">threads"] if what == "user" else []), ">turns", "last activity")
    for name, of_threads, counted in rows:
        counts = [f"{count:,}" for count in (of_threads, counted.turns) if count is not None]
        table.add_row(Text(clean(name)), *counts, when(counted.last_activity))
    print_table(table)


def _note_more(where: ThreadOptions, what: str, after: str | None, limit: int | None) -> None:
    if after is not None:
        options = ["--after", after, *([] if limit is None else ["--limit", str(limit)])]
        note(f"More {what} follow; go on: {where.command(what, *options)}")
