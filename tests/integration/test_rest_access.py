"""REST: who may ask for what, and how much of it. What is asked is derived from the OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from memory_agent.domain import ALL_TENANTS
from tests.integration.rest import Rest, document, operations, problem_in, rest_on

OPERATIONS: Final = {
    name: found for name, found in operations(document()).items() if found[1].startswith("/api/")
}
READING_POSTS: Final = {"search_memory", "fetch_memory", "settle_thread", "settle_user", "settle_everybody"}
"""Those that ask with a body and change nothing."""
OF_EVERYBODY: Final = {
    "list_erasures",
    "memory_status",
    "settle_everybody",
}
"""What only a key for all tenants may ask."""
OF_NOBODY: Final = {"worker_status"}
"""What tells of the process that answers, and of no user."""
WRITING: Final = [
    name for name, (method, _, _) in OPERATIONS.items() if method != "GET" and name not in READING_POSTS
]
EXCHANGE: Final = {"user_msg": "My puppy is called Rufus.", "assistant_msg": "Cute!"}


@pytest.fixture
async def rest(tmp_path: Path) -> AsyncIterator[Rest]:
    """A client of a service that believes no key any longer than it must."""
    async with rest_on({"data_dir": tmp_path}, server={"server_key_cache_seconds": 0.0}) as client:
        yield client


def asked(name: str, *, user: str = "ann") -> dict[str, Any]:
    """A request for the operation, of this user: as `httpx` takes it."""
    method, path, operation = OPERATIONS[name]
    url = path.replace("{user_id}", user).replace("{thread_id}", "chat")
    for part in ("{session_id}", "{topic_id}", "{turn_id}"):
        url = url.replace(part, "unknown")
    request: dict[str, Any] = {"method": method, "url": url}
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        ref = next((one["$ref"] for one in schema.get("anyOf", [schema]) if "$ref" in one), "")
        examples = document_schema(ref.rpartition("/")[2]).get("examples", [{}])
        request["json"] = {**examples[0], **({"user_id": user} if "user_id" in examples[0] else {})}
    if "{session_id}" in path or name == "list_users":
        request["params"] = {"user_id": user}
    return request


def document_schema(name: str) -> dict[str, Any]:
    """A component of the document."""
    found: dict[str, Any] = _SCHEMAS[name]
    return found


_SCHEMAS: Final = document()["components"]["schemas"]


async def send(rest: Rest, headers: dict[str, str], **request: Any) -> httpx.Response:
    """The answer to a request with these headers instead of the client's key."""
    async with httpx.AsyncClient(base_url=rest.server.address, timeout=30) as client:
        return await client.request(headers=headers, **request)


async def count(rest: Rest, user: str = "ann") -> int:
    """How many turns the user's thread has."""
    return len((await rest.get(f"/api/threads/{user}/chat/turns"))["items"])


# --- who -----------------------------------------------------------------------------------------------------
async def test_without_a_valid_key_every_operation_is_refused(rest: Rest) -> None:
    """401 with how to authenticate; a wrong secret, an unknown key and a malformed one are told alike."""
    token = await rest.server.key()
    wrong = f"{token[:-1]}{'a' if token[-1] != 'a' else 'b'}"
    unknown = f"ma_{'a' * 16}_{'a' * 52}"
    for name in OPERATIONS:
        answer = await send(rest, {}, **asked(name))
        assert (answer.status_code, problem_in(answer)["type"].rpartition(":")[2]) == (401, "access-denied")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    details = set()
    for given in (f"Bearer {wrong}", f"Bearer {unknown}"):
        answer = await send(rest, {"Authorization": given}, **asked("list_turns"))
        assert answer.status_code == 401
        details.add(problem_in(answer)["detail"])
        assert wrong not in answer.text
    assert len(details) == 1
    for given in ("Bearer", f"Basic {token}", token, "Bearer ma_", f"Bearer {token} {token}"):
        answer = await send(rest, {"Authorization": given}, **asked("list_turns"))
        assert answer.status_code == 401, given
    answer = await send(rest, {}, method="GET", url=f"/api/threads/ann/chat/turns?api_key={token}")
    assert answer.status_code == 401
    assert (await send(rest, {"Authorization": f"bearer {token}"}, **asked("list_turns"))).status_code == 200
    begun = datetime.now(UTC) - timedelta(days=1)
    for hours, status in ((48, 200), (1, 401)):
        headers = await rest.server.headers(now=begun, expires_at=begun + timedelta(hours=hours))
        answer = await send(rest, headers, **asked("list_turns"))
        assert answer.status_code == status
    assert "expired" in problem_in(answer)["detail"]


async def test_a_key_that_may_only_read_reads_everything_and_changes_nothing(rest: Rest) -> None:
    """403 for every operation that is no GET, but for those that only ask; these are answered as with any other key."""
    await rest.post("update", EXCHANGE, status=201)
    headers = await rest.server.headers(read_only=True)
    assert len(WRITING) > 20
    for name in set(OPERATIONS) - {"stream_events"}:
        answer = await send(rest, headers, **asked(name))
        if name in WRITING:
            assert (answer.status_code, problem_in(answer)["type"].rpartition(":")[2]) == (
                403,
                "access-denied",
            ), name
        else:
            allowed = (403,) if name in OF_EVERYBODY else (200, 204, 404, 409)
            assert answer.status_code in allowed, (name, answer.text)
    assert [turn["content"] for turn in (await rest.get("turns"))["items"]] == list(EXCHANGE.values())
    assert len((await rest.get("sessions"))["items"]) == 1
    history = (await rest.get("facts/history"))["items"]
    assert [one for one in history if one["sources"][0]["turn_id"] is None] == []


