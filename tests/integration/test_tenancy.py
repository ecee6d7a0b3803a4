"""Nothing crosses from one tenant to another, nor from one user to another: over REST, events and MCP."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from memory_agent import MemoryAgent
from memory_agent.domain import new_id
from memory_agent.server.auth import Principal
from memory_agent.server.dependencies import Api
from memory_agent.testing import BruteForceIndex
from tests import profiles
from tests.fixtures import outgrown
from tests.integration.conversations import STORES, remains, settings_on
from tests.integration.rest import segment
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

pytestmark = pytest.mark.timeout(300)

TENANTS: Final = ("default", "acme", "acme-2")
HOSTILE_USERS: Final = (
    ("otto", "Otto", "acme/otto"),
    ("оtto", "acme%1Fotto", 'otto?user_id=acme&x={"$ne": 0}'),  # the first begins with a Cyrillic o
)
HOSTILE: Final = ("acme\x1fotto", "acme-2\x1fotto", "acme\x1f", "\x1fotto", "otto\x1f", "\x1f", "")
"""Ids that would be another tenant's user in the stores."""
KINDS: Final = (
    *("any", "any", "own", "reader", "own reader", "spare", "expired", "chimera", "wrong", "unknown"),
)
REFUSED: Final = ("expired", "chimera", "wrong", "unknown")

READS: Final = (
    *("turns?limit=1000", "turns?limit=1", "turns/recent?limit=100", "context", "compressions", "entities"),
    *("entities?scope=user", "stats", "facts", "facts?scope=user", "facts/history"),
    *("facts/history?scope=user&limit=1", "topics?archived=true", "topics?limit=1", "topics/current"),
    *("topics/current/history", "sessions", "sessions?limit=1", "sessions/current"),
)
# About a user or a thread (`writes`): what is owed there, and who there is.
OWED: Final[tuple[tuple[str, str, bool], ...]] = (
    ("GET", "{user}/stats", False),
    ("GET", "{user}/threads", False),
    ("GET", "{thread}", False),
    ("POST", "{user}/settle", False),
    ("POST", "{user}/retry", True),
    ("POST", "{thread}/retry", True),
    ("POST", "{user}/rebuild", True),
)
# About everybody: not for the key of a tenant.
EVERYBODY: Final = (
    ("GET", "/api/stats"),
    ("POST", "/api/settle"),
    ("POST", "/api/retry"),
    ("POST", "/api/worker/pause"),
    ("POST", "/api/worker/resume"),
    ("POST", "/api/sweep"),
)
# What takes an id: of what, with the method and the body; `{id}` is where it stands.
BY_ID: Final[tuple[tuple[str, str, str, Any], ...]] = (
    ("session", "GET", "/api/sessions/{id}", None),
    ("session", "GET", "/api/sessions/{id}?user_id={user}", None),
    ("session", "GET", "/api/sessions/{id}/context?user_id={user}", None),
    ("session", "GET", "/api/sessions/{id}/summary", None),
    ("session", "GET", "/api/sessions/{id}/history?user_id={user}", None),
    ("session", "POST", "/api/sessions/{id}/compress", None),
    ("session", "GET", "turns?session_id={id}", None),
    ("turn", "GET", "turns/{id}/topic?timeout=0", None),
    ("topic", "GET", "topics/{id}", None),
    ("topic", "GET", "topics/{id}/context", None),
    ("topic", "GET", "topics/{id}/history", None),
    ("topic", "POST", "topics/{id}/merge", {"into": "{id}"}),
    ("topic", "POST", "topics/{own}/merge", {"into": "{id}"}),
    ("topic", "POST", "topics/{id}/split", None),
    ("topic", "POST", "topics/{id}/tags", {"add": ["seen"]}),
    ("topic", "POST", "topics/{id}/importance", {"importance": 0.5}),
    ("topic", "POST", "topics/{id}/archive", None),
    ("topic", "POST", "topics/{id}/restore", None),
    (
        "topic",
        "POST",
        "/api/memory/search",
        {"user_id": "{user}", "thread_id": "{thread}", "query": "town", "topic_id": "{id}"},
    ),
    ("topic", "POST", "feedback", {"turn_or_topic": "{id}", "useful": True}),
    ("turn", "POST", "feedback", {"turn_or_topic": "{id}", "useful": True}),
    ("turn", "POST", "facts/revert", {"path": "memo", "to": "{id}"}),
)


def filled(value: Any, **values: str) -> Any:
    """A request with these values in the places of their names."""
    if isinstance(value, dict):
        return {name: filled(inner, **values) for name, inner in value.items()}
    for name, given in values.items() if isinstance(value, str) else ():
        value = value.replace(f"{{{name}}}", given)
    return value


