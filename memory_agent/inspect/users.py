"""The pages *Users*: who is remembered, what of each; a user's memory as a file, and forgetting somebody."""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from memory_agent.errors import InvalidInput
from memory_agent.inspect.page import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.inspect.page import Page

_USERS: Final = 50
_THREADS: Final = 50
_IN_MEMORY: Final = 8_000_000
"""Bytes of an export; a larger one is in a file without a name until it is sent."""
_CHUNK: Final = 65_536


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
    """Everything about the user as JSON Lines, to keep or to import elsewhere. Raises NotFound."""
    if page.request.method == "HEAD":
        return Response(headers=HEADERS)
    file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - it is closed when it was sent
    try:
        await page.api.service.export_to(file, tenant=page.principal.tenant, scope=page.user_scope)
        length = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    name = quote(f"{page.path('user')[:100]}.jsonl", safe="")
    headers = {
        **HEADERS,
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Length": str(length),
    }
    return StreamingResponse(_read(file), headers=headers, media_type="application/jsonl")


def _read(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


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
