"""CORS and DNS-rebinding protection: accepted origins and Host headers."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from memory_agent.server.problems import problem_response

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Last-Event-ID",
    "X-Request-Id",
    # of the Model Context Protocol
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Protocol-Version",
    "Mcp-Session-Id",
)
"""What pages of other origins may send, where they may ask at all."""


def cors_options(origins: Collection[str]) -> dict[str, Any]:
    """Options of Starlette's CORSMiddleware, by which pages of these origins ("*": all) may ask, with a key."""
    return {
        "allow_origins": list(origins),
        "allow_methods": ["GET", "POST", "PUT", "DELETE"],
        "allow_headers": list(_HEADERS),
        "expose_headers": ["X-Request-Id", "Retry-After"],
    }


def host_of(header: str) -> str:
    """The name in a Host header, without the port; empty for what is none.

    >>> host_of("[::1]:8080"), host_of("localhost")
    ('::1', 'localhost')
    """
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """True if only this machine can connect to `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class LocalOnly:
    """ASGI middleware of a service without keys: 421 for what is not for this machine, 403 for pages from elsewhere.

    A browser on this machine reaches the service for whatever page it shows: by the page's own origin (POST without
    a body asks for no CORS), or by a name of the page's own that was made to point here, which makes the
    service a part of that page's origin. Our own pages (/docs) and those of `origins` may ask.
    """

    def __init__(self, app: ASGIApp, *, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if not is_loopback(host_of(host)):
            detail = "Without keys the service is for this machine; ask for 127.0.0.1 or localhost."
            return problem_response(421, "wrong-host", "Misdirected request", detail)
        origin = headers.get(b"origin")
        if origin is None or {origin, "*"} & self._origins or origin == f"http://{host}":
            return None
        detail = "Pages of that origin may not ask here; server_cors_origins names those that may."
        return problem_response(403, "wrong-origin", "Forbidden origin", detail)
