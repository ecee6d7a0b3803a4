"""Events of a thread as they happen: server-sent events."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

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
        yield ": events follow\n\n"
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
