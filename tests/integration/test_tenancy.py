"""Nothing crosses from one tenant to another, nor from one user to another: over REST, events and MCP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from memory_agent import MemoryAgent
from memory_agent.domain import new_id
from memory_agent.server.auth import Principal
from memory_agent.server.dependencies import Api
from memory_agent.testing import BruteForceIndex
from tests import profiles
from tests.fixtures import outgrown
from tests.integration.conversations import STORES, remains, settings_on
from tests.integration.tenancy import (
    MCP_HEADERS,
    SECONDS,
    Caller,
    Place,
    Reader,
    Tenancy,
    mark_of,
    tenancy_on,
)
from tests.integration.tenants import BY_ID, READS, Tenants, asked_by_id

EXAMPLES: Final = int(os.environ.get("TENANCY_EXAMPLES", "0"))
"""For longer runs, each time with others: so many examples instead of the few that are always the same."""
STEPS: Final = 40
SEED: Final = 5
"""Of examples that are the same each time, with long runs among the first."""
pytestmark = pytest.mark.timeout(0 if EXAMPLES else 300)


def check_tenants(runner: asyncio.Runner, tenancy: Tenancy, examples: int) -> int:
    """Run the machine; how many steps that took."""

    class Machine(Tenants):
        pass

    Machine.tenancy, Machine.runner = tenancy, runner
    if not EXAMPLES:
        seed(SEED)(Machine)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
        ),
    )
    return Machine.steps


@contextlib.contextmanager
def opened(runner: asyncio.Runner, config: Mapping[str, Any], **parts: Any) -> Iterator[Tenancy]:
    """The same on the runner's loop, which goes on while one of the machine's steps runs."""
    opening = tenancy_on(config, **parts)
    tenancy = runner.run(opening.__aenter__())
    try:
        yield tenancy
    finally:
        runner.run(opening.__aexit__(None, None, None))


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.parametrize("way", ["sqlite", pytest.param("servers", marks=pytest.mark.nightly)])
def test_nothing_crosses_between_tenants_whatever_they_do(
    way: str, request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner
) -> None:
    """With hostile ids and every kind of key, over REST, events and MCP; on SQLite, and on MongoDB and Chroma."""
    if way == "sqlite":
        config, parts = settings_on("sqlite", request, tmp_path), {"vectors": BruteForceIndex()}
    else:
        config, parts = request.getfixturevalue("server_settings"), {}
    with opened(runner, config, **parts) as tenancy:
        steps = check_tenants(
            runner, tenancy, 10 if way == "sqlite" and profiles.chosen() == "nightly" else 2
        )
        assert tenancy.asked > 200, (steps, tenancy.asked)
        if EXAMPLES:
            print(f"{steps} steps, {tenancy.asked} requests")


def test_a_service_that_forgets_the_tenant_is_found_out(
    request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the test before would show nothing."""

    def agent(api: Api, principal: Principal, user_id: str, thread_id: str) -> MemoryAgent:
        principal.check_user(user_id)
        return api.service.agent(user_id, thread_id)

    monkeypatch.setattr(Api, "agent", agent)
    config = settings_on("sqlite", request, tmp_path)
    with opened(runner, config, vectors=BruteForceIndex()) as tenancy, pytest.raises(AssertionError):
        check_tenants(runner, tenancy, 1)


# --- one by one --------------------------------------------------------------------------------------------------
@pytest.fixture(params=profiles.by_day(*STORES))
async def tenancy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tenancy]:
    """A service with topics and facts on each store."""
    async with tenancy_on(
        settings_on(request.param, request, tmp_path), vectors=BruteForceIndex()
    ) as tenancy:
        yield tenancy


async def populated(tenancy: Tenancy, tenants: tuple[str, ...]) -> dict[str, tuple[Caller, Place]]:
    """The same user and thread in each tenant, with something in every tier."""
    made = {}
    for number, tenant in enumerate(tenants):
        caller, place = await tenancy.caller(tenant), Place(tenant, "otto", "main")
        mark = tenancy.marks[place] = mark_of(0, number)
        asking: dict[str, Any] = {"about": place, "writes": True}
        await outgrown(tenancy.service, place.scope.user_id)
        start = {"participants": [mark], "metadata": {"mark": mark}}
        await tenancy.rest(caller, "POST", f"{place.path}/sessions", start, **asking)
        for line in (f"My name is {mark.capitalize()}.", f"I live in {mark.capitalize()} Town."):
            said = {"user_msg": line, "assistant_msg": f"Noted, {mark}."}
            headers = {"Idempotency-Key": f"k{line[:4]}"}
            await tenancy.rest(caller, "POST", f"{place.path}/update", said, headers=headers, **asking)
        fact = {"path": "memo", "value": mark}
        await tenancy.rest(
            caller, "PUT", f"{place.path}/facts", fact, headers={"Idempotency-Key": "k"}, **asking
        )
        await tenancy.service.settle(SECONDS)
        again = await tenancy.rest(caller, "POST", f"{place.path}/facts/reextract", **asking)
        assert again.status == 202, again
        await tenancy.rest(caller, "POST", f"{place.path}/compress", **asking)
        made[tenant] = (caller, place)
    await tenancy.service.settle(SECONDS)
    return made


