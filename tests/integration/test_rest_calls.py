"""REST: what a client of the agent's kind doesn't ask for, or not by itself: bare JSON, ids, times, repeats, pages, sessions, people.

That the other operations do over HTTP what they do in the process is shown by test_both_ways.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import ServiceClient
from memory_agent.domain import ALL_TENANTS
from tests.integration.conversations import lines, said
from tests.integration.fact_script import add, asking, by_words
from tests.integration.rest import Rest, document, rest_on, segment, shows
from tests.servers.openai_script import Request, ScriptedOpenAI

EXCHANGE = {"user_msg": "My puppy is called Rufus.", "assistant_msg": "Cute!"}
MIRA = {"name": "Mira", "personality": "patient", "profile": "", "traits": ["curious"]}


# --- turns -------------------------------------------------------------------------------------------------------
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
    expected = [("user", "My puppy is called Rufus.", 1), ("assistant", "Cute!", 2)]
    assert [(turn["role"], turn["content"], turn["seq"]) for turn in turns] == expected
    first = turns[0]
    assert (first["user_id"], first["thread_id"]) == ("ann", "chat")
    assert first["timestamp"] == "2026-03-01T09:00:00.123000Z"
    assert (first["metadata"], first["importance"]) == (said["metadata"], 0.5)
    assert [turn["id"] for turn in (await rest.get("turns/recent", limit=1))["items"]] == [turns[1]["id"]]
    assert (await rest.get("turns/recent", limit=0))["items"] == []


async def search(rest: Rest, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The recollections."""
    found: list[dict[str, Any]] = (await rest.post("/api/memory/search", body))["items"]
    return found


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


NAMES = ("a/b", "100%", "%2F", "..", ".", "a b+c", "ünï 🦙", "?#&=;", "\\", "'\"<>", "current", "x" * 512)


@shows("extract_facts")
async def test_facts_of_a_text_are_shown_and_nothing_is_stored(rest: Rest) -> None:
    noted = await rest.post("facts/extract", {"text": "User: I'm John, a developer"})
    assert noted["facts"] == {"name": "John", "occupation": "developer"}
    assert (await rest.get("turns"))["items"] == []


@shows("forget_user")
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


# --- repeats and pages -------------------------------------------------------------------------------------------
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


# --- sessions and compressions -----------------------------------------------------------------------------------
async def tell(rest: Rest, count: int, *, first: int = 1, thread: str = "chat") -> None:
    """So many turns of user and assistant."""
    turns = [
        {"role": ("user", "assistant")[number % 2], "content": text}
        for number, text in enumerate(lines(count, first=first))
    ]
    turns[0]["content"] = f"We have decided to take train {first} to Porto."
    await rest.post(f"/api/threads/ann/{thread}/turns/bulk", {"turns": turns}, status=201)


@shows(
    "start_session",
    "start_thread_session",
    "list_sessions",
    "current_session",
    "show_session",
    "session_history",
)
async def test_sessions_are_started_and_read(rest: Rest) -> None:
    """By either address; turns belong to the one that was open, and each is found by its id alone."""
    assert await rest.get("sessions/current") is None
    body = {"character": MIRA, "participants": ["Ada"], "metadata": {"plan": "pro"}}
    first = await rest.post(
        "/api/sessions/start", {"user_id": "ann", "thread_id": "chat", **body}, status=201
    )
    assert {name: first[name] for name in body} == body
    expected = ("ann", "chat", 1, True)
    assert (first["user_id"], first["thread_id"], first["number"], first["explicit"]) == expected
    await tell(rest, 3)
    second = await rest.post("sessions", {}, status=201)
    assert (second["number"], second["after_seq"], second["character"]) == (2, 3, None)
    await tell(rest, 2, first=4)
    assert (await rest.get("sessions/current"))["id"] == second["id"]
    assert [one["id"] for one in (await rest.get("sessions"))["items"]] == [first["id"], second["id"]]
    for session, seqs in ((first, [1, 2, 3]), (second, [4, 5])):
        path = f"/api/sessions/{session['id']}"
        shown = await rest.get(path)
        assert (shown["id"], shown["total_turns"]) == (session["id"], len(seqs))
        assert await rest.get(path, user_id="ann") == shown
        history = (await rest.get(f"{path}/history"))["items"]
        assert [turn["seq"] for turn in history] == seqs
        assert {turn["session_id"] for turn in history} == {session["id"]}
        await rest.refused("GET", path, status=404, params={"user_id": "bob"})


