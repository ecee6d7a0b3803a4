"""Limits on a request's body: its size and the time it takes, whatever the application does with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from memory_agent.server.answers import problem_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimits:
    """ASGI middleware: 413 for a body above `limit(scope)` bytes, 408 for one not complete `seconds` after it is asked for.

    A body whose Content-Length is above the limit is refused before any of it is read. Either answer closes the
    connection. `limit` is asked again for every piece, so that it may depend on what is known by then (such as the key).
    """

    def __init__(self, app: ASGIApp, *, limit: Callable[[Scope], int], seconds: float) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope)
        if _announced(scope) > limit:
            await _too_large(limit)(scope, receive, send)
            return
        body = _Body(scope, receive, send, self._limit, self._seconds)
        await self._app(scope, body.receive, body.send)


class _Body:
    """One request's body. Once it is refused here, the application is told that the client has gone."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, limit: Callable[[Scope], int], seconds: float
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._seconds = seconds
        self._deadline: float | None = None
        self._bytes = 0
        self._is_complete = False
        self._is_refused = False
        self._is_answering = False

    async def receive(self) -> Message:
        if self._is_refused:
            return {"type": "http.disconnect"}
        if self._is_complete:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            return await self._refuse(_too_slow(self._seconds))
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._bytes > (limit := self._limit(self._scope)):
                return await self._refuse(_too_large(limit))
        return message

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return
        self._is_answering = True
        await self._send(message)

    async def _refuse(self, response: Response) -> Message:
        # The application may turn any exception into an answer of its own, so the answer is given here and now.
        self._is_refused = True
        if not self._is_answering:
            await response(self._scope, self._receive, self._send)
        return {"type": "http.disconnect"}


def _announced(scope: Scope) -> int:
    """The body's Content-Length in bytes; 0 without one."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            # Digits beyond any possible body would take time to read as a number.
            return int(value[:20])
    return 0


def _too_large(limit: int) -> Response:
    return problem_response(
        413,
        "request-too-large",
        "Request too large",
        f"This service takes bodies of at most {limit:,} bytes. Send less at once.",
        headers={"Connection": "close"},
        extra={"max_bytes": limit},
    )


def _too_slow(seconds: float) -> Response:
    return problem_response(
        408,
        "request-timeout",
        "Request timeout",
        f"The body was not complete within {seconds:g} seconds.",
        headers={"Connection": "close"},
    )
