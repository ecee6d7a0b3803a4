"""Users and threads, a page at a time; and the nearest names to an unknown one."""

from __future__ import annotations

import asyncio
import difflib
from typing import TYPE_CHECKING, Final

from memory_agent.checks import checked_id, is_whole
from memory_agent.domain import Scope, ThreadsPage, UsersPage, UserSummary, split_user_id
from memory_agent.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from memory_agent.domain import ThreadSummary
    from memory_agent.ports import PeopleStore

MAX_PEOPLE: Final = 1_000
"""That a page may hold."""
_NAMED: Final = 3
_LOOKED_AT: Final = 100
"""Names from each place where a misspelt one's neighbours may be: of 100,000 users, some hundreds are compared."""
_LONGEST: Final = 64
"""Longer names are made by programs; nobody misspells them, and comparing them takes long."""
_ALIKE: Final = 0.6
"""The share of characters in common (difflib's ratio) from which on a name may have been meant; difflib's own default."""


class UnknownUser(NotFound):
    """Nothing is remembered of the user. The message may name others of the tenant's."""


async def list_users(
    store: PeopleStore, tenant: str, *, user_id: str | None, after: str | None, limit: int
) -> UsersPage:
    """The tenant's first `limit` users above `after`; `user_id`: only that one, if anything is remembered of it."""
    if user_id is not None:
        given = [Scope.of(user_id, tenant=tenant).user_id]
        ids = given if after is None or user_id > after else []
    else:
        above = "" if after is None else Scope.of(after, tenant=tenant).user_id
        ids = await store.user_ids(tenant, after=above, limit=limit + 1)
    threads = await store.count_threads(ids[:limit])
    users = tuple(_summary(stored, found) for stored, found in threads.items() if found)
    return UsersPage(users=users, next=split_user_id(ids[limit - 1])[1] if len(ids) > limit else None)


def _summary(stored_id: str, threads: Sequence[ThreadSummary]) -> UserSummary:
    times = [thread.last_activity for thread in threads if thread.last_activity is not None]
    return UserSummary(
        user_id=split_user_id(stored_id)[1],
        threads=len(threads),
        turns=sum(thread.turns for thread in threads),
        last_activity=max(times, default=None),
    )


async def list_threads(store: PeopleStore, scope: Scope, *, after: str | None, limit: int) -> ThreadsPage:
    """The user's first `limit` threads above `after`."""
    ids = await store.thread_ids(scope.user, after=after or "", limit=limit + 1)
    shown = ids[:limit]
    threads = (await store.count_threads([scope.user_id], thread_ids=shown))[scope.user_id] if shown else []
    return ThreadsPage(threads=tuple(threads), next=shown[-1] if len(ids) > limit else None)


async def find_thread(store: PeopleStore, scope: Scope) -> ThreadSummary:
    """The scope's thread. Raises NotFound, with the nearest names, if nothing is remembered of it, or of its user."""
    thread_id = scope.thread_id or ""
    threads = await store.count_threads([scope.user_id], thread_ids=[thread_id])
    if threads[scope.user_id]:
        return threads[scope.user_id][0]
    await check_user(store, scope)

    async def neighbours(prefix: str) -> list[str]:
        return await store.thread_ids(scope.user, after=prefix, limit=_LOOKED_AT)

    others = await _others(thread_id, neighbours)
    raise NotFound(f"user {scope.tenants_user_id!r} has no thread {thread_id!r}{others}")


async def check_user(store: PeopleStore, scope: Scope) -> None:
    """Raises UnknownUser, with the nearest names, if nothing is remembered of the scope's user."""
    if await store.thread_ids(scope.user, limit=1):
        return
    tenant, wanted = scope.tenant, scope.tenants_user_id

    async def neighbours(prefix: str) -> list[str]:
        above = Scope.of(prefix, tenant=tenant).user_id if prefix else ""
        found = await store.user_ids(tenant, after=above, limit=_LOOKED_AT)
        return [split_user_id(user_id)[1] for user_id in found]

    raise UnknownUser(f"no user {wanted!r} is remembered{await _others(wanted, neighbours)}")


async def _others(wanted: str, neighbours: Callable[[str], Awaitable[list[str]]]) -> str:
    found = await asyncio.gather(*map(neighbours, _prefixes(wanted)))
    known = list(dict.fromkeys(name for names in found for name in names))
    # Some hundred comparisons take some ten milliseconds, in which others would have to wait.
    near = await asyncio.to_thread(nearest, wanted, known)
    if near:
        return f"; nearest: {_quoted(near)}"
    if not known:
        return ""
    more = " and others" if len(known) > _NAMED else ""
    return f"; there {'is' if len(known) == 1 else 'are'} {_quoted(known[:_NAMED])}{more}"


def _prefixes(wanted: str) -> list[str]:
    """Behind which names like `wanted` may stand, "" (from the first on) always among them."""
    begun = (wanted[: len(wanted) // 2], wanted[:2], wanted[:1], wanted[:1].swapcase())
    return ["", *dict.fromkeys(prefix for prefix in begun if _is_id(prefix))]


def _is_id(prefix: str) -> bool:
    try:
        checked_id("prefix", prefix)
    except InvalidInput:
        return False
    return True


def nearest(wanted: str, known: Iterable[str]) -> list[str]:
    """The three of `known` that are likest to `wanted`, the likest first; upper and lower case are alike.

    By difflib's ratio: twice the characters that match in order, by those of both names together.
    """
    by_folded: dict[str, list[str]] = {}
    for name in known:
        if len(name) <= _LONGEST:
            by_folded.setdefault(name.casefold(), []).append(name)
    folded = wanted[: 2 * _LONGEST].casefold()
    near = difflib.get_close_matches(folded, by_folded, n=_NAMED, cutoff=_ALIKE)
    return [name for match in near for name in by_folded[match]][:_NAMED]


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"{name!r:.80}" for name in names)


def checked_limit(limit: object) -> int:
    """`limit` if a page may hold so many. Raises InvalidInput."""
    if not is_whole(limit, 1, MAX_PEOPLE):
        raise InvalidInput(f"limit is {limit!r:.80}; pass a whole number from 1 to {MAX_PEOPLE:,}")
    return limit
