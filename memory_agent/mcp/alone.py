"""MCP over HTTP as a service of its own: the door of the REST service, with nothing behind it but the tools."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.mcp.server import mcp_asgi
from memory_agent.server.access import Access
from memory_agent.server.access_log import Requests
from memory_agent.server.auth import Authenticator
from memory_agent.server.edge.bodies import BodyLimits
from memory_agent.server.origins import cors_options
from memory_agent.server.sharing import sharing
from memory_agent.service import MemoryService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.types import Scope

    from memory_agent.config import MemoryConfig
    from memory_agent.mcp.tools import Memory
    from memory_agent.server.auth import Principal

PATH = "/mcp"


class _Opened:
    """What is open while the application runs."""

    service: MemoryService
    authenticator: Authenticator

    def agent(self, principal: Principal, user_id: str, thread_id: str) -> Memory:
        return self.service.agent(user_id, thread_id, tenant=principal.tenant)


def create_mcp_app(
    cfg: MemoryConfig,
    *,
    default_user: str | None = None,
    default_thread: str = "main",
    allowed_hosts: Collection[str] | None = None,
    allowed_origins: Collection[str] = (),
) -> Starlette:
    """An application that opens a service from `cfg` and serves its memory at /mcp to whoever brings a key.

    Keys, their rates and the limits on bodies are as in the REST service; for the other options see `mcp_asgi`.
    """
    opened = _Opened()
    mounted, answering = mcp_asgi(
        opened.agent,
        default_user=default_user,
        default_thread=default_thread,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        max_body_bytes=cfg.server_max_body_bytes,
    )

    @contextlib.asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            opened.service = await stack.enter_async_context(MemoryService(cfg))
            keys = await open_keys(cfg, None, stack)
            opened.authenticator = Authenticator(
                keys, SystemClock(), cache_seconds=cfg.server_key_cache_seconds
            )
            await stack.enter_async_context(answering)
            if cfg.embedded:
                # What this serves is /mcp alone; commands on this machine need the rest.
                await stack.enter_async_context(sharing(opened.service))
            yield

    def body_limit(scope: Scope) -> int:
        own = scope["state"]["principal"].max_body_bytes if "principal" in scope.get("state", {}) else None
        return cfg.server_max_body_bytes if own is None else int(own)

    return Starlette(
        routes=[Route(PATH, endpoint=mounted)],
        lifespan=running,
        middleware=[
            Middleware(Requests),
            *([Middleware(CORSMiddleware, **cors_options(allowed_origins))] if allowed_origins else ()),
            Middleware(
                Access,
                authenticator=lambda: opened.authenticator,
                requests_per_minute=cfg.server_requests_per_minute,
                concurrent=cfg.server_concurrent_requests,
                streams=cfg.server_event_streams,
            ),
            Middleware(BodyLimits, limit=body_limit, seconds=cfg.server_body_seconds),
        ],
    )
