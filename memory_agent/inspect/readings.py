"""Readings of owed work: each taken once for all who look at the same work, and no oftener than it costs little."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Final

from memory_agent.errors import MemoryAgentError, StoreUnavailable
from memory_agent.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeAlias

    from memory_agent.domain import (
        ErasureReceipt,
        Lease,
        MemoryStatus,
        Scope,
        Tenant,
        WorkerStatus,
    )
    from memory_agent.ports import DocumentStore
    from memory_agent.service import MemoryService

    Reach: TypeAlias = "Scope | Tenant | None"
    """Whose work: a user's, a tenant's, or (None) everybody's."""

PAUSE_SECONDS: Final = 2.0
"""Between two readings; where one takes long, so much longer that it takes a tenth of the time."""
_SLOW_SECONDS: Final = 30.0
"""Between two readings of what grows with the years: receipts of erasures."""
_MOST_POINTS: Final = 600
_MOST_REACHES: Final = 100
_MOST_LEASES: Final = 1_000
_PAGE: Final = 1_000
"""Receipts that are read at a time."""
_LATEST: Final = 20
"""Of which the page tells one by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One moment of a plot."""

    at: datetime
    owed: int
    lag_seconds: float
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasures:
    """Forget calls: how many, on which days, and the latest, newest first."""

    count: int = 0
    days: Counter[date] = field(default_factory=Counter)
    latest: tuple[ErasureReceipt, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """State of work at a moment, and before as far as somebody looked. Of everybody's alone: `leases`, `erasures`."""

    at: datetime
    status: MemoryStatus
    worker: WorkerStatus
    points: tuple[Point, ...]
    leases: tuple[Lease, ...] = ()
    erasures: Erasures = field(default_factory=Erasures)


@dataclass(slots=True)
class _Of:
    """What is known of one reach. `shown`: the latest reading as HTML, by what else its look depends on."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    work: Work | None = None
    failed: MemoryAgentError | None = None
    """Instead of `work`, for as long."""
    due: float = 0.0
    erasures: Erasures = field(default_factory=Erasures)
    erasures_due: float = 0.0
    shown: dict[tuple[object, ...], str] = field(default_factory=dict)


class Readings:
    """The readings of one process."""

    def __init__(self, service: MemoryService, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._service, self._monotonic = service, monotonic
        self._of: Recent[Reach, _Of] = Recent(_MOST_REACHES)
        self._closed = asyncio.Event()

    async def shown(self, reach: Reach, how: tuple[object, ...], show: Callable[[Work], str]) -> str:
        """Read how work stands now, as `show` makes HTML of it once for all who see it in the same way (`how`). Raises StoreUnavailable."""
        of = self._one(reach)
        async with of.lock:
            work = await self._read(reach, of)
            if how not in of.shown:
                of.shown[how] = await asyncio.to_thread(show, work)
            return of.shown[how]

    async def pause(self) -> bool:
        """Wait until another look is worth it; False once the service is about to end."""
        try:
            await asyncio.wait_for(self._closed.wait(), PAUSE_SECONDS)
        except TimeoutError:
            return True
        return False

    async def close(self) -> None:
        """Let whoever waits go. Idempotent."""
        self._closed.set()

    def _one(self, reach: Reach) -> _Of:
        return self._of.put(reach, self._of.get(reach) or _Of())

    async def _read(self, reach: Reach, of: _Of) -> Work:
        began = self._monotonic()
        if began >= of.due:
            points = () if of.work is None else of.work.points
            of.failed = None
            try:
                look = self._everybodys(of, points) if reach is None else self._somebodys(reach, points)
                of.work = await look
            except MemoryAgentError as exc:  # everybody's, too: each would wait for the store by itself
                of.failed = exc
            of.shown.clear()
            took = self._monotonic() - began
            # A little less, for timers that end early.
            of.due = began + took + max(0.9 * PAUSE_SECONDS, 9 * took)
        if of.failed is not None or of.work is None:
            raise of.failed or StoreUnavailable("the work was not read")
        return of.work

    async def _somebodys(self, reach: Scope | Tenant, points: tuple[Point, ...]) -> Work:
        service = self._service
        now = service.clock.now()
        status = await service.core.store.status(reach, now=now)
        worker = await service.worker_status()
        return Work(at=now, status=status, worker=worker, points=with_point(points, now, status))

    async def _everybodys(self, of: _Of, points: tuple[Point, ...]) -> Work:
        service = self._service
        now, store = service.clock.now(), service.core.store
        status = await service.status()
        if (began := self._monotonic()) >= of.erasures_due:
            of.erasures = await erasures_of(store)
            of.erasures_due = began + max(_SLOW_SECONDS, 30 * (self._monotonic() - began))
        return Work(
            at=now,
            status=status,
            worker=await service.worker_status(),
            points=with_point(points, now, status),
            leases=tuple(await store.held_leases(now, limit=_MOST_LEASES)),
            erasures=of.erasures,
        )


async def erasures_of(store: DocumentStore) -> Erasures:
    """The forget calls that receipts tell of, read page by page."""
    count, days = 0, Counter[date]()
    latest: list[ErasureReceipt] = []
    while page := await store.receipts(after=latest[-1].id if latest else "", limit=_PAGE):
        count += len(page)
        days.update(receipt.at.date() for receipt in page)
        latest = [*latest, *page][-_LATEST:]
    return Erasures(count=count, days=days, latest=tuple(reversed(latest)))


def with_point(points: tuple[Point, ...], now: datetime, status: MemoryStatus) -> tuple[Point, ...]:
    """The points and one more; where they are many, every second one of the older half goes, so that they reach far back."""
    if len(points) >= _MOST_POINTS:
        points = points[: _MOST_POINTS // 2 : 2] + points[_MOST_POINTS // 2 :]
    cost = status.extraction
    tokens = cost.prompt_tokens + cost.completion_tokens
    point = Point(at=now, owed=status.owed_count, lag_seconds=status.lag_seconds, tokens=tokens)
    return (*points, point)
