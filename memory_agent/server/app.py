"""The ASGI application: its open resources, and the order in which a request meets its parts."""

from __future__ import annotations

import contextlib
import ipaddress
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.routing import Match, Route

from memory_agent import __version__
from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.inspect.door import Logins
from memory_agent.inspect.health import Doctor
from memory_agent.inspect.routes import ROUTES
from memory_agent.inspect.work import Readings
from memory_agent.server import routes_events, routes_health, routes_memory, routes_work
from memory_agent.server.access import PAGES, Access, is_below
from memory_agent.server.auth import KEY_CACHE_SECONDS, Authenticator
from memory_agent.server.dependencies import THREAD, Api
from memory_agent.server.events import MOST_READERS, EventHub
from memory_agent.server.incoming import BodyLimits, LocalOnly, RawPaths, cors_options
from memory_agent.server.metrics import Metrics, Readiness, Requests
from memory_agent.server.openapi import describe
from memory_agent.server.problems import add_problem_handlers
from memory_agent.service import MemoryService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Scope as AsgiScope

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import ApiKey
    from memory_agent.server.run import OnStop


_ROUTERS: Final = (
    routes_memory.sessions,
    routes_memory.search,
    routes_memory.turns,
    routes_memory.facts,
    routes_memory.topics,
    routes_memory.threads,
    routes_memory.people,
    routes_work.router,
    routes_events.router,
    routes_health.router,
    routes_health.pages,
)
_ASKED_MOST: Final = frozenset({f"{THREAD}/update", f"{THREAD}/fetch", "/api/memory/search", "/healthz"})
"""Tried first, for a path is compared with one route after the other."""

_CONCURRENT_REQUESTS: Final = 256
"""Of one key, so that one tenant cannot take everything."""
_FORM_BYTES: Final = 65_536
"""Of a form of the pages for people, which is read on the event loop before it is known who sent it."""


def create_app(
    cfg: MemoryConfig,
    *,
    on_stop: OnStop | None = None,
    service: MemoryService | None = None,
    insecure_no_auth: bool = False,
    own_key: ApiKey | None = None,
    only_own_key: bool = False,
) -> FastAPI:
    """The application with these settings, as any ASGI server runs it.

    `on_stop`: told here what is to end before our own server waits for requests. `service`: one that is open already, and is not closed here; else one is
    opened from `cfg` for as long as the application runs. `insecure_no_auth`: no keys are asked for, and every program that
    can connect to a loopback address may do everything; web pages from elsewhere may not (see `LocalOnly`). `own_key`: one that counts besides
    those that are stored, or (`only_own_key`) instead of them.
    """
    metrics, logins = Metrics(), Logins()

    @contextlib.asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            opened = service
            if opened is None:
                opened = await stack.enter_async_context(MemoryService.holding(cfg))
            keys = None if insecure_no_auth or only_own_key else await open_keys(cfg, None, stack)
            own = None if insecure_no_auth else own_key
            hub = EventHub(opened.core.store, most_readers=MOST_READERS)
            readings, doctor = Readings(opened), Doctor(opened.cfg)
            for close in (hub.close, readings.close, doctor.close):
                if on_stop is not None:
                    on_stop.append(close)  # streams end first: they would never end by themselves
                stack.push_async_callback(close)
            app.state.logins, app.state.readings, app.state.doctor = logins, readings, doctor
            app.state.api = Api(
                cfg=cfg,
                service=opened,
                authenticator=Authenticator(keys, SystemClock(), cache_seconds=KEY_CACHE_SECONDS, own=own),
                hub=hub,
                metrics=metrics,
                readiness=Readiness(opened),
                own_key=own_key,
            )
            await stack.enter_async_context(_mounted_mcp(app, cfg.server_cors_origins))
            yield

    app = _application(running)
    # What a holder serves beside its own work is for this machine; pages must not even read its counts.
    _add_middleware(app, cfg, metrics, logins, local_only=insecure_no_auth or only_own_key)
    return app


def _application(running: Any) -> FastAPI:
    """The application with its routes; `running` opens what they need and closes it."""
    app = FastAPI(
        title="memory_agent",
        version=__version__,
        summary="Memory for LLM agents that you host yourself.",
        lifespan=running,
        # FastAPI's own would put paths, in which users' ids are, into spans and logs; ours are in `tracing` and `metrics`.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        docs_url=None,  # its page loads Swagger UI from a foreign host; ours is in `routes_health`
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name the decoded path
    )
    # Not by `include_router`, under which every router looks through its routes twice, and each look costs ten comparisons.
    routes: list[Any] = [route for router in _ROUTERS for route in router.routes]
    in_order: list[Any] = sorted(routes, key=lambda route: route.path not in _ASKED_MOST)
    app.router.routes.extend(in_order)
    app.router.routes.extend(
        _Named(path, handler, methods=list(methods)) for path, handler, methods in ROUTES
    )
    describe(app, routes)
    add_problem_handlers(app)
    return app


def _add_middleware(
    app: FastAPI, cfg: MemoryConfig, metrics: Metrics, logins: Logins, *, local_only: bool
) -> None:
    """Wrap the application in its middleware. The one added last meets a request first."""

    def body_limit(scope: AsgiScope) -> int:
        principal = scope.get("state", {}).get("principal")
        own = None if principal is None else principal.max_body_bytes
        most = cfg.server_max_body_bytes if own is None else own
        return min(most, _FORM_BYTES) if is_below(scope, (PAGES,)) else most

    wrap: Any = app.add_middleware
    wrap(BodyLimits, limit=body_limit)
    wrap(
        Access,
        authenticator=lambda: app.state.api.authenticator,
        logins=logins,
        requests_per_minute=cfg.server_requests_per_minute,
        concurrent=_CONCURRENT_REQUESTS,
        streams=MOST_READERS,
        metrics_open=cfg.server_metrics_open,
        proxies=[ipaddress.ip_network(proxy) for proxy in cfg.server_trusted_proxies],
    )
    if local_only:
        wrap(LocalOnly, origins=cfg.server_cors_origins)
    if cfg.server_cors_origins:
        from starlette.middleware.cors import CORSMiddleware

        wrap(CORSMiddleware, **cors_options(cfg.server_cors_origins))
    wrap(RawPaths)
    wrap(Requests, metrics=metrics)
    wrap(routes_events.WebSocketEvents, asks_for_key=lambda: app.state.api.authenticator.asks)


class _Named(Route):
    """A route that logs and metrics know by its path, as they do FastAPI's."""

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        match, child = super().matches(scope)
        return match, {**child, "route": self} if child else child


@contextlib.asynccontextmanager
async def _mounted_mcp(app: FastAPI, origins: tuple[str, ...]) -> AsyncIterator[None]:
    """MCP at /mcp, where its SDK is installed; keys and limits are those of every other request."""
    try:
        from memory_agent.mcp.server import mcp_asgi
    except ImportError:
        yield
        return
    api: Api = app.state.api
    mounted, answering = mcp_asgi(
        api.agent, allowed_origins=origins, max_body_bytes=api.cfg.server_max_body_bytes
    )
    route = _Named("/mcp", endpoint=mounted)
    app.router.routes.append(route)
    try:
        async with answering:
            yield
    finally:
        app.router.routes.remove(route)  # whoever runs the application again gets one that answers
