"""What tests of the REST service share: a client that notes which operations it was answered by, and what to ask."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx

from memory_agent import MemoryConfig, MemoryService
from memory_agent.server.app import create_app
from tests.integration.conversations import opened
from tests.servers.service import Served, served

Test = TypeVar("Test", bound=Callable[..., Any])

ANN: Final = "/api/threads/ann/chat"
LISBON: Final = "I want to plan a trip to Lisbon in May, which sights in Lisbon should I see?"
HOTELS: Final = "Which sights in Lisbon and hotels should I see, I want to plan a trip to Lisbon in May?"
BREAD: Final = "My sourdough bread doesn't rise, what is wrong with my sourdough starter dough?"
PROBLEM: Final = "urn:memory-agent:problem:"


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    found: dict[str, Any] = create_app(MemoryConfig(), insecure_no_auth=True).openapi()
    return found


def operations(of: Mapping[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every operation, by its id."""
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in of["paths"].items()
        for method, operation in methods.items()
    }


def shows(*names: str) -> Callable[[Test], Test]:
    """Mark a test as the one that shows these operations; the fixture `rest` sees to it that each is answered in it."""

    def marked(test: Test) -> Test:
        test.shows = names  # type: ignore[attr-defined]
        return test

    return marked


def segment(text: str) -> str:
    """`text` as one segment of a path."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


class Rest:
    """A client with a key; paths that don't begin with '/' are those of the thread `chat` of the user `ann`."""

    def __init__(self, server: Served, service: MemoryService, client: httpx.AsyncClient) -> None:
        self.server = server
        self.service = service
        self.client = client
        self.answered: set[str] = set()

    async def ask(
        self, method: str, path: str, body: Any = None, *, status: int = 200, **options: Any
    ) -> httpx.Response:
        """The answer, which must have this status."""
        if body is not None:
            options["json"] = body
        answer = await self.client.request(
            method, path if path.startswith("/") else f"{ANN}/{path}", **options
        )
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        assert answer.headers["X-Request-Id"]
        if status < 300:
            self.answered.add(operation_of(method, answer.url.raw_path.decode()))
        return answer

    async def get(self, path: str, /, **params: Any) -> Any:
        """The JSON of what is read there."""
        return (await self.ask("GET", path, params=params)).json()

    async def post(self, path: str, body: Any = None, *, status: int = 200, **options: Any) -> Any:
        """The JSON of the answer; None where there is none."""
        answer = await self.ask("POST", path, body, status=status, **options)
        return answer.json() if answer.content else None

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """The problem that comes back, which must be a whole one; `status` is the one to expect."""
        answer = await self.ask(method, path, body, **options)
        return problem_in(answer)

    async def pages(self, path: str, limit: int, /, **params: Any) -> list[list[Any]]:
        """All pages of a list, one by one."""
        found: list[list[Any]] = []
        cursor = None
        while True:
            page = await self.get(path, limit=limit, **params, **({"cursor": cursor} if cursor else {}))
            found.append(page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return found
            assert len(page["items"]) == limit
            assert len(found) < 1_000, "the list does not end"

    async def say(self, *texts: str) -> list[str]:
        """Questions with an answer to each; the ids of the turns."""
        ids: list[str] = []
        for text in texts:
            body = {"user_msg": text, "assistant_msg": f"About that: {text.lower()}"}
            ids += (await self.post("update", body, status=201))["turn_ids"]
        await self.post("settle", {"timeout": 30}, status=204)
        return ids


def operation_of(method: str, path: str) -> str:
    """The name of the operation that such a request asks for; empty if there is none."""
    parts = path.partition("?")[0].split("/")
    fitting = [
        (sum(map(str.startswith, template, "{" * len(template))), name)
        for verb, template, name in _templates()
        if verb == method
        and len(template) == len(parts)
        and all(ours.startswith("{") or ours == part for ours, part in zip(template, parts, strict=True))
    ]
    return min(fitting)[1] if fitting else ""


@functools.cache
def _templates() -> list[tuple[str, list[str], str]]:
    """Method, parts of the path and name of every operation."""
    return [(method, path.split("/"), name) for name, (method, path, _) in operations(document()).items()]


def problem_in(answer: httpx.Response) -> dict[str, Any]:
    """The problem document, checked for what each must have."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["type"].startswith(PROBLEM)
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == f"urn:uuid:{answer.headers['X-Request-Id']}"
    assert ("Retry-After" in answer.headers) == (answer.status_code in (429, 503))
    assert ("WWW-Authenticate" in answer.headers) == (answer.status_code == 401)
    return problem


@contextlib.asynccontextmanager
async def rest_on(
    settings: Mapping[str, Any],
    *,
    tenant: str = "default",
    server: Mapping[str, Any] | None = None,
    **others: Any,
) -> AsyncIterator[Rest]:
    """A service with these settings, served, and a client with a key of the tenant; `server`: settings of the server."""
    async with (
        opened(settings, **others) as service,
        served(service, **(server or {})) as running,
        httpx.AsyncClient(
            base_url=running.address, headers=await running.headers(tenant), timeout=60
        ) as client,
    ):
        yield Rest(running, service, client)
