"""Events of a thread as they happen: server-sent events, and the same over a WebSocket."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_agent.agent.agent import MemoryAgent
from memory_agent.domain import MemoryEvent
from memory_agent.errors import AccessDenied, BackendError, EventsLost, MemoryAgentError, Unavailable
from memory_agent.server.auth import bearer_token
from memory_agent.server.dependencies import THREAD, Api, Caller, Memory, OpenApi, event_source
from memory_agent.server.events import ReaderDropped
from memory_agent.server.openapi import NO_EVENTS, operation_id
from memory_agent.wire.answers import MemoryEvent as WireEvent
from memory_agent.wire.base import json_of, public_text

router = APIRouter(tags=["events"], generate_unique_id_function=operation_id)

MAX_EVENT_ID_CHARS: Final = 1_024
HEARTBEAT_SECONDS = 15.0
"""Of silence, until a stream is told that it is still there; and how often its key is looked at anew."""
SEND_SECONDS = 20.0
"""How long a reader may take to accept one message."""

_READY: Final = "events follow"

After = Annotated[str | None, Query(description="The id of the last event seen; default: from now on.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class _End:
    """The end of a stream before its reader leaves; `resume`: it may come back with the last id."""

    reason: str
    resume: bool


Told = AsyncGenerator[MemoryEvent | _End | None, None]


@router.get(
    f"{THREAD}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, 501: NO_EVENTS},
)
async def stream_events(
    request: Request,
    api: OpenApi,
    _: Caller,
    memory: Memory,
    after: After = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Stream the thread's events as server-sent events: `id`, `event` (its kind) and `data` (the event as JSON).

    Ends with an event `dropped` (`reason`, and whether to `resume` with the last id) when the reader is sent away.
    """
    # A browser that comes back asks at the address it was given at first, and says how far it came in the header.
    told = _told(api, memory, last_event_id or after, bearer_token(request.scope["headers"]))
    return await event_source(_frames(told), send_seconds=SEND_SECONDS)


async def _frames(told: Told) -> AsyncGenerator[str, None]:
    async with contextlib.aclosing(told):
        await anext(told)
        yield f": {_READY}\n\n"
        async for event in told:
            if event is None:
                yield ": still here\n\n"
            elif isinstance(event, _End):
                data = json.dumps({"reason": event.reason, "resume": event.resume})
                yield f"event: dropped\ndata: {data}\n\n"
            else:
                data = json_of(WireEvent, event).decode()
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"


async def _told(api: Api, memory: MemoryAgent, after: str | None, token: str | None) -> Told:
    """None once the reader has its place, the events, None after each while without one, and why there are no more.

    Raises MemoryAgentError before the first.
    """
    if after is not None and len(after) > MAX_EVENT_ID_CHARS:
        raise EventsLost(f"after has {len(after):,} characters and is no event's id; read the state anew")
    async with api.hub.reading(memory.scope, after=after) as events:
        yield None
        try:
            async with contextlib.aclosing(_with_heartbeats(api, token, events)) as beats:
                async for event in beats:
                    yield event
        except (ReaderDropped, MemoryAgentError) as exc:
            yield _end_by(exc)


def _end_by(exc: ReaderDropped | MemoryAgentError) -> _End:
    if isinstance(exc, BackendError):  # what drivers say names addresses of servers behind this one
        reason = "a part of the service is unavailable for now; come back with the last id you saw"
        return _End(reason=reason, resume=True)
    return _End(reason=public_text(str(exc)), resume=not isinstance(exc, (AccessDenied, EventsLost)))


async def _with_heartbeats(
    api: Api, token: str | None, events: AsyncIterator[MemoryEvent]
) -> AsyncGenerator[MemoryEvent | None, None]:
    """The events, and None after each while without one. Raises AccessDenied once the key holds no more."""
    checked = time.monotonic()
    waiting = asyncio.ensure_future(anext(events))
    try:
        while True:
            until_check = HEARTBEAT_SECONDS - (time.monotonic() - checked)
            patience = until_check if until_check > 0 else HEARTBEAT_SECONDS
            arrived, _ = await asyncio.wait({waiting}, timeout=patience)
            # After a wait in vain it is time, whatever the clock says: uvloop's timers end a little early.
            if not arrived or time.monotonic() - checked >= HEARTBEAT_SECONDS:
                try:
                    await api.authenticator.principal(token)
                except Unavailable:  # nothing is told to a key of which nobody can say whether it still holds
                    await asyncio.sleep(min(HEARTBEAT_SECONDS, 1.0))
                    yield None
                    continue
                checked = time.monotonic()
            if not waiting.done():
                yield None
                continue
            yield waiting.result()
            waiting = asyncio.ensure_future(anext(events))
    finally:
        waiting.cancel()
        await asyncio.wait({waiting})


# --- the same over a WebSocket -------------------------------------------------------------------------------
_WEBSOCKET: Final = re.compile(rb"/api/threads/[^/]+/[^/]+/events(/ws)$")
KEY_SECONDS = 10.0
"""How long a socket may take for its first message, the key."""
MOST_WITHOUT_KEY = 100
"""Sockets of a process that may wait for theirs."""
_CLOSE_SECONDS: Final = 2.0
_MAX_REASON_BYTES: Final = 123  # RFC 6455, section 5.5
_SPOKE: Final = 1003
_REFUSED: Final = 1008
_COME_BACK: Final = 1013
_STATUS: Final = 4000
"""Added to the status of a refusal; codes from there on are an application's own."""