def asked_by_id(index: int, id_: str, place: Place, own: str) -> tuple[str, str, Any]:
    """Method, path and body of an operation that takes an id; `own` is that of a topic of the thread itself."""
    _, method, path, body = BY_ID[index]
    path = filled(path, id=segment(id_), user=segment(place.user), own=own)
    body = filled(body, id=id_, user=place.user, thread=place.thread or "")
    return method, path if path.startswith("/") else f"{place.path}/{path}", body


@pytest.fixture(params=profiles.by_day(*STORES))
async def tenancy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tenancy]:
    """A service with topics and facts on each store."""
    async with tenancy_on(
        settings_on(request.param, request, tmp_path), vectors=BruteForceIndex()
    ) as tenancy:
        yield tenancy


# --- whatever they do ----------------------------------------------------------------------------------------------
async def live(tenancy: Tenancy, users: tuple[str, ...]) -> dict[Place, Caller]:
    """Everybody says the same in each thread, by every way in; with which key of the tenant."""
    callers = {tenant: await tenancy.caller(tenant) for tenant in TENANTS}
    places = [
        Place(tenant, user, thread) for tenant in TENANTS for user in users for thread in ("..", "a%2Fb")
    ]
    tenancy.marks.update({place: mark_of(1, number) for number, place in enumerate(places)})
    for place in places:
        caller, mark = callers[place.tenant], tenancy.marks[place]
        said, reply = (
            f"My name is {mark.capitalize()}. I live in {mark.capitalize()} Town.",
            f"Noted, {mark}.",
        )
        bulk = {"turns": [{"role": "user", "content": said, "speaker": mark}]}
        asking: dict[str, Any] = {"about": place, "writes": True}
        for method, path, body in (
            ("POST", "sessions", {"participants": [mark], "metadata": {"k": mark}}),
            ("POST", "update", {"user_msg": said, "assistant_msg": reply}),
            ("POST", "turns/bulk", bulk),
            ("PUT", "facts", {"path": "memo", "value": mark}),
        ):
            headers = {"Idempotency-Key": path.replace("/", "-")}  # the same everywhere
            answer = await tenancy.rest(
                caller, method, f"{place.path}/{path}", body, headers=headers, **asking
            )
            assert answer.status in (200, 201), answer
        assert (await tenancy.tool(caller, "remember", text=said, reply=reply, **asking)).status == 200
        assert (await tenancy.tool(caller, "correct_fact", path="pet", value=mark, **asking)).status == 200
    await tenancy.service.settle(SECONDS)
    return {place: callers[place.tenant] for place in places}


async def ask_all(tenancy: Tenancy, caller: Caller, place: Place, other: Place) -> None:
    """Everything that there is to read, and the words of another."""
    for what in READS:
        about = place.owner if "scope=user" in what else place
        answer = await tenancy.rest(caller, "GET", f"{place.path}/{what}", about=about)
        assert answer.status == 200 or "current" in what, answer
        if what == "turns?limit=1000":
            assert len(answer.json["items"]) == 5
    query = f"Who is {tenancy.marks[other]}, and where is the town of {other.user}?"
    search = {"user_id": place.user, "query": query, "top_k": 100}
    for path, body, about in (
        ("/api/memory/search", search, place.owner),
        ("/api/memory/search", {**search, "thread_id": place.thread}, place),
        (f"{place.path}/fetch", {"user_message": query, "max_tokens": 4_000}, place),
    ):
        assert (await tenancy.rest(caller, "POST", path, body, about=about)).status == 200
    tools: tuple[tuple[str, dict[str, Any], Place], ...] = (
        ("recall", {"question": query, "top_k": 50}, place),
        ("recall", {"question": query, "top_k": 50, "scope": "user"}, place.owner),
        ("context", {"message": query}, place),
        ("facts", {}, place),
        ("topics", {"archived": True}, place),
    )
    for name, arguments, about in tools:
        assert (await tenancy.tool(caller, name, about=about, **arguments)).status == 200


