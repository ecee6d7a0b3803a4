"""Limits on a request's body, whatever the application does with it. How long it may take is the proxy's to say.

To read a large body keeps the event loop, and so everybody, waiting for some hundredths of a second. So a key has one at
a time in memory, and one that would take far longer, for it is nothing but commas and brackets, is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from memory_agent.server.problems import problem_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
