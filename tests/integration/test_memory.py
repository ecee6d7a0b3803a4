"""A conversation remembered, end to end: what a user of the package sees."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

from memory_agent import (
    DataDirInUse,
    IdempotencyKeyReused,
    MemoryAgent,
    MemoryConfig,
    MemoryService,
    NotOpen,
    SettleTimeout,
    TurnInput,
    UpdateReceipt,
)
from memory_agent.domain import STAGES
from memory_agent.search import search as search_module
from memory_agent.search.fusion import SIGNALS
from memory_agent.search.postings import CollectionStatistics
from memory_agent.text.question import gist_of
from memory_agent.text.terms import count_terms
from tests.fixtures import OpenService, on_both_by_day
from tests.over_http import both_ways_by_day, embedded_only
from tests.unit.search.ranking import reference

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
TALK = [
    ("My name is Ann. I live in Bergen.", "Nice to meet you, Ann!"),
    ("Last week I adopted a puppy, he is called Rufus.", "Congratulations to both of you!"),
    ("We are going to Crete in June, the flights are booked.", "Crete is lovely in June."),
    ("The dentist said my wisdom tooth has to go.", "Ouch. When is the appointment?"),
]


async def remember_talk(memory: MemoryAgent) -> None:
    """Store the talk, an exchange a day from May 1."""
    for day, (question, answer) in enumerate(TALK):
        await memory.update_memory(question, answer, timestamp=MAY + timedelta(days=day))
    await memory.settle(timeout=60)


@both_ways_by_day
@on_both_by_day
async def test_a_conversation_is_remembered_and_recalled(open_service: OpenService) -> None:
    """What was said is found by meaning and by word, facts are known, and all of it is there after a restart."""
    async with open_service(short_term_window=2) as service:
        await remember_talk(service.agent("ann", "chat"))
    async with open_service(short_term_window=2) as service:
        memory = service.agent("ann", "chat")
        by_meaning = await memory.fetch_long_term("Which pet does the user own?", top_k=1)
        assert "Rufus" in by_meaning[0].text
        by_word = await memory.fetch_long_term("Crete", top_k=2)
        assert all("Crete" in found.text for found in by_word)
        assert by_word[0].score >= by_word[1].score
        assert by_word[0].why["words"] > 0
        context = await memory.fetch_memory("What is my dog called?")
        assert [turn.content for turn in context.short_term] == [text for pair in TALK for text in pair]
        assert "Rufus" in str(context)
        assert (context.facts["name"], context.facts["location"]) == ("Ann", "Bergen")
        assert (context.degraded, context.tokens <= context.budget) == ((), True)
        assert (await memory.status()).owed_count == 0


@on_both_by_day
async def test_what_was_just_written_is_found_by_its_words(open_service: OpenService) -> None:
    """Before any worker ran, the window shows a turn and search finds it by word; with the worker, by meaning."""
    async with open_service(run_worker=False, short_term_window=0) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("The spare key lies under the blue flowerpot.")
        await memory.add_user_message("It rained all day.")
        assert (await memory.status()).pending == {**dict.fromkeys(STAGES, 2), "reextract": 0}
        with pytest.raises(SettleTimeout, match="index"):
            await memory.settle(timeout=0.2)
        found = await memory.fetch_long_term("where is the key?")
        assert found[0].text == "The spare key lies under the blue flowerpot."
        assert found[0].why["words"] > 0
        assert found[0].similarity is None
        # What was said beside it may be about the same, and stands behind it.
        assert [recollection.text for recollection in found[1:]] == ["It rained all day."]
        assert "words" not in found[1].why
        assert found[1].why["words_around"] > 0
        assert "flowerpot" in str(await memory.fetch_memory("where is the key?"))
        assert len(await memory.fetch_short_term(5)) == 2
    async with open_service() as service:
        memory = service.agent("ann", "chat")
        await memory.settle(timeout=60)
        found = await memory.fetch_long_term("Where did I hide my door opener?", top_k=1)
        assert "flowerpot" in found[0].text
        assert "words" not in found[0].why
        assert found[0].similarity is not None
        assert found[0].similarity > 0.3


@both_ways_by_day
@on_both_by_day
async def test_scopes_and_filters(service: MemoryService) -> None:
    """A thread sees its own turns, a user all of theirs; times, role and metadata exclude, and only they."""
    one, two = service.agent("ann", "one"), service.agent("ann", "two")
    other = service.agent("bob", "one")
    for day, memory in enumerate((one, two, other)):
        await memory.add_turns(
            [
                TurnInput(
                    role="user", content=f"I planted tomatoes, bed {day}", timestamp=MAY + timedelta(days=day)
                ),
                TurnInput(
                    role="assistant",
                    content=f"Tomatoes like sun, bed {day}",
                    timestamp=MAY + timedelta(days=day),
                    metadata={"topic": "garden", "n": day},
                ),
            ]
        )
    await service.settle(timeout=60)

    async def beds(**filters: Any) -> list[str]:
        found = await one.fetch_long_term("tomatoes", top_k=10, **filters)
        return sorted(recollection.text for recollection in found)

    assert await beds(scope="thread") == ["I planted tomatoes, bed 0", "Tomatoes like sun, bed 0"]
    assert len(await beds()) == len(await beds(scope="user")) == 4
    assert await beds(role="user") == ["I planted tomatoes, bed 0", "I planted tomatoes, bed 1"]
    assert await beds(since=MAY + timedelta(days=1), role="user") == ["I planted tomatoes, bed 1"]
    assert await beds(until=MAY + timedelta(days=1), role="user") == ["I planted tomatoes, bed 0"]
    assert await beds(metadata={"n": 1}) == ["Tomatoes like sun, bed 1"]
    assert await beds(metadata={"n": 7}) == []
    assert await beds(metadata={"topic": "garden", "n": 0}) == ["Tomatoes like sun, bed 0"]
    assert len(await one.fetch_long_term("tomatoes", top_k=1)) == 1


OTHER_CALLS: dict[str, dict[str, Any]] = {
    "role": {"role": "assistant"},
    "content": {"content": "I live in Turin."},
    "speaker": {"speaker": "Bo"},
    "timestamp": {"timestamp": datetime(2026, 5, 2, tzinfo=UTC)},
    "metadata": {"metadata": {"n": 2}},
    "importance": {"importance": 0.5},
    "entities": {"entities": [{"kind": "places", "name": "Oslo"}]},
}


async def test_another_call_under_a_used_key_is_refused(memory: MemoryAgent) -> None:
    """Whatever it says otherwise, or leaves out: the error names it, nothing is stored, and the first call still repeats."""
    said: dict[str, Any] = {
        "role": "user",
        "content": "I live in Oslo.",
        "speaker": "Ann",
        "timestamp": datetime(2026, 5, 1, tzinfo=UTC),
        "metadata": {"n": 1, "tags": ["a", {"b": None}]},
        "importance": 1,
        "entities": [{"kind": "places", "name": "Rome"}],
    }
    first = await memory.add_turn(**said, idempotency_key="k")
    for what, other in OTHER_CALLS.items():
        with pytest.raises(IdempotencyKeyReused, match=rf"'k', .* with another {what}; nothing was stored"):
            await memory.add_turn(**{**said, **other}, idempotency_key="k")
    for turns in ([said, said], [{**said, "metadata": None}]):
        with pytest.raises(IdempotencyKeyReused, match=r"another (number of turns|metadata)"):
            await memory.add_turns(turns, idempotency_key="k")
    with pytest.raises(IdempotencyKeyReused, match=r"another (number of turns|speaker)"):
        await memory.update_memory("I live in Oslo.", "Nice.", idempotency_key="k")
    assert (await memory.add_turn(**said, idempotency_key="k")).id == first.id
    assert [turn.id for turn in await memory.fetch_short_term()] == [first.id]


async def test_of_calls_at_once_under_one_key_one_is_stored(memory: MemoryAgent) -> None:
    """Those that say the same get its receipt, the others are refused, and no turn of theirs is there."""
    calls = [memory.update_memory(f"q {n % 3}", f"a {n % 3}", idempotency_key="k") for n in range(12)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert len({receipt for receipt in done if isinstance(receipt, UpdateReceipt)}) == 1
    assert [type(other) for other in done if isinstance(other, Exception)] == [IdempotencyKeyReused] * 8
    turns = [turn.content for turn in await memory.fetch_short_term()]
    assert turns in [[f"q {n}", f"a {n}"] for n in range(3)]


async def test_nothing_of_a_long_turn_is_lost(memory: MemoryAgent) -> None:
    """A needle at the end of a turn of 1,200 words is found by meaning, and the result is the turn, once."""
    hay = " ".join(f"The committee discussed item {i} of the agenda without result." for i in range(120))
    needle = "My sister works as a firefighter. She was at a big blaze in the harbour and saved two men. " * 4
    turn = await memory.add_user_message(f"{hay} {needle}")
    await memory.add_user_message("The weather stays fine until Friday.")
    await memory.settle(timeout=120)
    found = await memory.fetch_long_term("Who in the family puts out fires?", top_k=5)
    assert found[0].turn.id == turn.id
    assert found[0].similarity is not None
    assert found[0].similarity > 0.3
    assert len({recollection.turn.id for recollection in found}) == len(found)
    assert found[0].turn.content == turn.content


async def test_large_users_are_ranked_as_a_plain_reference_ranks_their_candidates(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer candidates than turns, scores are those of loops over those of both sources and the turns beside."""
    things = ["apple", "boat", "candle", "drum", "engine", "flute", "garden", "harbour"]
    weights = {"words": 1.0, "words_around": 2.0, "meaning": 3.0, "meaning_around": 4.0}
    monkeypatch.setattr(search_module, "CANDIDATES", 10)
    settings: dict[str, Any] = {"resident_max_turns": 0}
    async with open_service(**settings, search_weights=dict.fromkeys(SIGNALS, 0.0) | weights) as service:
        memory = service.agent("ann", "chat")
        texts = [f"My {things[n % 8]} stood beside the {things[n * 3 % 7]}, day {n}" for n in range(56)]
        await memory.add_turns([{"role": "user", "content": text} for text in texts])
        await memory.settle(timeout=60)
        question = "Where was the boat near my garden?"
        found = await memory.fetch_long_term(question, top_k=8)

        parts, terms = service.core, list(count_terms(question))
        query, gist = await parts.embedder.embed([question, gist_of(question, ())], purpose="query")
        gist = (query + gist) / np.linalg.norm(query + gist)
        near = await parts.vectors.query(memory.scope, gist, limit=10)
        held = await parts.store.term_candidates(memory.scope, terms, limit=10)
        ids = {similar.turn_id for similar in near} | set(held.turn_ids)
        every = await parts.store.search_rows("ann")
        places = {row.seq + step for row in every if row.turn_id in ids for step in (-1, 0, 1)}
        rows = [row for row in every if row.seq in places]
        assert len(ids) < len(rows) < len(texts)
        statistics = CollectionStatistics(
            rows=held.rows, mean_length=held.mean_length, frequency=held.frequency
        )
        scored = reference(rows, terms, query, gist, statistics=statistics, whole=False)
        score = dict.fromkeys(scored, 0.0)
        fields = {"words": "words", "words_around": "around", "meaning": "meaning"}
        for signal, weight in weights.items():
            values = {turn: getattr(one, fields.get(signal, signal)) for turn, one in scored.items()}
            low, high = min(values.values()), max(values.values())
            reach = min(2 * high / statistics.weight(terms), 1.0) if signal.startswith("words") else 1.0
            for turn, value in values.items():
                score[turn] += weight / sum(weights.values()) * reach * (value - low) / (high - low)
        best = sorted(score.values(), reverse=True)[:8]
        assert [recollection.score for recollection in found] == pytest.approx(best, abs=1e-3)
        for recollection in found:
            assert recollection.score == pytest.approx(score[recollection.turn.id], abs=1e-3)


