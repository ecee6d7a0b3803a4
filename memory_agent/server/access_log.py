"""ASGI middleware: request id, access log, latency metrics, a span.

Neither holds anything of what was asked: no path (users' ids are in it), no query, no headers, no body.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import new_id
from memory_agent.server.logs import origin, request_id
from memory_agent.server.problems import problem_response
from memory_agent.server.tracing import method_of, route_of, server_span

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from memory_agent.server.metrics import Metrics

log = logging.getLogger("memory_agent.server.access")

REQUEST_ID: Final = "X-Request-Id"
_REQUEST_ID: Final = REQUEST_ID.lower().encode("ascii")
_EVENTS: Final = b"text/event-stream"
_SANE_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class Requests:
    """ASGI middleware around all others: ids, the access log, metrics and spans. Answers 500 for what nobody caught.

    An id is taken from X-Request-Id if it is a token of at most 128 characters; it is returned in that header, and is
    in `scope["state"]["request_id"]` and in `logs.request_id` meanwhile. Key and tenant are read from
    `scope["state"]["principal"]` (`.key_id`, `.tenant`) when the answer is done.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id_ = _given_id(scope) or new_id()
        scope.setdefault("state", {})["request_id"] = id_
        token = request_id.set(id_)
        request = _Request(scope, receive, send, id_)
        self._metrics.in_flight += 1
        try:
            await self._run(request)
        finally:
            self._metrics.in_flight -= 1
            seconds = request.answer_seconds()
            self._metrics.observe(method_of(scope), route_of(scope), request.status, seconds)
            if log.isEnabledFor(logging.INFO):
                # Not `log.info`, which looks through the stack for the line that called it.
                told = {"fields": request.fields()}
                log.handle(log.makeRecord(log.name, logging.INFO, "", 0, "request", (), None, extra=told))
            request_id.reset(token)

    async def _run(self, request: _Request) -> None:
        try:
            with server_span(request.scope, lambda: request.status):
                await self._app(request.scope, request.receive, request.send)
        except Exception as exc:
            request.error = type(exc).__name__
            if request.is_gone:
                return  # nobody is left to answer
            log.error("request failed: %s", origin(exc))
            if request.status is None:
                await problem_response(
                    500, "internal-error", "Internal error", "The service failed; its log says where."
                )(request.scope, request.receive, request.send)
            elif not request.is_complete:
                raise  # half an answer: the server closes the connection, which tells the client


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _REQUEST_ID and _SANE_ID.fullmatch(value):
            return str(value, "ascii")
    return None


class _Request:
    """The observations of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, id_: str) -> None:
        self.scope = scope
        self.status: int | None = None
        self.error: str | None = None
        self.is_gone = False
        self.is_complete = False
        self._receive = receive
        self._send = send
        self._id = id_
        self._began = time.perf_counter()
        self._stream_began: float | None = None
        self._bytes_in = 0
        self._bytes_out = 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_gone = self.is_gone or not self.is_complete
        else:
            self._bytes_in += _size(message)
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            self.status = message["status"]
            headers = [pair for pair in message.get("headers", ()) if pair[0] != _REQUEST_ID]
            if any(name == b"content-type" and value.startswith(_EVENTS) for name, value in headers):
                self._stream_began = time.perf_counter()
            message = {**message, "headers": [*headers, (_REQUEST_ID, self._id.encode("ascii"))]}
        self._bytes_out += _size(message)
        await self._send(message)
        if kind == "http.response.body" and not message.get("more_body"):
            self.is_complete = True

    def answer_seconds(self) -> float:
        """The answer's latency in seconds; for a stream of events, until it began."""
        return (self._stream_began or time.perf_counter()) - self._began

    def fields(self) -> dict[str, Any]:
        """The access log's line."""
        principal = self.scope.get("state", {}).get("principal")
        fields = {
            "method": method_of(self.scope),
            "route": route_of(self.scope),
            "status": self.status,
            "milliseconds": round((time.perf_counter() - self._began) * 1000, 1),
            "key_id": getattr(principal, "key_id", None),
            "tenant": getattr(principal, "tenant", None),
            "bytes_in": self._bytes_in,
            "bytes_out": self._bytes_out,
        }
        if self.is_gone:
            fields["disconnected"] = True
        if self.error is not None:
            fields["error"] = self.error
        return fields


def _size(message: Message) -> int:
    """Bytes of a message's content."""
    return len(message.get("body") or b"")
