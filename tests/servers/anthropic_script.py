"""A real HTTP server on loopback that speaks Anthropic's Messages API from a script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.servers.loopback import Answering, Loopback


class _Handler(Answering["ScriptedAnthropic"]):
    def answer(self, body: bytes) -> None:
        script, asked = self.script, json.loads(body)
        script.requests.append(asked)
        said = script.replies.pop(0)
        if said is None:
            script.stopping.wait(60)
            self.close_connection = True
            return
        blocks = (
            [{"type": "text", "text": said}] if isinstance(said, str) else [_call(said, len(script.requests))]
        )
        payload = json.dumps(
            {
                "id": f"msg_{len(script.requests)}",
                "type": "message",
                "role": "assistant",
                "model": asked["model"],
                "content": blocks,
                "stop_reason": "end_turn" if isinstance(said, str) else "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def _call(command: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": dict(command)}


class ScriptedAnthropic(Loopback):
    """Answers with replies in turn: text, the input of a call of the memory tool, or None, which keeps the client waiting. `requests` keeps what came in."""

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        self.replies: list[str | Mapping[str, Any] | None] = []

    def script_of(self, *replies: str | Mapping[str, Any] | None) -> None:
        """Answer with these from now on, and forget what was asked before."""
        self.replies[:] = replies
        self.requests.clear()

    @property
    def results(self) -> list[tuple[str, bool]]:
        """What each tool call was answered with, and whether as an error. A client may send a message once, or each time."""
        found: dict[str, tuple[str, bool]] = {}
        for message in (message for request in self.requests for message in request["messages"]):
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_result":
                    said = block["content"]
                    text = said if isinstance(said, str) else said[0]["text"]
                    found[block["tool_use_id"]] = (text, bool(block.get("is_error")))
        return list(found.values())
