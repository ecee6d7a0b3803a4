"""REST: what is known, its history, people's edits, extraction and replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fact_script import add, asking, by_words
from tests.integration.rest import Rest, rest_on, shows
from tests.servers.openai_script import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.servers.openai_script import Request, ScriptedOpenAI

TALK = ("I live in Bergen.", "I play chess.")
POOR = by_words(
    {TALK[0]: [add("location", "Bergen", TALK[0])], TALK[1]: [add("interests", ["chess"], "I play chess")]}
)
BETTER = by_words(
    {TALK[0]: [add("home.city", "Bergen", TALK[0])], TALK[1]: [add("interests", ["chess"], "I play chess")]}
)


def answer(body: Request) -> str:
    """Two models, one better than the other."""
    return (BETTER if body["model"] == "better" else POOR)(body)


@pytest.fixture
async def asking_rest(
    request: pytest.FixtureRequest, rest_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> AsyncIterator[Rest]:
    """A client of a service whose facts come from the scripted models."""
    openai_server.answer = answer
    async with rest_on(asking(rest_settings, openai_server)) as rest:
        yield rest
        assert set(getattr(request.function, "shows", ())) <= rest.answered


@shows("set_fact", "add_fact", "retract_fact", "revert_fact", "fetch_facts", "fact_history")
async def test_people_edit_facts(rest: Rest) -> None:
    """What is said stands at once; the history shows each edit, what it replaced and what ended it."""
    body = {"path": "preferences.meeting_time", "value": "09:30"}
    record = (await rest.ask("PUT", "facts", body)).json()
    assert (record["path"], record["value"], record["old"]) == (
        ["preferences", "meeting_time"],
        "09:30",
        None,
    )
    assert (record["op"], record["stands"], record["sources"][0]["turn_id"]) == ("set", True, None)
    changed = (await rest.ask("PUT", "facts", {**body, "value": {"from": 9, "to": [10.5, True]}})).json()
    assert changed["old"] == "09:30"
    await rest.post("facts/add", {"path": ["interests"], "value": "chess"})
    await rest.post("facts/add", {"path": "interests", "value": "sailing"})
    gone = await rest.post("facts/retract", {"path": "interests", "value": "chess"})
    assert gone["op"] == "remove"
    known = {"preferences": {"meeting_time": {"from": 9, "to": [10.5, True]}}, "interests": ["sailing"]}
    assert (await rest.get("facts"))["facts"] == known
    history = (await rest.get("facts/history", path="preferences"))["items"]
    assert [one["id"] for one in history] == [record["id"], changed["id"]]
    assert (history[0]["stands"], history[0]["superseded_by"]) == (False, changed["id"])
    await rest.post("facts/revert", {"path": "preferences.meeting_time"})
    assert (await rest.get("facts"))["facts"]["preferences"] == {"meeting_time": "09:30"}
    await rest.post("facts/revert", {"path": "preferences.meeting_time", "to": changed["id"]})
    assert (await rest.get("facts"))["facts"] == known
    before = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    await rest.post("facts/revert", {"path": "", "to": before})
    assert (await rest.get("facts"))["facts"] == {}
    assert (await rest.get("facts", as_of=before))["facts"] == {}


@shows("fetch_facts")
async def test_facts_of_a_thread_and_of_a_user_as_of_a_time(rest: Rest) -> None:
    """`scope=user` joins the threads; `as_of` and `recorded_by` look back."""
    await rest.ask("PUT", "facts", {"path": "location", "value": "Bergen"})
    between = datetime.now(UTC).isoformat()
    await rest.ask("PUT", "/api/threads/ann/other/facts", {"path": "occupation", "value": "pilot"})
    await rest.ask("PUT", "facts", {"path": "location", "value": "Oslo"})
    assert (await rest.get("facts"))["facts"] == {"location": "Oslo"}
    assert (await rest.get("facts", scope="user"))["facts"] == {"location": "Oslo", "occupation": "pilot"}
    for name in ("as_of", "recorded_by"):
        assert (await rest.get("facts", scope="user", **{name: between}))["facts"] == {"location": "Bergen"}
        problem = await rest.refused("GET", "facts", status=422, params={name: "2026-03-01"})
        assert problem["errors"][0]["field"] == name
    threads = {one["thread_id"] for one in (await rest.get("facts/history", scope="user"))["items"]}
    assert threads == {"chat", "other"}


@shows("fact_history")
async def test_pages_of_the_history_are_whole_while_facts_change(rest: Rest) -> None:
    """No change is missing and none comes twice, of one thread and of all; what comes meanwhile is at its place."""
    for number in range(7):
        thread = ("chat", "other")[number % 2]
        body = {"path": f"scores.game_{number}", "value": number}
        await rest.ask("PUT", f"/api/threads/ann/{thread}/facts", body)
    for limit in (1, 3, 7, 100):
        pages = await rest.pages("facts/history", limit, scope="user")
        values = sorted(one["value"] for page in pages for one in page)
        assert values == list(range(7))
        mine = [one["value"] for page in await rest.pages("facts/history", limit) for one in page]
        assert mine == [0, 2, 4, 6]
    page = await rest.get("facts/history", limit=2)
    await rest.ask("PUT", "facts", {"path": "scores.game_7", "value": 7})
    rest_of = await rest.get("facts/history", limit=100, cursor=page["next_cursor"])
    assert [one["value"] for one in (*page["items"], *rest_of["items"])] == [0, 2, 4, 6, 7]


@shows("preview_facts", "extract_facts")
async def test_facts_are_previewed_and_extracted(asking_rest: Rest, openai_server: ScriptedOpenAI) -> None:
    """A preview shows what extraction would bring and changes nothing; extraction then brings it."""
    openai_server.answer = by_words({})
    turns = [{"role": "user", "content": text} for text in TALK]
    await asking_rest.post("turns/bulk", {"turns": turns}, status=201)
    await asking_rest.post("settle", status=204)
    assert (await asking_rest.get("facts"))["facts"] == {}
    openai_server.answer = answer
    assert (await asking_rest.post("facts/preview"))["turns"] == 0
    proposal = await asking_rest.post("facts/preview", {"every": True})
    known = {"location": "Bergen", "interests": ["chess"]}
    assert (proposal["before"], proposal["after"], proposal["preview"]) == ({}, known, True)
    assert proposal["cost"]["requests"] >= 1
    assert (await asking_rest.get("facts"))["facts"] == {}
    problem = await asking_rest.refused("POST", "facts/replay/apply", {"proposal": proposal}, status=422)
    assert "preview" in problem["detail"] or "proposal" in problem["detail"]
    assert await asking_rest.post("facts/extract", status=202) == {"turns": 0}
    assert await asking_rest.post("facts/extract", {"every": True}, status=202) == {"turns": 2}
    await asking_rest.post("settle", status=204)
    assert (await asking_rest.get("facts"))["facts"] == known
    quotes = [one["sources"][0]["quote"] for one in (await asking_rest.get("facts/history"))["items"]]
    assert quotes == ["I live in Bergen", "I play chess"]


@shows("replay_facts")
async def test_a_replay_by_a_model_that_is_not_known_tells_what_was_answered(
    asking_rest: Rest, openai_server: ScriptedOpenAI
) -> None:
    """The caller named it: that some part is unavailable for now would help nobody."""
    await asking_rest.post("turns/bulk", {"turns": [{"role": "user", "content": TALK[0]}]}, status=201)
    await asking_rest.post("settle", status=204)
    assert (await asking_rest.post("facts/replay", {"model": "better"}))["turns"] == 1
    openai_server.answer = lambda body: Reply(status=404, text=f"no model {body['model']}, key sk-1234abcd")
    problem = await asking_rest.refused("POST", "facts/replay", {"model": "bettr"}, status=503)
    assert "404: no model bettr" in problem["detail"]
    assert "1234" not in problem["detail"]


@shows("replay_facts", "apply_replay", "undo_replay")
async def test_a_replay_is_proposed_applied_and_undone(asking_rest: Rest) -> None:
    """Posted back as it came, the proposal counts; undone, all is as before; by its id it counts again."""
    turns = [{"role": "user", "content": text} for text in TALK]
    await asking_rest.post("turns/bulk", {"turns": turns}, status=201)
    await asking_rest.post("settle", status=204)
    before = {"location": "Bergen", "interests": ["chess"]}
    after = {"home": {"city": "Bergen"}, "interests": ["chess"]}
    assert (await asking_rest.get("facts"))["facts"] == before
    proposal = await asking_rest.post("facts/replay", {"model": "better"})
    assert (proposal["before"], proposal["after"]) == (before, after)
    assert (proposal["scope"], proposal["turns"]) == ({"user_id": "ann", "thread_id": "chat"}, 2)
    assert {one["kind"] for one in proposal["differences"]} == {"added", "removed"}
    assert (await asking_rest.get("facts"))["facts"] == before
    elsewhere = "/api/threads/bob/chat/facts/replay/apply"
    await asking_rest.refused("POST", elsewhere, {"proposal": proposal}, status=422)
    applied = await asking_rest.post("facts/replay/apply", {"proposal": proposal})
    assert applied == {"replay_id": proposal["id"]}
    assert (await asking_rest.get("facts"))["facts"] == after
    assert await asking_rest.post("facts/replay/undo") == applied
    assert (await asking_rest.get("facts"))["facts"] == before
    await asking_rest.refused("POST", "facts/replay/undo", status=404)
    assert await asking_rest.post("facts/replay/apply", applied) == applied
    assert (await asking_rest.get("facts"))["facts"] == after
    assert await asking_rest.post("facts/replay/undo", applied) == applied
    assert (await asking_rest.post("facts/replay"))["differences"] == []
