"""REST: remembering, reading word for word, searching, the prompt's context, forgetting, and what is owed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.integration.rest import BREAD, HOTELS, LISBON, Rest, rest_on, segment, shows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXCHANGE = {"user_msg": "My puppy is called Rufus.", "assistant_msg": "Cute!"}


@shows("update_memory", "list_turns", "recent_turns")
async def test_an_exchange_is_remembered_word_for_word(rest: Rest) -> None:
    """With its time, its metadata and its importance; ids and seq are those of the turns that are read."""
    said = {
        "timestamp": "2026-03-01T10:00:00.123+01:00",
        "metadata": {"a": [1, {"b": None}]},
        "importance": 0.5,
    }
    receipt = await rest.post("update", {**EXCHANGE, **said}, status=201)
    assert receipt["seq"] == 2
    turns = (await rest.get("turns"))["items"]
    assert [turn["id"] for turn in turns] == receipt["turn_ids"]
    assert [(turn["role"], turn["content"], turn["seq"]) for turn in turns] == [
        ("user", "My puppy is called Rufus.", 1),
        ("assistant", "Cute!", 2),
    ]
    first = turns[0]
    assert (first["user_id"], first["thread_id"]) == ("ann", "chat")
    assert first["timestamp"] == "2026-03-01T09:00:00.123000Z"
    assert (first["metadata"], first["importance"]) == (said["metadata"], 0.5)
    assert [turn["id"] for turn in (await rest.get("turns/recent", limit=1))["items"]] == [turns[1]["id"]]
    assert (await rest.get("turns/recent", limit=0))["items"] == []


@shows("add_turn", "add_turns", "list_turns")
async def test_single_and_many_turns(rest: Rest) -> None:
    """Each comes back as it was stored, tools and speakers too; of many with one that is refused none is stored."""
    body = {
        "role": "user",
        "content": "ich bin ñandú 🦙\n\u2028 end",
        "speaker": "Ada",
        "entities": [{"kind": "cities", "name": "Lisbon"}],
    }
    one = await rest.post("turns", body, status=201)
    assert {name: one[name] for name in body} == body
    many = [{"role": "assistant", "content": "one"}, {"role": "tool", "content": "two"}]
    stored = (await rest.post("turns/bulk", {"turns": many}, status=201))["items"]
    assert [(turn["role"], turn["content"], turn["seq"]) for turn in stored] == [
        ("assistant", "one", 2),
        ("tool", "two", 3),
    ]
    problem = await rest.refused(
        "POST", "turns/bulk", {"turns": [*many, {"role": "user", "content": " \n"}]}, status=422
    )
    assert problem["errors"][0]["field"].startswith("turns[2]")
    assert [turn["seq"] for turn in (await rest.get("turns"))["items"]] == [1, 2, 3]
    assert (await rest.post("turns/bulk", {"turns": []}, status=201))["items"] == []


@shows(
    "update_memory", "add_turn", "add_turns", "start_session", "start_thread_session", "set_fact", "add_fact"
)
async def test_a_repeat_with_the_same_key_changes_nothing(rest: Rest) -> None:
    """It gets the first answer, also when both are asked at once; with another key the same is done again."""
    asked = {
        "update": EXCHANGE,
        "turns": {"role": "user", "content": "one"},
        "turns/bulk": {"turns": [{"role": "user", "content": "two"}, {"role": "user", "content": "three"}]},
        "sessions": {"participants": ["Ada"]},
        "/api/sessions/start": {"user_id": "ann", "thread_id": "chat"},
    }
    for number, (path, given) in enumerate(asked.items()):
        before = len((await rest.get("turns"))["items"]) + len((await rest.get("sessions"))["items"])
        key = {"Idempotency-Key": f"schlüssel {number}".encode("latin-1")}
        both = await asyncio.gather(*(rest.post(path, given, status=201, headers=key) for _ in range(2)))
        stored = {str(shown(answer)) for answer in both}
        assert len(stored) == 1, path
        third = await rest.post(path, given, status=201, headers=key)
        assert str(shown(third)) in stored
        once = len((await rest.get("turns"))["items"]) + len((await rest.get("sessions"))["items"])
        other = await rest.post(path, given, status=201, headers={"Idempotency-Key": f"new {number}"})
        assert str(shown(other)) not in stored
        twice = len((await rest.get("turns"))["items"]) + len((await rest.get("sessions"))["items"])
        # The first turn of all opens a session, too.
        assert twice - once == once - before - (number == 0)
    for method, path, value in (("PUT", "facts", "Bergen"), ("POST", "facts/add", "chess")):
        body = {"path": "interests" if path == "facts/add" else "location", "value": value}
        again = {"Idempotency-Key": path}
        first = (await rest.ask(method, path, body, headers=again)).json()
        assert (await rest.ask(method, path, body, headers=again)).json() == first
    edits = [record for record in (await rest.get("facts/history"))["items"] if record["path"] != ["pets"]]
    assert [record["value"] for record in edits] == ["Bergen", "chess"]


def shown(answer: dict[str, object]) -> object:
    """What of an answer names what was stored."""
    items = answer.get("items")
    if isinstance(items, list):
        return [item["id"] for item in items]
    return answer.get("turn_ids") or answer["id"]


@shows("add_turns", "list_turns", "session_history")
async def test_pages_of_turns_are_whole_while_turns_are_added(rest: Rest) -> None:
    """No turn is missing and none comes twice, whatever the page's size; what is added meanwhile comes at the end."""
    texts = [f"line {number}" for number in range(25)]
    body = {"turns": [{"role": "user", "content": text} for text in texts]}
    await rest.post("turns/bulk", body, status=201)
    for limit in (1, 7, 25, 1_000):
        pages = await rest.pages("turns", limit)
        assert [turn["content"] for page in pages for turn in page] == texts
        assert len(pages) == -(-25 // limit)
    session = (await rest.get("sessions/current"))["id"]
    assert [
        turn["content"] for page in await rest.pages("turns", 9, session_id=session) for turn in page
    ] == texts
    found, cursor = [], None
    while True:
        page = await rest.get(
            f"/api/sessions/{session}/history", limit=10, **({"cursor": cursor} if cursor else {})
        )
        found += [turn["content"] for turn in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
        if len(texts) < 40:
            texts += (late := [f"late {len(texts)} {number}" for number in range(8)])
            await rest.post(
                "turns/bulk", {"turns": [{"role": "tool", "content": text} for text in late]}, status=201
            )
    assert found == texts


@shows("search_memory")
async def test_search_finds_what_was_said(rest: Rest) -> None:
    """By meaning and by word, best first and with reasons; of one thread or of all, and only what the filters let by."""
    ids = await rest.say(LISBON, BREAD)
    other = {
        "user_msg": "In Lisbon we saw the castle.",
        "assistant_msg": "Nice.",
        "metadata": {"channel": "app"},
    }
    await rest.post("/api/threads/ann/other/update", other, status=201)
    await rest.post("/api/threads/bob/chat/update", other, status=201)
    here = {"user_id": "ann", "thread_id": "chat"}
    found = (await rest.post("/api/memory/search", {**here, "query": "sourdough bread starter", "top_k": 2}))[
        "items"
    ]
    assert {one["turn"]["id"] for one in found} == set(ids[2:])
    assert found[0]["score"] >= found[1]["score"] > 0
    assert found[0]["why"]
    assert found[0]["explanation"]
    everywhere = {"user_id": "ann", "query": "the castle in Lisbon"}
    threads = {(one["turn"]["user_id"], one["turn"]["thread_id"]) for one in await search(rest, everywhere)}
    assert threads == {("ann", "chat"), ("ann", "other")}
    assert {
        one["turn"]["thread_id"] for one in await search(rest, {**everywhere, "metadata": {"channel": "app"}})
    } == {"other"}
    roles = {one["turn"]["role"] for one in await search(rest, {**everywhere, "role": "assistant"})}
    assert roles == {"assistant"}
    assert await search(rest, {**everywhere, "until": "2020-01-01T00:00:00Z"}) == []
    assert await search(rest, {**everywhere, "top_k": 0}) == []
    topic = (await rest.get("topics/current"))["topic_id"]
    of_topic = await search(rest, {**here, "query": "Lisbon", "topic_id": topic})
    assert {one["turn"]["topic_id"] for one in of_topic} == {topic}
    problem = await rest.refused("POST", "/api/memory/search", {**everywhere, "topic_id": topic}, status=422)
    assert problem["errors"][0]["field"] == "topic_id"


async def search(rest: Rest, body: Mapping[str, object]) -> list[dict[str, dict[str, str]]]:
    """The recollections."""
    found: list[dict[str, dict[str, str]]] = (await rest.post("/api/memory/search", body))["items"]
    return found


@shows("fetch_memory")
async def test_the_context_for_a_prompt(rest: Rest) -> None:
    """Text, messages, the parts and the ledger say the same; the budget holds."""
    await rest.say(LISBON, BREAD, HOTELS)
    context = await rest.post("fetch", {"user_message": "Which hotels were there?", "max_tokens": 200})
    assert 0 < context["tokens"] <= 200 == context["budget"]
    assert "hotels" in context["text"]
    said = [message["content"] for message in context["messages"] if message["role"] == "user"]
    assert said
    assert said[-1] in context["text"]
    assert {entry["tier"] for entry in context["ledger"] if entry["kept"]} - {"envelope"} == {
        block["tier"] for block in context["blocks"]
    }
    assert any(not entry["kept"] for entry in context["ledger"])
    assert context["degraded"] == []
    assert (await rest.post("fetch", {"user_message": "hi", "preset": "minimal"}))["preset"] == "minimal"
    assert (await rest.post("fetch", {"user_message": "hi", "max_tokens": 0}))["text"] == ""
    problem = await rest.refused("POST", "fetch", {"user_message": "hi", "preset": "huge"}, status=422)
    assert problem["errors"][0]["field"] == "preset"


@shows("forget_turns", "clear_thread", "forget_user", "thread_status")
async def test_what_is_forgotten_is_gone(rest: Rest) -> None:
    """Single turns, a thread, a user; receipts count it, and the other thread stays until its user goes."""
    ids = await rest.say(LISBON, BREAD)
    await rest.post("/api/threads/ann/other/update", EXCHANGE, status=201)
    named = await rest.refused(
        "POST", "forget", {"turn_ids": [ids[0], "unknown"], "missing_ok": False}, status=404
    )
    assert "no turn 'unknown'" in named["detail"]
    assert (await rest.get("stats"))["turns"] == 4
    receipt = await rest.post("forget", {"turn_ids": [ids[0], "unknown"]})
    assert (receipt["turns"], receipt["owed"]) == (1, [])
    assert [turn["id"] for turn in (await rest.get("turns"))["items"]] == ids[1:]
    assert (await rest.get("stats"))["turns"] == 3
    receipt = (await rest.ask("DELETE", "/api/threads/ann/chat")).json()
    assert receipt["turns"] == 3
    assert (await rest.get("turns"))["items"] == []
    assert len((await rest.get("/api/threads/ann/other/turns"))["items"]) == 2
    assert (await rest.ask("DELETE", "/api/users/ann")).json()["turns"] == 2
    assert (await rest.get("/api/threads/ann/other/turns"))["items"] == []
    assert (await rest.ask("DELETE", "/api/users/ann")).json()["turns"] == 0


async def test_a_key_whose_turn_was_forgotten_is_refused(rest: Rest) -> None:
    """410 for what was done once and taken back, of a single turn, a fact and a session."""
    asked = {
        "turns": {"role": "user", "content": "one"},
        "sessions": {},
        "facts/add": {"path": "a", "value": 1},
    }
    key = {"Idempotency-Key": "once"}
    for path, body in asked.items():
        await rest.ask("POST", path, body, status=200 if path == "facts/add" else 201, headers=key)
    await rest.ask("DELETE", "/api/threads/ann/chat")
    for path, body in asked.items():
        problem = await rest.refused("POST", path, body, status=410, headers=key)
        assert problem["type"].endswith(":turn-forgotten")


@shows("settle_thread", "thread_status")
async def test_settling_waits_for_owed_work(rest: Rest) -> None:
    """204 once nothing is owed; the counts say so. Without a timeout as well."""
    await rest.post("update", EXCHANGE, status=201)
    await rest.post("settle", status=204)
    status = await rest.get("stats")
    assert (status["turns"], status["owed_count"], status["parked_count"], status["lag_seconds"]) == (
        2,
        0,
        0,
        0.0,
    )
    assert set(status["pending"].values()) == {0}


async def test_settling_in_vain(tmp_path: Path) -> None:
    """409 `settle-timeout` while nobody works, and the turn's topic is not known then either; a wait is no longer than asked."""
    settings = {"data_dir": tmp_path, "run_worker": False}
    async with rest_on(settings) as rest:
        receipt = await rest.post("update", EXCHANGE, status=201)
        began = asyncio.get_running_loop().time()
        problem = await rest.refused("POST", "settle", {"timeout": 0.1}, status=409)
        assert problem["type"].endswith(":settle-timeout")
        turn = receipt["turn_ids"][0]
        problem = await rest.refused("GET", f"turns/{turn}/topic", status=409, params={"timeout": 0.1})
        assert problem["type"].endswith(":settle-timeout")
        assert asyncio.get_running_loop().time() - began < 10
        assert (await rest.get("stats"))["owed_count"] == 2


@shows("list_entities")
async def test_entities_are_counted(rest: Rest) -> None:
    """Of the thread or of all the user's threads."""
    entity = {"kind": "brands", "name": "COSRX"}
    turn = {"role": "user", "content": "I like it.", "entities": [entity]}
    for thread in ("chat", "other"):
        await rest.post(f"/api/threads/ann/{thread}/turns", turn, status=201)
        await rest.post(f"/api/threads/ann/{thread}/settle", status=204)
    for scope, count in (("thread", 1), ("user", 2)):
        found = (await rest.get("entities", scope=scope))["items"]
        assert [(one["entity"], one["count"]) for one in found] == [(entity, count)]
    problem = await rest.refused("GET", "entities", status=422, params={"scope": "all"})
    assert problem["errors"][0]["field"] == "scope"


NAMES = ("a/b", "100%", "%2F", "..", ".", "a b+c", "ünï 🦙", "?#&=;", "\\", "'\"<>", "current", "x" * 512)


async def test_ids_may_hold_any_visible_character(tmp_path: Path) -> None:
    """In the path of a thread, as the user's and as the thread's, each id is one memory of its own."""
    async with rest_on({"data_dir": tmp_path, "enable_topics": False}) as rest:
        for name in NAMES:
            path = f"/api/threads/{segment(name)}/{segment(name)}"
            await rest.post(f"{path}/update", EXCHANGE, status=201)
            (turn, _) = (await rest.get(f"{path}/turns"))["items"]
            assert (turn["user_id"], turn["thread_id"]) == (name, name)
            body = {"user_id": name, "thread_id": name, "query": "puppy"}
            assert (await rest.post("/api/memory/search", body))["items"][0]["turn"]["id"] == turn["id"]
            session = (await rest.get(f"{path}/sessions/current"))["id"]
            assert (await rest.get(f"/api/sessions/{session}", user_id=name))["thread_id"] == name
            assert (await rest.ask("DELETE", f"/api/users/{segment(name)}")).json()["turns"] == 2


async def test_times_are_read_exactly(tmp_path: Path) -> None:
    """Any zone is understood; a time without one, and one of a number, is refused by its name."""
    async with rest_on({"data_dir": tmp_path}) as rest:
        at = datetime(2026, 3, 1, 9, tzinfo=UTC) + timedelta(hours=5)
        body = {**EXCHANGE, "timestamp": "2026-03-01T19:30:00+05:30"}
        await rest.post("update", body, status=201)
        (turn, _) = (await rest.get("turns"))["items"]
        assert datetime.fromisoformat(turn["timestamp"]) == at
        for wrong in (
            "2026-03-01T19:30:00",
            1_772_000_000,
            "1772000000",
            "yesterday",
            "0001-01-01T00:00:00+14:00",
        ):
            problem = await rest.refused("POST", "update", {**EXCHANGE, "timestamp": wrong}, status=422)
            assert problem["errors"][0]["field"] == "timestamp", wrong
