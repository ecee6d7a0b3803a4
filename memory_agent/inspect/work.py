"""The page *Work*: what is owed, waits, keeps failing and was erased, live while somebody looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.responses import Response

from memory_agent.domain import Scope, Tenant
from memory_agent.errors import InvalidInput, MemoryAgentError, RateLimited
from memory_agent.inspect.page import HEADERS, environment, language_of, redirect
from memory_agent.inspect.plots import LINE, days_of, line_of
from memory_agent.server.dependencies import event_source

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable
    from datetime import datetime

    from memory_agent.domain import Lease
    from memory_agent.inspect.page import Page
    from memory_agent.inspect.readings import Reach, Readings, Work

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
