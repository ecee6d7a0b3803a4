"""The door: whatever way a path is written, or the application mounted, nothing of anybody's memory is behind it without a key."""

import functools
from datetime import UTC, datetime
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from memory_agent.clock import SystemClock
from memory_agent.config import MemoryConfig
from memory_agent.domain import ALL_TENANTS, ApiKey
from memory_agent.errors import AccessDenied, InvalidInput
from memory_agent.keys import new_key
from memory_agent.server.app import create_app
from memory_agent.server.auth import LOCAL, Authenticator, Principal
from memory_agent.server.incoming import source_of

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


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        (TURNS, {401}), ("/%61pi/threads/ada/chat/turns", {401}), (f"{TURNS}/", {401}), (f"{TURNS}%0A", {401, 404}),
        ("/mcp", {401}), ("/mcp/", {401}), ("/metrics", {401}), ("/metrics/", {401}), ("/%6detrics", {401}),
        (f"/{TURNS}", {401, 404}), ("/API/threads/ada/chat/turns", {401, 404}),
        ("/api%2Fthreads/ada/chat/turns", {401, 404}), ("/docs/..%2Fapi/threads/ada/chat/turns", {401, 404}),
    ],
)  # fmt: skip
async def test_no_way_of_writing_a_path_passes_the_door(path: str, statuses: set[int]) -> None:
    """By no method, and wherever the application is mounted."""
    for below in ("", "/memory", "/api"):
        transport = httpx.ASGITransport(app=cast("Any", served(below)))
        async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            for method in ("GET", "HEAD", "OPTIONS", "POST"):
                answer = await client.request(method, below + path)
                assert answer.status_code in statuses, (method, below + path)


async def test_a_preflight_without_an_origin_finds_no_handler() -> None:
    transport = httpx.ASGITransport(app=cast("Any", served("")))
    async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
        answer = await client.options(TURNS, headers={"Access-Control-Request-Method": "GET"})
    assert answer.status_code == 405


# --- keys that fail ------------------------------------------------------------------------------------------
class CountedKeys:
    """A store with one key, and how often it was asked."""

    def __init__(self, key: ApiKey) -> None:
        self.key, self.asked = key, 0

    async def find(self, key_id: str) -> ApiKey | None:
        """The key, if it is this one."""
        self.asked += 1
        return self.key if key_id == self.key.id else None


async def test_keys_that_fail_are_limited_by_source() -> None:
    """Ten at once; then 429 without a look at the store. A key that worked before goes on, and so does another source.

    Behind a trusted proxy the source is whom it names, and nobody else's word counts.
    """
    key, token = new_key(ALL_TENANTS, now=SystemClock().now())
    keys = CountedKeys(key)
    app = create_app(MemoryConfig(server_trusted_proxies=("10.0.0.0/8",)))
    authenticator = Authenticator(cast("Any", keys), SystemClock(), cache_seconds=0)
    app.state.api = SimpleNamespace(authenticator=authenticator)

    async def ask(token: str, address: str = "10.0.0.1", **headers: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=cast("Any", app), client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            return await client.get("/api/nowhere", headers={"Authorization": f"Bearer {token}", **headers})

    def wrong() -> str:
        return new_key(ALL_TENANTS, now=NOW)[1]

    mallory = {"X-Forwarded-For": "1.2.3.4, 203.0.113.7, 10.0.0.9"}
    assert (await ask(token)).status_code == 404
    assert [(await ask(wrong(), **mallory)).status_code for _ in range(12)] == [401] * 10 + [429] * 2
    looked = keys.asked
    refused = await ask(wrong(), **mallory)
    assert (refused.status_code, int(refused.headers["Retry-After"])) == (429, 1)
    assert "from this address were refused" in refused.json()["detail"]
    assert keys.asked == looked
    assert (await ask(token, **mallory)).status_code == 404
    assert (await ask(wrong(), **{"X-Forwarded-For": "203.0.113.8"})).status_code == 401
    pretended = [await ask(wrong(), "203.0.113.7", **{"X-Forwarded-For": f"9.9.9.{n}"}) for n in range(2)]
    assert [answer.status_code for answer in pretended] == [429, 429]


@pytest.mark.parametrize(
    ("client", "forwarded", "source"),
    [
        (("10.0.0.1", 1), "", "10.0.0.1"),
        (("192.0.2.1", 1), "198.51.100.1", "192.0.2.1"),
        (("10.0.0.1", 1), "198.51.100.1, 192.0.2.9", "192.0.2.9"),
        (("10.0.0.1", 1), "198.51.100.1, 10.3.0.1", "198.51.100.1"),
        (("10.0.0.1", 1), "10.0.0.2", "10.0.0.2"),
        (("10.0.0.1", 1), "nonsense", "10.0.0.1"),
        (("::ffff:10.0.0.1", 1), "2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        (None, "198.51.100.1", ""),
    ],
)
def test_a_source_is_the_last_address_that_is_no_trusted_proxy(
    client: tuple[str, int] | None, forwarded: str, source: str
) -> None:
    headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    networks = [ip_network("10.0.0.0/8")]
    assert source_of({"client": client, "headers": headers}, networks) == source


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
