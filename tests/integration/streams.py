"""Readers of events as clients are: server-sent events, WebSockets, and bytes of their own making."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx
import websockets

KINDS: Final = ("sse", "websocket", "message")
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

    def __init__(self, reason: str, *, resume: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.resume = resume


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
    address: str,
    headers: Mapping[str, str],
    path: str | None = None,
    *,
    kind: str = "sse",
    last_event_id: str | None = None,
) -> AsyncIterator[Stream]:
    """An open stream; that it is, fixes its place. Raises Refused.

    `kind`: one of KINDS: server-sent events, or a WebSocket with the key in its header or as its first message.
    """
    path = events_path() if path is None else path
    asked = {**headers} | ({} if last_event_id is None else {"Last-Event-ID": last_event_id})
    async with (_sse if kind == "sse" else _websocket)(
        address, asked, path, by_message=kind == "message"
    ) as stream:
        yield stream


@contextlib.asynccontextmanager
async def _websocket(
    address: str, headers: Mapping[str, str], path: str, *, by_message: bool
) -> AsyncIterator[Stream]:
    place, question, query = path.partition("?")
    url = f"{address.replace('http', 'ws', 1)}{place}/ws{question}{query}"
    sent = {name: value for name, value in headers.items() if not by_message or name != "Authorization"}
    async with websockets.connect(url, additional_headers=sent, proxy=None) as socket:
        if by_message:
            await socket.send(headers.get("Authorization", "").removeprefix("Bearer "))

        async def take() -> dict[str, Any]:
            try:
                event: dict[str, Any] = json.loads(await socket.recv())
            except websockets.ConnectionClosed as closed:
                end = closed.rcvd
                assert end is not None, "cut off without a word"
                if end.code >= 4_000:
                    raise Refused(end.code - 4_000, json.dumps({"detail": end.reason}).encode(), {}) from None
                assert end.code in (1_003, 1_008, 1_013), end
                raise Ended(end.reason, resume=end.code == 1_013) from None
            return event

        assert await take() == {"kind": "ready"}
        yield Stream(take)


@contextlib.asynccontextmanager
async def _sse(
    address: str, asked: Mapping[str, str], path: str, *, by_message: bool
) -> AsyncIterator[Stream]:
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
def request(path: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request for events."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "127.0.0.1", **headers}.items())
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
