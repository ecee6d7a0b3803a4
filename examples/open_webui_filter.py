"""
title: Memory
description: Recalls from a memory_agent service before each answer, and remembers the exchange after it.
requirements: httpx
"""

# For Open WebUI: Admin Panel, Functions, "+": paste this file, save it, set the valves `url` and `key_file` (or `api_key`), and switch
# it on for all models. A chat is a thread, the account's id the user. While the memory is away, chats go on without it.

import logging
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel, Field

log = logging.getLogger(__name__)


def said(message: dict[str, Any]) -> str:
    """The text of a message, which may have images beside it."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


# What a model thought and which tools it ran, which Open WebUI writes into the answer.
BESIDE = re.compile(r'<details type="(?:reasoning|tool_calls|code_interpreter)".*?</details>', re.S)


class Filter:
    class Valves(BaseModel):
        url: str = Field("http://127.0.0.1:8080", description="Address of the memory service.")
        api_key: str = Field("", description="Its key, made by `memory-agent keys create`.")
        key_file: str = Field("", description="Or the file that holds it.")
        max_tokens: int = Field(2000, description="The most that is recalled for an answer.")
        timeout: float = Field(3.0, description="Seconds that an answer may have to wait for the memory.")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self.certificates = httpx.create_ssl_context()  # read once: it takes longer than to ask

    async def inlet(
        self,
        body: dict[str, Any],
        __user__: dict[str, Any] | None = None,
        __metadata__: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Put what is known for the user's last message before the messages. Open WebUI does not keep that."""
        messages = body.get("messages") or []
        last = said(messages[-1]) if messages and messages[-1].get("role") == "user" else ""
        where = self._thread(__user__, __metadata__ or body)
        if not last.strip() or where is None:
            return body
        asked = {"user_message": last, "max_tokens": self.valves.max_tokens, "window": False}
        answer = await self._ask(f"{where}/fetch", asked)
        if answer and answer["text"]:
            at = 1 if messages[0].get("role") == "system" else 0
            body["messages"] = [*messages[:at], {"role": "system", "content": answer["text"]}, *messages[at:]]
        return body

    async def outlet(
        self,
        body: dict[str, Any],
        __user__: dict[str, Any] | None = None,
        __metadata__: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Remember the last exchange. An answer that was made again counts as another one."""
        messages = [each for each in body.get("messages") or [] if each.get("role") in ("user", "assistant")]
        where = self._thread(__user__, __metadata__ or body)
        if len(messages) < 2 or where is None:
            return body
        question, answer = messages[-2:]
        texts = said(question).strip(), BESIDE.sub("", said(answer)).strip()
        if (question["role"], answer["role"]) == ("user", "assistant") and all(texts):
            key = f"open-webui {question.get('id')} {answer.get('id')}" if answer.get("id") else None
            exchange = {"user_msg": texts[0], "assistant_msg": texts[1]}
            await self._ask(f"{where}/update", exchange, **({"Idempotency-Key": key} if key else {}))
        return body

    def _thread(self, user: dict[str, Any] | None, told: dict[str, Any]) -> str | None:
        chat = told.get("chat_id")
        if not user or not user.get("id") or not chat or str(chat).startswith("local"):  # a temporary chat
            return None
        return f"/api/threads/{quote(str(user['id']), safe='')}/{quote(str(chat), safe='')}"

    def _key(self) -> str:
        return Path(self.valves.key_file).read_text().strip() if self.valves.key_file else self.valves.api_key

    async def _ask(self, path: str, asked: dict[str, Any], **headers: str) -> dict[str, Any] | None:
        try:
            key = self._key()
            sent = {"Authorization": f"Bearer {key}", **headers} if key else headers
            async with httpx.AsyncClient(timeout=self.valves.timeout, verify=self.certificates) as http:
                answer = await http.post(self.valves.url.rstrip("/") + path, json=asked, headers=sent)
                answer.raise_for_status()
                found: dict[str, Any] = answer.json()
                return found
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as exc:
            log.warning("without memory: %s", exc)
            return None
