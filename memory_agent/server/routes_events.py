"""Events of a thread as they happen: over a WebSocket, or as server-sent events at the same address."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, WebSocket
from fastapi.responses import Response, StreamingResponse
from starlette.websockets import WebSocketDisconnect

from memory_agent.domain import MemoryEvent
from memory_agent.errors import AccessDenied, EventsLost, MemoryAgentError
from memory_agent.server.answers import send_denial
from memory_agent.server.asking import THREAD, Caller, Memory, OpenApi
from memory_agent.server.auth import BEARER_PROTOCOL, bearer_token
from memory_agent.server.documents import NO_EVENTS
from memory_agent.server.events import ReaderDropped
from memory_agent.server.paths import segment_text
from memory_agent.server.refusals import error_response
from memory_agent.server.state import Api
from memory_agent.wire.base import public_text
from memory_agent.wire.work import MemoryEvent as WireEvent

router = APIRouter(tags=["events"])

MAX_EVENT_ID_CHARS: Final = 1_024
_HEARTBEAT_SECONDS: Final = 15.0
_SEND_SECONDS: Final = 20.0
"""How long a reader may take to accept one message."""
PROTOCOL: Final = "memory-agent.events"

# Codes of a WebSocket's close (RFC 6455, section 7.4.2: 4000 to 4999 are an application's own).
TAKES_NOTHING: Final = 1003
GOING_AWAY: Final = 1001
NOT_ALLOWED: Final = 4401
DROPPED: Final = 4408
LOST: Final = 4410

After = Annotated[
    str | None,
    Query(max_length=MAX_EVENT_ID_CHARS, description="The id of the last event seen; default: from now on."),
]


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
    last_event_id: Annotated[str | None, Header(max_length=MAX_EVENT_ID_CHARS)] = None,
) -> Response:
    """What happens to the thread, as server-sent events: `id`, `event` (its kind) and `data` (the event as JSON).

    Ends with an event `dropped` (`reason`, and whether to `resume` with the last id) when the reader is sent away. A
    WebSocket at this address gets the same as JSON messages.
    """
    stack = contextlib.AsyncExitStack()
    # Entered before the answer begins, so that what is wrong with the id is told by the status.
    events = await stack.enter_async_context(api.hub.reading(memory.scope, after=last_event_id or after))
    token = bearer_token(request.scope["headers"])
    return _Stream(_framed(api, events, token), stack)


class _Stream(StreamingResponse):
    """Server-sent events; whatever becomes of the connection, reading ends with it."""

    def __init__(self, frames: AsyncIterator[bytes], stack: contextlib.AsyncExitStack) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(frames, media_type="text/event-stream", headers=headers)
        self._frames = frames
        self._stack = stack

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def bounded(message: Any) -> None:
            async with asyncio.timeout(_SEND_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, bounded)
        except TimeoutError:
            pass  # too slow to take one event; the connection ends, and the reader resumes with its last id
        finally:
            with contextlib.suppress(Exception):
                await self._frames.aclose()  # type: ignore[attr-defined]
            await self._stack.aclose()


async def _framed(api: Api, events: AsyncIterator[MemoryEvent], token: str | None) -> AsyncIterator[bytes]:
    yield b": events follow\n\n"
    try:
        async for event in _with_heartbeats(api, events, token):
            if event is None:
                yield b": still here\n\n"
            else:
                data = WireEvent.of(event).model_dump_json()
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n".encode()
    except (ReaderDropped, MemoryAgentError) as exc:
        told = {"reason": public_text(str(exc)), "resume": not isinstance(exc, EventsLost | AccessDenied)}
        yield f"event: dropped\ndata: {json.dumps(told)}\n\n".encode()


async def _with_heartbeats(
    api: Api, events: AsyncIterator[MemoryEvent], token: str | None
) -> AsyncIterator[MemoryEvent | None]:
    """The events, and None after each while without one. Raises AccessDenied once the key holds no more."""
    checked = time.monotonic()
    waiting: asyncio.Future[MemoryEvent] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({waiting}, timeout=_HEARTBEAT_SECONDS)
            if time.monotonic() - checked >= _HEARTBEAT_SECONDS:
                await api.authenticator.principal(token)
                checked = time.monotonic()
            if not done:
                yield None
                continue
            finished, waiting = waiting, None
            yield finished.result()
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})


@router.websocket(f"{THREAD}/events")
async def websocket_events(socket: WebSocket, user_id: str, thread_id: str, after: str | None = None) -> None:
    """What happens to the thread, as JSON messages. Nothing is read from the client but that it goes."""
    api: Api = socket.app.state.api
    try:
        memory = api.agent(socket.scope["state"]["principal"], segment_text(user_id), segment_text(thread_id))
        if after is not None and len(after) > MAX_EVENT_ID_CHARS:
            raise EventsLost(f"after has {len(after):,} characters and is no event's id")
        async with api.hub.reading(memory.scope, after=after) as events:
            await socket.accept(subprotocol=_subprotocol(socket))
            await _send_until_gone(socket, api, events)
    except MemoryAgentError as exc:
        await send_denial(error_response(exc), socket.scope, socket.receive, socket.send)


def _subprotocol(socket: WebSocket) -> str | None:
    """Of those that the client offers: ours, never the one that holds its key."""
    offered = socket.scope.get("subprotocols", [])
    return (
        PROTOCOL
        if PROTOCOL in offered
        else next((p for p in offered if not p.startswith(BEARER_PROTOCOL)), None)
    )


async def _send_until_gone(socket: WebSocket, api: Api, events: AsyncIterator[MemoryEvent]) -> None:
    sending = asyncio.create_task(_send_all(socket, api, events))
    listening = asyncio.create_task(_listen(socket))
    try:
        await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
        if listening.done() and not sending.done():
            code = listening.result()
            if code is not None:
                await _close(socket, code, "this socket takes no messages")
    finally:
        for task in (sending, listening):
            task.cancel()
        await asyncio.wait({sending, listening})
    if sending.done() and not sending.cancelled():
        sending.result()


async def _send_all(socket: WebSocket, api: Api, events: AsyncIterator[MemoryEvent]) -> None:
    token = bearer_token(socket.scope["headers"])
    try:
        async for event in _with_heartbeats(api, events, token):
            if event is not None:  # uvicorn sends pings itself
                async with asyncio.timeout(_SEND_SECONDS):
                    await socket.send_text(WireEvent.of(event).model_dump_json())
    except TimeoutError:
        await _close(socket, DROPPED, "too slow to take an event; come back with the last id you saw")
    except (ReaderDropped, EventsLost, AccessDenied, MemoryAgentError) as exc:
        code = {EventsLost: LOST, AccessDenied: NOT_ALLOWED}.get(type(exc), DROPPED)
        await _close(socket, code, public_text(str(exc)))
    except WebSocketDisconnect:
        pass


async def _listen(socket: WebSocket) -> int | None:
    """Until the client goes (None) or sends something (the code to close with)."""
    message = await socket.receive()
    return None if message["type"] == "websocket.disconnect" else TAKES_NOTHING


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    # RFC 6455: the reason has at most 123 bytes.
    short = reason.encode()[:120].decode("utf-8", "ignore")
    with contextlib.suppress(RuntimeError, TimeoutError, WebSocketDisconnect):
        async with asyncio.timeout(_SEND_SECONDS):
            await socket.close(code, short)
