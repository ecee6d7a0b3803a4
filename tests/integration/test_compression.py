"""Long conversations are compressed: when, into what, as of any turn, and without what was forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryService
from memory_agent.context import conversation as conversation_module
from memory_agent.context.budget import PRESERVED_TOKENS, SUMMARY_TOKENS
from memory_agent.context.conversation import SECTIONS_TOKENS
from memory_agent.context.ledger import message_tokens
from memory_agent.domain import Character, CompressedContext, Compression
from memory_agent.testing import FixedClock
from tests.integration.conversations import (
    START,
    everything,
    lines,
    on_each_store,
    on_each_store_by_day,
    opened,
    remains,
    said,
    settings_on,
)
from tests.over_http import both_ways_by_day

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

MIA = Character(name="Mia Holm", personality="warm")


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database: SQLite's, unless a test is `on_each_store`."""
    return settings_on(getattr(request, "param", "sqlite"), request, tmp_path)


@pytest.fixture
async def service(settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


def telling(count: int, *, first: int = 1) -> list[str]:
    """Texts of which some matter: decisions, facts, feelings, code, and talk."""
    texts = lines(count, first=first)
    for at in range(0, count, 10):
        number = first + at
        texts[at : at + 8 : 2] = [
            f"My sister number {number} is called Mia{number} and lives in Bergen.",
            f"We have decided to take train {number} to Porto.",
            "I'm so happy!" if number % 20 < 10 else "I am really scared of the exam!",
            f"```py\ndef clock_{number}():\n    return {number}\n```",
        ][: len(texts[at : at + 8 : 2])]
    return texts


def shape(context: CompressedContext) -> tuple[Any, ...]:
    """All that a compressed context says."""
    return (
        str(context),
        context.tokens,
        context.summary,
        context.moments,
        context.facts,
        context.topics,
        context.reminder,
        [turn.id for turn in context.preserved],
        [turn.id for turn in context.recent],
        context.metadata,
    )


async def check(service: MemoryService, memory: MemoryAgent, context: CompressedContext) -> None:
    """The context keeps the promises of every compressed context."""
    counter = service.core.counter
    assert counter.count(str(context)) == context.tokens <= context.budget
    assert message_tokens(context.blocks, counter) <= context.budget
    assert sum(entry.tokens for entry in context.ledger if entry.kept) == context.tokens
    assert counter.count(context.part("summary")) <= SUMMARY_TOKENS
    assert counter.count(context.part("preserved").replace("…\n", "")) <= PRESERVED_TOKENS
    tiers = [block.tier for block in context.blocks]
    assert tiers[-1] == "short_term"
    last = context.recent[-1].seq
    through = [turn for turn in await everything(memory) if turn.seq <= last]
    assert list(context.recent) == through[-len(context.recent) :]
    assert context.metadata.original_turns == len(through)
    metadata, whole = context.metadata, len(context.recent) == len(through)
    assert metadata.tokens_before == (context.tokens if whole else sum(turn.tokens for turn in through))
    assert metadata.tokens_after == context.tokens <= max(metadata.tokens_before, SECTIONS_TOKENS)
    assert len(context.recent) >= min(len(through), 10)


# --- when ----------------------------------------------------------------------------------------------------
@on_each_store
async def test_a_conversation_is_compressed_every_hundred_turns(settings: dict[str, Any]) -> None:
    """By the worker, each time on top of the last; the events say what it saved, and the turns stay as they were."""
    async with opened(settings, context_limit_tokens=100_000) as service:
        memory = service.agent("ann", "chat")
        await memory.start_session(MIA)
        texts = telling(230)
        for start in (0, 99, 100, 199, 200):
            await memory.add_turns(
                said(texts[len(await everything(memory)) : start + 1 if start % 100 else start])
            )
            await memory.settle(timeout=60)
        await memory.add_turns(said(texts[200:]))
        await memory.settle(timeout=60)
        first, second = await memory.compressions()
        expected = [(1, "turns", 0, 100, 100), (2, "turns", 100, 200, 200)]
        assert [(e.number, e.reason, e.after_seq, e.through, e.turns) for e in (first, second)] == expected
        turns = await everything(memory)
        assert [turn.content for turn in turns] == texts
        for event in (first, second):
            assert event.made_by == "extractive:quotes-2"
            assert event.tokens_before == sum(turn.tokens for turn in turns[: event.through])
            assert 0 < event.tokens_after < event.tokens_before
            assert event.covers == tuple(turn.id for turn in turns[event.after_seq : event.through])
            assert event.session_id == turns[0].session_id
        (session,) = await memory.sessions()
        assert session.compression_count == 2
        context = await memory.session_context()
        await check(service, memory, context)
        assert (context.metadata.number, context.metadata.compressed_at) == (2, 200)
        assert context.reminder.startswith("You are Mia Holm.\nPersonality: warm")


async def test_before_the_first_compression_the_summary_is_an_extract(settings: dict[str, Any]) -> None:
    """Of no turns none. It is recorded nowhere, as of any turn, and what a first compression then says as well."""
    async with opened(settings, enable_compression=False) as service:
        memory = service.agent("ann", "chat")
        empty = await memory.session_context()
        assert (empty.summary, empty.metadata.made_by, empty.metadata.summary_through) == ((), None, 0)
        turns = await memory.add_turns(said(telling(40)))
        await memory.settle(timeout=60)
        now = await memory.session_context()
        await check(service, memory, now)
        assert [item.text for item in now.summary if item.first_seq in (1, 3)] == [
            "My sister number 1 is called Mia1 and lives in Bergen.",
            "We have decided to take train 1 to Porto.",
        ]
        assert "[1 March 2026]\nuser: We have decided to take train 1 " in now.part("summary")
        metadata = now.metadata
        assert (metadata.made_by, metadata.summary_through) == ("extractive:quotes-2", 40)
        assert (metadata.number, metadata.compressed_at, await memory.compressions()) == (0, 0, [])
        await memory.forget([turns[2].id])
        left = (await memory.session_context()).summary
        assert "train 1 to" not in str(left)
        assert (await memory.compress()).summary == (await memory.compressions())[0].summary == left


@both_ways_by_day
async def test_it_can_be_asked_for(settings: dict[str, Any]) -> None:
    """At any time, of nothing as well; asked again without new turns it records nothing."""
    async with opened(settings, run_worker=False) as service:
        memory = service.agent("ann", "chat")
        assert str(await memory.compress()) == ""
        assert await memory.compress_if_needed() is None
        await memory.add_turns(said(telling(30)))
        assert await memory.compress_if_needed() is None
        context = await memory.compress()
        await check(service, memory, context)
        assert shape(await memory.compress())[:2] == shape(context)[:2]
        (event,) = await memory.compressions()
        assert (event.reason, event.through, event.tokens_after) == ("asked", 30, context.tokens)
        await memory.add_turns(said(telling(100, first=31)))
        needed = await memory.compress_if_needed()
        assert needed is not None
        assert needed.metadata.number == 2
        assert await memory.compress_if_needed() is None
        assert [event.reason for event in await memory.compressions()] == ["asked", "turns"]
        assert await service.agent("ann", "other").compressions() == []


# --- as of a turn --------------------------------------------------------------------------------------------
async def test_a_conversation_can_be_looked_at_as_of_any_turn(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told at the time is told again: with the compressions, facts and character of then."""
    monkeypatch.setattr(conversation_module, "COMPRESSED_SHARE", 0.9)
    clock = FixedClock(START)
    roomy = {"enable_fact_extraction": True, "session_idle_seconds": 1e7}
    async with opened(settings, clock=clock, **roomy) as service:
        memory = service.agent("ann", "chat")
        then: dict[int, CompressedContext] = {}
        texts = [text.replace("My sister", "The sister") for text in telling(160)]
        texts[14], texts[74] = "I live in Oslo.", "I moved to Bergen."
        await memory.start_session(MIA)
        for end in range(10, 161, 10):
            clock.set(START + timedelta(minutes=end))
            at = START + timedelta(minutes=end - 10)
            await memory.add_turns(said(texts[end - 10 : end], start=at))
            await memory.settle(timeout=60)
            if end == 80:
                await memory.start_session(Character(name="Bo Berg"))
            then[end] = await memory.compress() if end % 50 == 0 else await memory.session_context()
        assert "Bo Berg" in then[160].reminder
        for through, context in then.items():
            again = await memory.session_context(through=through, whole=through % 50 > 0)
            if through != 80:  # the session of then began after its last turn
                assert shape(again) == shape(context)
            await check(service, memory, again)
        assert [then[t].facts.get("location") for t in (10, 50, 70, 80)] == [None, "Oslo", "Oslo", "Bergen"]
        assert "Mia Holm" in (await memory.session_context(through=75)).reminder
        assert (await memory.session_context(through=75)).facts["location"] == "Bergen"
        assert (await memory.session_context(through=74)).facts["location"] == "Oslo"
        assert shape(await memory.session_context(through=10_000)) == shape(then[160])


# --- without what was forgotten ------------------------------------------------------------------------------
@on_each_store_by_day
async def test_a_forgotten_turn_is_in_no_compression(memory: MemoryAgent, service: MemoryService) -> None:
    """Those that cover it go with those built on them, its words are nowhere, and the next is made of what is left."""
    texts = telling(130)
    texts[104] = "We have decided to sell the Quaggawagon to my sister Zebulonia."
    await memory.add_turns(said(texts[:50]))
    await memory.compress()
    await memory.add_turns(said(texts[50:110]))
    await memory.compress()
    await memory.add_turns(said(texts[110:]))
    await memory.compress()
    await memory.settle(timeout=60)
    assert (await memory.compressions())[0].through == 50
    assert "Quaggawagon" in str(await memory.session_context())
    assert "compressions" in await remains(service, "Quaggawagon")
    doomed = (await everything(memory))[104]
    receipt = await memory.forget([doomed.id])
    assert receipt is not None
    assert [event.through for event in await memory.compressions()] == [50]
    for context in (await memory.session_context(), await memory.fetch_memory("What is sold?")):
        assert "Quaggawagon" not in str(context)
    async with asyncio.timeout(
        60
    ):  # after the last look, which is soon embedded, a compression may be due again
        while service.cfg.embedded and (await memory.status()).erasures:
            await asyncio.sleep(0.05)
    await memory.settle(timeout=60)
    assert await remains(service, "Quaggawagon") == []
    assert await remains(service, "Zebulonia") == []
    context = await memory.compress()
    assert "Quaggawagon" not in str(context)
    await check(service, memory, context)
    events = await memory.compressions()
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert events[-1].turns == 129
    assert doomed.id not in {turn_id for event in events for turn_id in event.covers}


async def test_no_turn_is_skipped_when_one_is_forgotten_between_two_compressions(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a backlog that falls due several times, whose turns are read once."""
    async with opened(settings, run_worker=False) as service:
        memory, store = service.agent("ann", "chat"), service.core.store
        turns = await memory.add_turns(said(lines(400)))
        append = store.append_compression

        async def append_and_forget(made: Compression) -> bool:
            done = await append(made)
            if made.through == 300 and done:
                await service.core.forgetter.forget(memory.scope, [turns[149].id])
            return done

        monkeypatch.setattr(store, "append_compression", append_and_forget)
        await service.core.compressor.work(turns)
        made = await store.compressions(memory.scope)
        covered = [turn_id for each in made for turn_id in each.covers]
        left = [turn.id for turn in turns if turn.seq != 150]
        assert covered == left[: len(covered)]
        assert made[-1].through == 301
