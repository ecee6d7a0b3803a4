"""REST: who is remembered, and in which threads; a key learns of nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from memory_agent import ServiceClient, UserSummary
from tests.integration.conversations import START, said
from tests.integration.rest import Rest, problem_in, rest_on, shows

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

WHEN = "2026-03-01T09:01:00Z"


async def fill(rest: Rest, *, tenant: str = "default") -> None:
    """Ann's chat of two turns, five threads of Bob's with one turn each."""
    await rest.service.agent("ann", "chat", tenant=tenant).add_turns(said(["Hi", "Hello"]))
    for number in range(5):
        await rest.service.agent("bob/2", f"t {number}", tenant=tenant).add_turns(said(["Hi"]))


@shows("list_users", "list_threads", "show_thread")
async def test_users_and_threads_are_listed_page_by_page(rest: Rest) -> None:
    """By id, with counts and the time of the last turn."""
    assert await rest.get("/api/users") == {"items": [], "next_cursor": None}
    await fill(rest)
    ann = {"user_id": "ann", "threads": 1, "turns": 2, "last_activity": WHEN}
    bob = {"user_id": "bob/2", "threads": 5, "turns": 5, "last_activity": "2026-03-01T09:00:00Z"}
    assert await rest.get("/api/users") == {"items": [ann, bob], "next_cursor": None}
    assert await rest.pages("/api/users", 1) == [[ann], [bob]]
    assert (await rest.get("/api/users", user_id="bob/2"))["items"] == [bob]
    assert (await rest.get("/api/users", user_id="eve"))["items"] == []
    pages = await rest.pages("/api/users/bob%2F2/threads", 2)
    assert [[one["thread_id"] for one in page] for page in pages] == [["t 0", "t 1"], ["t 2", "t 3"], ["t 4"]]
    chat = {"thread_id": "chat", "turns": 2, "last_activity": WHEN}
    assert await rest.get("/api/users/ann/threads") == {"items": [chat], "next_cursor": None}
    assert await rest.get("/api/threads/ann/chat") == chat


async def test_an_unknown_name_is_not_found_and_the_nearest_is_told(rest: Rest) -> None:
    await fill(rest)
    for path, told in (
        ("/api/users/an/threads", "no user 'an' is remembered; nearest: 'ann'"),
        ("/api/threads/ann/chatt", "user 'ann' has no thread 'chatt'; nearest: 'chat'"),
        ("/api/threads/bob%2F/chat", "no user 'bob/' is remembered; nearest: 'bob/2'"),
    ):
        problem = await rest.refused("GET", path, status=404)
        assert (problem["type"].rpartition(":")[2], problem["detail"]) == ("not-found", told)
    history = await rest.get("turns", limit=1)
    for cursor in (history["next_cursor"], "abc"):
        for path in ("/api/users", "/api/users/ann/threads"):
            problem = await rest.refused("GET", path, status=422, params={"cursor": cursor})
            assert problem["detail"].startswith("cursor is")


async def test_a_key_for_one_user_learns_of_nobody_else(rest: Rest) -> None:
    """Not by lists, not by the nearest names; before anything is remembered of its own user either."""
    await fill(rest)
    for own, others in (("ann", "bob/2"), ("anne", "ann")):
        token = await rest.server.key(user_id=own)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=rest.server.address, headers=headers, timeout=60) as bound:
            listed = (await bound.get("/api/users")).json()["items"]
            assert [one["user_id"] for one in listed] == (["ann"] if own == "ann" else [])
            assert (await bound.get("/api/users", params={"user_id": others})).status_code == 403
            assert (await bound.get(f"/api/users/{others.replace('/', '%2F')}/threads")).status_code == 403
            if own == "ann":
                assert (await bound.get("/api/users/ann/threads")).json()["items"][0]["thread_id"] == "chat"
                problem = problem_in(await bound.get("/api/threads/ann/chatt"))
                assert problem["detail"] == "user 'ann' has no thread 'chatt'; nearest: 'chat'"
            else:
                for path in ("/api/users/anne/threads", "/api/threads/anne/chat"):
                    problem = problem_in(await bound.get(path))
                    assert (problem["status"], problem["detail"]) == (
                        404,
                        "nothing is remembered of user 'anne' yet",
                    )
                async with ServiceClient(rest.server.address, api_key=token) as service:
                    assert (await service.agent("anne", "chat").threads()).threads == ()


async def test_a_tenant_s_key_is_told_of_its_own_users_alone(
    rest_settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with rest_on(rest_settings, tenant="acme") as rest:
        await rest.service.agent("ada", "chat").add_turns(said(["Hi"]))
        assert (await rest.get("/api/users"))["items"] == []
        problem = await rest.refused("GET", "/api/users/adda/threads", status=404)
        assert problem["detail"] == "no user 'adda' is remembered"
        await fill(rest, tenant="acme")
        assert [one["user_id"] for one in (await rest.get("/api/users"))["items"]] == ["ann", "bob/2"]
        problem = await rest.refused("GET", "/api/users/anna/threads", status=404)
        assert problem["detail"] == "no user 'anna' is remembered; nearest: 'ann'"
    assert "bob/2" not in caplog.text


async def test_a_client_reads_on_where_a_page_ended(tmp_path: Path) -> None:
    async with rest_on({"data_dir": tmp_path}) as rest:
        await fill(rest)
        async with ServiceClient(rest.server.address, api_key=await rest.server.key()) as service:
            first = await service.users(limit=1)
            rest_of_them = await service.users(after=first.next)
            assert first.users == (UserSummary(user_id="ann", threads=1, turns=2, last_activity=said_at(1)),)
            assert [user.user_id for user in rest_of_them.users] == ["bob/2"]


def said_at(minute: int) -> Any:
    """When the turn of that number, from 0, was said."""
    return said(["x"] * (minute + 1), start=START)[minute]["timestamp"]
