"""REST: work that is owed, looked after by the key of a tenant, or of all tenants for everybody's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from memory_agent import Scope, ServiceClient
from memory_agent.domain import ALL_TENANTS
from memory_agent.errors import EmbedderError, SettleTimeout
from tests.integration.rest import ANN, Rest, shows

EXCHANGE = {"user_msg": "My puppy is called Rufus.", "assistant_msg": "Cute!"}
OLD = {"role": "user", "content": "long ago", "timestamp": "2020-01-01T00:00:00Z"}
WORK = ("GET /api/stats", "POST /api/settle", "POST /api/retry", "POST /api/sweep")
WORKER = ("POST /api/worker/pause", "POST /api/worker/resume")


async def operator(rest: Rest) -> dict[str, str]:
    """Headers with a key for all tenants."""
    return await rest.server.headers(ALL_TENANTS)


@shows("memory_status", "user_status", "settle_everybody", "settle_user")
async def test_what_is_owed_is_told_of_everybody_and_of_a_user(rest: Rest) -> None:
    """A key for all tenants counts those of every tenant, and names the tenant whose user it asks for."""
    everybody = await operator(rest)
    acme = {**everybody, "Memory-Agent-Tenant": "acme"}
    await rest.post("update", EXCHANGE, status=201)
    await rest.post("update", EXCHANGE, status=201, headers=acme)
    await rest.post("/api/settle", {"timeout": 30}, status=204, headers=everybody)
    await rest.post("/api/users/ann/settle", {"timeout": 30}, status=204)
    whole = (await rest.ask("GET", "/api/stats", headers=everybody)).json()
    assert (whole["turns"], whole["owed_count"], whole["parked"]) == (4, 0, [])
    assert (await rest.get("/api/users/ann/stats"))["turns"] == 2
    assert (await rest.ask("GET", "/api/users/ann/stats", headers=acme)).json()["turns"] == 2
    assert (await rest.get("/api/users/bob/stats"))["turns"] == 0


@shows("retry_everybody", "retry_user", "retry_thread")
async def test_parked_turns_are_tried_again(rest: Rest) -> None:
    """Of everybody, of a user or of a thread; how many is told."""
    everybody, embedder = await operator(rest), rest.service.core.embedder
    for path, headers in (("retry", {}), ("/api/users/ann/retry", {}), ("/api/retry", everybody)):
        embedder.fail = EmbedderError("the model refuses it")  # type: ignore[attr-defined]
        await rest.post("update", EXCHANGE, status=201)
        told = await rest.refused("POST", "settle", {"timeout": 30}, status=409)
        assert told["type"].endswith(":turns-parked")
        embedder.fail = None  # type: ignore[attr-defined]
        assert await rest.post(path, headers=headers) == {"turns": 2}
        await rest.post("settle", {"timeout": 30}, status=204)
        assert await rest.post(path, headers=headers) == {"turns": 0}


async def test_what_is_parked_for_its_facts_keeps_nobody_waiting_who_does_without_them(rest: Rest) -> None:
    """Of a thread, a user and everybody; a stage that there is not is refused."""
    store = rest.service.core.store
    turn = await rest.service.agent("ann", "chat").add_user_message("I keep bees.")
    await rest.service.agent("ann", "chat").settle(60)
    await store.owe(turn.scope, "facts", now=rest.service.clock.now() + timedelta(days=1), turn_ids=[turn.id])
    await store.postpone(turn.scope, [turn.id], error="broken", due_at=None, counted=True)
    for path, headers in (
        ("settle", {}),
        ("/api/users/ann/settle", {}),
        ("/api/settle", await operator(rest)),
    ):
        await rest.post(path, {"timeout": 0, "without": ["facts"]}, status=204, headers=headers)
        told = await rest.refused("POST", path, {"timeout": 0}, status=409, headers=headers)
        assert told["type"].endswith(":turns-parked")
        await rest.refused("POST", path, {"without": ["fact"]}, status=422, headers=headers)


@shows("rebuild_user", "rebuild_some")
async def test_an_index_is_made_anew_of_a_user_and_of_everybody_in_steps(rest: Rest) -> None:
    """In the background; settle waits for it."""
    await rest.say("My puppy is called Rufus.")
    assert await rest.post("/api/users/ann/rebuild", status=202) == {"turns": 2}
    await rest.post("/api/users/ann/settle", {"timeout": 30}, status=204)
    assert await rest.post("/api/users/bob/rebuild", status=202) == {"turns": 0}
    # Of everybody in steps, where the one behind the last begins anew.
    everybody = await operator(rest)
    for _ in range(2):
        step = await rest.post("/api/rebuild", status=202, headers=everybody)
        assert step == {"turns": 2, "users": 1, "done": 1}


@shows("worker_status", "pause_worker", "resume_worker")
async def test_a_worker_pauses_and_goes_on(rest: Rest) -> None:
    """Paused it leaves everything owed, and whoever waits is told why; nothing is lost."""
    everybody = await operator(rest)
    runs = await rest.get("/api/worker")
    assert (runs["runs"], runs["paused"], runs["down"]) == (True, False, [])
    assert runs["extractor"].startswith("patterns")
    assert (await rest.post("/api/worker/pause", headers=everybody))["paused"] is True
    await rest.post("update", EXCHANGE, status=201)
    told = await rest.refused("POST", "settle", {"timeout": 0.3}, status=409)
    assert "the worker is paused" in told["detail"]
    assert (await rest.get("stats"))["owed_count"] == 2
    assert (await rest.post("/api/worker/resume", headers=everybody))["paused"] is False
    await rest.post("settle", {"timeout": 30}, status=204)


@shows("list_erasures", "replay_erasures")
async def test_erasures_are_listed_and_made_again(rest: Rest) -> None:
    """With a key for all tenants; a receipt names nobody, and what came back after it is kept."""
    everybody = await operator(rest)
    await rest.say("My puppy is called Rufus.")
    await rest.ask("DELETE", "/api/threads/ann/chat")
    listed = (await rest.ask("GET", "/api/erasures", headers=everybody)).json()["items"]
    assert len(listed) == 1
    assert "ann" not in listed[0].values()
    await rest.say("I have a cat now.")
    again = await rest.post("/api/erasures/replay", {"receipts": listed}, headers=everybody)
    assert again == {"calls": 1}
    assert (await rest.get("stats"))["turns"] == 2
    foreign = [{**listed[0], "key": "0000"}]
    told = await rest.refused(
        "POST", "/api/erasures/replay", {"receipts": foreign}, status=422, headers=everybody
    )
    assert "0000" in told["detail"]


@shows("sweep")
async def test_a_sweep_tells_what_it_does(rest: Rest) -> None:
    """Frame by frame: what would be forgotten, and of whose; then the report."""
    everybody = await operator(rest)
    await rest.post("turns", OLD, status=201)
    await rest.post("settle", {"timeout": 30}, status=204)
    answer = await rest.ask("POST", "/api/sweep", {"dry_run": True}, headers=everybody)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    frames = [frame.split("\n") for frame in answer.text.strip().split("\n\n")]
    told = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in frames]
    assert told[-1][0] == "report"
    assert told[-1][1]["dry_run"] is True


async def test_what_concerns_everybody_or_another_tenant_needs_a_key_for_all_tenants(rest: Rest) -> None:
    """A tenant's key is refused with 403, and told which key it takes; one that may only read changes nothing."""
    for operation in [*WORK, *WORKER]:
        method, path = operation.split()
        problem = await rest.refused(method, path, status=403)
        assert "--all-tenants" in problem["detail"]
        if method == "POST" and path != "/api/settle":
            reading = await rest.server.headers(ALL_TENANTS, read_only=True)
            assert (
                "may only read" in (await rest.refused(method, path, status=403, headers=reading))["detail"]
            )
    # The header that names another tenant is refused of any other key, also where what is asked for is there.
    other = {"Memory-Agent-Tenant": "acme"}
    assert "for tenant 'default'" in (await rest.refused("GET", "stats", status=403, headers=other))["detail"]
    await rest.ask("GET", "stats", headers={"Memory-Agent-Tenant": "default"})
    impossible = {**await operator(rest), "Memory-Agent-Tenant": "A b"}
    assert "tenant is 'A b'" in (await rest.refused("GET", "stats", status=422, headers=impossible))["detail"]
    acme = await rest.server.headers("acme")
    assert (await rest.ask("GET", f"{ANN}/stats", headers=acme)).json()["turns"] == 0


