"""A real HTTP server that answers from a script, byte by byte where a test wants that, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

Step = Callable[[asyncio.StreamWriter], Awaitable[None]]

KEY = "ma_test_0123456789abcdef"
"""That clients show to it."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came over the wire."""

    method: str
    target: str
    """The path and what follows it, untouched."""
    headers: Mapping[str, bytes]
    """By name in lower case."""
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode()


def answer(
    body: object = None,
    status: int = 200,
    *,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Step:
    """Answer with this body: JSON, or the bytes or text as they are."""
    content = (
        body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    )

    async def step(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Said", f"Content-Type: {media_type}", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await writer.drain()

    return step


def problem(
    status: int, slug: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> Step:
    """Refuse as the service does."""
    body = {
        "type": f"urn:memory-agent:problem:{slug}",
        "title": slug,
        "status": status,
        "detail": detail,
        **more,
    }
    return answer(body, status, media_type="application/problem+json", headers=headers)


def cut(sent: bytes = b"") -> Step:
    """Send this much and hang up."""

    async def step(writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.transport.abort() if not sent else writer.close()

    return step


def silence() -> Step:
    """Never answer."""

    async def step(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3_600)

    return step


def stream(*chunks: bytes | Step, media_type: str = "text/event-stream") -> Step:
    """Server-sent events, in chunks as given; then the connection ends."""

    async def step(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        for chunk in chunks:
            if isinstance(chunk, bytes):
                writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)
            else:
                await chunk(writer)
        with contextlib.suppress(ConnectionError):
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return step


@dataclass
class HttpScript:
    """Answers the n-th request with the n-th step; without one left it answers 599."""

    steps: deque[Step] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    at: int = 0
    """The port to listen at; 0: any that is free."""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def then(self, *steps: Step) -> Self:
        self.steps.extend(steps)
        return self

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.at)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                step = self.steps.popleft() if self.steps else answer("the script is over", 599)
                await step(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head[:-4].split(b"\r\n")
    method, target, _ = first.decode("ascii").split(" ")
    pairs = (line.split(b": ", 1) for line in lines)
    headers = {name.decode("ascii").lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", b"0")))
    return Asked(method=method, target=target, headers=headers, body=body)
