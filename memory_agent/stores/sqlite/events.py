"""Events from SQLite: read from the outbox that triggers fill, whenever this store has written something.

One process holds the file, so its own writes are all there are; the slow poll besides is for a write whose caller went
away before it was committed, and for a file that somebody mends by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_agent.domain import EVENT_KINDS, MemoryEvent
from memory_agent.errors import EventsLost, MemoryAgentError
from memory_agent.stores.codec import from_milliseconds
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, scalar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from memory_agent.domain import Scope
    from memory_agent.stores.codec import Record

_R = TypeVar("_R")
_POLL_SECONDS: Final = 1.0
_READ_AT_ONCE: Final = 500
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_SELECT: Final = f"""\
SELECT events.id, kind, coalesce(turns.user_id, events.user_id) AS user, coalesce(turns.thread_id, events.thread_id) AS thread,
  turns.id, coalesce(turns.seq, events.seq),
  iif(kind = {EVENT_KINDS.index("topic_assigned")}, turns.topic_id, NULL), change_id, at
FROM events LEFT JOIN turns ON turns.number = events.turn"""


class SqliteEvents(SqliteConnection):
    """The events of a SqliteStore. Comes before its other parts, whose writes it has to see."""

    def __init__(self, path: str | Path, *, timeout_seconds: float = 10.0) -> None:
        super().__init__(path, timeout_seconds=timeout_seconds)
        self._watchers: set[asyncio.Event] = set()

    async def close(self) -> None:
        await super().close()
        self._wake_watchers()

    async def _write(self, work: Callable[[sqlite3.Connection], _R]) -> _R:
        try:
            return await super()._write(work)
        finally:
            self._wake_watchers()

    def _wake_watchers(self) -> None:
        for woken in self._watchers:
            woken.set()

    @contextlib.asynccontextmanager
    async def watch(
        self, scope: Scope | None = None, *, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[MemoryEvent]]:
        events = _Events(self, scope, await self._read(lambda db: _position(db, after)))
        self._watchers.add(events.woken)
        try:
            yield events
        finally:
            self._watchers.discard(events.woken)
            events.end()


class _Events:
    """Iterator over the events after a position. A cancelled step can be called again."""

    def __init__(self, store: SqliteEvents, scope: Scope | None, position: int) -> None:
        self.woken = asyncio.Event()
        self._store = store
        self._scope = scope
        self._position = position
        self._ready: deque[MemoryEvent] = deque()
        self._over = False

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> MemoryEvent:
        while not self._over:
            if self._ready:
                return self._ready.popleft()
            # Before reading, so that what is written meanwhile wakes it.
            self.woken.clear()
            await self._read_on()
            if not self._ready and not self._over:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self.woken.wait()
        raise StopAsyncIteration

    def end(self) -> None:
        """Whoever waits for the next one, or asks for it, learns that there is none."""
        self._over = True
        self._ready.clear()
        self.woken.set()

    async def _read_on(self) -> None:
        try:
            read = await self._store._read(lambda db: _read_after(db, self._position, self._scope))
        except MemoryAgentError:
            self.end()
            raise
        self._position = read.through
        self._ready.extend(read.events)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    events: list[MemoryEvent]
    through: int
    """Everything up to this one has been read."""


def _position(db: sqlite3.Connection, after: str | None) -> int:
    """The number behind which to begin. Raises EventsLost."""
    newest = _newest(db)
    if after is None:
        return newest
    if _NUMBER.fullmatch(after) is None or int(after) > newest:
        raise EventsLost(
            f"{after!r:.80} is no event's id here; read the state anew, then watch without `after`"
        )
    _check_kept(db, int(after))
    return int(after)


def _newest(db: sqlite3.Connection) -> int:
    # Not the last row's: that one may have been erased.
    newest: int = scalar(db, "SELECT seq FROM sqlite_sequence WHERE name = 'events'", [])
    return newest


def _check_kept(db: sqlite3.Connection, position: int) -> None:
    if position < scalar(db, "SELECT through FROM events_pruned", []):
        raise EventsLost(f"what followed event {position} is not kept any more; read the state anew")


def _read_after(db: sqlite3.Connection, position: int, scope: Scope | None) -> _Read:
    """The scope's next events. Raises EventsLost if some of those that follow `position` were pruned."""
    _check_kept(db, position)
    where = Where("events.id > ?", position)
    if scope is not None:
        where = where.equal(user=scope.user_id, thread=scope.thread_id)
    found = db.execute(
        f"{_SELECT} WHERE {where} ORDER BY events.id LIMIT ?", [*where.values, _READ_AT_ONCE]
    ).fetchall()
    through = found[-1][0] if len(found) == _READ_AT_ONCE else _newest(db)
    return _Read(events=[_event(record) for record in found], through=through)


def _event(record: Record) -> MemoryEvent:
    """The event in a row of _SELECT."""
    number, kind, user_id, thread_id, turn_id, seq, topic_id, change_id, at = record
    named: dict[str, Any] = {"turn_id": turn_id, "seq": seq, "topic_id": topic_id, "change_id": change_id}
    return MemoryEvent(
        id=str(number),
        kind=EVENT_KINDS[kind],
        user_id=user_id,
        thread_id=thread_id,
        at=from_milliseconds(at),
        **named,
    )
