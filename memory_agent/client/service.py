"""ServiceClient: a memory service somewhere else, as an application holds it; hands out clients of its threads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Self

from memory_agent.checks import checked_id, is_number, is_whole
from memory_agent.client.address import Address
from memory_agent.client.connection import Call, Connection
from memory_agent.client.documented import documented_as
from memory_agent.client.people_calls import list_threads, list_users
from memory_agent.client.search_calls import search_turns
from memory_agent.client.thread_requests import answered, call_to
from memory_agent.client.work_calls import WorkCalls
from memory_agent.domain import DEFAULT_TENANT, Scope, checked_tenant
from memory_agent.errors import ConfigError, ServiceError, Unavailable
from memory_agent.service import MemoryService
from memory_agent.wire.sessions import Session
from memory_agent.wire.work import ForgetReceipt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from types import TracebackType

    import httpx

    from memory_agent import domain
    from memory_agent.client.memory import MemoryClient
    from memory_agent.domain import GivenRole, Recollection, ThreadsPage, UsersPage

TIMEOUT_SECONDS: Final = 30.0
_READY_SECONDS: Final = 15.0
"""The service itself waits up to 10 for its parts."""


@documented_as(MemoryService)
class ServiceClient(WorkCalls):
    """A service over HTTP, shared by all threads of an application: `async with ServiceClient(url, api_key=…) as service:`.

    Lives on one event loop. Its key decides whose users it sees; `tenant`, here and there, is for a key for all tenants,
    and `default` the key's own.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = 2,
        http: httpx.AsyncClient | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        trust_env: bool = True,
    ) -> None:
        """No I/O. Raises ConfigError if there is no address, or one that cannot be used.

        `base_url` and `api_key`: those of the settings `service_url` and `service_api_key` if None. `timeout`: seconds
        that each attempt of an ordinary call may take. `max_retries`: further attempts after a lost connection, a
        timeout, or an answer 429, 502 (a proxy's), 503 or 504; 0 for none. They wait as the service asks to, up to 30
        seconds. `http`: a client that the application holds and closes, with its proxies and certificates; else
        `transport` is httpx's. `trust_env`: proxies and certificates that the environment names are used.
        """
        if not is_number(timeout) or not 0 < timeout < math.inf:
            raise ConfigError(f"timeout is {timeout!r:.80}; pass seconds above 0")
        if not is_whole(max_retries, 0):
            raise ConfigError(f"max_retries is {max_retries!r:.80}; pass a whole number from 0 on")
        self.timeout = timeout
        self.max_retries = max_retries
        self.connection = Connection(
            Address.of(base_url, api_key),
            max_retries=max_retries,
            http=http,
            transport=transport,
            trust_env=trust_env,
        )

    def __repr__(self) -> str:
        return f"ServiceClient({self.connection.url!r})"

    async def __aenter__(self) -> Self:
        await self.connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connection.close()

    def agent(self, user_id: str, thread_id: str, *, tenant: str = DEFAULT_TENANT) -> MemoryClient:
        from memory_agent.client.memory import MemoryClient

        return MemoryClient(user_id, thread_id, service=self, tenant=tenant)

    async def search(
        self,
        user_id: str,
        query: str,
        top_k: int | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        since: datetime | None = None,
        until: datetime | None = None,
        role: GivenRole | None = None,
        tag: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> list[Recollection]:
        return await search_turns(
            self,
            user=Scope.of(user_id, tenant=tenant),
            thread_id=None,
            query=query,
            top_k=top_k,
            since=since,
            until=until,
            role=role,
            tag=tag,
            metadata=metadata,
            now=now,
        )

    async def users(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        user_id: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> UsersPage:
        """Those of the key's tenant; a key for one user sees that one alone."""
        return await list_users(self, tenant=tenant, user_id=user_id, after=after, limit=limit)

    async def threads(
        self, user_id: str, *, tenant: str = DEFAULT_TENANT, after: str | None = None, limit: int = 100
    ) -> ThreadsPage:
        return await list_threads(self, user_id, tenant=tenant, after=after, limit=limit)

    async def find_session(
        self, session_id: str, *, tenant: str = DEFAULT_TENANT, user_id: str | None = None
    ) -> domain.Session:
        wanted = checked_id("session_id", session_id)
        params = {"user_id": None if user_id is None else checked_id("user_id", user_id)}
        call = call_to(self, "GET", "sessions", wanted, params=params, tenant=checked_tenant(tenant))
        return await answered(self, call, Session)

    async def forget_user(self, user_id: str, *, tenant: str = DEFAULT_TENANT) -> domain.ForgetReceipt:
        """If the request had to be sent again, the receipt may count less than was erased."""
        user = checked_id("user_id", user_id)
        call = call_to(self, "DELETE", "users", user, long=True, tenant=checked_tenant(tenant))
        return await answered(self, call, ForgetReceipt)

    async def ready(self) -> bool:
        """True if the service can be reached and its document store answers; asked once, without the key.

        Raises ServiceError if what answers is no memory service.
        """
        call = Call(
            method="GET",
            path="/readyz",
            repeatable=False,
            seconds=_READY_SECONDS,
            until=0.0,
            open_to_all=True,
        )
        try:
            reply = await self.connection.send(call)
        except Unavailable:
            return False
        if reply.media_type != "application/json":
            raise ServiceError(
                f"{reply.asked}/readyz was answered with {reply.media_type!r}; is service_url (base_url) the address "
                "of a memory service?"
            )
        return True
