"""Readers of events as clients are: over a WebSocket, by server-sent events, and with bytes of their own making."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx
import websockets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

KINDS: Final = ("websocket", "sse")
SECONDS: Final = 20.0


def events_path(user: str = "ada", thread: str = "t", after: str | None = None) -> str:
    query = "" if after is None else f"?after={quote(after, safe='')}"
    return f"/api/threads/{quote(user, safe='')}/{quote(thread, safe='')}/events{query}"


class Refused(Exception):
    """The stream was not opened: with what status, and which problem."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(f"{status} {body[:200]!r}")
        self.status = status
        self.problem: dict[str, Any] = json.loads(body)
        self.headers = headers


class Ended(Exception):
    """The service ended the stream: why, and whether to come back with the last id."""

    def __init__(self, reason: str, *, resume: bool, code: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.resume = resume
        self.code = code


class Stream:
    """An open stream of events."""

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take
        self.heartbeats = 0

    async def next(self, *, patience: float | None = SECONDS) -> dict[str, Any]:
        """The next event. Raises Ended."""
        async with asyncio.timeout(patience):
            event: dict[str, Any] = await self._take()
            return event

    async def take(self, count: int) -> list[dict[str, Any]]:
        return [await self.next() for _ in range(count)]

    async def ends(self) -> Ended:
        """How it ends, whatever comes before."""
        try:
            while True:
                await self.next()
        except Ended as end:
            return end

    async def until(self, turn_id: str) -> list[dict[str, Any]]:
        """All up to the event `turn_stored` of that turn."""
        events = [await self.next()]
        while (events[-1]["kind"], events[-1]["turn_id"]) != ("turn_stored", turn_id):
            events.append(await self.next())
        return events


@contextlib.asynccontextmanager
async def listening(
    kind: str, address: str, headers: Mapping[str, str], path: str | None = None, **options: Any
) -> AsyncIterator[Stream]:
    """An open stream; that it is, fixes its place. Raises Refused."""
    opened = _websocket if kind == "websocket" else _sse
    async with opened(address, headers, events_path() if path is None else path, **options) as stream:
        yield stream


@contextlib.asynccontextmanager
async def _websocket(
    address: str, headers: Mapping[str, str], path: str, **options: Any
) -> AsyncIterator[Stream]:
    url = address.replace("http", "ws", 1) + path
    try:
        socket = await websockets.connect(url, additional_headers=headers, proxy=None, **options)
    except websockets.InvalidStatus as refused:
        answer = refused.response
        raise Refused(answer.status_code, bytes(answer.body or b""), answer.headers) from None

    async def take() -> dict[str, Any]:
        try:
            event: dict[str, Any] = json.loads(await socket.recv())
        except websockets.ConnectionClosed as closed:
            said = closed.rcvd or websockets.frames.Close(1006, "cut off without a word")
            raise Ended(said.reason, resume=said.code == 4408, code=said.code) from None
        return event

    async with socket:
        yield Stream(take)


@contextlib.asynccontextmanager
async def _sse(
    address: str, headers: Mapping[str, str], path: str, *, last_event_id: str | None = None
) -> AsyncIterator[Stream]:
    asked = {**headers} | ({} if last_event_id is None else {"Last-Event-ID": last_event_id})
    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(SECONDS, read=None), trust_env=False, verify=False) as http,
        http.stream("GET", address + path, headers=asked) as response,
    ):
        if response.status_code != 200:
            raise Refused(response.status_code, await response.aread(), response.headers)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        lines = response.aiter_lines()
        stream: Stream

        async def take() -> dict[str, Any]:
            frame: dict[str, str] = {}
            async for line in lines:
                if line.startswith(":"):
                    stream.heartbeats += line == ": still here"
                elif line:
                    name, _, value = line.partition(": ")
                    frame[name] = value
                elif frame:
                    return _event(frame)
            raise AssertionError("the stream ended without a word")

        stream = Stream(take)
        try:
            yield stream
        finally:
            await lines.aclose()  # type: ignore[attr-defined]


def _event(frame: Mapping[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(frame["data"])
    if frame["event"] == "dropped":
        assert "id" not in frame
        raise Ended(data["reason"], resume=data["resume"])
    assert (data["id"], data["kind"]) == (frame["id"], frame["event"])
    return data


# --- bytes of their own making -----------------------------------------------------------------------------------
def handshake(path: str, headers: Mapping[str, str]) -> bytes:
    """The opening of a WebSocket."""
    every = {
        "Host": "127.0.0.1",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


@contextlib.asynccontextmanager
async def raw(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to write anything to; dropped at the end."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def head_of(reader: asyncio.StreamReader) -> bytes:
    """An answer's status and headers."""
    async with asyncio.timeout(SECONDS):
        return await reader.readuntil(b"\r\n\r\n")