@embedded_only("two services on the same servers: over HTTP it would show no more of them")
async def test_what_other_processes_remember_and_forget_is_seen(
    server_settings: dict[str, Any], shared_embedder: Any
) -> None:
    """A second service on the same servers finds new turns at its next search, and drops forgotten ones."""
    cfg = MemoryConfig(**server_settings)
    async with (
        MemoryService(cfg, embedder=shared_embedder) as here,
        MemoryService(cfg, embedder=shared_embedder) as there,
    ):
        writer, reader = here.agent("ann", "chat"), there.agent("ann", "chat")
        await remember_talk(writer)
        assert "Crete" in (await reader.fetch_long_term("Crete"))[0].text
        turn = await writer.add_user_message("The spare key lies under the blue flowerpot.")
        await writer.settle(timeout=60)
        assert (await reader.fetch_long_term("spare key", top_k=1))[0].turn.id == turn.id
        await writer.forget([turn.id])
        assert turn.id not in [found.turn.id for found in await reader.fetch_long_term("spare key", top_k=50)]
        resident = await there.core.residents.get("ann")
        assert resident is not None
        assert len(resident) == 8


@embedded_only("the application's MongoDB client is the service's affair")
@pytest.mark.parametrize("driver", ["pymongo", "motor"])
async def test_an_applications_own_client_is_used_and_left_open(
    driver: str, server_settings: dict[str, Any], shared_embedder: Any
) -> None:
    """A client that the application holds, even one with weak options, serves us and survives our closing."""
    uri = f"{server_settings.pop('mongo_uri')}&w=1&journal=false"
    client: Any = AsyncMongoClient(uri) if driver == "pymongo" else AsyncIOMotorClient(uri)
    try:
        cfg = MemoryConfig(**server_settings)
        async with MemoryService(cfg, mongo_client=client, embedder=shared_embedder) as service:
            await remember_talk(service.agent("ann", "chat"))
            assert "Rufus" in str(await service.agent("ann", "chat").fetch_memory("my puppy Rufus"))
        assert await client[cfg.db_name]["turns"].count_documents({}) == 2 * len(TALK)
    finally:
        closing = client.close()
        if closing is not None:
            await closing


