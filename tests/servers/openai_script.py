"""A real HTTP server on loopback that speaks OpenAI's API from a script, for tests and benchmarks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tests.servers.loopback import Answering, Loopback

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


class _Handler(Answering["ScriptedOpenAI"]):
    def answer(self, body: bytes) -> None:
        script, asked = self.script, json.loads(body or b"{}")
        if script.stopping.is_set():
            self.close_connection = True
            return
        script.requests.append(Recorded(self.path, asked, {k.lower(): v for k, v in self.headers.items()}))
        reply = script.reply_to(self.path, asked)
        if (reply.delay_seconds and script.stopping.wait(reply.delay_seconds)) or reply.drop:
            self.close_connection = True
            return
        error = {"message": reply.text, "type": "scripted", "code": None}
        content = json.dumps({"error": error}) if reply.raw is None else reply.raw
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
            self.script.stopping.wait(_HANG_SECONDS)
        if reply.hangs or reply.sends < 1:
            self.close_connection = True
        elif reply.chunked:
            self.wfile.write(b"0\r\n\r\n")


class ScriptedOpenAI(Loopback):
    """`answer` (or else the queue filled by `then`, or else the text "{}") answers chat requests.

    `embed_fault`, if set, answers embedding requests instead (None from it: as usual); `refused_forms` are the
    response_format types that are refused with 400. `requests` keeps all that came in.
    """

    handler = _Handler

    def __init__(self, answer: Callable[[Request], Reply | str] | None = None, *, port: int = 0) -> None:
        super().__init__(port=port)
        self.answer = answer
        self.requests: list[Recorded] = []
        self.refused_forms: set[str] = set()
        self.embed_fault: Callable[[Request], Reply | None] | None = None
        self._replies: list[Reply] = []

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

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
    prompt = sum(len(str(message.get("content")).split()) for message in body["messages"])
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
