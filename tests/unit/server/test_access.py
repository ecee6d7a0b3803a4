"""The door: whatever way a path is written, or the application mounted, nothing of anybody's memory is behind it without a key."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from memory_agent.clock import SystemClock
from memory_agent.config import MemoryConfig
from memory_agent.server.app import create_app
from memory_agent.server.auth import Authenticator

if TYPE_CHECKING:
    from starlette.types import ASGIApp

TURNS = "/api/threads/ada/chat/turns"


class NoKeys:
    """A store without any key."""

    async def find(self, key_id: str) -> None:
        """None, whatever is asked for."""


@functools.cache
def served(below: str) -> ASGIApp:
    """The application, which is not open, as part of another one that is mounted at `below`."""
    app = create_app(MemoryConfig())
    keys = Authenticator(cast("Any", NoKeys()), SystemClock(), cache_seconds=0)
    app.state.api = SimpleNamespace(authenticator=keys)
    return Starlette(routes=[Mount(below, app=app)]) if below else app


@pytest.mark.parametrize("below", ["", "/memory", "/api"])
@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        (TURNS, {401}),
        ("/%61pi/threads/ada/chat/turns", {401}),
        (f"{TURNS}/", {401}),
        (f"{TURNS}%0A", {401, 404}),
        ("/mcp", {401}),
        ("/mcp/", {401}),
        (f"/{TURNS}", {401, 404}),
        ("/API/threads/ada/chat/turns", {401, 404}),
        ("/api%2Fthreads/ada/chat/turns", {401, 404}),
        ("/docs/..%2Fapi/threads/ada/chat/turns", {401, 404}),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
async def test_no_way_of_writing_a_path_passes_the_door(
    below: str, path: str, statuses: set[int], method: str
) -> None:
    transport = httpx.ASGITransport(app=cast("Any", served(below)))
    async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
        assert (await client.request(method, below + path)).status_code in statuses


async def test_a_preflight_without_an_origin_finds_no_handler() -> None:
    transport = httpx.ASGITransport(app=cast("Any", served("")))
    async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
        answer = await client.options(TURNS, headers={"Access-Control-Request-Method": "GET"})
    assert answer.status_code == 405
