"""Users and threads as a service lists them: of ServiceClient for all, of MemoryClient for its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.agent.agent import MemoryAgent
from memory_agent.checks import checked_id
from memory_agent.client.documented import documented_as
from memory_agent.client.replies import value_of
from memory_agent.client.thread_requests import Asking, call_to
from memory_agent.conversations.people import checked_limit
from memory_agent.domain import ThreadsPage, checked_tenant
from memory_agent.errors import NotFound
from memory_agent.wire import people as wire
from memory_agent.wire.pages import Page

if TYPE_CHECKING:
    from memory_agent.client.service import ServiceClient
    from memory_agent.domain import ThreadSummary, UsersPage


@documented_as(MemoryAgent)
class PeopleCalls(Asking):
    """MemoryClient's calls about its user's threads."""

    async def threads(self, *, after: str | None = None, limit: int = 100) -> ThreadsPage:
        try:
            return await list_threads(
                self._service, self.scope.tenants_user_id, tenant=self.scope.tenant, after=after, limit=limit
            )
        except NotFound:
            return ThreadsPage(threads=(), next=None)

    async def thread_summary(self) -> ThreadSummary:
        return await self._get(wire.ThreadSummary)


async def list_users(
    service: ServiceClient, *, tenant: str, user_id: str | None, after: str | None, limit: int
) -> UsersPage:
    """A page of the users whom the key may see. Raises InvalidInput before anything is sent."""
    asked = None if user_id is None else checked_id("user_id", user_id)
    params = {"user_id": asked, "limit": checked_limit(limit), "cursor": _cursor(after)}
    call = call_to(service, "GET", "users", params=params, tenant=checked_tenant(tenant))
    return wire.page_to_users(value_of(await service.connection.send(call), Page[wire.UserSummary]))


async def list_threads(
    service: ServiceClient, user_id: str, *, tenant: str, after: str | None, limit: int
) -> ThreadsPage:
    """A page of the user's threads. Raises NotFound if nothing is remembered of the user."""
    user = checked_id("user_id", user_id)
    params = {"limit": checked_limit(limit), "cursor": _cursor(after)}
    call = call_to(service, "GET", "users", user, "threads", params=params, tenant=checked_tenant(tenant))
    return wire.page_to_threads(value_of(await service.connection.send(call), Page[wire.ThreadSummary]))


def _cursor(after: str | None) -> str | None:
    return wire.people_cursor(None if after is None else checked_id("after", after))
