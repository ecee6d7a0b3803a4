"""Events of a thread as they happen: over a WebSocket, or as server-sent events at the same address."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request, WebSocket
from fastapi.responses import Response
from starlette.websockets import WebSocketDisconnect

from memory_agent.agent.agent import MemoryAgent
from memory_agent.domain import MemoryEvent
from memory_agent.errors import AccessDenied, BackendError, EventsLost, MemoryAgentError, Unavailable
from memory_agent.server.auth import bearer_token
from memory_agent.server.dependencies import THREAD, Api, Caller, Memory, OpenApi, event_source
from memory_agent.server.edge.paths import segment_text
from memory_agent.server.events import ReaderDropped
from memory_agent.server.openapi import NO_EVENTS
from memory_agent.server.problems import error_response, send_denial
from memory_agent.wire.base import public_text
from memory_agent.wire.work import MemoryEvent as WireEvent

router = APIRouter(tags=["events"])

MAX_EVENT_ID_CHARS: Final = 1_024
HEARTBEAT_SECONDS = 15.0
"""Of silence, until a stream is told that it is still there; and how often its key is looked at anew."""
SEND_SECONDS = 20.0
"""How long a reader may take to accept one message."""
FAREWELL_SECONDS = 2.0
"""How long it may take to accept the last one, which says why the stream ends."""
PROTOCOL: Final = "memory-agent.events"

# Codes of a WebSocket's close (RFC 6455, section 7.4.2: 4000 to 4999 are an application's own).
TAKES_NOTHING: Final = 1003
NOT_ALLOWED: Final = 4401
DROPPED: Final = 4408
LOST: Final = 4410

After = Annotated[str | None, Query(description="The id of the last event seen; default: from now on.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class _End:
    """A WebSocket's close code and reason for a stream that ends before its reader leaves."""

    code: int
    reason: str

    @property
    def may_resume(self) -> bool:
        """True if the reader may resume with the last id."""
        return self.code == DROPPED


_TOO_SLOW: Final = _End(code=DROPPED, reason="too slow to take an event; come back with the last id you saw")
Told = AsyncGenerator[MemoryEvent | _End | None, None]


# --- server-sent events ------------------------------------------------------------------------------------------
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

    Ends with an event `dropped` (`reason`, and whether to `resume` with the last id) when the reader is sent away. A
    WebSocket at this address gets the same as JSON messages.
    """
    # A browser that comes back asks at the address it was given at first, and says how far it came in the header.
    told = _told(api, memory, last_event_id or after, bearer_token(request.scope["headers"]))
    return await event_source(_frames(told), send_seconds=SEND_SECONDS)


async def _frames(told: Told) -> AsyncGenerator[str, None]:
    async with contextlib.aclosing(told):
        await anext(told)
        yield ": events follow\n\n"
        async for event in told:
            if event is None:
                yield ": still here\n\n"
            elif isinstance(event, _End):
                data = json.dumps({"reason": event.reason, "resume": event.may_resume})
                yield f"event: dropped\ndata: {data}\n\n"
            else:
                data = WireEvent.of(event).model_dump_json()
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"


# --- WebSockets --------------------------------------------------------------------------------------------------
@router.websocket(f"{THREAD}/events")
async def websocket_events(socket: WebSocket, user_id: str, thread_id: str, after: str | None = None) -> None:
    """Stream the thread's events as JSON messages. Nothing is read from the client but its close."""
    api: Api = socket.app.state.api
    # Leaving and sending after it; OSError is raised during the handshake.
    with contextlib.suppress(WebSocketDisconnect, OSError, TimeoutError):
        try:
            user, thread = segment_text(user_id), segment_text(thread_id)
            memory = api.agent(socket.scope["state"]["principal"], user, thread)
            told = _told(api, memory, after, bearer_token(socket.scope["headers"]))
            await anext(told)
        except MemoryAgentError as exc:
            await send_denial(error_response(exc), socket.scope, socket.receive, socket.send)
            return
        async with contextlib.aclosing(told):
            # Ours, or none: the other one that a browser offers holds its key.
            offered = socket.scope.get("subprotocols", [])
            await socket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
            await _send_events(socket, told)


async def _send_events(socket: WebSocket, told: Told) -> None:
    async def send() -> _End | None:
        async for event in told:
            if isinstance(event, _End):
                return event
            if event is not None:  # uvicorn sends pings itself
                try:
                    async with asyncio.timeout(SEND_SECONDS):
                        await socket.send_text(WireEvent.of(event).model_dump_json())
                except TimeoutError:
                    return _TOO_SLOW
        return None

    async def hear() -> _End | None:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        return _End(code=TAKES_NOTHING, reason="this socket takes no messages")

    tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(hear())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    sent, heard = tasks
    end = sent.result() if heard.cancelled() else heard.result()
    if end is not None:
        async with asyncio.timeout(FAREWELL_SECONDS):
            # RFC 6455, section 5.5: the reason has at most 123 bytes.
            await socket.close(end.code, end.reason.encode()[:120].decode("utf-8", "ignore"))


# --- both --------------------------------------------------------------------------------------------------------
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
    if isinstance(exc, AccessDenied):
        return _End(code=NOT_ALLOWED, reason=public_text(str(exc)))
    if isinstance(exc, EventsLost):
        return _End(code=LOST, reason=public_text(str(exc)))
    if isinstance(exc, BackendError):  # what drivers say names addresses of servers behind this one
        reason = "a part of the service is unavailable for now; come back with the last id you saw"
        return _End(code=DROPPED, reason=reason)
    return _End(code=DROPPED, reason=public_text(str(exc)))


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
