"""The page *Work*: what is owed, waits, keeps failing and was erased, live while somebody looks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from memory_agent.domain import Scope, Tenant
from memory_agent.errors import InvalidInput, MemoryAgentError, RateLimited, Unavailable
from memory_agent.inspect.page import HEADERS, environment, language_of, redirect
from memory_agent.server.dependencies import event_source

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
    from datetime import datetime

    from starlette.responses import Response

    from memory_agent.domain import Lease
    from memory_agent.inspect.logins import Logins
    from memory_agent.inspect.page import Page
    from memory_agent.inspect.readings import Point, Reach, Readings, Work

MOST_STREAMS: Final = 4
"""Of one login: a browser has six connections to a host, and pages have to load besides."""
_SEND_SECONDS: Final = 20.0
_QUIET_PAUSES: Final = 7
"""Without anything new, until a stream is told that it is still there."""
_DAYS: Final = 30
_RECEIPTS: Final = 20
_PLOT: Final = (600, 80)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A line over time: `points` as SVG has them, in a box of `_PLOT`; `most`: the value at its top; `last`: the newest one."""

    points: str
    most: float
    last: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """The leases of one kind of work."""

    kind: str
    count: int
    holders: int
    since: datetime
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """A day's forget calls: where its bar begins and how high it is, in a box of `_PLOT`."""

    date: str
    count: int
    x: float
    height: float


async def show(page: Page) -> Response:
    """The page as it stands now; its live part goes on by `events` where there is JavaScript."""
    reach = reach_of(page)
    shown = await _readings(page).shown(reach, *_how(page, reach))
    return await page.show("work.html", reach=reach, shown=shown, where=_where(page))


async def events(page: Page) -> Response:
    """The live part again and again, as server-sent events, until the login or its key ends. Raises RateLimited."""
    reach = reach_of(page)
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
            if not await _is_let_in(page):
                yield "event: end\ndata: \n\n"
                return
    finally:
        page.login.streams -= 1


async def _is_let_in(page: Page) -> bool:
    """True while the login lasts, which a page that is open does not lengthen, and its key counts."""
    logins: Logins = page.request.app.state.logins
    if not logins.lasts(page.login):
        return False
    try:
        await page.api.authenticator.again(page.login.key_id)
    except Unavailable:  # of the store; what follows is told by its readings
        return True
    except MemoryAgentError:
        return False
    return True


def _readings(page: Page) -> Readings:
    readings: Readings = page.request.app.state.readings
    return readings


# --- what is drawn -------------------------------------------------------------------------------------------
def _figures(work: Work) -> dict[str, Any]:
    points = work.points
    spent = [point.tokens - points[0].tokens for point in points]
    return {
        "plot_size": _PLOT,
        "plots": {
            "owed": plot_of(points, [point.owed for point in points]),
            "lag": plot_of(points, [point.lag_seconds for point in points]),
            "tokens": plot_of(points, spent),
        },
        "held": held_by_kind(work.leases),
        "days": days_of((receipt.at for receipt in work.receipts), work.at),
        "receipts": sorted(work.receipts, key=lambda receipt: receipt.at, reverse=True)[:_RECEIPTS],
    }


def plot_of(points: Sequence[Point], values: Sequence[float]) -> Plot:
    """The line of the values at the points' times."""
    width, height = _PLOT
    began, whole = points[0].at, (points[-1].at - points[0].at).total_seconds() or 1.0
    most = max(*values, 0.0) if len(values) > 1 else max(values[0], 0.0)
    places = (
        f"{width * (point.at - began).total_seconds() / whole:.1f},{height - (height - 4) * value / (most or 1.0):.1f}"
        for point, value in zip(points, values, strict=True)
    )
    return Plot(points=" ".join(places), most=most, last=values[-1])


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


def days_of(times: Iterable[datetime], now: datetime) -> list[Day]:
    """The last days, the earliest first, with the number of forget calls of each."""
    counts = Counter(time.date() for time in times)
    dates = [(now - timedelta(days=back)).date() for back in reversed(range(_DAYS))]
    most = max((counts[date] for date in dates), default=0) or 1
    width, height = _PLOT
    return [
        Day(
            date=f"{date}",
            count=counts[date],
            x=width * at / _DAYS,
            height=(height - 4) * counts[date] / most,
        )
        for at, date in enumerate(dates)
    ]
