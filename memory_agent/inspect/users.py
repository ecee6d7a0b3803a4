"""The pages *Users*: who is remembered, what of each; a user's memory as a file, and forgetting somebody."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from memory_agent.errors import AccessDenied, InvalidInput, MemoryAgentError, RateLimited
from memory_agent.exports.run import export_in_pieces
from memory_agent.inspect.page import HEADERS
from memory_agent.server.dependencies import CutOff, streamed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from memory_agent.inspect.page import Page

log = logging.getLogger(__name__)

_USERS: Final = 50
_THREADS: Final = 50
MOST_EXPORTS: Final = 2
"""Of a login at once."""
_SEND_SECONDS: Final = 60.0
"""That a browser may take for a piece of an export."""


async def everybody(page: Page) -> Response:
    """The tenant's users, page by page; `find` goes to one by name."""
    if wanted := page.asked("find"):
        return page.go("of", page.principal.tenant, "users", wanted)
    principal = page.principal
    found = await page.api.service.users(
        tenant=principal.tenant, user_id=principal.user_id, after=page.asked("after") or None, limit=_USERS
    )
    return await page.show("users.html", users=found.users, next=found.next)


async def somebody(page: Page) -> Response:
    """A user's threads, and (`forget`) what forgetting the user would erase. Raises NotFound with the nearest names."""
    user, tenant = page.path("user"), page.principal.tenant
    scope = page.user_scope
    found = await page.api.service.threads(
        user, tenant=tenant, after=page.asked("after") or None, limit=_THREADS
    )
    status = await page.api.service.status(scope)
    return await page.show(
        "user.html",
        user=user,
        threads=found.threads,
        next=found.next,
        status=status,
        would=await _would_erase(page) if page.asked("forget") else None,
        receipt=None,
    )


async def _would_erase(page: Page) -> dict[str, int]:
    """How much of each there is that forgetting the user would erase."""
    scope, store = page.user_scope, page.store
    threads = (await store.count_threads([scope.user_id]))[scope.user_id]
    heads = await store.fact_heads(scope)
    return {
        "threads": len(threads),
        "turns": sum(thread.turns for thread in threads),
        "fact_changes": sum(count for count, _ in heads.values()),
        "topics": len(await store.topic_heads(scope)),
        "search_rows": await store.count_rows(scope.user_id, limit=10_000_000),
    }


async def export(page: Page) -> Response:
    """Everything about the user as JSON Lines, to keep or to import elsewhere. Raises NotFound, and RateLimited for too many at once."""
    if page.request.method == "HEAD":
        return Response(headers=HEADERS)
    if page.login.exports >= MOST_EXPORTS:
        raise RateLimited(
            f"{MOST_EXPORTS} exports of this login are under way; wait until one has ended", retry_after=5.0
        )
    pieces = _noted(page, export_in_pieces(page.store, page.user_scope, now=page.api.service.clock.now()))
    answer = await streamed(pieces, "application/jsonl", send_seconds=_SEND_SECONDS)
    name = quote(f"{page.path('user')[:100]}.jsonl", safe="")
    answer.headers.update({**HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"})
    return answer


async def _noted(page: Page, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The pieces, during which the login has one export more under way. What ends them early cuts the answer off."""
    page.login.exports += 1
    began = False
    try:
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if began and not await page.is_let_in():
                    raise AccessDenied("the login or its key has ended")
                yield piece
                began = True
    except MemoryAgentError as exc:
        if not began:  # the page says it
            raise
        log.warning("an export ended early: %s", type(exc).__name__)
        raise CutOff from None
    finally:
        page.login.exports -= 1


async def forget(page: Page) -> Response:
    """Erase everything about a user whose id was typed. Raises InvalidInput for another one."""
    user = page.path("user")
    scope = page.user_scope
    if page.form.get("typed") != user:
        raise InvalidInput(
            "what you typed is not the user's id, so nothing was erased; type it as it is shown"
        )
    receipt = await page.api.service.forget_user(user, tenant=page.principal.tenant)
    given: dict[str, Any] = {"status": await page.api.service.status(scope), "receipt": receipt}
    return await page.show("user.html", user=user, threads=(), next=None, would=None, **given)
