"""The service's edge over real sockets: slow, idle, greedy and broken clients, and an orderly stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_agent.config import MemoryConfig
from memory_agent.errors import ConfigError, DataDirInUse
from memory_agent.server.access_log import Requests
from memory_agent.server.edge.bodies import BodyLimits
from memory_agent.server.edge.run import Edge, EdgeServer, bind, make_server, serve
from memory_agent.server.metrics import Metrics
from tests.constants import settings_of

pytestmark = pytest.mark.timeout(60)

PROMPT = 60.0
"""Seconds within which what should happen at once must have happened, on a busy machine too."""


class TinyApp:
    """Answers `/echo` with the body, `/hold` when `gate` is set, `/path/…` with its last segment, `/early` unread."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.events: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self.events.append("opened")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.events.append("closed")
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        body = b"hello"
        if path == "/echo":
            body = b""
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.events.append("disconnected")
                    return
                body += message["body"]
                if not message["more_body"]:
                    break
        elif path == "/hold":
            self.events.append("holding")
            await self.gate.wait()
        elif path == "/huge":
            body = b"x" * 16_000_000  # more than the sockets of both ends take
        elif path == "/headers":
            await receive()
            body = json.dumps([name.decode() for name, _ in scope["headers"]]).encode()
        elif path.startswith("/path/"):
            body = path.rpartition("/")[2].encode()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self.events.append("answered")


@contextlib.asynccontextmanager
async def running(app: TinyApp, **settings: Any) -> AsyncIterator[tuple[EdgeServer, int]]:
    """The app behind the edge's middlewares on a free port."""
    with settings_of(settings) as known:
        cfg = MemoryConfig(server_port=0, **known)

        def factory(edge: Edge) -> ASGIApp:
            bodies = BodyLimits(
                app, limit=lambda _: cfg.server_max_body_bytes, seconds=cfg.server_body_seconds
            )
            return Requests(bodies, metrics=Metrics())

        server = make_server(factory, cfg)
        listening = bind("127.0.0.1", 0)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield server, listening.getsockname()[1]
        finally:
            app.gate.set()
            server.should_exit = True
            await task


