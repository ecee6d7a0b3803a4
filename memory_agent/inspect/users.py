"""The pages *Users*: who is remembered, what of each, and forgetting somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.responses import Response

    from memory_agent.inspect.page import Page

_USERS: Final = 50
_THREADS: Final = 50


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
    """A user's threads, and what forgetting the user would erase. Raises NotFound with the nearest names."""
    user, tenant = page.path("user"), page.principal.tenant
    scope = page.user_scope
    found = await page.api.service.threads(
        user, tenant=tenant, after=page.asked("after") or None, limit=_THREADS
    )
    status = await page.api.service.status(scope)
    return await page.show(
        "user.html", user=user, threads=found.threads, next=found.next, status=status, receipt=None
    )


async def forget(page: Page) -> Response:
    """Erase everything about a user whose id was typed. Raises InvalidInput for another one."""
    user = page.path("user")
    scope = page.user_scope
    if page.form.get("typed") != user:
        raise InvalidInput(
            "what you typed is not the user's id, so nothing was erased; type it as it is shown"
        )
    receipt = await page.api.service.forget_user(user, tenant=page.principal.tenant)
    status = await page.api.service.status(scope)
    return await page.show("user.html", user=user, threads=(), next=None, status=status, receipt=receipt)
