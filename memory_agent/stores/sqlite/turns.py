"""Turns in SQLite, and whose they are: users and threads are read from indexes, by leaps from one id to the next.

A write transaction sees every earlier one, so the next number is simply the last plus one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.domain import ThreadSummary, next_of_tenant, said_otherwise, split_user_id, tenants_range
from memory_agent.stores.codec import by_thread, from_milliseconds, milliseconds, thread_of
from memory_agent.stores.fields import DRAFT, OLD_TURN, TOMBSTONE
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope, scalar, these_turns
from memory_agent.stores.sqlite.remains import of_remains
from memory_agent.stores.sqlite.segments import TURN_COLUMNS, read_turns, with_texts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import OldTurn, Scope, Tombstone, Turn, TurnDraft

_INSERT: Final = f"INSERT INTO turns ({DRAFT.columns}) VALUES ({DRAFT.marks})"


class SqliteTurns(SqliteConnection):
    """The turns of a SqliteStore."""

    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        thread_of(scope)
        if not drafts:
            return []
        if drafts[0].idempotency_key is None:
            return await self._write(lambda db: [*_insert(db, scope, drafts, drafts[0].call_size)])
        return await self._write(lambda db: _insert_call(db, scope, drafts))

    async def list_turns(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        topic_ids: Sequence[str] | None = None,
        compressed: bool | None = None,
        session_id: str | None = None,
        after_seq: int = 0,
        through: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Turn]:
        if limit is not None and limit <= 0:
            return []
        where = these_turns(scope, ids).among("topic_id", topic_ids).equal(session_id=session_id)
        if compressed is not None:
            where = where.also(f"segment_id IS {'NOT NULL' if compressed else 'NULL'}")
        if after_seq > 0:
            where = where.also("seq > ?", after_seq)
        if through is not None:
            where = where.also("seq <= ?", through)
        order = "id" if scope.thread_id is None else "seq"
        if topic_ids is not None or (session_id is not None and scope.thread_id is None):
            order = f"+{order}"  # the plus leaves the choice of the index to the topics, or to the session
        sql = (
            f"SELECT {TURN_COLUMNS} FROM turns WHERE {where}"
            f" ORDER BY {order} {'DESC' if newest else 'ASC'} LIMIT ?"
        )
        turns = await self._read(
            lambda db: read_turns(db, sql, [*where.values, -1 if limit is None else limit])
        )
        return turns[::-1] if newest else turns

    async def turns_at(self, scope: Scope, places: Sequence[tuple[str, int]]) -> list[Turn]:
        return await self._read(lambda db: _turns_at(db, scope, by_thread(places)))

    async def turns_before(
        self, time: datetime, *, after: OldTurn | None = None, limit: int
    ) -> list[OldTurn]:
        where = Where("timestamp < ?", milliseconds(time))
        if after is not None:
            where = where.also("(timestamp, id) > (?, ?)", milliseconds(after.timestamp), after.id)
        rest = f"FROM turns WHERE {where} ORDER BY timestamp, id LIMIT ?"
        return await self._select(OLD_TURN, rest, [*where.values, max(limit, 0)])


def _turns_at(db: sqlite3.Connection, scope: Scope, threads: Mapping[str, Sequence[int]]) -> list[Turn]:
    found: list[Turn] = []
    for thread_id, numbers in threads.items():
        # By name, so that it fails rather than walk through all of a large user's turns.
        where = in_scope(scope).also("thread_id = ?", thread_id).among("seq", numbers)
        sql = f"SELECT {TURN_COLUMNS} FROM turns INDEXED BY turns_seq WHERE {where}"
        found += read_turns(db, sql, where.values)
    return found


def _insert(db: sqlite3.Connection, scope: Scope, drafts: Sequence[TurnDraft], call_size: int) -> list[Turn]:
    last = last_given(db, scope)
    of_thread = {"user_id": scope.user_id, "thread_id": thread_of(scope), "call_size": call_size}
    records = [
        DRAFT.record(draft, **of_thread, seq=seq, **({} if draft.pending else {"due_at": None}))
        for seq, draft in enumerate(drafts, start=last + 1)
    ]
    db.executemany(_INSERT, records)
    return list(map(DRAFT.read, records))


def last_given(db: sqlite3.Connection, scope: Scope) -> int:
    """The last `seq` of the thread's turns, those that are gone included; 0 without any."""
    where = in_scope(scope)
    stored = scalar(db, f"SELECT max(seq) FROM turns WHERE {where}", where.values)
    remains = of_remains(db, scope)
    erased = scalar(db, f"SELECT max(last_seq) FROM threads WHERE {remains}", remains.values)
    return max(stored or 0, erased or 0)


def _insert_call(db: sqlite3.Connection, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
    """Insert what the thread has not seen of this call; everything it then has of it, in order."""
    where = in_scope(scope).equal(idempotency_key=drafts[0].idempotency_key)
    call: dict[int, Turn | Tombstone] = {}
    # The first call decides how many turns it has, whatever its repeat brings.
    size = drafts[0].call_size
    known = f"SELECT {TURN_COLUMNS}, call_index, call_size FROM turns WHERE {where}"
    stored = db.execute(known, where.values).fetchall()
    for record, found in zip(stored, with_texts(db, stored), strict=True):
        *_, index, size = record
        call[index] = found
    remains = of_remains(db, scope).equal(idempotency_key=drafts[0].idempotency_key)
    erased = f"SELECT {TOMBSTONE.columns} FROM tombstones WHERE {remains}"
    for left in map(TOMBSTONE.read, db.execute(erased, remains.values)):
        call[left.call_index], size = left, left.call_size
    missing = [draft for draft in drafts if draft.call_index not in call and draft.call_index < size]
    if missing and said_otherwise(drafts, [call[index] for index in sorted(call)]):
        missing = []  # it was another call that was cut short
    inserted = _insert(db, scope, missing, size) if missing else []
    call |= {draft.call_index: turn for draft, turn in zip(missing, inserted, strict=True)}
    return [call[index] for index in sorted(call)]


# --- who is remembered ---------------------------------------------------------------------------------------
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
