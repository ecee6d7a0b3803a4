"""Real HTTP servers on loopback, in a thread of the tests: what the scripted ones have in common."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Generic, Self, TypeVar


class Loopback:
    """Listens on `host` and `port`, the same one after a restart; `handler` answers, and finds this as its `script`."""

    host = "127.0.0.1"
    handler: ClassVar[type[Answering[Any]]]

    def __init__(self, *, port: int = 0) -> None:
        self.port = port
        self.stopping = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> Self:
        """Listen."""
        self.stopping.clear()
        self._server = _Server((self.host, self.port), self.handler)
        self._server.script = self
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening and drop what hangs."""
        self.stopping.set()
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.shutdown()
            server.server_close()
            self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 256
    script: Any

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


Script = TypeVar("Script", bound=Loopback)


class Answering(BaseHTTPRequestHandler, Generic[Script]):
    """The handler of a request, without an access log; `script` is whose request it is."""

    protocol_version = "HTTP/1.1"
    server: _Server

    @property
    def script(self) -> Script:
        return self.server.script  # type: ignore[no-any-return]

    def do_GET(self) -> None:
        self.answer(b"")

    def do_HEAD(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self, body: bytes) -> None:
        """Answer the request that was read."""
        raise NotImplementedError

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        """No access log."""
