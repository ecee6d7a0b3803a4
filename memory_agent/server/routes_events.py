"""Events of a thread as they happen: over a WebSocket, or as server-sent events at the same address."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, WebSocket
from fastapi.responses import Response
from starlette.websockets import WebSocketDisconnect

from memory_agent.agent.agent import MemoryAgent
from memory_agent.domain import MemoryEvent
from memory_agent.errors import AccessDenied, BackendError, EventsLost, MemoryAgentError, Unavailable
from memory_agent.server.auth import bearer_token
from memory_agent.server.dependencies import THREAD, Caller, Memory, OpenApi
from memory_agent.server.edge.paths import segment_text
from memory_agent.server.openapi import NO_EVENTS
from memory_agent.server.problems import error_response, send_denial
from memory_agent.server.readers import ReaderDropped
from memory_agent.server.state import Api
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


_GONE: Final = (WebSocketDisconnect, OSError)
"""What sending raises once the client has gone; the second one during the handshake."""
_TOO_SLOW: Final = _End(code=DROPPED, reason="too slow to take an event; come back with the last id you saw")


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
    return _EventStream(api, memory, last_event_id or after, bearer_token(request.scope["headers"]))


class _EventStream(Response):
    """Server-sent events; whatever becomes of the connection, reading ends with it."""

    media_type = "text/event-stream"

    def __init__(self, api: Api, memory: MemoryAgent, after: str | None, token: str | None) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._api = api
        self._memory = memory
        self._after = after
        self._token = token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with contextlib.AsyncExitStack() as stack:
            try:
                # Entered before the answer begins, so that what is wrong with the id is told by the status.
                events = await stack.enter_async_context(_reading(self._api, self._memory, self._after))
            except MemoryAgentError as exc:
                await error_response(exc)(scope, receive, send)
                return
            await self._stream(events, receive, send)

    async def _stream(self, events: AsyncIterator[MemoryEvent], receive: Any, send: Any) -> None:
        async def put(frame: str, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": frame.encode(), "more_body": more})

        async def put_event(event: MemoryEvent | None) -> None:
            await put(": still here\n\n" if event is None else _frame(event))

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def tell() -> _End:
            return await _tell(self._api, self._token, events, put_event)

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await put(": events follow\n\n")
        if isinstance(end := await _either(tell(), gone()), _End):
            with contextlib.suppress(TimeoutError):  # a reader that takes nothing is not told why, either
                async with asyncio.timeout(FAREWELL_SECONDS):
                    told = json.dumps({"reason": end.reason, "resume": end.may_resume})
                    await put(f"event: dropped\ndata: {told}\n\n")
                    await put("", more=False)


def _frame(event: MemoryEvent) -> str:
    return f"id: {event.id}\nevent: {event.kind}\ndata: {WireEvent.of(event).model_dump_json()}\n\n"


# --- WebSockets --------------------------------------------------------------------------------------------------
@router.websocket(f"{THREAD}/events")
async def websocket_events(socket: WebSocket, user_id: str, thread_id: str, after: str | None = None) -> None:
    """Stream the thread's events as JSON messages. Nothing is read from the client but its close."""
    api: Api = socket.app.state.api
    async with contextlib.AsyncExitStack() as stack:
        try:
            memory = api.agent(
                socket.scope["state"]["principal"], segment_text(user_id), segment_text(thread_id)
            )
            events = await stack.enter_async_context(_reading(api, memory, after))
        except MemoryAgentError as exc:
            with contextlib.suppress(*_GONE):
                await send_denial(error_response(exc), socket.scope, socket.receive, socket.send)
            return
        with contextlib.suppress(*_GONE, TimeoutError):
            # Ours, or none: the other one that a browser offers holds its key.
            offered = socket.scope.get("subprotocols", [])
            await socket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
            await _send_events(socket, api, events)


async def _send_events(socket: WebSocket, api: Api, events: AsyncIterator[MemoryEvent]) -> None:
    async def put(event: MemoryEvent | None) -> None:
        if event is not None:  # uvicorn sends pings itself
            await socket.send_text(WireEvent.of(event).model_dump_json())

    async def gone() -> _End | None:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        return _End(code=TAKES_NOTHING, reason="this socket takes no messages")

    end = await _either(_tell(api, bearer_token(socket.scope["headers"]), events, put), gone())
    if end is not None:
        async with asyncio.timeout(FAREWELL_SECONDS):
            # RFC 6455, section 5.5: the reason has at most 123 bytes.
            await socket.close(end.code, end.reason.encode()[:120].decode("utf-8", "ignore"))


# --- both --------------------------------------------------------------------------------------------------------
def _reading(
    api: Api, memory: MemoryAgent, after: str | None
) -> contextlib.AbstractAsyncContextManager[AsyncIterator[MemoryEvent]]:
    if after is not None and len(after) > MAX_EVENT_ID_CHARS:
        raise EventsLost(f"after has {len(after):,} characters and is no event's id; read the state anew")
    return api.hub.reading(memory.scope, after=after)


async def _either(telling: Coroutine[Any, Any, _End], gone: Coroutine[Any, Any, _End | None]) -> _End | None:
    """The end of the stream, by whichever comes first; None if the reader left. Both have ended then."""
    tasks = [asyncio.ensure_future(telling), asyncio.ensure_future(gone)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # of two that ended, one is not asked any more
    told, went = tasks
    return told.result() if went.cancelled() else went.result()


async def _tell(
    api: Api,
    token: str | None,
    events: AsyncIterator[MemoryEvent],
    put: Callable[[MemoryEvent | None], Awaitable[None]],
) -> _End:
    """Put one event after the other, and None after each while without one, until the stream has to end."""
    try:
        async with contextlib.aclosing(_with_heartbeats(api, token, events)) as beats:
            async for event in beats:
                async with asyncio.timeout(SEND_SECONDS):
                    await put(event)
        return _TOO_SLOW  # hubs don't end by themselves
    except TimeoutError:
        return _TOO_SLOW
    except (ReaderDropped, MemoryAgentError) as exc:
        code = LOST if isinstance(exc, EventsLost) else DROPPED
        reason = public_text(str(exc))
        if isinstance(exc, BackendError):  # what drivers say names addresses of servers behind this one
            reason = "a part of the service is unavailable for now; come back with the last id you saw"
        return _End(code=NOT_ALLOWED if isinstance(exc, AccessDenied) else code, reason=reason)


async def _with_heartbeats(
    api: Api, token: str | None, events: AsyncIterator[MemoryEvent]
) -> AsyncGenerator[MemoryEvent | None, None]:
    """The events, and None after each while without one. Raises AccessDenied once the key holds no more."""
    checked = time.monotonic()
    waiting: asyncio.Future[MemoryEvent] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
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
            finished, waiting = waiting, None
            yield finished.result()
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