# --- the same in Python --------------------------------------------------------------------------------------
@pytest.fixture
async def client(rest: Rest) -> AsyncIterator[ServiceClient]:
    """With a key for all tenants."""
    async with ServiceClient(rest.server.address, api_key=await rest.server.key(ALL_TENANTS)) as client:
        yield client


async def test_a_client_does_what_the_service_does(rest: Rest, client: ServiceClient) -> None:
    """Status, retries, rebuilding and the worker give the same values, of another tenant's users too."""
    service = rest.service
    ann = Scope.of("ann", tenant="acme")
    agent = client.agent("ann", "chat", tenant="acme")
    await agent.update_memory("My puppy is called Rufus.", "Cute!")
    seen: list[int] = []
    await client.settle(30, scope=ann, progress=lambda status: seen.append(status.turns))
    assert seen[-1] == 2
    for scope in (None, ann, agent.scope):
        assert await client.status(scope) == await service.status(scope)
    assert (await client.status(Scope.of("ann"))).turns == 0
    assert await client.rebuild_index("ann", tenant="acme") == 2
    await client.settle(30)
    assert (await client.search("ann", "puppy", tenant="acme"))[0].turn.content == "My puppy is called Rufus."
    assert (await client.pause_worker()).paused
    async with asyncio.timeout(30):
        while (
            await service.worker_status()
        ).at_work:  # a batch gives its leases back after its turns owe nothing
            await asyncio.sleep(0.05)
    assert await client.worker_status() == await service.worker_status()
    await agent.update_memory("It barks.", "Oh.")
    with pytest.raises(SettleTimeout, match="the worker is paused"):
        await client.settle(0.2)
    assert not (await client.resume_worker()).paused
    await client.settle(30)
    assert (await client.forget_user("ann", tenant="acme")).turns == 4