async def all_told(tenancy: Tenancy, caller: Caller, place: Place) -> dict[str, Any]:
    """Everything that can be read of a place, and its vectors."""
    told = {
        what: (await tenancy.rest(caller, "GET", f"{place.path}/{what}", about=place.owner)).json
        for what in READS
    }
    vectors = await tenancy.service.core.vectors.turn_ids(place.scope.user_id)
    search = {"user_id": place.user, "query": "Which town?", "top_k": 50}
    found = await tenancy.rest(caller, "POST", "/api/memory/search", search, about=place.owner)
    fetch = {"user_message": "Which town?", "max_tokens": 2_000}
    context = await tenancy.rest(caller, "POST", f"{place.path}/fetch", fetch, about=place)
    texts = [item["turn"]["content"] for item in found.json["items"]]
    return told | {"vectors": vectors, "search": texts, "fetch": context.json["text"]}


async def test_forgetting_a_user_leaves_those_of_other_tenants_as_they_are(tenancy: Tenancy) -> None:
    """The same id in another tenant keeps all of its tiers, and of the one that went nothing remains."""
    made = await populated(tenancy, ("default", "acme", "acme-2"))
    before = {tenant: await all_told(tenancy, *made[tenant]) for tenant in made}
    for tenant in made:
        assert before[tenant]["turns?limit=1000"]["items"]
        assert len(before[tenant]["vectors"]) == 4
        assert tenancy.marks[made[tenant][1]] in str(before[tenant]["fetch"]).casefold()
    for gone in ("acme", "default"):
        caller, place = made.pop(gone)
        answer = await tenancy.rest(caller, "DELETE", "/api/users/otto", about=place, writes=True)
        assert answer.json["turns"] == 4
        await tenancy.service.settle(SECONDS)
        mark = tenancy.marks[place]
        assert [await remains(tenancy.service, form) for form in (mark, mark.capitalize())] == [[], []]
        assert await tenancy.service.core.vectors.turn_ids(place.scope.user_id) == set()
        for tenant, whose in made.items():
            assert lasting(await all_told(tenancy, *whose)) == lasting(before[tenant]), tenant


def lasting(told: Any) -> Any:
    """What was told, without what tells how late it is."""
    if isinstance(told, dict):
        return {name: lasting(value) for name, value in told.items() if name not in FLEETING}
    return [lasting(value) for value in told] if isinstance(told, list) else told


FLEETING: Final = {
    *("priority", "age_seconds", "inactive_seconds"),  # as of now
    *("access_count", "half_life_days", "memory_type"),  # reading is what they count
}


async def test_another_tenants_ids_are_as_unknown_as_made_up_ones(tenancy: Tenancy) -> None:
    """The same status and the same words, whether the id is of another tenant, another user, or of nobody."""
    made = await populated(tenancy, ("default", "acme"))
    bound = await tenancy.caller("acme", "otto")
    wide, place = made["acme"]
    theirs, foreign = made["default"]
    listed = await tenancy.rest(theirs, "GET", f"{foreign.path}/turns?limit=10", about=foreign)
    turn = listed.json["items"][0]
    named = {"turn": turn["id"], "session": turn["session_id"], "topic": turn["topic_id"]}
    assert all(named.values())
    mine = (await tenancy.rest(wide, "GET", f"{place.path}/topics/current", about=place)).json["topic_id"]
    for caller in (wide, bound):
        for index, (of, *_) in enumerate(BY_ID):
            said = []
            for id_ in (named[of], str(uuid.UUID(int=uuid.UUID(named[of]).int ^ 1))):
                method, path, body = asked_by_id(index, id_, place, mine)
                answer = await tenancy.rest(caller, method, path, body, about=place.owner)
                assert answer.status in (404, 422), (path, answer)
                text = answer.json | {"instance": ""}
                said.append((answer.status, json.dumps(text).replace(id_, "ID")))
            assert said[0] == said[1]
        counts = []
        for id_ in (named["turn"], new_id()):
            body = {"turn_ids": [id_]}
            answer = await tenancy.rest(caller, "POST", f"{place.path}/forget", body, about=place)
            counts.append(answer.json | {"id": ""})
        assert counts[0] == counts[1]
    assert await tenancy.turns(foreign) == 4


async def test_keys_that_do_not_count_are_told_apart_by_nobody(tenancy: Tenancy) -> None:
    """An unknown key gets the answer of a wrong secret, by every way in; which tenants there are is told to none."""
    one, other = await tenancy.caller("acme"), await tenancy.caller("default")
    _, id_, secret = one.token.split("_")
    said = set()
    for token in (
        f"ma_{'a' * 16}_{secret}",  # a key that there is not
        f"ma_{id_}_{other.token.split('_')[2]}",  # the id of one with the secret of another
        f"ma_{id_}_{'a' * 52}",
    ):
        stranger = Caller(tenant="acme", token=token, counts=False)
        place = Place("acme", "otto", "main")
        for method, path, body in (
            ("GET", f"{place.path}/turns", None),
            ("GET", f"{place.path}/events", None),
            ("DELETE", "/api/users/otto", None),
            ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            ("GET", "/api/no-such-address", None),
        ):
            answer = await tenancy.rest(stranger, method, path, body, about=place, headers=MCP_HEADERS)
            assert answer.status == 401
            headers = answer.text.partition("'date', ")[0]
            said.add((json.dumps(answer.json | {"instance": ""}), headers))
        reader = await Reader.opened(tenancy, stranger, place, after=None)
        assert (await reader.close(), reader.status, reader.events) == (None, 401, [])
    assert len(said) == 1, said
