"""Users and threads in SQLite: read from indexes, by leaps from one id to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.domain import ThreadSummary, next_of_tenant, split_user_id, tenants_range
from memory_agent.stores.codec import from_milliseconds
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memory_agent.domain import Scope

_HOLDERS: Final = ("turns", "sessions", "fact_events")
"""What makes a thread one; rows of forgotten turns are deleted."""


class SqlitePeople(SqliteConnection):
    """The users and threads of a SqliteStore."""

    async def user_ids(self, tenant: str, *, after: str = "", limit: int) -> list[str]:
        first, below = tenants_range(tenant)
        start = max(first, f"{after}\0") if after else first
        return await self._read(lambda db: _user_ids(db, tenant, start, below, limit))

    async def thread_ids(self, scope: Scope, *, after: str = "", limit: int) -> list[str]:
        return await self._read(lambda db: _thread_ids(db, scope.user_id, after, limit))

    async def count_threads(
        self, user_ids: Sequence[str], *, thread_ids: Sequence[str] | None = None
    ) -> dict[str, list[ThreadSummary]]:
        return await self._read(lambda db: _count_threads(db, list(user_ids), thread_ids))


def _user_ids(db: sqlite3.Connection, tenant: str, start: str, below: str | None, limit: int) -> list[str]:
    # A minimum is one step into an index, where SELECT DISTINCT would walk through all of it.
    least = " UNION ALL ".join(
        f"SELECT min(user_id) AS id FROM {each} WHERE user_id >= ?1" for each in _HOLDERS
    )
    found: list[str] = []
    while len(found) < limit:
        (user_id,) = db.execute(f"SELECT min(id) FROM ({least})", [start]).fetchone()
        if user_id is None or (below is not None and user_id >= below):
            break
        if split_user_id(user_id)[0] == tenant:
            found.append(user_id)
        start = next_of_tenant(tenant, user_id)
    return found


def _thread_ids(db: sqlite3.Connection, user_id: str, after: str, limit: int) -> list[str]:
    least = " UNION ALL ".join(
        f"SELECT min(thread_id) AS id FROM {each} WHERE user_id = ?1 AND thread_id > ?2" for each in _HOLDERS
    )
    found: list[str] = []
    while len(found) < limit:
        (thread_id,) = db.execute(f"SELECT min(id) FROM ({least})", [user_id, after]).fetchone()
        if thread_id is None:
            break
        found.append(thread_id)
        after = thread_id
    return found


def _count_threads(
    db: sqlite3.Connection, user_ids: list[str], thread_ids: Sequence[str] | None
) -> dict[str, list[ThreadSummary]]:
    where = Where().among("user_id", user_ids).among("thread_id", thread_ids)
    counted: dict[tuple[str, str], tuple[int, int | None]] = {}
    for each in _HOLDERS[1:]:
        for key in db.execute(f"SELECT DISTINCT user_id, thread_id FROM {each} WHERE {where}", where.values):
            counted[key] = (0, None)
    for user_id, thread_id, turns, last in db.execute(
        "SELECT user_id, thread_id, turns, (SELECT timestamp FROM turns AS t WHERE t.user_id = counted.user_id"
        " AND t.thread_id = counted.thread_id AND t.seq = last_seq)"
        " FROM (SELECT user_id, thread_id, count(*) AS turns, max(seq) AS last_seq FROM turns"
        f" WHERE {where} GROUP BY user_id, thread_id) AS counted",
        where.values,
    ).fetchall():
        counted[user_id, thread_id] = (turns, last)
    threads: dict[str, list[ThreadSummary]] = {user_id: [] for user_id in user_ids}
    for (user_id, thread_id), (turns, last) in sorted(counted.items()):
        threads[user_id].append(
            ThreadSummary(
                thread_id=thread_id,
                turns=turns,
                last_activity=None if last is None else from_milliseconds(last),
            )
        )
    return threads
