"""The door: whatever way a path is written, or the application mounted, nothing of anybody's memory is behind it without a key."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from memory_agent.clock import SystemClock
from memory_agent.config import MemoryConfig
from memory_agent.domain import ALL_TENANTS
from memory_agent.errors import AccessDenied, InvalidInput
from memory_agent.keys import new_key
from memory_agent.server.app import create_app
from memory_agent.server.auth import LOCAL, Authenticator, Principal

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


# --- who asks --------------------------------------------------------------------------------------------------
NOW = datetime(2027, 1, 31, 18, 30, tzinfo=UTC)


async def test_a_key_of_the_process_s_own_counts_without_a_store() -> None:
    """It is for all tenants; no other key counts then, and without any at all everybody is let in."""
    key, token = new_key(ALL_TENANTS, now=NOW)
    _, other = new_key(ALL_TENANTS, now=NOW)
    own = Authenticator(None, SystemClock(), cache_seconds=0, own=key)
    principal = await own.principal(token)
    assert (principal.tenant, principal.all_tenants, principal.key_id) == ("default", True, key.id)
    for wrong in (None, other, f"{token[:-1]}{'a' if token[-1] != 'a' else 'b'}"):
        with pytest.raises(AccessDenied) as refused:
            await own.principal(wrong)
        assert refused.value.status == 401
    assert await Authenticator(None, SystemClock(), cache_seconds=0).principal(None) == LOCAL


def test_only_who_may_ask_for_all_tenants_names_another_one() -> None:
    """The tenant of its own may always be named; what can be none is refused."""
    one, all_ = Principal(tenant="acme"), Principal(all_tenants=True)
    assert one.acting_for(None) is one
    assert one.acting_for("acme") is one
    with pytest.raises(AccessDenied, match="for tenant 'acme', not for 'default'"):
        one.acting_for("default")
    assert all_.acting_for("acme").tenant == "acme"
    with pytest.raises(InvalidInput, match="tenant is"):
        all_.acting_for("*")
    all_.check_all_tenants()
    with pytest.raises(AccessDenied, match="--all-tenants"):
        one.check_all_tenants()
