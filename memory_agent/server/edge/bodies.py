"""Limits on a request's body: its size and the time it takes, whatever the application does with it.

Reading a large body keeps the event loop, and so everybody, waiting for some tenths of a second. So of the large ones of
a key only one is read and worked on at a time, all of them together may take so much memory and no more, and one that
would take far longer, for it is nothing but commas and brackets, is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

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
        self._app = app
        self._limit = limit
        self._seconds = seconds
        self._shares: dict[str, _Share] = {}
        """By key; only of those that have large bodies now."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope)
        announced = _announced(scope)
        if announced > limit:
            await _too_large(limit)(scope, receive, send)
            return
        body = _Body(scope, receive, send, self._limit, self._seconds, self._shares)
        try:
            if body.has_room(announced):
                await self._app(scope, body.receive, body.send)
            else:
                await _too_much_at_once()(scope, receive, send)
        finally:
            body.end()


class _Share:
    """One key's share of the memory for large bodies, and its place in the queue."""

    def __init__(self) -> None:
        self.bytes = 0
        self.turn = asyncio.Lock()


class _Body:
    """One request's body. Once it is refused here, the application is told that the client has gone."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limit: Callable[[Scope], int],
        seconds: float,
        shares: dict[str, _Share],
    ) -> None:
        self._shares = shares
        self._share: _Share | None = None
        self._shared_bytes = 0
        self._has_turn = False
        self._values = 0
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
            piece = message.get("body", b"")
            self._bytes += len(piece)
            self._values += sum(map(piece.count, (b",", b"[", b"{")))
            self._is_complete = not message.get("more_body", False)
            refusal = self._refusal()
            if refusal is not None:
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

    def has_room(self, size: int) -> bool:
        """Reserve so much of this body in the key's share; False if its other bodies leave no room."""
        if size <= LARGE_BYTES:
            return True
        if self._share is None:
            self._share = self._shares.setdefault(self._key, _Share())
        more = max(0, size - self._shared_bytes)
        self._share.bytes += more
        self._shared_bytes += more
        return self._share.bytes <= _AT_ONCE * self._limit(self._scope)

    def end(self) -> None:
        """The request is done with, one way or another."""
        self._give_turn()
        if self._share is not None:
            self._share.bytes -= self._shared_bytes
            if not self._share.bytes:
                self._shares.pop(self._key, None)

    @property
    def _key(self) -> str:
        key: str = getattr(self._scope.get("state", {}).get("principal"), "key_id", "")
        return key

    def _refusal(self) -> Response | None:
        """The reason to refuse the body, as far as it is known; None if there is none."""
        limit = self._limit(self._scope)
        if self._bytes > limit:
            return _too_large(limit)
        if self._bytes <= LARGE_BYTES:
            return None
        if self._values > MAX_VALUES:
            return _too_many_values()
        return None if self.has_room(self._bytes) else _too_much_at_once()

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


def _too_large(limit: int) -> Response:
    return problem_response(
        413,
        "request-too-large",
        "Request too large",
        f"This service takes bodies of at most {limit:,} bytes. Send less at once.",
        headers={"Connection": "close"},
        max_bytes=limit,
    )


def _too_many_values() -> Response:
    return problem_response(
        413,
        "request-too-large",
        "Request too large",
        f"A body of more than {LARGE_BYTES:,} bytes may have {MAX_VALUES:,} commas and opening brackets. Send less at once.",
        headers={"Connection": "close"},
    )


def _too_much_at_once() -> Response:
    return problem_response(
        429,
        "rate-limited",
        "Too many requests",
        "This key has too many large requests in progress; wait for their answers.",
        headers={"Connection": "close", "Retry-After": "1"},
        retry_after=1.0,
    )


def _too_slow(seconds: float) -> Response:
    return problem_response(
        408,
        "request-timeout",
        "Request timeout",
        f"The body was not complete within {seconds:g} seconds.",
        headers={"Connection": "close"},
    )
