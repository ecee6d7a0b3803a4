"""A transport that always ends: what a client sends or takes no more cannot keep it open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_LINGER_SECONDS: Final = 2.0
_MOST_UNSENT_BYTES: Final = 65_536
_SIP_SECONDS: Final = 0.05
"""From one read of what is let pass to the next: hundreds that go on sending must not keep the event loop busy."""


class Transport:
    """Stands for the transport that a protocol was given; all else goes to it.

    Closing while the client is still sending would have the kernel answer with a reset, which can take the last
    answer with it. So the sending half is closed first, and what comes in is let pass for 2 seconds (nginx calls this
    `lingering_close`). After that the connection is dropped, whatever has not been taken.

    What is written in one turn of the event loop goes out together: an answer's head and its body are two writes, and a
    call of the kernel costs as much as all that the service does for a small answer.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, lingers: Callable[[], bool]
    ) -> None:
        """`lingers`: whether the client is still sending."""
        self._transport = transport
        self._loop = loop
        self._lingers = lingers
        self._is_closing = False
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._end: asyncio.TimerHandle | None = None
        self._sip: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """See asyncio; after `close` nothing is written any more."""
        if self._is_closing:
            return
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > _MOST_UNSENT_BYTES:
            self._flush()  # so that the transport can say that it has enough

    def _flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if unsent and not self._transport.is_closing():
            self._transport.writelines(unsent)

    def is_closing(self) -> bool:
        """See asyncio."""
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        """See asyncio; ends within 2 seconds."""
        if self._is_closing:
            return
        self._flush()
        self._is_closing = True
        if self._transport.is_closing():
            return
        self._end = self._loop.call_later(_LINGER_SECONDS, self._transport.abort)
        if self._lingers() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def let_pass(self) -> None:
        """Something came in while this was closing, and is dropped. The client's kernel holds what it sends next."""
        if self._is_closing and self._sip is None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._sip = self._loop.call_later(_SIP_SECONDS, self._read_on)

    def _read_on(self) -> None:
        self._sip = None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def lost(self) -> None:
        """The connection is no more."""
        self._is_closing = True
        if self._sip is not None:
            self._sip.cancel()
            self._sip = None
        if self._end is not None:
            self._end.cancel()
            self._end = None