class _Socket:
    """A WebSocket, to the application the request that it stands for."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._is_open = self._is_closed = self._has_asked = False
        self._status = 0
        self._refusal = b""

    async def hear_key(self) -> str | None:
        """The first message; None if none came."""
        await self._accept()
        try:
            async with asyncio.timeout(KEY_SECONDS):
                message = await self._receive()
        except TimeoutError:
            await self.refuse(
                401, f"no API key came within {KEY_SECONDS:g} seconds; send it as the first message"
            )
            return None
        self._is_closed = message["type"] == "websocket.disconnect"
        return None if self._is_closed else (message.get("text") or "").strip()

    async def ask(self, app: ASGIApp, key: str | None = None) -> None:
        """Run the request to its end."""
        await app(self._request(key), self._hear, self._tell)
        if not self._is_closed:
            await self.close(_COME_BACK, "too slow to take an event; come back with the last id you saw")

    def _request(self, key: str | None) -> Scope:
        kept = {
            name: value for name, value in self._scope.items() if name not in ("subprotocols", "extensions")
        }
        headers = [
            pair
            for pair in self._scope["headers"]
            if pair[0] not in (b"upgrade", b"connection", b"authorization")
        ]
        token = bearer_token(self._scope["headers"]) if key is None else key.removeprefix("Bearer ")
        if token is not None:
            headers.append((b"authorization", b"Bearer " + token.encode("utf-8", "replace")))
        raw_path = self._scope.get("raw_path")
        return {
            **kept,
            "type": "http",
            "method": "GET",
            "scheme": {"wss": "https"}.get(self._scope["scheme"], "http"),
            # From 2.4 on an application looks for a client that leaves only when it sends.
            "asgi": {**self._scope["asgi"], "spec_version": "2.3"},
            "path": self._scope["path"].removesuffix("/ws"),
            "raw_path": None if raw_path is None else raw_path.removesuffix(b"/ws"),
            "headers": headers,
        }

    async def _hear(self) -> Message:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        if not self._is_closed:
            message = await self._receive()
            if message["type"] == "websocket.receive":
                await self.close(_SPOKE, "this socket takes no message but a key, as the first one")
            self._is_closed = True
        return {"type": "http.disconnect"}

    async def _tell(self, message: Message) -> None:
        if self._is_closed:
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            if self._status == HTTPStatus.OK:
                await self._accept()
        elif self._status == HTTPStatus.OK:
            for frame in filter(None, message.get("body", b"").decode().split("\n\n")):
                await self._pass_on(dict(line.partition(": ")[::2] for line in frame.splitlines()))
        else:
            self._refusal += message.get("body", b"")
            if not message.get("more_body"):
                await self.refuse(self._status, json.loads(self._refusal)["detail"])

    async def _pass_on(self, frame: Mapping[str, str]) -> None:
        """Send one server-sent event as a message; heartbeats are the server's own pings."""
        if frame.get("event") == "dropped":
            end = json.loads(frame["data"])
            await self.close(_COME_BACK if end["resume"] else _REFUSED, end["reason"])
        elif "data" in frame:
            await self._send({"type": "websocket.send", "text": frame["data"]})
        elif frame.get("") == _READY:
            await self._send({"type": "websocket.send", "text": '{"kind": "ready"}'})

    async def _accept(self) -> None:
        if not self._is_open:
            self._is_open = True
            await self._send({"type": "websocket.accept"})

    async def refuse(self, status: int, reason: str) -> None:
        """Close with the status and reason of a refusal, which no browser shows of a handshake that fails."""
        await self._accept()
        await self.close(_STATUS + status, reason)

    async def close(self, code: int, reason: str) -> None:
        """Close, if it takes that in time."""
        self._is_closed = True
        told = reason.encode()[:_MAX_REASON_BYTES].decode("utf-8", "ignore")
        async with asyncio.timeout(_CLOSE_SECONDS):
            await self._send({"type": "websocket.close", "code": code, "reason": told})


class WebSocketEvents:
    """ASGI middleware around all others: a WebSocket at `…/events/ws` asks for the server-sent events.

    So both have one stream, with the same keys, limits, metrics and logs. The first message is `{"kind": "ready"}`, each further one
    an event as JSON.
    """

    def __init__(self, app: ASGIApp, *, asks_for_key: Callable[[], bool]) -> None:
        self._app = app
        self._asks_for_key = asks_for_key
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        socket = _Socket(scope, receive, send)
        await receive()  # that it connects
        if _WEBSOCKET.search(scope.get("raw_path") or scope["path"].encode()) is None:
            await socket.close(_REFUSED, "no WebSocket is served at this address")
            return
        with contextlib.suppress(OSError, TimeoutError):  # it left, or takes nothing
            if bearer_token(scope["headers"]) is None and self._asks_for_key():
                await self._let_in(socket)
            else:
                await socket.ask(self._app)

    async def _let_in(self, socket: _Socket) -> None:
        """Wait for the key of a browser, which can set no header."""
        if self._waiting >= MOST_WITHOUT_KEY:
            await socket.refuse(503, "too many sockets have not sent their key yet; come back in a moment")
            return
        self._waiting += 1
        try:
            key = await socket.hear_key()
        finally:
            self._waiting -= 1
        if key is not None:
            await socket.ask(self._app, key)
