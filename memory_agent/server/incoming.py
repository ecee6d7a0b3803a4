"""What is looked at in a request before its handler: where it comes from, its origin and Host, its path, its body."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes, urlsplit
from weakref import WeakValueDictionary

from memory_agent.server.problems import problem_response

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network
    from collections.abc import Callable

    from starlette.types import Message

# --- origins and Host headers --------------------------------------------------------------------------------
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


# --- whose address counts, behind proxies that are trusted and without any -----------------------------------
_SITE_BITS: Final = 64
"""Of an IPv6 address: what a provider gives to one customer, who may send from any address in it."""


def source_of(scope: Scope, trusted: Sequence[Network]) -> str:
    """Whoever sent the request, as far as can be known: the address that connected, or the one a trusted proxy names.

    Of several in `X-Forwarded-For` the last that is no trusted proxy: those before it are the sender's own word. An IPv6
    address stands for its /64. Empty without an address, as on a Unix socket.
    """
    client = scope.get("client")
    if not trusted:
        return _told(client[0]) if client else ""
    source = _address(client[0]) if client else None
    forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
    named = [_address(part) for part in forwarded.decode("latin-1").split(",")] if forwarded else []
    while source is not None and named and any(source in network for network in trusted):
        source = named.pop() or source
    return _named(source)


@functools.lru_cache(maxsize=1_024)
def _told(peer: str) -> str:
    """The source of a connection, whose requests are many."""
    return _named(_address(peer))


def _named(source: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> str:
    if isinstance(source, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((source, _SITE_BITS), strict=False))
    return "" if source is None else str(source)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.strip().strip("[]"))
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


# --- paths ---------------------------------------------------------------------------------------------------
_MALFORMED: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_KEPT: Final = {"%2F": "/", "%25": "%", "%0A": "\n"}
_ENCODED: Final = re.compile("|".join(_KEPT))


class BadPath(ValueError):
    """The path is no UTF-8, or holds a '%' without two hexadecimal digits."""


def segment_text(param: str) -> str:
    """The text of a path parameter as the router gives it.

    >>> segment_text("a%2Fb%252F")
    'a/b%2F'
    """
    return _ENCODED.sub(lambda kept: _KEPT[kept.group()], param) if "%" in param else param


def routed_path(raw_path: bytes) -> str:
    """The path to route by: segments decoded from UTF-8, '/', '%' and line breaks within them encoded. Raises BadPath.

    >>> routed_path(b"/threads/a%2fb/%C3%A9")
    '/threads/a%2Fb/é'
    """
    if raw_path.isascii() and b"%" not in raw_path and b"\n" not in raw_path:
        return raw_path.decode("ascii")
    return "/".join(map(_routed_segment, raw_path.split(b"/")))


def _routed_segment(segment: bytes) -> str:
    if _MALFORMED.search(segment):
        raise BadPath("a '%' without two hexadecimal digits")
    try:
        return _kept(unquote_to_bytes(segment).decode("utf-8")).replace("/", "%2F")
    except UnicodeDecodeError:
        raise BadPath("not UTF-8") from None


def _kept(text: str) -> str:
    return text.replace("%", "%25").replace("\n", "%0A")


class RawPaths:
    """ASGI middleware that sets `scope["path"]` to `routed_path`; 400 for a path that is none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw_path = scope.get("raw_path")
        try:
            # A server that keeps no raw path has decoded it: what was encoded cannot be known any more.
            path = _kept(scope["path"]) if raw_path is None else routed_path(raw_path)
        except BadPath as exc:
            detail = f"The path is malformed: {exc}. Percent-encode each segment as UTF-8."
            await problem_response(400, "bad-path", "Bad path", detail)(scope, receive, send)
            return
        # In place: the middlewares around this one read from the same scope which route was found.
        scope["path"] = path
        await self._app(scope, receive, send)


# --- bodies --------------------------------------------------------------------------------------------------
LARGE_BYTES: Final = 262_144
"""From which size on a body is large."""
MAX_VALUES: Final = 500_000
"""Commas and opening brackets in a large body, in texts too: 10,000 turns with all their fields have 230,000."""
_LINGER_SECONDS: Final = 2.0
_SIP_SECONDS: Final = 0.05
"""From one read of what is let pass to the next: many who go on sending must not keep the event loop busy."""


class BodyLimits:
    """ASGI middleware: 413 for a body above `limit(scope)` bytes or MAX_VALUES; a key's large ones wait for each other.

    A body whose Content-Length is above the limit is refused before any of it is read.
    """

    def __init__(self, app: ASGIApp, *, limit: Callable[[Scope], int]) -> None:
        self._app = app
        self._limit = limit
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By key; only of those that have large bodies now."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope)
        if (refusal := _refusal(_announced(scope), 0, limit)) is not None:
            await _refuse(refusal, scope, receive, send)
            return
        async with contextlib.AsyncExitStack() as stack:
            await self._read(scope, receive, send, limit, stack)

    async def _read(
        self, scope: Scope, receive: Receive, send: Send, limit: int, stack: contextlib.AsyncExitStack
    ) -> None:
        size = values = 0
        is_refused = is_answering = has_turn = False

        async def limited() -> Message:
            nonlocal size, values, is_refused, has_turn
            message: Message = {"type": "http.disconnect"} if is_refused else await receive()
            if message["type"] != "http.request":
                return message
            piece = message.get("body", b"")
            size += len(piece)
            values += sum(map(piece.count, (b",", b"[", b"{")))
            if (refusal := _refusal(size, values, limit)) is not None:
                # The application may turn any exception into an answer of its own, so the answer is given here and now.
                is_refused = True
                if not is_answering:
                    await _refuse(refusal, scope, receive, send)
                return {"type": "http.disconnect"}
            if size > LARGE_BYTES and not has_turn:
                # The rest stays with whoever sends it until then.
                key = getattr(scope.get("state", {}).get("principal"), "key_id", "")
                await stack.enter_async_context(self._turns.setdefault(key, asyncio.Lock()))
                has_turn = True
            return message

        async def answer(message: Message) -> None:
            nonlocal is_answering
            if not is_refused:
                is_answering = True
                await send(message)

        await self._app(scope, limited, answer)


def _refusal(size: int, values: int, limit: int) -> Response | None:
    """The reason to refuse a body of `size` bytes and `values` so far."""
    if size > limit:
        return _too_large(f"This service takes bodies of at most {limit:,} bytes.", max_bytes=limit)
    if size > LARGE_BYTES and values > MAX_VALUES:
        most = f"{MAX_VALUES:,} commas and opening brackets"
        return _too_large(f"A body of more than {LARGE_BYTES:,} bytes may have {most}.")
    return None


def _too_large(detail: str, **more: Any) -> Response:
    return problem_response(
        413,
        "request-too-large",
        "Request too large",
        f"{detail} Send less at once.",
        headers={"Connection": "close"},
        **more,
    )


async def _refuse(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, and let pass what still comes: to close meanwhile would take the answer with it."""

    async def unfinished(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    await refusal(scope, receive, unfinished)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    break
                await asyncio.sleep(_SIP_SECONDS)
    await send({"type": "http.response.body", "body": b""})


def _announced(scope: Scope) -> int:
    """The body's Content-Length in bytes; 0 without one."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            # Digits beyond any possible body would take time to read as a number.
            return int(value[:20])
    return 0