@shows("start_session")
async def test_a_session_without_a_thread_gets_a_new_one(rest: Rest) -> None:
    """A repeat with the same key finds the one that was made for the first."""
    body = {"character_id": 3, "user_id": "ann"}
    first, second = [await rest.post("/api/sessions/start", body, status=201) for _ in range(2)]
    assert first["thread_id"] != second["thread_id"]
    assert first["metadata"] == {"character_id": 3}
    key = {"Idempotency-Key": "k"}
    repeated = [await rest.post("/api/sessions/start", body, status=201, headers=key) for _ in range(2)]
    assert repeated[0] == repeated[1]
    path = f"/api/threads/ann/{repeated[0]['thread_id']}"
    await rest.post(f"{path}/turns", {"role": "user", "content": "I keep bees."}, status=201)
    found = await rest.post(
        "/api/memory/search", {"user_id": "ann", "query": "bees", "session_id": repeated[0]["id"]}
    )
    assert [one["turn"]["content"] for one in found["items"]] == ["I keep bees."]


@shows(
    "thread_context",
    "compress_thread",
    "list_compressions",
    "session_context",
    "compress_session",
    "session_summary",
)
async def test_a_conversation_is_compressed(rest: Rest) -> None:
    """By thread or by session it is the same; the record says what that saved, the history stays, as-of is exact."""
    await tell(rest, 60)
    await rest.post("settle", status=204)
    session = f"/api/sessions/{(await rest.get('sessions/current'))['id']}"
    plain = await rest.get("context")
    assert (plain["metadata"]["compressed_at"], plain["metadata"]["summary_through"]) == (0, 60)
    extract = await rest.get(f"{session}/summary")
    assert extract["items"] == plain["summary"] != []
    assert (extract["made_by"].partition(":")[0], extract["through"]) == ("extractive", 60)
    assert not extract["recorded"]
    done = await rest.post("compress")
    assert (done["metadata"]["number"], done["metadata"]["made_by"].partition(":")[0]) == (1, "extractive")
    assert done["metadata"]["tokens_saved"] > 0
    assert done["tokens"] <= done["budget"]
    assert done["metadata"]["tokens_saved"] == (
        done["metadata"]["tokens_before"] - done["metadata"]["tokens_after"]
    )
    again = await rest.post(f"{session}/compress")
    assert again["metadata"]["number"] == 1
    assert await rest.post(f"{session}/compress", status=204, params={"if_needed": True}) is None
    assert await rest.post("compress", status=204, params={"if_needed": True}) is None
    (record,) = (await rest.get("compressions"))["items"]
    expected = (1, "asked", done["metadata"]["compressed_at"])
    assert (record["number"], record["reason"], record["through"]) == expected
    assert (await rest.get(f"{session}/context")) == await rest.get("context")
    summary = await rest.get(f"{session}/summary")
    assert summary["items"] == done["summary"]
    assert (summary["through"], summary["recorded"]) == (record["through"], True)
    assert any("train 1 to Porto" in one["text"] for one in summary["items"])
    assert (await rest.get("context", through=4)) == (await rest.get(f"{session}/context", through=4))
    assert (await rest.get("context", through=4))["metadata"]["compressed_at"] == 0
    assert len((await rest.get("turns"))["items"]) == 60