async def test_a_key_of_one_user_works_for_that_user_and_is_refused_for_another(rest: Rest) -> None:
    """403 by whatever operation, without a word of whether the other one exists."""
    await rest.post("/api/threads/bob/chat/update", EXCHANGE, status=201)
    headers = await rest.server.headers(user_id="ann")
    for name in set(OPERATIONS) - OF_NOBODY:
        details = set()
        for user in ("bob", "nobody"):
            answer = await send(rest, headers, **asked(name, user=user))
            assert answer.status_code == 403, (name, answer.text)
            details.add(problem_in(answer)["detail"].replace(user, ""))
        assert len(details) == 1
        assert "Rufus" not in answer.text
    assert await count(rest, "bob") == 2
    # Sessions are found by their id alone, those of another user are not.
    headers = await rest.server.headers(user_id="ann")
    answer = await send(rest, headers, method="POST", url="/api/threads/ann/chat/update", json=EXCHANGE)
    assert answer.status_code == 201
    await rest.post("/api/threads/bob/chat/update", EXCHANGE, status=201)
    for user, status in (("ann", 200), ("bob", 404)):
        session = (await rest.get(f"/api/threads/{user}/chat/sessions/current"))["id"]
        for part in ("", "/context", "/history", "/summary"):
            answer = await send(rest, headers, method="GET", url=f"/api/sessions/{session}{part}")
            assert answer.status_code == status, (user, part)
            # a conversation that short has no summary
            assert ("Rufus" in answer.text) == (
                user == "ann" and part in {"/context", "/history", "/summary"}
            )


# --- how much ------------------------------------------------------------------------------------------------


async def test_a_key_has_so_many_requests_at_once(tmp_path: Path) -> None:
    """429 for one more than those; when they are answered, the next is served."""
    settings = {"data_dir": tmp_path, "run_worker": False}
    async with rest_on(settings, server={"server_concurrent_requests": 2}) as rest:
        await rest.post("update", EXCHANGE, status=201)
        settle = [asyncio.create_task(rest.ask("POST", "settle", {"timeout": 60}, status=204)) for _ in "ab"]
        other = await rest.server.headers(ALL_TENANTS)
        in_flight = "memory_agent_http_requests_in_flight 3.0"  # the question for it is one of them
        while in_flight not in (await send(rest, other, method="GET", url="/metrics")).text:
            await asyncio.sleep(0.02)
        problem = await rest.refused("GET", "turns", status=429)
        assert problem["type"].endswith(":rate-limited")
        assert (await send(rest, other, **asked("list_turns"))).is_success
        working = asyncio.create_task(rest.service.run_worker(stop := asyncio.Event()))
        await asyncio.gather(*settle)
        stop.set()
        await working
        assert await count(rest) == 2


async def test_a_key_may_send_so_much(rest: Rest) -> None:
    """413 above the key's own limit, however the body comes; a larger limit than the service's holds as well."""
    small = await rest.server.headers(max_body_bytes=1_000)
    body = {**EXCHANGE, "assistant_msg": "x" * 2_000}
    update = {"method": "POST", "url": "/api/threads/ann/chat/update"}
    answer = await send(rest, small, **update, json=body)
    assert (answer.status_code, problem_in(answer)["max_bytes"]) == (413, 1_000)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 100

    answer = await send(rest, {**small, "Content-Type": "application/json"}, **update, content=pieces())
    assert answer.status_code == 413
    assert (await send(rest, small, **update, json=EXCHANGE)).status_code == 201
    assert (await send(rest, await rest.server.headers(), **update, json=body)).status_code == 201


# --- where from ----------------------------------------------------------------------------------------------
PREFLIGHT: Final = {
    "Origin": "https://app.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
}


async def test_browsers_of_other_origins_are_not_served_by_default(rest: Rest) -> None:
    """No header allows them, neither before nor with the request."""
    answer = await send(rest, PREFLIGHT, method="OPTIONS", url="/api/threads/ann/chat/update")
    assert answer.status_code in (400, 401, 405)
    answer = await send(rest, {**rest.client.headers, "Origin": "https://app.example"}, **asked("list_turns"))
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_browsers_of_named_origins_are_served(tmp_path: Path) -> None:
    """The preflight needs no key; refusals carry the headers too, so that a page can read them; others stay outside."""
    server = {"server_cors_origins": ("https://app.example",)}
    async with rest_on({"data_dir": tmp_path}, server=server) as rest:
        answer = await send(rest, PREFLIGHT, method="OPTIONS", url="/api/threads/ann/chat/update")
        assert answer.status_code == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert "idempotency-key" in answer.headers["Access-Control-Allow-Headers"].lower()
        origin = {"Origin": "https://app.example"}
        for headers, status in (({**rest.client.headers, **origin}, 200), (origin, 401)):
            answer = await send(rest, headers, **asked("list_turns"))
            assert answer.status_code == status
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
            assert "X-Request-Id" in answer.headers["Access-Control-Expose-Headers"]
        stranger = {**PREFLIGHT, "Origin": "https://evil.example"}
        answer = await send(rest, stranger, method="OPTIONS", url="/api/threads/ann/chat/update")
        assert "Access-Control-Allow-Origin" not in answer.headers
