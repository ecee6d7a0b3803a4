"""A real HTTP server on loopback that speaks OpenAI's API from a script, for tests and benchmarks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Request = dict[str, Any]
"""The body of a request."""

DIMENSION = 64
CHUNK_BYTES = 64
_HANG_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One scripted answer to a chat request.

    `status` other than 200 answers an error with `text` as its message. `raw` is sent as it is instead of a
    completion. `headers` are sent as well. `delay_seconds` waits before answering (the server can still be stopped).
    `drop` hangs up without an answer. `sends`, a share of the body from 0 to 1, is all that comes of it; then the
    connection is closed or, with `hangs`, stays open until the client or the server gives up. `chunked` sends the body
    in chunks, without telling its length beforehand.
    """

    text: str = ""
    status: int = 200
    finish_reason: Literal["stop", "length", "content_filter"] = "stop"
    raw: str | bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay_seconds: float = 0.0
    drop: bool = False
    sends: float = 1.0
    hangs: bool = False
    chunked: bool = False
    usage: bool = True


@dataclass
class Recorded:
    """A request as it came in; the names of headers in small letters."""

    path: str
    body: Request
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedOpenAI:
    """`answer` (or else the queue filled by `then`, or else the text "{}") answers chat requests.

    `embed_fault`, if set, answers embedding requests instead (None from it: as usual); `refused_forms` are the
    response_format types that are refused with 400. `requests` keeps all that came in.
    """

    host = "127.0.0.1"

    def __init__(self, answer: Callable[[Request], Reply | str] | None = None, *, port: int = 0) -> None:
        self.answer = answer
        self.port = port
        self.requests: list[Recorded] = []
        self.refused_forms: set[str] = set()
        self.embed_fault: Callable[[Request], Reply | None] | None = None
        self._replies: list[Reply] = []
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.stopping = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}/v1"

    @property
    def chats(self) -> list[Request]:
        return [request.body for request in self.requests if request.path.endswith("/chat/completions")]

    @property
    def embeddings(self) -> list[Request]:
        return [request.body for request in self.requests if request.path.endswith("/embeddings")]

    def then(self, *replies: Reply | str) -> None:
        """Queue replies."""
        self._replies.extend(_as_reply(reply) for reply in replies)

    def reset(self) -> None:
        """Forget script and requests."""
        self.answer = self.embed_fault = None
        self.requests.clear()
        self.refused_forms.clear()
        self._replies.clear()

    def start(self) -> ScriptedOpenAI:
        """Listen, on the same port as before if it was started before."""
        self.stopping.clear()
        self._server = _Server((self.host, self.port), _Handler)
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

    # --- answers ---------------------------------------------------------------------------------------------
    def reply_to(self, path: str, body: Request) -> Reply:
        if path.endswith("/models"):
            return Reply(raw=json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
        if path.endswith("/embeddings"):
            fault = self.embed_fault(body) if self.embed_fault else None
            return fault or Reply(raw=json.dumps(_embeddings(body)))
        if path.endswith("/chat/completions"):
            return self._chat(body)
        return Reply(status=404, text=f"no such path: {path}")

    def _chat(self, body: Request) -> Reply:
        form = body.get("response_format", {}).get("type", "text")
        if form in self.refused_forms:
            return Reply(status=400, text=f"response_format of type {form} is not supported")
        if self.answer is not None:
            reply = _as_reply(self.answer(body))
        else:
            reply = self._replies.pop(0) if self._replies else Reply(text="{}")
        if reply.status != 200 or reply.raw is not None:
            return reply
        return dataclasses.replace(reply, raw=json.dumps(_completion(body, reply)))


def _as_reply(reply: Reply | str) -> Reply:
    return Reply(text=reply) if isinstance(reply, str) else reply


def _completion(body: Request, reply: Reply) -> dict[str, Any]:
    prompt = sum(len(message["content"].split()) for message in body["messages"])
    text, finish = reply.text, reply.finish_reason
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    if limit is not None and len(text.split()) > limit:
        text, finish = " ".join(text.split()[:limit]), "length"
    answer = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
    }
    if reply.usage:
        words = len(text.split())
        answer["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": words,
            "total_tokens": prompt + words,
        }
    return answer


def _embeddings(body: Request) -> dict[str, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    # Out of order, as the API allows.
    data = [
        {"object": "embedding", "index": i, "embedding": word_vector(text)} for i, text in enumerate(texts)
    ][::-1]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def word_vector(text: str) -> list[float]:
    """A deterministic vector (not of unit length) that is near those of texts with the same words."""
    vector = np.full(DIMENSION, 0.01)
    for word in text.lower().split():
        seed = int.from_bytes(hashlib.sha256(word.strip(".,!?").encode()).digest()[:8], "big")
        vector += np.random.default_rng(seed).standard_normal(DIMENSION)
    values: list[float] = vector.tolist()
    return values


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 256
    script: ScriptedOpenAI

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self._answer(json.loads(self.rfile.read(length) or b"{}"))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        """No access log."""

    def _answer(self, body: Request) -> None:
        script = self.server.script
        if script.stopping.is_set():
            self.close_connection = True
            return
        script.requests.append(Recorded(self.path, body, {k.lower(): v for k, v in self.headers.items()}))
        reply = script.reply_to(self.path, body)
        if reply.delay_seconds and script.stopping.wait(reply.delay_seconds):
            self.close_connection = True
            return
        if reply.drop:
            self.close_connection = True
            return
        if reply.raw is not None:
            content = reply.raw
        else:
            content = json.dumps({"error": {"message": reply.text, "type": "scripted", "code": None}})
        self._send(reply, content.encode() if isinstance(content, str) else content)

    def _send(self, reply: Reply, payload: bytes) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        sent = payload[: round(len(payload) * reply.sends)]
        if reply.chunked:
            for start in range(0, len(sent), CHUNK_BYTES):
                chunk = sent[start : start + CHUNK_BYTES]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        else:
            self.wfile.write(sent)
        if reply.hangs:
            self.wfile.flush()
            self.server.script.stopping.wait(_HANG_SECONDS)
        if reply.hangs or reply.sends < 1:
            self.close_connection = True
        elif reply.chunked:
            self.wfile.write(b"0\r\n\r\n")
