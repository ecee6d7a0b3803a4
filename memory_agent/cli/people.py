"""`memory-agent users` and `threads`: who is remembered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memory_agent.cli.opening import opened
from memory_agent.cli.options import (
    PAGE,
    TENANT,
    MemoryTyper,
    TenantOptions,
    ThreadOptions,
    UserOptions,
    flag,
    option,
    page_size,
)
from memory_agent.cli.output import note, picked, print_json, print_table, when

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


app = MemoryTyper()

_MAX_PAGE: Final = 1_000
_AFTER: Final[Any] = option("--after", "Only those that sort after this one.", metavar="ID")
_LIMIT: Final[Any] = option("--limit", "How many at most.", min=1, max=_MAX_PAGE, shown=str(PAGE))
_ALL: Final[Any] = flag("--all", "To the end, however many.")


@app.command()
async def users(
    where: TenantOptions, after: str | None = _AFTER, limit: int | None = _LIMIT, everything: bool = _ALL
) -> None:
    """List who is remembered: each user's threads, turns, and when the last one was said.

    By id, a page at a time: where more follows, the command that goes on is named.

    Examples:
        memory-agent users
        memory-agent users --all --json | jq -r '.users[].user'
    """
    most = page_size(limit, everything)
    async with opened(where.data_dir) as service:
        found, following = await _pages(partial(service.users, tenant=where.tenant), "users", after, most)
    if where.as_json:
        shown = [picked(user, "user=user_id threads turns last_activity") for user in found]
        print_json({"users": shown, "next": following})
    elif found:
        rows = [(u.user_id, f"{u.threads:,}", f"{u.turns:,}", when(u.last_activity)) for u in found]
        print_table(("+user", ">threads", ">turns", "last activity"), rows)
        _note_more(where, "users", following, most)
    else:
        whose = "" if where.tenant == TENANT else f" under tenant {where.tenant!r}"
        note(f"Nobody is remembered{whose} yet.")


@app.command()
async def threads(
    where: UserOptions, after: str | None = _AFTER, limit: int | None = _LIMIT, everything: bool = _ALL
) -> None:
    """List a user's threads: how many turns each has, and when the last one was said.

    Of an unknown user the nearest names are told, with exit code 1.

    Examples:
        memory-agent threads --user ada
        memory-agent threads --user ada --json | jq -r '.threads[] | select(.turns > 100) | .thread'
    """
    most = page_size(limit, everything)
    async with opened(where.data_dir) as service:
        ask = partial(service.threads, where.user, tenant=where.tenant)
        found, following = await _pages(ask, "threads", after, most)
    if where.as_json:
        shown = [picked(thread, "thread=thread_id turns last_activity") for thread in found]
        print_json({"user": where.user, "threads": shown, "next": following})
    else:
        rows = [(thread.thread_id, f"{thread.turns:,}", when(thread.last_activity)) for thread in found]
        print_table(("+thread", ">turns", "last activity"), rows)
        _note_more(where, "threads", following, most)


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


def _note_more(where: ThreadOptions, what: str, after: str | None, limit: int | None) -> None:
    if after is not None:
        options = ["--after", after, *([] if limit is None else ["--limit", str(limit)])]
        note(f"More {what} follow; go on: {where.command(what, *options)}")
