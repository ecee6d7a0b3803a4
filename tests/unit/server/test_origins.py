"""Web pages: without keys only our own may ask, and MCP's preflights are answered where pages may ask."""

from typing import Any, cast

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from memory_agent.config import MemoryConfig
from memory_agent.server.app import create_app
from memory_agent.server.incoming import LocalOnly

PAGE = "https://app.example.org"


def test_origins_are_separated_by_commas_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_AGENT_SERVER_CORS_ORIGINS", "https://a.example, http://localhost:3000")
    assert MemoryConfig().server_cors_origins == ("https://a.example", "http://localhost:3000")


async def asked(headers: dict[str, str], *origins: str) -> int:
    """The status of a POST without a body, with these headers; 200 is the application's."""

    async def answer(scope: AsgiScope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("ok")(scope, receive, send)

    transport = httpx.ASGITransport(app=cast("Any", LocalOnly(answer, origins=origins)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        return (await client.post("/api/threads/ada/chat/compress", headers=headers)).status_code


async def test_our_own_pages_and_programs_of_this_machine_may_ask_and_a_name_made_to_point_here_may_not() -> (
    None
):
    ours = ("127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.0.0.2")
    others = ("evil.example.org", "127.0.0.1.evil.example.org:8080", "192.0.2.1", "", "[", "a@b")
    for host in (*ours, *others):
        expected = 200 if host in ours else 421
        assert await asked({"Host": host}) == expected, host
        assert await asked({"Host": host, "Origin": f"http://{host}"}) == expected, host


async def test_pages_from_elsewhere_are_refused_unless_they_are_named() -> None:
    for origin in (PAGE, "null", "http://127.0.0.1:3000", "https://127.0.0.1:8080"):
        assert await asked({"Origin": origin}) == 403
    assert await asked({"Origin": PAGE}, PAGE) == 200
    assert await asked({"Origin": PAGE}, "*") == 200
    assert await asked({"Origin": "https://evil.example.org"}, PAGE) == 403


def test_only_a_service_without_keys_is_for_this_machine_alone() -> None:
    for insecure in (True, False):
        app = create_app(MemoryConfig(), insecure_no_auth=insecure)
        assert (LocalOnly in [cast("Any", one.cls) for one in app.user_middleware]) == insecure


@pytest.mark.parametrize("origins", [(PAGE,), ()])
async def test_preflights_of_pages_that_may_ask_mcp_are_answered(origins: tuple[str, ...]) -> None:
    app = create_app(MemoryConfig(server_cors_origins=origins))
    preflight = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-protocol-version",
    }
    transport = httpx.ASGITransport(app=cast("Any", app))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.options("/mcp", headers=preflight)
    assert answer.headers.get("Access-Control-Allow-Origin") == (PAGE if origins else None)
    assert (answer.status_code == 200) == bool(origins)
