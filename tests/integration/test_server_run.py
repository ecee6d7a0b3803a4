"""Serving over real sockets: bodies that are too large, an orderly stop, and what keeps it from starting."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from memory_agent.config import MemoryConfig
from memory_agent.errors import ConfigError, DataDirInUse
from memory_agent.server.incoming import BodyLimits
from memory_agent.server.metrics import Metrics, Requests
from memory_agent.server.run import Server, bind, live, serve
from tests.servers.service import ServiceProcess

pytestmark = pytest.mark.timeout(60)

PROMPT = 60.0
"""Seconds within which what should happen at once must have happened, on a busy machine too."""
GET = b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"


class Tiny:
    """An application that answers `/echo` with the body, `/hold` when `gate` is set, all else with how the loop is called."""

    def __init__(self, *, limit: int = 1_000) -> None:
        self.gate = asyncio.Event()
        self.events: list[str] = []
        middleware = [
            Middleware(Requests, metrics=Metrics()),
            Middleware(BodyLimits, limit=lambda _: limit),
        ]
        routes = [Route("/{rest:path}", self._answer, methods=["GET", "POST"])]
        self.app = Starlette(routes=routes, middleware=middleware, lifespan=self._live)

    @contextlib.asynccontextmanager
    async def _live(self, _: Starlette) -> AsyncIterator[None]:
        self.events.append("opened")
        yield
        self.events.append("closed")

    async def _answer(self, request: Request) -> PlainTextResponse:
        answer = type(asyncio.get_running_loop()).__module__
        if request.url.path == "/echo":
            answer = (await request.body()).decode()
        elif request.url.path == "/hold":
            self.events.append("holding")
            print("holding", flush=True)
            await self.gate.wait()
        self.events.append("answered")
        return PlainTextResponse(answer)


@contextlib.asynccontextmanager
async def running(tiny: Tiny) -> AsyncIterator[int]:
    """The application on a free port, which is given."""
    server = Server(tiny.app, MemoryConfig(), on_stop=[])
    listening = bind("127.0.0.1", 0)
    task = asyncio.create_task(live(tiny.app, server, listening))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await task


class Client:
    """A client that does what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of the next answer."""
        async with asyncio.timeout(PROMPT):
            line, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value for name, value in (each.split(": ", 1) for each in lines)}
            body = await self.reader.readexactly(int(headers["content-length"]))
            return int(line.split()[1]), body, headers

    async def closed(self) -> bytes:
        """What came until the server closed the connection."""
        async with asyncio.timeout(PROMPT):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@contextlib.asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    made = Client(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield made
    finally:
        made.writer.transport.abort()


# --- bodies --------------------------------------------------------------------------------------------------
async def test_body_announced_too_large_is_refused_before_it_is_read() -> None:
    tiny = Tiny()
    async with running(tiny) as port, client(port) as one:
        one.writer.write(
            b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n"
        )
        status, body, headers = await one.answer()
        assert (status, headers["connection"]) == (413, "close")
        problem = json.loads(body)
        expected = ("urn:memory-agent:problem:request-too-large", 1_000)
        assert (problem["type"], problem["max_bytes"]) == expected
        assert problem["instance"] == f"urn:uuid:{headers['x-request-id']}"
        assert await one.closed() == b""
        assert tiny.events == ["opened"]


async def test_refused_body_that_is_still_being_sent_does_not_take_the_answer_with_it() -> None:
    async with running(Tiny()) as port, client(port) as one:
        one.writer.write(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n")
        for _ in range(20):
            one.writer.write(b"x" * 100_000)
            await one.writer.drain()
            await asyncio.sleep(0.005)
        assert (await one.answer())[0] == 413
        assert await one.closed() == b""


async def test_chunked_body_is_refused_as_soon_as_it_is_too_large() -> None:
    tiny = Tiny()
    async with running(tiny) as port, client(port) as fits, client(port) as one:
        fits.writer.write(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1_000)
        assert (await fits.answer())[1] == b"x" * 1_000
        one.writer.write(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(11):
            one.writer.write(b"64\r\n" + b"x" * 100 + b"\r\n")
        assert (await one.answer())[0] == 413
        assert await one.closed() == b""
        assert tiny.events == ["opened", "answered"]


# --- the stop ------------------------------------------------------------------------------------------------
PROGRAM = textwrap.dedent(
    """
    import asyncio, resource
    from memory_agent.config import MemoryConfig
    from memory_agent.server.logs import configure_logs
    from memory_agent.server.run import serve
    from tests.integration.test_server_run import Tiny

    tiny = Tiny()

    async def end_streams():
        tiny.events.append("streams ended")
        asyncio.get_running_loop().call_later(0.3, tiny.gate.set)

    async def broken():
        raise RuntimeError("must not keep the server from stopping")

    async def endless():
        await asyncio.sleep(60)

    def make(on_stop):
        on_stop += [broken, end_streams, endless]
        return tiny.app

    configure_logs("info")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
    serve(make, MemoryConfig(server_port=0, server_shutdown_seconds=1.0))
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
    print(", ".join(tiny.events))
    """
)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
async def test_process_says_where_it_listens_and_ends_well_on_a_signal(number: signal.Signals) -> None:
    """Streams are ended first, the request in progress is answered, the application is closed last."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("memory-agent listens on http://127.0.0.1:")
    port = int(line.rpartition(":")[2])
    async with client(port) as idle, client(port) as busy:
        idle.writer.write(GET)
        status, body, _ = await idle.answer()
        assert status == 200
        assert body.startswith(b"uvloop") or sys.platform == "win32"
        busy.writer.write(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await process.stdout.readline() == b"holding\n"
        process.send_signal(number)
        assert await idle.closed() == b""
        assert (await busy.answer())[0] == 200
        assert await busy.closed() == b""
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    told = ["opened", "answered", "holding", "streams ended", "answered", "closed"]
    assert output.decode().strip().split(", ") == told


# --- what keeps it from starting -----------------------------------------------------------------------------
def test_what_the_application_fails_to_open_with_is_raised() -> None:
    @contextlib.asynccontextmanager
    async def failing(_: Starlette) -> AsyncIterator[None]:
        raise DataDirInUse("by process 12")
        yield

    with pytest.raises(DataDirInUse, match="by process 12"):
        serve(lambda _: Starlette(lifespan=failing), MemoryConfig(server_port=0), on_ready=pytest.fail)


def test_port_that_is_taken_is_refused_by_name() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1, port {port}"):
            serve(lambda _: Starlette(), MemoryConfig(server_port=port))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_service_without_keys_listens_to_this_machine_only(host: str) -> None:
    with pytest.raises(ConfigError, match="no keys would be asked for"):
        serve(lambda _: Starlette(), MemoryConfig(server_host=host), insecure_no_auth=True)


def test_who_listens_to_others_is_told_that_a_proxy_belongs_in_front_unless_one_is_named(
    tmp_path: Path,
) -> None:
    for number, named in enumerate(({}, {"server_trusted_proxies": "10.0.0.7"})):
        folder = tmp_path / str(number)
        service = ServiceProcess(folder, "--host", "0.0.0.0", settings={"data_dir": folder / "data", **named})
        service.start()
        assert service.stop() == 0
        assert ("slow or many connections are not limited here" in service.log.read_text()) is (not named)
