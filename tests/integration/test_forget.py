"""What was forgotten is in no tier, no index and no cache, and doesn't come back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryService, NotFound, Scope, TurnForgotten
from memory_agent.testing import FixedClock
from tests.fixtures import OpenService, on_both_by_day, outgrown
from tests.integration.conversations import STORES, lines, opened, remains, said, settings_on
from tests.over_http import both_ways_by_day
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

SECRET = "My name is Zebulon and the vault code is 4711."


async def traces(service: MemoryService, user_id: str, needle: str) -> list[str]:
    """Where `needle` can still be found for the user: by every read, and in every store behind them."""
    parts = service.core
    places = {
        "turns": await parts.store.list_turns(Scope(user_id=user_id)),
        "rows": [dict(row.terms) for row in await parts.store.search_rows(user_id)],
        "changes": await parts.store.fact_changes(Scope(user_id=user_id)),
    }
    for thread in ("chat", "other"):
        memory = service.agent(user_id, thread)
        places[f"{thread} document"] = [await parts.store.load_facts(memory.scope)]
        places[f"{thread} facts"] = [await memory.fetch_facts()]
        places[f"{thread} search"] = [found.text for found in await memory.fetch_long_term(needle, top_k=50)]
        places[f"{thread} context"] = [str(await memory.fetch_memory(f"about {needle}"))]
    return [place for place, things in places.items() if needle in str(things).casefold()]


async def fill(memory: MemoryAgent) -> list[str]:
    """A secret among other talk; the ids of its exchange."""
    await memory.update_memory("I live in Bergen.", "A rainy town.")
    receipt = await memory.update_memory(SECRET, "I keep it safe, Zebulon.")
    await memory.update_memory("I like chess.", "Which opening?")
    await memory.settle(timeout=60)
    return list(receipt.turn_ids)


@both_ways_by_day
@on_both_by_day
async def test_single_turns_are_forgotten_everywhere(memory: MemoryAgent, service: MemoryService) -> None:
    """The turns, their rows, vectors and facts go; what others stated stays; the receipt counts it."""
    await outgrown(service, "ann")
    turn_ids = await fill(memory)
    assert len(await traces(service, "ann", "zebulon")) > 3
    receipt = await memory.forget(turn_ids)
    assert (receipt.turns, receipt.search_rows, receipt.fact_changes) == (2, 2, 1)
    assert receipt.owed == ()
    assert await traces(service, "ann", "zebulon") == []
    assert not await service.core.vectors.turn_ids("ann") & set(turn_ids)
    assert await memory.fetch_facts() == {"location": "Bergen", "preferences": {"likes": ["chess"]}}
    assert (await memory.status()).turns == 4
    assert (await memory.forget(turn_ids)).turns == 0


async def test_unknown_ids_may_be_refused_and_then_nothing_is_erased(
    memory: MemoryAgent, service: MemoryService
) -> None:
    """Neither an unknown id nor one of another thread is passed over if the caller says so."""
    mine = await memory.add_user_message("I repair clocks.")
    other = await service.agent("ann", "other").add_user_message("I sell them.")
    for foreign in ("none", other.id):
        with pytest.raises(NotFound, match=f"no turn '{foreign}'"):
            await memory.forget([mine.id, foreign], missing_ok=False)
    assert (await memory.status()).turns == 1
    assert (await memory.forget([mine.id], missing_ok=False)).turns == 1
    with pytest.raises(NotFound, match="or it is forgotten already"):
        await memory.forget([mine.id], missing_ok=False)


async def test_who_spoke_a_forgotten_turn_is_gone(memory: MemoryAgent, service: MemoryService) -> None:
    """The speaker's name goes from the database, though its search row had it as well."""
    turn = await memory.add_turn("user", "I repair clocks.", speaker="Zebulon")
    await memory.add_turn("user", "I sell them.", speaker="Ann")
    await memory.settle(timeout=60)
    rows = await service.core.store.search_rows("ann")
    assert [row.speaker for row in rows] == ["Zebulon", "Ann"]
    assert {"turns", "search_rows"} <= set(await remains(service, "Zebulon"))
    await memory.forget([turn.id])
    assert await remains(service, "Zebulon") == []
    assert [row.speaker for row in await service.core.store.search_rows("ann")] == ["Ann", None]


async def test_a_thread_or_a_user_is_forgotten_without_touching_another(service: MemoryService) -> None:
    """Nor a user without touching others, who can forget none of one's turns; what is written afterwards is kept."""
    memory, other, bob = (
        service.agent(*names) for names in (("ann", "chat"), ("ann", "other"), ("bob", "chat"))
    )
    await outgrown(service, "ann", "bob")
    turn_ids, *_ = [await fill(one) for one in (memory, other, bob)]
    for stranger in (other, bob):
        assert (await stranger.forget(turn_ids)).turns == 0
    found = await memory.fetch_long_term("vault code", top_k=1)
    assert (found[0].text, found[0].similarity is None) == (SECRET, False)
    receipt = await memory.clear()
    assert receipt.turns == 6
    assert await memory.fetch_short_term() == []
    assert await memory.fetch_facts(scope="thread") == {}
    assert [(await one.status()).turns for one in (memory, other, bob)] == [0, 6, 6]
    assert (await other.fetch_long_term("vault code", top_k=1))[0].text == SECRET
    assert (await bob.fetch_facts())["name"] == "Zebulon"
    turn = await memory.add_user_message("A fresh start.")
    await memory.settle(timeout=60)
    assert [found.turn.id for found in await memory.fetch_long_term("fresh start", scope="thread")] == [
        turn.id
    ]
    receipt = await service.forget_user("ann")
    assert (receipt.turns, receipt.fact_changes) == (7, 3)
    assert await traces(service, "ann", "zebulon") == []
    assert await service.core.vectors.turn_ids("ann") == set()
    assert len(await traces(service, "bob", "zebulon")) > 3
    await memory.update_memory("I am back.", "Welcome.")
    await service.settle(timeout=60)
    assert (await service.status(Scope(user_id="ann"))).turns == 2