async def look_after(tenancy: Tenancy, caller: Caller, place: Place, other: Place) -> None:
    """What is owed there; another tenant's and everybody's is refused, and so is an id that names another tenant."""
    for method, path, writes in OWED:
        path = path.format(user=place.owner_path, thread=place.path)
        about = place if place.path in path else place.owner
        headers = {"Memory-Agent-Tenant": other.tenant}
        asking: dict[str, Any] = {"about": about, "writes": writes}
        crossing = await tenancy.rest(caller, method, path, headers=headers, refuses=False, **asking)
        assert (crossing.status == 403) == (other.tenant != place.tenant), crossing
        assert (await tenancy.rest(caller, method, path, **asking)).status < 300
    for method, path in EVERYBODY:
        assert (await tenancy.rest(caller, method, path, about=place, refuses=False)).status == 403
    got = await tenancy.http.get("/api/users", params={"limit": 1_000}, headers=caller.headers)
    assert {user["user_id"] for user in got.json()["items"]} == {at.user for at in tenancy.marks}
    for bad in HOSTILE:
        named = Place(place.tenant, bad, "main")
        for method, path, body in (
            ("GET", f"{named.path}/turns", None),
            ("GET", f"{Place(place.tenant, place.user, bad).path}/turns", None),
            ("POST", "/api/memory/search", {"user_id": bad, "query": "town"}),
            ("GET", f"/api/sessions/{new_id()}?user_id={segment(bad)}", None),
            ("POST", "/api/sessions/start", {"user_id": bad, "thread_id": "main"}),
            ("DELETE", named.owner_path, None),
        ):
            answer = await tenancy.rest(caller, method, path, body, about=named, refuses=False)
            assert answer.status in (404, 405, 422), answer
        said = await tenancy.tool(caller, "recall", question="town", about=named, refuses=False)
        assert said.status == 422


async def with_every_key(tenancy: Tenancy, place: Place, stranger: str) -> None:
    """A key of this user or of another, to read alone, run out, revoked: `rest` and `tool` know which is refused."""
    callers = [
        await tenancy.caller(place.tenant, place.user),
        await tenancy.caller(place.tenant, stranger),
        await tenancy.caller(place.tenant, place.user, read_only=True),
        await tenancy.caller(place.tenant, expired=True),
    ]
    revoked = await tenancy.caller(place.tenant)
    await tenancy.revoke(revoked)
    callers.append(Caller(tenant=place.tenant, token=revoked.token, counts=False))
    for caller in callers:
        for what in READS:
            about = place.owner if "scope=user" in what else place
            await tenancy.rest(caller, "GET", f"{place.path}/{what}", about=about)
        await tenancy.tool(caller, "recall", question="Which town?", about=place)
        for method, path, body in (
            ("PUT", f"{place.path}/facts", {"path": "memo", "value": tenancy.marks[place]}),
            ("POST", f"{place.path}/facts/reextract", None),
            ("POST", f"{place.path}/forget", {"turn_ids": [new_id()]}),
        ):
            await tenancy.rest(caller, method, path, body, about=place, writes=True)
        await tenancy.tool(caller, "forget", turn_ids=[new_id()], about=place, writes=True)


async def walk(tenancy: Tenancy, users: tuple[str, ...]) -> None:
    callers = await live(tenancy, users)
    places = list(callers)
    reader = await Reader.opened(tenancy, callers[places[0]], places[0], after=None)
    for number, place in enumerate(places):
        for step in (
            1,
            2,
            len(places) // 2,
        ):  # another thread or user of the tenant, and somebody of another tenant
            other = places[(number + step) % len(places)]
            await ask_all(tenancy, callers[place], place, other)
        await look_after(tenancy, callers[place], place, places[(number + 6) % len(places)])
    await with_every_key(tenancy, places[0], users[1])
    # Turns of somebody else are none of one's own.
    turns = await tenancy.rest(callers[places[2]], "GET", f"{places[2].path}/turns?limit=9", about=places[2])
    theirs = {"turn_ids": [turn["id"] for turn in turns.json["items"]]}
    for place in (places[0], places[3], places[8]):
        asking: dict[str, Any] = {"about": place, "writes": True}
        gone = await tenancy.rest(callers[place], "POST", f"{place.path}/forget", theirs, **asking)
        assert gone.json["turns"] == 0
    for place in (*places[1:], places[0]):
        said = {"role": "user", "content": f"That is all from {tenancy.marks[place]}."}
        asking = {"about": place, "writes": True}
        last = await tenancy.rest(callers[place], "POST", f"{place.path}/turns", said, **asking)
    await reader.hear([last.json["id"]])
    assert await reader.close() is None
    assert [await tenancy.turns(place) for place in places] == [6] * len(places)
    await tenancy.check_public()


@pytest.mark.parametrize("users", HOSTILE_USERS)
async def test_nothing_crosses_between_tenants_whatever_they_do(
    tenancy: Tenancy, users: tuple[str, ...]
) -> None:
    """With hostile ids and every kind of key, over REST, events and MCP."""
    await walk(tenancy, users)
    assert tenancy.asked > 1_000


async def test_a_service_that_forgets_the_tenant_is_found_out(
    tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the test before would show nothing."""

    def agent(api: Api, principal: Principal, user_id: str, thread_id: str) -> MemoryAgent:
        principal.check_user(user_id)
        return api.service.agent(user_id, thread_id)

    monkeypatch.setattr(Api, "agent", agent)
    with pytest.raises(AssertionError, match=r"was told of|used with another"):
        await walk(tenancy, HOSTILE_USERS[0])


# --- one by one --------------------------------------------------------------------------------------------------
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
