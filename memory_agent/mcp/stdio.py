"""The server on standard input and output, for a client that starts it as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp.server.lowlevel import Server

_CHUNK: Final = 65_536
_CHUNKS_AHEAD: Final = 16
_LAST_SECONDS: Final = 10.0
"""How long the last requests of a client that has closed its end may take."""


@contextlib.contextmanager
def wire() -> Iterator[tuple[int, int]]:
    """File descriptors of the client's messages and of ours.

    Meanwhile whatever else writes to standard output (a library, a child process) ends up on standard error, and
    standard input is empty: nothing but the protocol can get between.
    """
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield reading, writing
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        # `reading` stays open: a thread may be blocked in it, and a new file must not get its number.
        for number in (nothing, writing):
            os.close(number)


async def serve_stdio(server: Server[Any], stop: asyncio.Event, *, reading: int, writing: int) -> None:
    """Serve until the client closes its end and has its answers, or `stop` is set.

    The SDK's own reader waits for a line in a thread that can't be told to stop, and at the end of its input it drops
    what is in progress, which `printf … | memory-agent mcp` would never see answered. So the files are ours.
    """
    owed = _Owed()
    out = TextIOWrapper(os.fdopen(writing, "wb", closefd=False), encoding="utf-8", newline="\n")
    lines = cast("anyio.AsyncFile[str]", _Lines(reading, owed))
    answers = cast("anyio.AsyncFile[str]", _Answers(anyio.wrap_file(out), owed))

    async def serve() -> None:
        async with stdio_server(stdin=lines, stdout=answers) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    serving = asyncio.create_task(serve(), name="memory-agent mcp")
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        serving.cancel()
        await asyncio.wait({serving})
    if not serving.cancelled() and (error := serving.exception()) is not None and not _client_left(error):
        raise error


def _client_left(error: BaseException) -> bool:
    """True if the only error is that nobody reads our answers any more."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_client_left, error.exceptions))
    return isinstance(error, BrokenPipeError)


class _Owed:
    """The requests that were read and are not answered yet, by id."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none = asyncio.Event()

    def read(self, line: str) -> None:
        """Take note of a message of the client's."""
        message = _message(line)
        if "method" in message and "id" in message:
            self._ids.add(json.dumps(message["id"]))
        elif message.get("method") == "notifications/cancelled" and isinstance(message.get("params"), dict):
            self._ids.discard(json.dumps(message["params"].get("requestId")))

    def wrote(self, line: str) -> None:
        """Take note of a message of ours."""
        message = _message(line)
        if "method" not in message:
            self._ids.discard(json.dumps(message.get("id")))
        if not self._ids:
            self._none.set()

    async def settled(self) -> None:
        """Wait until all are answered, but not for ever."""
        self._none.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                while self._ids:
                    await self._none.wait()
                    self._none.clear()


def _message(line: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


class _Answers:
    """The file that our messages go to."""

    def __init__(self, file: anyio.AsyncFile[str], owed: _Owed) -> None:
        self._file = file
        self._owed = owed
        self._written = ""

    async def write(self, text: str) -> None:
        self._written = text
        await self._file.write(text)

    async def flush(self) -> None:
        await self._file.flush()
        self._owed.wrote(self._written)


class _Lines:
    """The lines of a file descriptor. A daemon thread reads it, which holds up nobody who leaves."""

    def __init__(self, number: int, owed: _Owed) -> None:
        self._number = number
        self._owed = owed

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines():
            self._owed.read(line)
            yield line
        await self._owed.settled()

    async def _lines(self) -> AsyncIterator[str]:
        chunks: asyncio.Queue[bytes] = asyncio.Queue(_CHUNKS_AHEAD)
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._read, args=(loop, chunks), name="memory-agent mcp stdin", daemon=True
        ).start()
        begun: list[bytes] = []
        while chunk := await chunks.get():
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                begun.append(line)
                yield b"".join(begun).decode("utf-8", errors="replace")
                begun.clear()
            begun.append(rest)
        if any(begun):
            yield b"".join(begun).decode("utf-8", errors="replace")

    def _read(self, loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes]) -> None:
        # A closed loop: nobody waits for more.
        with contextlib.suppress(RuntimeError):
            while True:
                try:
                    chunk = os.read(self._number, _CHUNK)
                except OSError:
                    chunk = b""
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
                if not chunk:
                    return