# --- facts -------------------------------------------------------------------------------------------------------
TALK = ("The ferry leaves me in Bergen.", "I play chess.")
POOR = by_words(
    {TALK[0]: [add("location", "Bergen", TALK[0])], TALK[1]: [add("interests", ["chess"], "I play chess")]}
)
BETTER = by_words(
    {TALK[0]: [add("port", "Bergen", TALK[0])], TALK[1]: [add("interests", ["chess"], "I play chess")]}
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


@shows("reextract_thread", "reextract_user", "reextract_some")
async def test_facts_are_extracted_again(asking_rest: Rest, openai_server: ScriptedOpenAI) -> None:
    turns = [{"role": "user", "content": text} for text in TALK]
    await asking_rest.post("turns/bulk", {"turns": turns}, status=201)
    await asking_rest.post("settle", status=204)
    assert (await asking_rest.get("facts"))["facts"] == {"location": "Bergen", "interests": ["chess"]}
    known: Any = openai_server.answer
    openai_server.answer = lambda body: known({**body, "model": "better"})
    everybody = {"headers": await asking_rest.server.headers(ALL_TENANTS)}
    for path, options in (
        ("facts/reextract", {}),
        ("/api/users/ann/facts/reextract", {}),
        ("/api/facts/reextract", everybody),
    ):
        assert await asking_rest.post(path, status=202, **options) == {"turns": 2, "users": 1, "done": 1}
        await asking_rest.post("settle", status=204)
        assert (await asking_rest.get("facts"))["facts"] == {
            "port": "Bergen",
            "interests": ["chess"],
        }


@shows("list_users", "list_threads", "show_thread")
async def test_users_and_threads_are_listed_page_by_page(rest: Rest) -> None:
    """By id, with counts and the time of the last turn."""
    assert await rest.get("/api/users") == {"items": [], "next_cursor": None}
    await rest.service.agent("ann", "chat").add_turns(said(["Hi", "Hello"]))
    for number in range(5):
        await rest.service.agent("bob/2", f"t {number}").add_turns(said(["Hi"]))
    ann = {"user_id": "ann", "threads": 1, "turns": 2, "last_activity": "2026-03-01T09:01:00Z"}
    bob = {"user_id": "bob/2", "threads": 5, "turns": 5, "last_activity": "2026-03-01T09:00:00Z"}
    assert await rest.get("/api/users") == {"items": [ann, bob], "next_cursor": None}
    assert await rest.pages("/api/users", 1) == [[ann], [bob]]
    assert (await rest.get("/api/users", user_id="bob/2"))["items"] == [bob]
    assert (await rest.get("/api/users", user_id="eve"))["items"] == []
    pages = await rest.pages("/api/users/bob%2F2/threads", 2)
    assert [[one["thread_id"] for one in page] for page in pages] == [["t 0", "t 1"], ["t 2", "t 3"], ["t 4"]]
    chat = {"thread_id": "chat", "turns": 2, "last_activity": "2026-03-01T09:01:00Z"}
    assert await rest.get("/api/users/ann/threads") == {"items": [chat], "next_cursor": None}
    assert await rest.get("/api/threads/ann/chat") == chat


# --- contexts ----------------------------------------------------------------------------------------------------


async def test_a_context_is_its_text_and_few_figures_unless_more_is_asked_for(rest: Rest) -> None:
    """Each part by its name, and all of them fit the document that the service gives of itself."""
    await rest.post("update", EXCHANGE, status=201)
    asked = {"user_message": "What is my puppy called?"}
    small = await rest.post("fetch", asked)
    assert small.keys() == {"text", "tokens", "budget", "preset", "counts", "degraded"}
    assert "Rufus" in small["text"]
    assert small["counts"] == {"short_term": 2}
    parts = {
        name: await rest.post("fetch", {**asked, "include": [name]})
        for name in ("messages", "blocks", "ledger")
    }
    assert {name: answer.keys() - small.keys() for name, answer in parts.items()} == {
        name: {name} for name in parts
    }
    items = (await rest.post("fetch", {**asked, "include": ["items"]})).keys() - small.keys()
    assert items == {
        *("persona", "summary", "preserved", "facts", "entities", "topic", "short_term", "state", "long_term")
    }
    schema = document()["components"]["schemas"]["MemoryContext"]
    assert set(schema["required"]) == small.keys()
    assert schema["properties"].keys() == small.keys() | parts.keys() | items
    refused = await rest.post("fetch", {**asked, "include": ["facts"]}, status=422)
    assert "include" in str(refused)


async def test_a_client_is_sent_what_it_includes_and_has_text_and_messages_anyway(rest: Rest) -> None:
    await rest.post("update", EXCHANGE, status=201)
    await rest.service.agent("ann", "chat").settle(timeout=60)
    whole = await rest.service.agent("ann", "chat").fetch_memory("What is my puppy called?")
    async with ServiceClient(rest.server.address, api_key=await rest.server.key()) as service:
        memory = service.agent("ann", "chat")
        some = await memory.fetch_memory("What is my puppy called?", include=())
        assert (str(some), some.to_messages(), some.tokens) == (str(whole), whole.to_messages(), whole.tokens)
        assert (some.ledger, some.short_term, some.counts) == ((), (), {})
        some = await memory.fetch_memory("What is my puppy called?", include=["ledger"])
        assert (some.ledger, some.short_term) == (whole.ledger, ())
