"""Routing by the path as it was sent, since an id may hold '/' and '%'.

Servers decode a path before they route by it, which makes "a%2Fb" two segments. Here each segment is decoded alone,
and a '/' or '%' within it stays percent-encoded until `segment_text` reads the parameter. So does a line break: the
router takes one at the end of a path for nothing, so that "/metrics%0A" would pass a proxy that blocks "/metrics".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from memory_agent.server.problems import problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

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
