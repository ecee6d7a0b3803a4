"""The server over streamable HTTP: stateless, so that any process behind a balancer answers any request."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.requests import Request

from memory_agent.errors import AccessDenied, MemoryAgentError, NotOpen
from memory_agent.mcp.serving import build_server
from memory_agent.server.problems import error_response, problem_response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from contextlib import AbstractAsyncContextManager

    from mcp.server.lowlevel import Server
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from memory_agent.mcp.serving import AgentOf
    from memory_agent.server.auth import Principal

PrincipalOfRequest = Callable[[Request], Awaitable["Principal"]]
"""Who asks by this request. Raises AccessDenied (401 without a key that counts), RateLimited, or Unavailable."""

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_PRINCIPAL: Final = "memory_agent.principal"


@dataclass(kw_only=True, eq=False)
class McpApp:
    """An ASGI application that answers MCP at whatever path it is mounted, while `run()` lasts.

    Every request is checked: its Origin, then its key. Nothing is kept from one request to the next.
    """

    server: Server[Any]
    principal_of_request: PrincipalOfRequest
    allowed_origins: Collection[str]
    max_body_bytes: int
    _manager: StreamableHTTPSessionManager | None = None

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Answer requests while the block lasts: a part of the lifespan of whatever application mounts this."""
        manager = StreamableHTTPSessionManager(
            app=self.server,
            json_response=True,
            stateless=True,
            max_request_body_size=sys.maxsize,  # it depends on the key: see below
        )
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        answer: ASGIApp | None = self._refusal(request)
        try:
            if answer is None:
                principal = await self.principal_of_request(request)
                if self._manager is None:
                    raise NotOpen("the service is starting or stopping")
                limit = principal.max_body_bytes or self.max_body_bytes
                answer = RequestBodyLimitMiddleware(self._manager.handle_request, limit)
                scope = {**scope, _PRINCIPAL: principal}
        except MemoryAgentError as exc:
            answer = error_response(exc)
        await answer(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        # A web page must not use a browser that can reach us (https://modelcontextprotocol.io/specification, Streamable
        # HTTP, security). One whose name was made to point here has no key.
        origin = request.headers.get("origin")
        if origin is not None and not {origin, "*"} & set(self.allowed_origins):
            return problem_response(
                403, "wrong-origin", "Forbidden origin", f"pages of {origin!r:.80} may not ask here"
            )
        if request.method != "POST":
            # There is no stream to listen to, and no session to end.
            allowed = {"Allow": "POST"}
            return problem_response(
                405, "method-not-allowed", "Method not allowed", "send messages by POST", headers=allowed
            )
        return None


async def principal_of_state(request: Request) -> Principal:
    """The caller that our middleware left in the request's state."""
    principal: Principal | None = request.scope.get("state", {}).get("principal")
    if principal is None:
        raise AccessDenied("no API key was given", status=401)
    return principal


def mcp_asgi(
    agent_of: AgentOf,
    principal_of_request: PrincipalOfRequest = principal_of_state,
    *,
    default_thread: str = "main",
    allowed_origins: Collection[str] = (),
    max_body_bytes: int = MAX_BODY_BYTES,
) -> tuple[McpApp, AbstractAsyncContextManager[None]]:
    """The tools as an ASGI application to mount, and the block during which it answers, for the lifespan.

    It answers at whatever path it is asked; `Route("/mcp", endpoint=app)` answers there, where a `Mount` would
    redirect to "/mcp/" first. `principal_of_request` says who asks (default: what is in `request.state.principal`).
    `allowed_origins`: web pages that may ask ("*": all); others are refused. Requests from elsewhere than a browser have no origin.
    """
    server = build_server(agent_of=agent_of, principal_of=_principal_of, default_thread=default_thread)
    app = McpApp(
        server=server,
        principal_of_request=principal_of_request,
        allowed_origins=allowed_origins,
        max_body_bytes=max_body_bytes,
    )
    return app, app.run()


def _principal_of(request: Request | None) -> Principal:
    if request is None:
        raise AccessDenied("no request says who asks", status=401)
    principal: Principal = request.scope[_PRINCIPAL]
    return principal
