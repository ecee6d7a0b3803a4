"""A real HTTP server that speaks Ollama's chat API from a script."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.servers.loopback import Answering, Loopback


@dataclass(frozen=True, slots=True)
class Recorded:
    """An answer to the last byte."""

    body: bytes
    status: int = 200


class _Chat(Answering["ScriptedOllama"]):
    def do_POST(self) -> None:  # noqa: N802 - named by http.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/api/chat" or body["model"] != self.script.model:
            self._send(404, [{"error": f"model {body['model']!r} not found"}])
            return
        self.script.chats.append(body)
        reply = self.script.replies.pop(0)
        if isinstance(reply, Recorded):
            self._say(reply.status, reply.body)
            return
        if isinstance(reply, str):
            told: list[Any] = [{"content": piece} for piece in re.findall(r" ?[^ ]*", reply)]
        else:
            told = [reply]
        lines = [
            {"model": body["model"], "message": {"role": "assistant", **each}, "done": False} for each in told
        ]
        self._send(200, [*lines, {"message": {"role": "assistant", "content": ""}, "done": True}])

    def _send(self, status: int, lines: list[dict[str, Any]]) -> None:
        self._say(status, "".join(f"{json.dumps(line)}\n" for line in lines).encode())

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ScriptedOllama(Loopback):
    """Answers with `replies` in turn: texts, whole messages or what was recorded.

    `chats`: the bodies of the requests.
    """

    handler: ClassVar[Any] = _Chat

    def __init__(self, model: str, replies: Sequence[str | dict[str, Any] | Recorded]) -> None:
        super().__init__()
        self.model, self.replies = model, list(replies)
        self.chats: list[dict[str, Any]] = []
