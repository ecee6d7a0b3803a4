"""The page *Work*: what is owed, waits, keeps failing and was erased, live while somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.responses import Response

from memory_agent.domain import Scope, Tenant
from memory_agent.errors import InvalidInput, MemoryAgentError, RateLimited, StoreUnavailable
from memory_agent.inspect.page import HEADERS, environment, language_of, redirect
from memory_agent.inspect.plots import LINE, days_of, line_of
from memory_agent.lazily import Recent
from memory_agent.server.dependencies import event_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeAlias

    from memory_agent.domain import ErasureReceipt, Lease, MemoryStatus, WorkerStatus
    from memory_agent.ports import DocumentStore
    from memory_agent.service import MemoryService

    Reach: TypeAlias = "Scope | Tenant | None"
    """Whose work: a user's, a tenant's, or (None) everybody's."""
    from collections.abc import AsyncGenerator, Iterable

    from memory_agent.inspect.page import Page

# --- readings, each taken once for all who look at the same work ---------------------------------------------
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


# --- the page ------------------------------------------------------------------------------------------------
MOST_STREAMS: Final = 4
"""Of one login: a browser has six connections to a host, and pages have to load besides."""
_SEND_SECONDS: Final = 20.0
_QUIET_PAUSES: Final = 7
"""Without anything new, until a stream is told that it is still there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """The leases of one kind of work."""

    kind: str
    count: int
    holders: int
    since: datetime
    until: datetime


async def show(page: Page) -> Response:
    """The page as it stands now; its live part goes on by `events` where there is JavaScript."""
    reach = reach_of(page)
    shown = await _readings(page).shown(reach, *_how(page, reach))
    return await page.show("work.html", reach=reach, shown=shown, where=_where(page))


async def events(page: Page) -> Response:
    """The live part again and again, as server-sent events, until the login or its key ends. Raises RateLimited."""
    reach = reach_of(page)
    if page.request.method == "HEAD":
        return Response(headers=HEADERS)
    if page.login.streams >= MOST_STREAMS:
        raise RateLimited(
            f"{MOST_STREAMS} live pages of this login are open; close one, or reload this page to read it anew",
            retry_after=1.0,
        )
    answer = await event_source(_frames(page, reach), send_seconds=_SEND_SECONDS)
    answer.headers.update(HEADERS)
    return answer


async def retry(page: Page) -> Response:
    """Give parked turns a fresh start: of one thread, or of all that the page shows."""
    reach = reach_of(page)
    if "thread" in page.form:
        *whose, thread = map(unquote, page.form["thread"].split("/"))
        if len(whose) != 2:
            raise InvalidInput(f"thread is {page.form['thread']!r:.80}; open the page again")
        acting = page.principal.acting_for(whose[0])
        acting.check_user(whose[1])
        reach = Scope.of(whose[1], thread, tenant=acting.tenant)
    service = page.api.service
    await service.core.store.retry_parked(reach, now=service.clock.now())
    service.core.worker.wake()
    return redirect(page.request, _where(page))


def reach_of(page: Page) -> Reach:
    """Whose work the address asks for, as far as the key may see it. Raises AccessDenied."""
    principal = page.principal
    if "tenant" not in page.request.path_params:
        principal.check_all_tenants()
        return None
    if principal.user_id is not None:
        return principal.scope(principal.user_id)
    return Tenant(name=principal.tenant)


def _where(page: Page) -> str:
    return f"of/{page.principal.tenant}/work" if "tenant" in page.request.path_params else "work"


def _how(page: Page, reach: Reach) -> tuple[tuple[object, ...], Callable[[Work], str]]:
    """What the look of a reading depends on beside it, and the function that makes its HTML."""
    language, may_write = language_of(page.request), not page.principal.read_only
    base = "../" * _where(page).count("/") or "./"

    def html(work: Work) -> str:
        template = environment(language).get_template("work_live.html")
        return template.render(
            base=base, may_write=may_write, everybody=reach is None, work=work, **_figures(work)
        )

    return (language, may_write), html


async def _frames(page: Page, reach: Reach) -> AsyncGenerator[str, None]:
    readings, quiet, before = _readings(page), 0, ""
    page.login.streams += 1
    try:
        yield ": readings follow\n\n"
        while True:
            try:
                html = await readings.shown(reach, *_how(page, reach))
            except MemoryAgentError:
                html, before = "", ""
                yield "event: away\ndata: \n\n"
            quiet = 0 if html and html != before else quiet + 1
            if html and html != before:
                before = html
                yield "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"
            elif quiet % _QUIET_PAUSES == 0:
                yield ": still here\n\n"
            if not await readings.pause():
                return
            if not await page.is_let_in():
                yield "event: end\ndata: \n\n"
                return
    finally:
        page.login.streams -= 1


def _readings(page: Page) -> Readings:
    readings: Readings = page.request.app.state.readings
    return readings


# --- what is drawn -------------------------------------------------------------------------------------------
def _figures(work: Work) -> dict[str, Any]:
    points = work.points
    spent = [point.tokens - points[0].tokens for point in points]
    return {
        "plot_size": LINE,
        "plots": {
            "owed": line_of(points, [point.owed for point in points]),
            "lag": line_of(points, [point.lag_seconds for point in points]),
            "tokens": line_of(points, spent),
        },
        "held": held_by_kind(work.leases),
        "days": days_of(work.erasures.days, work.at),
    }


def held_by_kind(leases: Iterable[Lease]) -> list[Held]:
    """Leases together, by what stands before their names' colon: the stage, or another loop of the workers'."""
    kinds: dict[str, list[Lease]] = {}
    for lease in leases:
        kinds.setdefault(lease.name.partition(":")[0], []).append(lease)
    return [
        Held(
            kind=kind,
            count=len(of_kind),
            holders=len({lease.holder.partition("/")[0] for lease in of_kind}),
            since=min(lease.since for lease in of_kind),
            until=max(lease.until for lease in of_kind),
        )
        for kind, of_kind in kinds.items()
    ]
