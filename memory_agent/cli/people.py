"""`memory-agent users` and `threads`: who is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from memory_agent.cli.options import TENANT
from memory_agent.cli.output import clean, note, print_json, print_table
from memory_agent.cli.running import OK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.cli.options import Where
    from memory_agent.domain import ThreadSummary, UserSummary

_ALL_PAGE: Final = 1_000
"""Users or threads that are read at once where all are printed."""


# --- who is remembered -------------------------------------------------------------------------------------------
async def show_users(where: Where, *, after: str | None, limit: int | None) -> int:
    """Print the tenant's users, by id: at most `limit`, or (None) all that there are."""
    from memory_agent.cli.opening import opened

    users: list[UserSummary] = []
    async with opened(where.data_dir) as service:
        while True:
            page = await service.users(tenant=where.tenant, after=after, limit=limit or _ALL_PAGE)
            users += page.users
            after = page.next
            if after is None or limit is not None:
                break
    if where.as_json:
        print_json({"users": list(map(_user_as_json, users)), "next": after})
        return OK
    if users:
        print_table(_table("user", [(user.user_id, user.threads, user) for user in users]))
    else:
        whose = "" if where.tenant == TENANT else f" under tenant {where.tenant!r}"
        note(f"Nobody is remembered{whose} yet.")
    if after is not None:
        _note_more(where, "users", after, limit)
    return OK


async def show_threads(where: Where, *, after: str | None, limit: int | None) -> int:
    """Print the user's threads, by id: at most `limit`, or (None) all that there are. Raises NotFound for an unknown user."""
    from memory_agent.cli.opening import opened

    threads: list[ThreadSummary] = []
    async with opened(where.data_dir) as service:
        while True:
            page = await service.threads(
                where.user_id, tenant=where.tenant, after=after, limit=limit or _ALL_PAGE
            )
            threads += page.threads
            after = page.next
            if after is None or limit is not None:
                break
    if where.as_json:
        print_json({"user": where.user_id, "threads": list(map(_thread_as_json, threads)), "next": after})
        return OK
    print_table(_table("thread", [(thread.thread_id, None, thread) for thread in threads]))
    if after is not None:
        _note_more(where, "threads", after, limit)
    return OK


def _table(what: str, rows: Sequence[tuple[str, int | None, UserSummary | ThreadSummary]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(what, overflow="fold")
    if what == "user":
        table.add_column("threads", justify="right")
    table.add_column("turns", justify="right")
    table.add_column("last activity", no_wrap=True)
    for name, threads, counted in rows:
        last = "" if counted.last_activity is None else f"{counted.last_activity:%Y-%m-%d %H:%M}"
        counts = ([] if threads is None else [f"{threads:,}"]) + [f"{counted.turns:,}", last]
        table.add_row(Text(clean(name)), *counts)
    return table


def _note_more(where: Where, what: str, after: str, limit: int | None) -> None:
    options = ["--after", after, *([] if limit is None else ["--limit", str(limit)])]
    note(f"More {what} follow; go on: {where.command(what, *options)}")


def _user_as_json(user: UserSummary) -> dict[str, Any]:
    return {
        "user": user.user_id,
        "threads": user.threads,
        "turns": user.turns,
        "last_activity": _time_as_json(user.last_activity),
    }


def _thread_as_json(thread: ThreadSummary) -> dict[str, Any]:
    return {
        "thread": thread.thread_id,
        "turns": thread.turns,
        "last_activity": _time_as_json(thread.last_activity),
    }


def _time_as_json(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