@embedded_only("no agent asks anything: it is about opening")
async def test_embedded_stores_are_one_services_at_a_time(embedded_settings: dict[str, Any]) -> None:
    """A second service on the same folder is told who holds it and what to do, and the folder is free afterwards."""
    cfg = MemoryConfig(**embedded_settings)
    async with MemoryService(cfg):
        with pytest.raises(DataDirInUse, match=rf"process {os.getpid()} .*set mongo_uri"):
            async with MemoryService(cfg):
                pass
    async with MemoryService(cfg) as service:
        assert (await service.status()).turns == 0


@both_ways_by_day
async def test_an_exchange_without_an_answer_keeps_what_the_user_said(memory: MemoryAgent) -> None:
    receipt = await memory.update_memory("Book a table for six.", None, idempotency_key="k")
    assert receipt == await memory.update_memory("Book a table for six.", "", idempotency_key="k")
    [turn] = await memory.fetch_short_term()
    assert (receipt.turn_ids, turn.role, turn.content) == ((turn.id,), "user", "Book a table for six.")
    with pytest.raises(IdempotencyKeyReused):
        await memory.update_memory("Book a table for six.", "Done.", idempotency_key="k")


@embedded_only("a MemoryClient alone owns connections: tests/integration/client")
async def test_an_agent_alone_owns_its_service(embedded_settings: dict[str, Any]) -> None:
    """MemoryAgent works without a service in sight, and remembers across two lives."""
    cfg = MemoryConfig(**embedded_settings)
    async with MemoryAgent("ann", "chat", cfg) as memory:
        await memory.update_memory("I keep bees.", "How many hives?")
    async with MemoryAgent("ann", "chat", cfg) as memory:
        expected = ["I keep bees.", "How many hives?"]
        assert [turn.content for turn in await memory.fetch_short_term()] == expected
    with pytest.raises(NotOpen, match="async with"):
        await memory.fetch_short_term()
