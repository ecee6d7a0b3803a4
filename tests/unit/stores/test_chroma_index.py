"""What is particular to Chroma: names, shards, lost collections, servers that fail, and errors, each of which becomes ours."""

import inspect
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import SecretStr

from memory_agent.domain import PassageVector, Scope
from memory_agent.errors import NotOpen, VectorIndexError, VectorIndexUnavailable
from memory_agent.stores.chroma import ChromaServer, translate, translated
from tests.servers.chroma import ChromaProcess
from tests.servers.mongod import free_port

ANN = Scope(user_id="ann")
PLACE: dict[str, Any] = {"prefix": "memory", "fingerprint": "ab12cd34ef56", "shards": 64}
EAST = np.array([1, 0, 0], dtype=np.float32)


def passage(turn_id: str = "a") -> PassageVector:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return PassageVector(turn_id=turn_id, passage=0, thread_id="t", role="user", timestamp=now, vector=EAST)


async def _reached(index: ChromaServer) -> None:
    await index.open()
    try:
        await index.ping()
    finally:
        await index.close()


def test_the_collection_says_model_and_shards() -> None:
    index = ChromaServer("127.0.0.1", 1, **PLACE)
    assert index.collection_name("ann") == "memory_ab12cd34ef56_45of64"
    assert ChromaServer("127.0.0.1", 1, **PLACE | {"shards": 32}).collection_name("ann").endswith("of32")
    names = [index.collection_name(f"user{n}") for n in range(1_000)]
    assert len(set(names)) == 64
    assert max(names.count(name) for name in set(names)) < 40


async def test_it_must_be_open() -> None:
    index = ChromaServer("127.0.0.1", 1, **PLACE)
    for _ in range(2):
        with pytest.raises(NotOpen):
            await index.turn_ids("ann")
        await index.close()


async def test_a_collection_deleted_meanwhile_is_made_again(chroma_server: ChromaProcess) -> None:
    """Reads then find nothing, writes work: an index may be lost at any time."""
    import chromadb

    index = ChromaServer(chroma_server.host, chroma_server.port, **PLACE | {"prefix": "deleted"})
    await index.open()
    other = chromadb.HttpClient(chroma_server.host, chroma_server.port)
    await index.upsert("ann", [passage()])
    other.delete_collection(index.collection_name("ann"))
    assert await index.query(ANN, EAST, limit=5) == []
    other.delete_collection(index.collection_name("ann"))
    await index.upsert("ann", [passage()])
    assert await index.turn_ids("ann") == {"a"}
    other.delete_collection(index.collection_name("ann"))
    assert await index.delete("ann", ["a"]) == 0
    await index.close()


async def test_a_server_that_was_away_is_used_again(tmp_path: Path) -> None:
    """Killed, it is unavailable; back on its volume nothing is lost; back on another, the index starts afresh."""
    server = ChromaProcess(tmp_path / "first").start()
    index = ChromaServer(server.host, server.port, **PLACE)
    try:
        await index.open()
        await index.upsert("ann", [passage()])
        server.kill()
        with pytest.raises(VectorIndexUnavailable):
            await index.query(ANN, EAST, limit=5)
        with pytest.raises(VectorIndexUnavailable):
            await _reached(ChromaServer(server.host, server.port, **PLACE))
        server.start()
        assert [found.turn_id for found in await index.query(ANN, EAST, limit=5)] == ["a"]
        server.stop()
        server.path = tmp_path / "second"
        server.start()
        assert await index.query(ANN, EAST, limit=5) == []
        await index.upsert("ann", [passage("b")])
        assert await index.turn_ids("ann") == {"b"}
    finally:
        await index.close()
        server.stop()


async def test_a_server_that_hangs_or_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        index = ChromaServer("127.0.0.1", deaf.getsockname()[1], timeout_seconds=0.3, **PLACE)
        with pytest.raises(VectorIndexUnavailable, match="Timeout"):
            await _reached(index)
    with pytest.raises(VectorIndexUnavailable):
        await _reached(ChromaServer("127.0.0.1", free_port(), **PLACE))


class _Proxy(BaseHTTPRequestHandler):
    """Answers every request with one status and one body, and keeps the headers."""

    seen: list[dict[str, str]]
    status: int
    body: bytes

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        """No access log."""


