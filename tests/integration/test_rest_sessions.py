"""REST: sittings of a thread, what stands for a long conversation, and its compressions."""

from __future__ import annotations

from tests.integration.conversations import lines
from tests.integration.rest import Rest, shows

MIRA = {"name": "Mira", "personality": "patient", "profile": "", "traits": ["curious"]}


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
    assert (first["user_id"], first["thread_id"], first["number"], first["explicit"]) == (
        "ann",
        "chat",
        1,
        True,
    )
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


@shows("list_sessions", "list_compressions")
async def test_pages_of_sessions_and_compressions_are_whole(rest: Rest) -> None:
    """None is missing and none comes twice, also while they are added."""
    for number in range(5):
        await rest.post("sessions", {}, status=201)
        await tell(rest, 8, first=8 * number)
        await rest.post("compress")
    for path, count in (("sessions", 5), ("compressions", 5)):
        for limit in (1, 2, 5, 100):
            found = [one["number"] for page in await rest.pages(path, limit) for one in page]
            assert found == list(range(1, count + 1))
        page = await rest.get(path, limit=2)
        await rest.post("sessions", {}, status=201)
        left = await rest.get(path, limit=100, cursor=page["next_cursor"])
        numbers = [one["number"] for one in (*page["items"], *left["items"])]
        assert numbers == list(range(1, count + 1 + (path == "sessions")))


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
    assert (record["number"], record["reason"], record["through"]) == (
        1,
        "asked",
        done["metadata"]["compressed_at"],
    )
    assert (await rest.get(f"{session}/context")) == await rest.get("context")
    summary = await rest.get(f"{session}/summary")
    assert summary["items"] == done["summary"]
    assert (summary["through"], summary["recorded"]) == (record["through"], True)
    assert any("train 1 to Porto" in one["text"] for one in summary["decisions"])
    assert (await rest.get("context", through=4)) == (await rest.get(f"{session}/context", through=4))
    assert (await rest.get("context", through=4))["metadata"]["compressed_at"] == 0
    assert len((await rest.get("turns"))["items"]) == 60
