"""Somebody who looks at the pages: a browser's cookies, without its JavaScript."""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx

from memory_agent import MemoryService
from memory_agent.inspect.page import HEADERS
from memory_agent.testing import HashEmbedder
from tests.integration.conversations import opened
from tests.servers.service import Served, served

ANN: Final = "of/default/users/ann"
HOME: Final = f"{ANN}/home"
HOSTILE: Final = "<script>alert(1)</script> </textarea> \u202egnp.exe\u202c &amp; {{ 7 * 7 }}"


class Looker:
    """Asks for pages below /inspect/ with the cookies that it was given."""

    def __init__(
        self, server: Served, service: MemoryService, http: httpx.AsyncClient, embedder: HashEmbedder
    ) -> None:
        self.server, self.service, self.http, self.embedder = server, service, http, embedder

    async def sign_in(self, tenant: str = "default", **key: Any) -> str:
        """A new key's login; the key's token."""
        token = await self.server.key(tenant, **key)
        answer = await self.http.post("sign-in", data={"key": token})
        assert answer.status_code == 303, answer.text
        return token

    async def look(self, path: str, /, *, status: int = 200, **query: Any) -> str:
        """The page's HTML, which must have come with every header that protects it."""
        answer = await self.http.get(path, params=query or None)
        assert answer.status_code == status, (path, answer.status_code, answer.text[:500])
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        return answer.text

    async def send(self, path: str, /, **form: str) -> httpx.Response:
        """A form sent."""
        return await self.http.post(path, data=form)

    async def csrf(self, path: str = f"{ANN}?forget=1") -> str:
        """The word that the page's forms carry."""
        found = re.search(r'name="csrf" value="([^"]+)"', await self.look(path))
        assert found is not None
        return found[1]


def text_of(page: str) -> str:
    """What a reader sees of a page: no tags, entities as their characters, runs of blanks as one."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


@contextlib.asynccontextmanager
async def looking(settings: Mapping[str, Any], **server: Any) -> AsyncIterator[Looker]:
    """A served service and somebody at its pages, not signed in yet."""
    embedder = HashEmbedder()
    async with (
        opened(settings, embedder=embedder) as service,
        served(service, **server) as running,
        httpx.AsyncClient(base_url=f"{running.address}/inspect/", timeout=60) as http,
    ):
        yield Looker(running, service, http, embedder)


async def tell_of_walnuts(service: MemoryService) -> None:
    """An allergy, a question, and a message that means harm, of the user `ann` in the thread `home`."""
    memory = service.agent("ann", "home")
    for said, answered in (
        ("By the way, I have a walnut allergy.", "I will keep walnuts out of every recipe."),
        ("What shall we cook on Friday?", "Pasta with sage butter, perhaps."),
        (HOSTILE, "That looks odd."),
        ("My name is Ann and I live in Utrecht.", "Nice to meet you, Ann."),
    ):
        await memory.update_memory(said, answered)
    await memory.settle(60)