async def test_a_late_repeat_does_not_bring_a_forgotten_turn_back(
    memory: MemoryAgent, service: MemoryService
) -> None:
    """After forgetting, the same idempotency key still gives the first receipt and stores nothing."""
    first = await memory.update_memory(SECRET, "Noted.", idempotency_key="k")
    added = await memory.add_user_message(SECRET, idempotency_key="k2")
    await memory.settle(timeout=60)
    await memory.forget([*first.turn_ids, added.id])
    assert await memory.update_memory(SECRET, "Noted.", idempotency_key="k") == first
    with pytest.raises(TurnForgotten, match="k2"):
        await memory.add_user_message(SECRET, idempotency_key="k2")
    assert (await memory.status()).turns == 0
    assert await traces(service, "ann", "zebulon") == []


@on_both_by_day
async def test_forgetting_while_the_worker_is_at_it(open_service: OpenService) -> None:
    """Turns forgotten while their stages run leave nothing once the last pass is done."""
    clock = FixedClock(datetime.now(UTC))
    async with open_service(clock=clock, lease_seconds=1) as service:
        memory = service.agent("ann", "chat")
        for _ in range(5):
            receipt = await memory.update_memory(SECRET, "Noted, Zebulon.")
            await asyncio.sleep(0.02)
            await memory.forget(receipt.turn_ids)
        await memory.settle(timeout=60)
        assert (await memory.status()).erasures == 5
        async with asyncio.timeout(60):
            # What a worker wrote late takes a pass more, each a while after the one before.
            while (await memory.status()).erasures:
                clock.tick(700)
                await asyncio.sleep(0.2)
        assert await traces(service, "ann", "zebulon") == []
        assert await service.core.vectors.turn_ids("ann") == set()
        assert await service.core.store.search_rows("ann") == []


# --- what is owed afterwards ---------------------------------------------------------------------------------
SUMMED_UP: dict[str, dict[str, Any]] = {
    "compact": {
        "enable_topics": True,
        "max_messages_per_topic": 6,
        "recent_message_keep": 2,
        "enable_compression": False,
    },
    "compress": {"compress_every_turns": 20},
}


def refused(body: Request) -> Reply:
    """A server that refuses a request, and says what of it: a proxy with a filter, for one."""
    sent = "\n".join(message["content"] for message in body["messages"])
    if "<turn" not in sent:
        return Reply(text="{}")
    lines = [line for line in sent.splitlines() if "Zebulon" in line]
    return Reply(status=400, text=f"not allowed: {lines[-1]}" if lines else "not allowed")


@pytest.mark.parametrize("stage", SUMMED_UP)
@pytest.mark.parametrize("store", STORES)
async def test_what_a_failed_request_said_of_a_forgotten_turn_goes(
    stage: str, store: str, request: pytest.FixtureRequest, tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    """Its words are kept nowhere; the extract that stood in for the summary goes with the turn that it quotes."""
    openai_server.answer = refused
    settings = {
        **settings_on(store, request, tmp_path),
        **SUMMED_UP[stage],
        "openai_base_url": openai_server.base_url,
        "openai_api_key": "sk-scripted",
    }
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        texts = lines(24)
        texts[2] = "about clocks about clocks: Zebulon repairs them"
        turns = await memory.add_turns(said(texts))
        await memory.settle(timeout=60)
        assert any("Zebulon" in str(body) for body in openai_server.chats)
        assert await remains(service, "not allowed") == []
        await memory.forget([turns[2].id])
        await memory.settle(timeout=60)
        assert await remains(service, "Zebulon") == []


@pytest.mark.parametrize("store", STORES)
async def test_forgetting_does_not_compress_where_that_is_switched_off(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A compression that was asked for and goes with a turn comes back only when it is asked for again."""
    settings = settings_on(store, request, tmp_path)
    async with opened(settings, enable_compression=False, compress_every_turns=5) as service:
        memory = service.agent("ann", "chat")
        turns = await memory.add_turns(said(lines(30)))
        await memory.compress()
        assert (await memory.forget([turns[3].id])).compressions > 0
        async with asyncio.timeout(
            60
        ):  # embedded the last look is soon, and has it asked once more whether one is due
            while (status := await memory.status()).owed_count or (service.cfg.embedded and status.erasures):
                await asyncio.sleep(0.05)
        assert await memory.compressions() == []
        await memory.compress()
        assert (await memory.compressions())[-1].turns == 29
