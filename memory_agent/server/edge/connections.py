"""Connections: how many, for how long, and who gives way. uvicorn's protocols with limits of their own.

A connection is idle (no request, or a head that is not complete), uploading (the head is there, its body is not), or
busy. When there are as many as may be, the one that has been idle longest gives way to a new one, then the one that has
been uploading longest; where all are busy, the new one is refused with 503. So connections that are only held open cost
nobody else theirs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memory_agent.server.edge.transports import Transport
from memory_agent.server.problems import problem
from memory_agent.wire.problems import MEDIA_TYPE

if TYPE_CHECKING:
    import asyncio
    from asyncio.transports import BaseTransport

log = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 65_536
"""Of a request's line and headers, as uvicorn's other parser takes by default."""
_TITLES: Final = {
    400: ("bad-request", "Bad request"),
    408: ("request-timeout", "Request timeout"),
    431: ("head-too-large", "Request head too large"),
    503: ("too-many-connections", "Too many connections"),
}


class _Peer(Protocol):
    def give_way(self) -> None:
        """Close at once; another needs the place."""


class Connections:
    """The open connections, and which of them are closed when there are too many. Counters are since the start."""

    def __init__(self, most: int) -> None:
        """`most`: connections open at once, at least 1."""
        self.most = most
        self.opened = 0
        self.evicted = 0
        """That gave way to others."""
        self.refused = 0
        """That were answered 503, all others being busy."""
        self.late = 0
        """Whose request's head did not come in time."""
        self._open: set[object] = set()
        # Both in the order in which they began; the values are nothing.
        self._idle: dict[_Peer, None] = {}
        self._uploading: dict[_Peer, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def idle(self) -> int:
        """The number of connections that wait for a request, or for the rest of a head."""
        return len(self._idle)

    def admit(self, peer: _Peer) -> bool:
        """Make room for `peer`, idle from now on; False if all others are busy."""
        while len(self._open) >= self.most:
            first = next(iter(self._idle or self._uploading), None)
            if first is None:
                self.refused += 1
                return False
            self.left(first)
            self.evicted += 1
            first.give_way()
        self.opened += 1
        self._open.add(peer)
        self.idles(peer)
        return True

    def idles(self, peer: _Peer) -> None:
        """Nothing is in progress."""
        self._uploading.pop(peer, None)
        if peer in self._open:
            self._idle.setdefault(peer, None)

    def uploads(self, peer: _Peer) -> None:
        """A request's body is still coming in."""
        self._idle.pop(peer, None)
        if peer in self._open:
            self._uploading.setdefault(peer, None)

    def works(self, peer: Any) -> None:
        """A request is in progress."""
        self._idle.pop(peer, None)
        self._uploading.pop(peer, None)

    def left(self, peer: Any) -> None:
        """The connection is no more, or is about to be closed; harmless if it was never admitted."""
        self._open.discard(peer)
        self.works(peer)


def protocol(
    connections: Connections, *, head_seconds: float, stall_seconds: float
) -> type[HttpToolsProtocol]:
    """The protocol class for uvicorn's `http`, of one server.

    `stall_seconds`: how long a client may take nothing of what it is being sent.
    """
    settings = {"connections_": connections, "stall_seconds": stall_seconds, "head_seconds": head_seconds}
    return type("HttpOfServer", (EdgeProtocol,), settings)


class EdgeProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with a limit on heads, in bytes and seconds, on connections, and on taking nothing of an answer."""

    connections_: ClassVar[Connections]
    stall_seconds: ClassVar[float]
    head_seconds: ClassVar[float]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stalled: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_deaf = False
        """Refused: whatever else comes in is not looked at."""
        self._is_waiting = True
        self._has_begun = False
        """Something came in since it waits."""
        self._is_in_head = False
        self._is_in_body = False
        self._unclaimed = 0
        """Bytes that came in and are nothing yet: of an incomplete head, of chunks' framing, of an unwanted body."""

    # --- the connection --------------------------------------------------------------------------------------
    def connection_made(self, transport: BaseTransport) -> None:
        edge = Transport(cast("asyncio.Transport", transport), self.loop, lingers=lambda: self._is_in_body)
        if not self.connections_.admit(self):
            self.transport = cast("asyncio.Transport", edge)
            self._refuse(503, "Every connection that this service takes is busy.", b"retry-after: 1\r\n")
            return
        super().connection_made(cast("asyncio.Transport", edge))
        self._expect(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_deaf = True
        self._expect(None)
        self.connections_.left(self)
        self._unwatch_stall()
        cast("Transport", self.transport).lost()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unwatch_stall()

    def _unwatch_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def give_way(self) -> None:
        """See `_Peer`. What was not sent yet is dropped, since a client that takes nothing would keep the place."""
        self._is_deaf = True
        self.transport.abort()

    def shutdown(self) -> None:
        """See uvicorn: finish the request in progress, if any."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            super().shutdown()

    # --- what comes in ---------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        if self._is_deaf or self.transport.is_closing():
            cast("Transport", self.transport).let_pass()
            return
        begins = self._is_waiting and not self._has_begun
        self._has_begun = True
        self._unclaimed += len(data)
        super().data_received(data)
        if (
            begins and self._is_waiting and not self._is_deaf
        ):  # most heads come in one piece, and need no timer
            self._expect(self.head_seconds)
        if self._unclaimed > MAX_HEAD_BYTES and self._is_in_head:
            self._refuse(431, f"A request's head may have {MAX_HEAD_BYTES:,} bytes.")
        elif self._unclaimed > MAX_HEAD_BYTES:
            self._is_deaf = True
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._unclaimed = 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._is_deaf:
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refuse(431, f"A request's head may have {MAX_HEAD_BYTES:,} bytes.")
            return
        self._unclaimed = 0
        super().on_headers_complete()
        self.headers = []  # for trailers, which come after the body and must not pass for headers
        self._is_in_body = True
        self._settle()

    def on_body(self, body: bytes) -> None:
        if self._is_deaf:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._unclaimed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        if self._is_deaf:
            return
        self._unclaimed = 0
        super().on_message_complete()
        self._settle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._settle()

    def send_400_response(self, msg: str) -> None:
        """See uvicorn; as a problem, and never into the middle of another answer."""
        self._refuse(400, msg)

    # --- the state -------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Say what this connection does now, and set its deadline accordingly."""
        if self.cycle is None or self._is_deaf:
            return
        was_waiting = self._is_waiting
        self._is_waiting = self.cycle.response_complete and not self.pipeline
        if self._is_waiting:
            if not was_waiting:
                self.connections_.idles(self)
                self._has_begun = self._is_in_head or self._is_in_body
                # While nothing comes in, uvicorn's own timeout runs.
                self._expect(self.head_seconds if self._has_begun else None)
            return
        if was_waiting:
            self._expect(None)
        if self._is_in_body and not self.pipeline:
            self.connections_.uploads(self)
        else:
            self.connections_.works(self)

    def _expect(self, seconds: float | None) -> None:
        """Close unless something happens within `seconds`; None: take as long as it takes."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        self.connections_.late += 1
        if self._is_in_head:
            self._refuse(408, f"The request's head was not complete within {self.head_seconds:g} seconds.")
        else:
            self._is_deaf = True
            self.transport.close()

    def _refuse(self, status: int, detail: str, header: bytes = b"") -> None:
        """Answer and close; only close where that would be no answer, or one within another."""
        self._is_deaf = True
        if self._may_answer():
            slug, title = _TITLES[status]
            body = problem(status, slug, title, detail).to_json().encode()
            for name, value in self.server_state.default_headers:
                header += name + b": " + value + b"\r\n"
            self.transport.write(
                f"HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\n".encode("ascii")
                + header
                + b"\r\n"
                + body
            )
        self.transport.close()

    def _may_answer(self) -> bool:
        if self._is_in_body:
            return not self.cycle.response_started and not self.pipeline
        return self.cycle is None or self.cycle.response_complete