@pytest.fixture
def proxy() -> Iterator[tuple[int, type[_Proxy]]]:
    handler = type("Proxy", (_Proxy,), {"seen": [], "status": 200, "body": b'{"nanosecond heartbeat": 1}'})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_address[1], handler
    server.shutdown()
    server.server_close()
    thread.join()


async def test_a_proxys_own_answers_are_unavailable(proxy: tuple[int, type[_Proxy]]) -> None:
    port, handler = proxy
    for handler.status, handler.body in (
        (502, b"<html>bad gateway</html>"),
        (200, b"<html>login</html>"),
        (401, b"who?"),
        (500, b'{"error": {"a": 1}}'),
    ):
        with pytest.raises(VectorIndexUnavailable):
            await _reached(ChromaServer("127.0.0.1", port, **PLACE))


async def test_each_instance_sends_its_own_token(proxy: tuple[int, type[_Proxy]]) -> None:
    port, handler = proxy
    for token in ("first", "second"):
        index = ChromaServer("127.0.0.1", port, auth_token=SecretStr(token), **PLACE)
        await _reached(index)
    assert [headers["authorization"] for headers in handler.seen] == ["Bearer first", "Bearer second"]


async def test_certificates_are_checked_and_calls_time_out() -> None:
    index = ChromaServer("127.0.0.1", 1, ssl=True, timeout_seconds=3, **PLACE)
    api = await index._connect()
    assert api.get_settings().chroma_server_ssl_verify is True
    assert api.get_api_url().startswith("https://127.0.0.1:1/")
    assert api._get_client().timeout.read == 3
    await api.__aexit__(None, None, None)


REQUEST = httpx.Request("POST", "http://chroma.test/")


def chroma_errors() -> list[type[Exception]]:
    import chromadb.errors  # with what comes along it takes 20 MB, which other workers do without

    classes = vars(chromadb.errors).values()
    return [cls for cls in classes if inspect.isclass(cls) and issubclass(cls, chromadb.errors.ChromaError)]


def transport_errors() -> list[type[Exception]]:
    classes = [getattr(httpx, name) for name in httpx.__all__]
    roots = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
    return [cls for cls in classes if inspect.isclass(cls) and issubclass(cls, roots)]


UNAVAILABLE_CHROMA = {
    "AuthorizationError", "ChromaAuthError", "InternalError", "RateLimitError", "VersionMismatchError",
}  # fmt: skip


def made(cls: type[Exception]) -> Exception:
    """An instance without running a constructor, which differs from class to class."""
    exc: Exception = cls.__new__(cls, "text")
    exc.args = ("text",)
    return exc


def test_every_chroma_error_is_mapped() -> None:
    """Outages, overload and refused credentials are worth a retry, everything else is not."""
    names = {cls.__name__ for cls in chroma_errors()}
    assert names >= UNAVAILABLE_CHROMA  # a renamed error of Chroma shows
    for cls in chroma_errors():
        expected = VectorIndexUnavailable if cls.__name__ in UNAVAILABLE_CHROMA else VectorIndexError
        with pytest.raises(expected) as caught, translated():
            raise made(cls)
        assert type(caught.value.__cause__) is cls


def test_every_transport_error_is_unavailable() -> None:
    assert len(transport_errors()) > 15
    for cls in transport_errors():
        if cls is not httpx.HTTPStatusError:
            with pytest.raises(VectorIndexUnavailable), translated():
                raise made(cls)


def test_a_status_of_a_proxy_is_mapped() -> None:
    lasting, passing = (400, 404, 422), (401, 403, 408, 429, 500, 502, 503, 504)
    for status in (*lasting, *passing):
        response = httpx.Response(status, text="<html>", request=REQUEST)
        error = translate(httpx.HTTPStatusError("", request=REQUEST, response=response))
        assert type(error) is (VectorIndexError if status in lasting else VectorIndexUnavailable), status


def test_other_errors_are_mapped() -> None:
    outages = (TimeoutError(), ConnectionRefusedError(111, "refused"), PermissionError(13, "denied"))
    for error in (*outages, json.JSONDecodeError("no", "<html>", 0)):
        with pytest.raises(VectorIndexUnavailable), translated():
            raise error
    for refused in (ValueError("expected embeddings"), TypeError("not a list"), KeyError("ids")):
        with pytest.raises(VectorIndexError), translated():
            raise refused