class Client:
    """A client that does what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of the next answer with a Content-Length; 0 if the connection is closed instead."""
        async with asyncio.timeout(PROMPT):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return 0, b"", {}
            line, *lines = head.decode().strip().split("\r\n")
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

    async def leave(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def clients(port: int, count: int = 1) -> AsyncIterator[list[Client]]:
    made = [await Client.connect(port) for _ in range(count)]
    try:
        yield made
    finally:
        for client in made:
            await client.leave()


GET = b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"


async def until(condition: Any) -> None:
    async with asyncio.timeout(PROMPT):
        while not condition():
            await asyncio.sleep(0.005)


# --- heads ---------------------------------------------------------------------------------------------------


async def test_dribbled_head_is_answered_408_in_time_while_others_are_served() -> None:
    async with running(TinyApp(), server_head_seconds=0.3) as (server, port), clients(port, 20) as slow:

        async def dribble(client: Client) -> None:
            client.send(b"GET / HTTP/1.1\r\n")
            with contextlib.suppress(ConnectionError):
                while not client.reader.at_eof():
                    client.send(b"X")
                    await client.writer.drain()
                    await asyncio.sleep(0.02)

        dribbling = [asyncio.create_task(dribble(client)) for client in slow]
        async with clients(port) as [honest]:
            honest.send(GET)
            assert (await honest.answer())[0] == 200
        for client in slow:
            assert (await client.answer())[0] == 408
        assert server.edge.connections.late == 20
        for task in dribbling:
            task.cancel()


async def test_connection_that_sends_nothing_is_closed_without_an_answer() -> None:
    async with running(TinyApp(), server_head_seconds=0.2) as (server, port), clients(port) as [silent]:
        assert await silent.closed() == b""
        await until(lambda: len(server.edge.connections) == 0)


async def test_further_request_has_the_same_time_for_its_head() -> None:
    settings = {"server_head_seconds": 0.8, "server_idle_seconds": 30.0}
    async with running(TinyApp(), **settings) as (_, port), clients(port) as [client]:
        client.send(GET)
        assert (await client.answer())[0] == 200
        await asyncio.sleep(1)  # idle is not late
        client.send(GET + b"GET /he")
        assert (await client.answer())[0] == 200
        status, body, headers = await client.answer()
        assert status == 408
        assert headers["content-type"] == "application/problem+json"
        assert json.loads(body)["type"] == "urn:memory-agent:problem:request-timeout"


async def test_idle_connection_is_closed_even_if_it_sends_line_ends() -> None:
    settings = {"server_head_seconds": 0.2, "server_idle_seconds": 0.2}
    async with running(TinyApp(), **settings) as (_, port), clients(port, 2) as [quiet, noisy]:
        for client in (quiet, noisy):
            client.send(GET)
            assert (await client.answer())[0] == 200
        noisy.send(b"\r\n")
        assert await quiet.closed() == b""
        assert await noisy.closed() == b""


async def test_huge_head_is_refused_with_431_at_once_and_in_pieces() -> None:
    head = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 200_000
    async with running(TinyApp()) as (_, port), clients(port, 2) as [at_once, in_pieces]:
        at_once.send(head + b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for at in range(0, len(head), 10_000):
                in_pieces.send(head[at : at + 10_000])
                await in_pieces.writer.drain()
        for client in (at_once, in_pieces):
            assert (await client.answer())[0] == 431


async def test_endless_header_without_an_end_is_cut_off() -> None:
    async with running(TinyApp()) as (server, port), clients(port) as [client]:
        client.send(b"GET / HTTP/1.1\r\nX: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(1_000):
                client.send(b"x" * 65_536)
                await client.writer.drain()
        await until(lambda: len(server.edge.connections) == 0)


async def test_what_is_no_request_is_answered_400_as_a_problem() -> None:
    garbage = (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET http://h HTTP/1.1\r\nHost: h\r\n\r\n",
        b"CONNECT h:1 HTTP/1.1\r\n\r\n",
    )
    async with running(TinyApp()) as (_, port), clients(port, len(garbage)) as senders:
        for client, data in zip(senders, garbage, strict=True):
            client.send(data)
            status, body, _ = await client.answer()
            assert (status, json.loads(body)["status"]) == (400, 400)


async def test_trailers_do_not_pass_for_headers() -> None:
    async with running(TinyApp()) as (_, port), clients(port) as [client]:
        client.send(
            b"POST /headers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Late: 1\r\n\r\n"
        )
        _, body, _ = await client.answer()
        assert json.loads(body) == ["host", "transfer-encoding"]


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async with running(TinyApp()) as (server, port), clients(port) as [client]:
        client.send(b"".join(b"GET /path/%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(20)))
        assert [(await client.answer())[1] for _ in range(20)] == [b"%d" % number for number in range(20)]
        assert server.edge.connections.idle == 1


# --- how many ------------------------------------------------------------------------------------------------


async def test_longest_idle_connections_give_way_to_new_ones() -> None:
    async with running(TinyApp(), server_max_connections=10) as (server, port), clients(port, 50) as idle:
        async with clients(port) as [honest]:
            honest.send(GET)
            assert (await honest.answer())[0] == 200
            assert len(server.edge.connections) == 10
        assert server.edge.connections.evicted == 41
        for client in idle[:41]:
            assert await client.closed() == b""
        idle[-1].send(GET)
        assert (await idle[-1].answer())[0] == 200


async def test_uploads_give_way_after_idle_connections() -> None:
    app = TinyApp()
    async with running(app, server_max_connections=3) as (server, port), clients(port, 3) as [one, two, idle]:
        for client in (one, two):
            client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc")
        await until(lambda: server.edge.connections.idle == 1)
        async with clients(port) as [first]:
            assert await idle.closed() == b""
            first.send(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
            await until(lambda: app.events[-1] == "holding")
            async with clients(port) as [second]:
                assert await one.closed() == b""
                second.send(GET)
                assert (await second.answer())[0] == 200
            two.send(b"defghi")
            assert (await two.answer())[1] == b"abcdefghi"


async def test_new_connection_is_refused_with_503_where_all_are_busy_and_served_when_one_is_done() -> None:
    app = TinyApp()
    async with running(app, server_max_connections=2) as (server, port), clients(port, 2) as busy:
        for client in busy:
            client.send(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: app.events.count("holding") == 2)
        async with clients(port) as [refused]:
            status, body, headers = await refused.answer()
            assert (status, headers["retry-after"]) == (503, "1")
            assert json.loads(body)["type"] == "urn:memory-agent:problem:too-many-connections"
            assert await refused.closed() == b""
        app.gate.set()
        assert [(await client.answer())[0] for client in busy] == [200, 200]
        async with clients(port) as [served]:
            served.send(GET)
            assert (await served.answer())[0] == 200
        assert server.edge.connections.refused == 1


async def test_client_that_takes_nothing_of_its_answer_is_dropped() -> None:
    async with running(TinyApp(), server_body_seconds=0.3) as (server, port), clients(port) as [client]:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(b"GET /huge HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: server.edge.connections.idle == 0)
        await until(lambda: len(server.edge.connections) == 0)


# --- bodies --------------------------------------------------------------------------------------------------


async def test_body_announced_too_large_is_refused_before_it_is_read() -> None:
    app = TinyApp()
    async with running(app, server_max_body_bytes=1_000) as (_, port), clients(port) as [client]:
        client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
        status, body, headers = await client.answer()
        assert (status, headers["connection"]) == (413, "close")
        problem = json.loads(body)
        expected = ("urn:memory-agent:problem:request-too-large", 1_000)
        assert (problem["type"], problem["max_bytes"]) == expected
        assert problem["instance"] == f"urn:uuid:{headers['x-request-id']}"
        assert await client.closed() == b""
        assert app.events == ["opened"]


async def test_refused_body_that_is_still_being_sent_does_not_take_the_answer_with_it() -> None:
    async with running(TinyApp(), server_max_body_bytes=1_000) as (_, port), clients(port) as [client]:
        client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n")
        for _ in range(20):
            client.send(b"x" * 100_000)
            await client.writer.drain()
            await asyncio.sleep(0.005)
        assert (await client.answer())[0] == 413
        assert await client.closed() == b""


async def test_chunked_body_is_refused_as_soon_as_it_is_too_large() -> None:
    app = TinyApp()
    async with running(app, server_max_body_bytes=1_000) as (_, port), clients(port, 2) as [fits, client]:
        fits.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1_000)
        assert (await fits.answer())[1] == b"x" * 1_000
        client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(11):
            client.send(b"64\r\n" + b"x" * 100 + b"\r\n")
        assert (await client.answer())[0] == 413
        assert await client.closed() == b""
        assert app.events == ["opened", "answered", "disconnected"]


async def test_slow_body_is_answered_408_and_ends_the_connection() -> None:
    app = TinyApp()
    async with running(app, server_body_seconds=0.3) as (_, port), clients(port) as [client]:
        client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nabc")
        status, body, _ = await client.answer()
        assert (status, json.loads(body)["title"]) == (408, "Request timeout")
        assert await client.closed() == b""


async def test_endless_framing_of_chunks_is_cut_off() -> None:
    async with running(TinyApp()) as (server, port), clients(port) as [client]:
        client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                client.send(b"x" * 65_536)
                await client.writer.drain()
        await client.closed()
        await until(lambda: len(server.edge.connections) == 0)


async def test_broken_chunk_is_answered_400_unless_the_request_was_answered_before() -> None:
    app = TinyApp()
    async with running(app) as (_, port), clients(port, 2) as [reading, early]:
        post = b"POST /%s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        reading.send(post % b"echo" + b"zz\r\n")
        assert (await reading.answer())[0] == 400
        early.send(post % b"early")
        assert (await early.answer())[0] == 200
        early.send(b"zz\r\n")
        assert await early.closed() == b""


async def test_unread_body_ends_the_connection_only_if_it_is_large() -> None:
    async with running(TinyApp()) as (_, port), clients(port, 2) as [small, large]:
        small.send(b"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc")
        assert (await small.answer())[0] == 200
        small.send(b"def" + GET)
        assert (await small.answer())[0] == 200
        large.send(b"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 7000000\r\n\r\nabc")
        assert (await large.answer())[0] == 200
        with contextlib.suppress(ConnectionError):
            for _ in range(1_000):
                large.send(b"x" * 65_536)
                await large.writer.drain()
        assert await large.closed() == b""


# --- the stop ------------------------------------------------------------------------------------------------


async def test_stop_finishes_the_request_in_progress_ends_streams_first_and_closes_the_application_last() -> (
    None
):
    app = TinyApp()
    settings = {"server_shutdown_seconds": 1.0}
    async with running(app, **settings) as (server, port), clients(port, 2) as [idle, busy]:

        async def end_streams() -> None:
            app.events.append("streams ended")
            asyncio.get_running_loop().call_later(0.3, app.gate.set)

        async def broken() -> None:
            raise RuntimeError("must not keep the server from stopping")

        async def endless() -> None:
            await asyncio.sleep(60)

        server.edge.on_stop += [broken, end_streams, endless]
        busy.send(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: app.events[-1] == "holding")
        server.should_exit = True
        assert await idle.closed() == b""
        status, body, _ = await busy.answer()
        assert (status, body) == (200, b"hello")
        assert await busy.closed() == b""
        await until(lambda: app.events[-1] == "closed")
    assert app.events == ["opened", "holding", "streams ended", "answered", "closed"]


PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from memory_agent.config import MemoryConfig
    from memory_agent.server.edge.run import serve
    from memory_agent.server.logs import configure_logs
    from tests.integration.test_server_edge import TinyApp

    class Slow(TinyApp):
        async def __call__(self, scope, receive, send):
            if scope["type"] == "http" and scope["path"] == "/hold":
                print("holding", flush=True)
                asyncio.get_running_loop().call_later(0.5, self.gate.set)
            if scope["type"] == "http" and scope["path"] == "/loop":
                body = type(asyncio.get_running_loop()).__module__.encode()
                headers = [(b"content-length", b"%d" % len(body))]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": body})
                return
            await super().__call__(scope, receive, send)

    configure_logs("info")
    app = Slow()
    serve(lambda edge: app, MemoryConfig(server_port=0, server_head_seconds=0.8, server_max_connections=5))
    print(" ".join(app.events))
    """
)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
async def test_process_says_where_it_listens_and_ends_well_on_a_signal(number: signal.Signals) -> None:
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
    async with clients(port, 8) as idle, clients(port) as [busy]:
        busy.send(b"GET /loop HTTP/1.1\r\nHost: h\r\n\r\n")
        status, body, _ = await busy.answer()
        assert status == 200
        assert body.startswith(b"uvloop") or sys.platform == "win32"
        idle[-1].send(b"GET / HT")
        assert (await idle[-1].answer())[0] == 408
        busy.send(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await process.stdout.readline() == b"holding\n"
        process.send_signal(number)
        assert (await busy.answer())[0] == 200
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert output.decode().split() == ["opened", "holding", "answered", "closed"]


def test_what_the_application_fails_to_start_with_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        raise DataDirInUse("by process 12")

    with caplog.at_level(logging.CRITICAL), pytest.raises(DataDirInUse, match="by process 12"):
        serve(lambda _: failing, MemoryConfig(server_port=0), on_ready=pytest.fail)


def test_port_that_is_taken_is_refused_by_name() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1, port {port}"):
            serve(lambda _: TinyApp(), MemoryConfig(server_port=port))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_service_without_keys_listens_to_this_machine_only(host: str) -> None:
    with pytest.raises(ConfigError, match="no keys would be asked for"):
        serve(lambda _: TinyApp(), MemoryConfig(server_host=host), insecure_no_auth=True)
