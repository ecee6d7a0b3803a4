"""A second way for the agent's own tests: what they open is served, and what they hold asks it over a real socket.

A module runs both ways that says `pytestmark = pytest.mark.usefixtures("both_ways")`. Over HTTP `async with MemoryService(…)`
opens the service as ever, on SQLite, serves it on a free port with a key, and gives the test an `OverHttp`. By day only
tests marked with `both_ways_by_day` do, a few of each noun: tests/integration/test_both_ways.py compares call by call what an
agent and a client give.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx
import pytest

from memory_agent import MemoryService, ServiceClient
from memory_agent.domain import ALL_TENANTS
from tests import profiles
from tests.servers.service import served

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS: Final = ("agent", "client")
both_ways_by_day: Final = pytest.mark.parametrize("both_ways", WAYS, indirect=True)
ON_SERVERS: Final = frozenset({"mongodb", "servers", "servers-large-users"})
"""What tests that run on several stores call those behind servers."""


class Socket(httpx.AsyncHTTPTransport):
    """Counts the answers that came over a TCP connection to the server at `address`."""

    def __init__(self, address: str) -> None:
        super().__init__(verify=False)  # nothing is encrypted here, and reading certificates takes its time
        self.answers = 0
        self.asked: set[tuple[str, str]] = set()
        """Methods and paths of what was answered well."""
        where = urlsplit(address)
        self._there = (where.hostname, where.port)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        assert answer.extensions["network_stream"].get_extra_info("server_addr") == self._there
        assert "X-Request-Id" in answer.headers  # a memory service gives one to every request
        self.answers += 1
        if answer.is_success:
            self.asked.add((request.method, request.url.raw_path.decode()))
        return answer


class OverHttp(ServiceClient):
    """Stands for a service in tests: agents and all that a ServiceClient has go over HTTP.

    Everything else (parts, settings, clock, worker, sweep) is the service's own, so that tests can look behind it.
    """

    def __init__(self, service: MemoryService, address: str, token: str, socket: Socket) -> None:
        super().__init__(address, api_key=token, transport=socket)
        self.behind = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


class Doors:
    """Serves every MemoryService that is opened, until it is closed."""

    def __init__(self) -> None:
        self.sockets: list[Socket] = []
        self._enter: Any = MemoryService.__aenter__
        self._exit: Any = MemoryService.__aexit__
        self._open: dict[MemoryService, contextlib.AsyncExitStack] = {}

    def put_up(self, patch: pytest.MonkeyPatch) -> None:
        """Serve what is opened from now on, until the patch is undone."""

        async def entered(service: MemoryService) -> OverHttp:
            return await self._entered(service)

        async def left(service: MemoryService, *error: Any) -> None:
            await self._left(service, *error)

        patch.setattr(MemoryService, "__aenter__", entered)
        patch.setattr(MemoryService, "__aexit__", left)

    async def _entered(self, service: MemoryService) -> OverHttp:
        async with contextlib.AsyncExitStack() as stack:
            await self._enter(service)
            stack.push_async_exit(lambda *error: self._exit(service, *error))
            server = await stack.enter_async_context(served(service))
            socket = Socket(server.address)
            client = OverHttp(service, server.address, await server.key(ALL_TENANTS), socket)
            await stack.enter_async_context(client)
            self.sockets.append(socket)
            self._open[service] = stack.pop_all()
        return client

    async def _left(self, service: MemoryService, *error: Any) -> None:
        await self._open.pop(service).__aexit__(*error)


@pytest.fixture(params=profiles.by_day(*WAYS))
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the service in the test's own process, and over HTTP; there each test must have been answered."""
    if request.param == "agent":
        yield
        return
    doors = Doors()
    with pytest.MonkeyPatch.context() as patch:
        doors.put_up(patch)
        yield
    assert doors.sockets, "the test opened no service; mark it with @embedded_only(why)"
    assert sum(socket.answers for socket in doors.sockets), (
        "the test asked nothing over HTTP; mark it with @embedded_only(why)"
    )


def embedded_only(why: str) -> pytest.MarkDecorator:
    """Mark a test that makes no sense over HTTP. `why` is for the reader."""
    assert why
    return pytest.mark.parametrize("both_ways", ["agent"], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Over HTTP on SQLite alone: the stores' differences end below the agent, and the suite is long enough."""
    over_http = [item for item in items if _parameters(item).get("both_ways") == "client"]
    on_servers = {
        item for item in over_http if not ON_SERVERS.isdisjoint(map(str, _parameters(item).values()))
    }
    items[:] = [item for item in items if item not in on_servers]


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}
