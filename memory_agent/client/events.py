"""The part of MemoryClient that tells what happens to its thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from memory_agent.agent.agent import MemoryAgent
from memory_agent.client.calls import Asking, documented
from memory_agent.client.connection import pause_before
from memory_agent.domain import EVENT_KINDS
from memory_agent.errors import (
    EventsLost,
    InvalidInput,
    MemoryAgentError,
    RateLimited,
    ServiceError,
    Unavailable,
)
from memory_agent.wire import work

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from httpx_sse import ServerSentEvent

    from memory_agent.domain import MemoryEvent

_ID: Final = re.compile(r"[\x21-\x7e]{1,1024}")
_DROPPED: Final = "dropped"
_GIVE_UP_SECONDS: Final = 300.0
"""Of trying to come back to a service that told events before."""
_STEADY_SECONDS: Final = 5.0
"""A stream that lasted so long had nothing wrong with it when it began."""


class EventCalls(Asking):
    """MemoryClient's calls about events."""

    async def events(self, after: str | None = None) -> AsyncGenerator[MemoryEvent, None]:
        """A lost connection is made again, from the last event on. Raises EventsLost also if the connection
        was lost before there was any event to go on from, ServiceUnavailable if the service stays away for
        5 minutes.
        """
        stream = _Stream(_checked(after), max_retries=self._service.max_retries)
        while True:
            try:
                async with self._service.connection.stream(
                    self._call("GET events"), stream.headers
                ) as frames:
                    stream.begin()
                    async with contextlib.aclosing(_events(frames, stream)) as events:
                        async for event in events:
                            yield event
            except (Unavailable, RateLimited) as exc:
                await stream.lost(exc)
            else:
                await stream.lost(None)

    events.__doc__ = documented(MemoryAgent.events, events.__doc__)


class _Stream:
    """Position in the stream of events, over all connections."""

    def __init__(self, last: str | None, *, max_retries: int) -> None:
        self.last = last
        """The id of the last event."""
        self._max_retries = max_retries
        self._has_begun = False
        self._began = 0.0
        self._lost_at: float | None = None
        self._retry = 0

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.last is None else {"Last-Event-ID": self.last}

    def begin(self) -> None:
        """The service sends events."""
        self._has_begun = True
        self._began = time.monotonic()

    def moved_on(self) -> None:
        """An event came."""
        self._retry, self._lost_at = 0, None

    async def lost(self, error: MemoryAgentError | None) -> None:
        """The connection ended (by `error`): wait before the next. Raises when there is none to be."""
        now = time.monotonic()
        if self._has_begun and self.last is None:
            raise EventsLost(
                "the connection was lost before the first event, so that some may have been missed; read the state anew"
            ) from error
        if self._has_begun and self._lost_at is None and now - self._began >= _STEADY_SECONDS:
            self._retry = 0
        self._lost_at = now if self._lost_at is None else self._lost_at
        tired = (
            now - self._lost_at > _GIVE_UP_SECONDS if self._has_begun else self._retry >= self._max_retries
        )
        if tired and error is not None:
            raise error
        asked = error.retry_after if isinstance(error, RateLimited) else None
        await asyncio.sleep(pause_before(self._retry, chance=random.random(), retry_after=asked))  # noqa: S311
        self._retry += 1


async def _events(
    frames: AsyncIterator[ServerSentEvent], stream: _Stream
) -> AsyncGenerator[MemoryEvent, None]:
    """The events of one connection, until the service ends it; what this version does not know is passed over."""
    async for frame in frames:
        if frame.event == _DROPPED:
            reason, may_resume = _read_dropped(frame.data)
            if not may_resume or stream.last is None:
                raise EventsLost(reason)
            return
        if frame.id:
            stream.last = frame.id
        if frame.data and frame.event in EVENT_KINDS:
            stream.moved_on()
            yield _read_event(frame.data)


def _checked(after: object) -> str | None:
    if after is None:
        return None
    if not isinstance(after, str):
        raise InvalidInput(
            f"after is {after!r:.80}; pass the id of an event, or None for what happens from now on"
        )
    if _ID.fullmatch(after) is None:
        raise EventsLost(f"{after!r:.80} is no event's id; read the state anew, then watch without `after`")
    return after


def _read_event(data: str) -> MemoryEvent:
    try:
        return work.MemoryEvent.model_validate_json(data).domain()
    except ValidationError:
        raise ServiceError(
            "the service told an event that cannot be read; their versions may not fit"
        ) from None


def _read_dropped(data: str) -> tuple[str, bool]:
    """The service's reason for ending the stream, and whether to resume with the last id."""
    try:
        told = json.loads(data)
        return str(told["reason"]), told["resume"] is True
    except (ValueError, KeyError, TypeError):
        return "the service ended the stream of events; read the state anew", False
