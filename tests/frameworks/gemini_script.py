"""A real HTTP server on loopback that speaks Gemini's API from a script."""

import dataclasses
import json
from typing import Any

from tests.servers.openai_script import Reply, Request, ScriptedOpenAI


class ScriptedGemini(ScriptedOpenAI):
    """Answers `generateContent` with the queued replies, as the model."""

    @property
    def asked(self) -> list[Request]:
        """The bodies of the requests to the model."""
        return [one.body for one in self.requests if one.path.endswith(":generateContent")]

    def reply_to(self, path: str, body: Request) -> Reply:
        reply = self._chat(body)
        if reply.status != 200 or not path.split("?")[0].endswith(":generateContent"):
            return Reply(status=404, text=f"no such path: {path}")
        return reply

    def _chat(self, body: Request) -> Reply:
        reply = self._replies.pop(0) if self._replies else Reply(text="{}")
        if reply.raw is not None:
            return reply
        content = {"role": "model", "parts": [{"text": reply.text}]}
        return dataclasses.replace(reply, raw=_answer(content))


def calling(name: str, **arguments: Any) -> Reply:
    """A model's answer that is a call of a tool."""
    call = {"functionCall": {"name": name, "args": arguments}}
    return Reply(raw=_answer({"role": "model", "parts": [call]}))


def _answer(content: dict[str, Any]) -> str:
    return json.dumps({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]})
