"""A real HTTP server that speaks Ollama's chat API from a script."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tests.servers.loopback import Answering, Loopback


class _Chat(Answering["ScriptedOllama"]):
    def do_POST(self) -> None:  # noqa: N802 - named by http.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/api/chat" or body["model"] != self.script.model:
            self._send(404, [{"error": f"model {body['model']!r} not found"}])
            return
        self.script.chats.append(body)
        pieces = self.script.replies.pop(0).split(" ")
        told = [{"content": piece if at == 0 else f" {piece}"} for at, piece in enumerate(pieces)]
        lines = [
            {"model": body["model"], "message": {"role": "assistant", **each}, "done": False} for each in told
        ]
        self._send(200, [*lines, {"message": {"role": "assistant", "content": ""}, "done": True}])

    def _send(self, status: int, lines: list[dict[str, Any]]) -> None:
        body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ScriptedOllama(Loopback):
    """Answers with `replies` in turn; `chats`: the bodies of the requests."""

    handler: ClassVar[Any] = _Chat

    def __init__(self, model: str, replies: list[str]) -> None:
        super().__init__()
        self.model, self.replies = model, replies
        self.chats: list[dict[str, Any]] = []
