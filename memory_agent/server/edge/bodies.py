"""Limits on a request's body: its size and the time it takes, whatever the application does with it.

Reading a large body keeps the event loop, and so everybody, waiting for some tenths of a second. So of the large ones of
a key only one is read and worked on at a time, all of them together may take so much memory and no more, and one that
would take far longer, for it is nothing but commas and brackets, is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from memory_agent.server.problems import problem_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


LARGE_BYTES: Final = 262_144
"""From which size on a body is large."""
MAX_VALUES: Final = 500_000
"""Commas and opening brackets in a large body, in texts too: 10,000 turns with all their fields have 230,000."""
_AT_ONCE: Final = 4
"""As many bytes of large bodies a key may have in memory, in times the largest body."""


class BodyLimits:
    """ASGI middleware: 413 for a body above `limit(scope)` bytes, 408 for one not complete `seconds` after it is asked for.

    A body whose Content-Length is above the limit is refused before any of it is read. Either answer closes the
    connection. `limit` is asked again for every piece, so that it may depend on what is known by then (such as the key).
    """

    def __init__(self, app: ASGIApp, *, limit: Callable[[Scope], int], seconds: float) -> None:
        self.limit = limit
        self.seconds = seconds
        self.shares: dict[str, _Share] = {}
        """By key; only of those that have large bodies now."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(self, scope, receive, send)
        try:
            if (refusal := body.refusal(_announced(scope))) is None:
                await self._app(scope, body.receive, body.send)
            else:
                await refusal(scope, receive, send)
        finally:
            body.end()


class _Share:
    """One key's share of the memory for large bodies, and its place in the queue."""

    def __init__(self) -> None:
        self.bytes = 0
        self.turn = asyncio.Lock()


class _Body:
    """One request's body. Once it is refused here, the application is told that the client has gone."""

    def __init__(self, limits: BodyLimits, scope: Scope, receive: Receive, send: Send) -> None:
        self._limits = limits
        self._key: str = getattr(scope.get("state", {}).get("principal"), "key_id", "")
        self._share: _Share | None = None
        self._shared_bytes = 0
        self._has_turn = False
        self._values = 0
        self._scope = scope
        self._receive = receive
        self._send = send
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
        seconds = self._limits.seconds
        self._deadline = self._deadline or asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            detail = f"The body was not complete within {seconds:g} seconds."
            return await self._refuse(_closing(408, "request-timeout", "Request timeout", detail))
        if message["type"] == "http.request":
            piece = message.get("body", b"")
            self._bytes += len(piece)
            self._values += sum(map(piece.count, (b",", b"[", b"{")))
            self._is_complete = not message.get("more_body", False)
            if (refusal := self.refusal(self._bytes)) is not None:
                return await self._refuse(refusal)
            if self._is_complete and self._share is not None and not self._is_answering:
                await self._share.turn.acquire()
                self._has_turn = True
        return message

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return
        self._is_answering = True
        self._give_turn()  # what is left is to send, which may take the client long
        await self._send(message)

    def refusal(self, size: int) -> Response | None:
        """The reason to refuse a body of `size` bytes so far, whose share is reserved; None if there is none."""
        limit = self._limits.limit(self._scope)
        if size > limit:
            detail = f"This service takes bodies of at most {limit:,} bytes. Send less at once."
            return _closing(413, "request-too-large", "Request too large", detail, max_bytes=limit)
        if size <= LARGE_BYTES:
            return None
        if self._values > MAX_VALUES:
            most = f"{MAX_VALUES:,} commas and opening brackets"
            detail = f"A body of more than {LARGE_BYTES:,} bytes may have {most}. Send less at once."
            return _closing(413, "request-too-large", "Request too large", detail)
        if self._share is None:
            self._share = self._limits.shares.setdefault(self._key, _Share())
        more = max(0, size - self._shared_bytes)
        self._share.bytes += more
        self._shared_bytes += more
        if self._share.bytes <= _AT_ONCE * limit:
            return None
        detail = "This key has too many large requests in progress; wait for their answers."
        return _closing(429, "rate-limited", "Too many requests", detail, retry_after=1.0)

    def end(self) -> None:
        """The request is done with, one way or another."""
        self._give_turn()
        if self._share is not None:
            self._share.bytes -= self._shared_bytes
            if not self._share.bytes:
                self._limits.shares.pop(self._key, None)

    def _give_turn(self) -> None:
        if self._has_turn and self._share is not None:
            self._has_turn = False
            self._share.turn.release()

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


def _closing(status: int, slug: str, title: str, detail: str, **more: Any) -> Response:
    """A problem that closes the connection."""
    headers = {"Connection": "close"} | ({"Retry-After": "1"} if status == 429 else {})
    return problem_response(status, slug, title, detail, headers=headers, **more)
