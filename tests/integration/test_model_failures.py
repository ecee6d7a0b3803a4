"""Whose fault it is that a model gives no facts: the operator's waits, a refusal is an answer, an absence is bridged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import pytest

from memory_agent import (
    MemoryAgent,
    MemoryConfig,
    MemoryService,
    MemoryStatus,
    SettleTimeout,
    Turn,
    TurnsParked,
)
from memory_agent import service as service_module
from memory_agent.testing import BruteForceIndex, FixedClock, HashEmbedder
from memory_agent.work import worker
from memory_agent.work.worker import STAND_IN_SECONDS
from tests.integration.fact_script import add, asked, asking, by_words, opened, refused, reply, standing
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

Found = TypeVar("Found")
ADA: Final = "My name is Ada."
BOAT: Final = "I own a boat."
SOUND: Final = by_words(
    {"Ada": [add("name", "Ada", "My name is Ada")], "boat": [add("belongings", ["boat"], "I own a boat")]}
)
FACTS: Final = {"name": "Ada", "belongings": "boat"}
SORRY: Final = "I'm sorry, I can't help with that."


async def once(
    look: Callable[[], Awaitable[Found]], seen: Callable[[Found], object], *, clock: FixedClock | None = None
) -> Found:
    """The first of what is looked for in which that is so; a second passes on the `clock` each time."""
    async with asyncio.timeout(60):
        while not seen(found := await look()):
            await asyncio.sleep(0.02)
            if clock is not None:
                clock.tick(1)
    return found


async def until(memory: MemoryAgent, seen: Callable[[MemoryStatus], object]) -> MemoryStatus:
    """The first status of the thread in which that is so."""
    return await once(memory.status, seen)


# --- the operator's ------------------------------------------------------------------------------------------
def coded(status: int, message: str, code: str) -> Reply:
    return Reply(status=status, raw=json.dumps({"error": {"message": message, "code": code}}))


OPERATORS: Final[dict[str, tuple[Reply, str]]] = {
    "400-invalid-model": (Reply(status=400, text="Invalid model name passed in model=nope"), "Invalid model"),
    "404-not-found": (coded(404, "no model 'nope'", "model_not_found"), "no model 'nope'"),
    "401": (Reply(status=401, text="Incorrect API key provided: sk-scrip***pted"), "Incorrect API key"),
    "403-in-another-language": (Reply(status=403, text="アクセスできません"), "アクセス"),
    "429-quota": (coded(429, "You exceeded your quota", "insufficient_quota"), "exceeded your quota"),
}


async def test_the_operators_fault_waits_and_status_says_what_was_answered(
    settings: dict[str, Any], openai_server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No attempt is counted and nothing parked; a process that only looks sees it; mended, it goes on by itself."""
    monkeypatch.setattr(worker, "OUTAGE_PATIENCE_SECONDS", 0)
    wanted = asking(settings, openai_server, max_attempts=1)
    async with opened(wanted) as service:
        for case, (fault, words) in OPERATORS.items():
            openai_server.answer = lambda _, fault=fault: fault
            memory = service.agent(case, "chat")
            await memory.add_turns([{"role": "user", "content": text} for text in (ADA, BOAT)])
            asked_before = len(openai_server.chats)
            await until(memory, lambda _, most=asked_before + 8: len(openai_server.chats) > most)  # type: ignore[misc]
            status = await until(memory, lambda status: status.outages)
            (outage,) = status.outages
            assert (outage.stage, outage.part) == ("facts", "llm"), case
            assert words in outage.error
            assert "sk-" not in outage.error
            assert (status.parked_count, status.pending["facts"]) == (0, 2), case
            assert [turn.attempts for turn in await service.core.store.list_turns(memory.scope)] == [0, 0]
            openai_server.answer = SOUND
            await memory.settle(timeout=60)
            assert await memory.fetch_facts() == FACTS, case
            assert (await memory.status()).outages == (), case


async def test_an_outage_is_seen_after_its_worker_is_gone(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Since when is kept over restarts, and who has nothing to wait for isn't told of it."""
    openai_server.answer = lambda _: Reply(status=401, text="who are you?")
    wanted = asking(settings, openai_server)
    async with opened(wanted) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message(ADA)
        (first,) = (await until(memory, lambda status: status.outages)).outages
    async with opened({**wanted, "run_worker": False}) as service:
        (seen,) = (await service.status()).outages
        assert (seen.since, seen.error) == (first.since, first.error)
        assert (await service.agent("ben", "chat").status()).outages == ()
    async with opened(wanted) as service:
        asked_before = len(openai_server.chats)
        memory = service.agent("ada", "chat")
        await until(memory, lambda _: len(openai_server.chats) > asked_before)
        assert [outage.since for outage in (await memory.status()).outages] == [first.since]
        openai_server.answer = SOUND
        await memory.settle(timeout=60)
    async with opened({**wanted, "run_worker": False}) as service:
        assert (await service.status()).outages == ()


async def test_one_turn_that_always_times_out_is_parked_while_others_go_on(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is down for one turn only is no outage: past all patience that turn is parked, and no other."""
    openai_server.answer = lambda body: (
        Reply(status=500, text="crash") if any("boat" in m.text for m in asked(body)) else SOUND(body)
    )
    monkeypatch.setattr(worker, "OUTAGE_PATIENCE_SECONDS", 0)
    wanted = asking(embedded_settings, openai_server, facts_batch_turns=1)
    async with opened(wanted, vectors=BruteForceIndex()) as service:
        bad, good = service.agent("ben", "chat"), service.agent("ada", "chat")
        await bad.add_user_message(BOAT)
        await until(bad, lambda status: status.outages)
        await good.add_user_message(ADA)
        with pytest.raises(TurnsParked, match="LLMUnavailable"):
            await bad.settle(timeout=60)
        await good.settle(timeout=60)
        assert await good.fetch_facts() == {"name": "Ada"}


# --- a refusal -----------------------------------------------------------------------------------------------
DENIAL: Final = {"role": "assistant", "content": None, "refusal": SORRY}
DECLINED: Final[dict[str, Reply | str]] = {
    "prose": SORRY,
    "prose-in-german": "Dabei kann ich leider nicht helfen.",
    "prose-in-korean": "죄송하지만 그 요청은 도와드릴 수 없습니다.",
    "with-a-link": "I cannot discuss this. See [our policy](https://example.com/policy) [1].",
    "structural": Reply(
        raw=json.dumps({"choices": [{"index": 0, "finish_reason": "stop", "message": DENIAL}]})
    ),
    "filtered-answer": Reply(text="", finish_reason="content_filter"),
    "filtered-request": coded(400, "filtered", "content_filter"),
}


async def test_a_refusal_is_an_answer_without_facts(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Of a batch only the turn that is refused is read by patterns; that is recorded with the model's words, never parked."""
    async with opened(asking(settings, openai_server, max_attempts=1), vectors=BruteForceIndex()) as service:
        for case, declined in DECLINED.items():

            def answer(body: Request, declined: Reply | str = declined) -> Reply | str:
                return declined if any("poison" in message.text for message in asked(body)) else SOUND(body)

            openai_server.answer = answer
            memory = service.agent(case, "chat")
            texts = [ADA, "My cousin brews poison.", BOAT]
            turns = await memory.add_turns([{"role": "user", "content": text} for text in texts])
            await memory.settle(timeout=60)
            assert await memory.fetch_facts() == FACTS, case
            (record,) = await refused(memory)
            assert record.refused is not None
            assert record.refused.startswith("the model answered without facts that can be read"), case
            if isinstance(declined, str):
                assert declined in record.refused
            assert record.sources[0].turn_id == turns[1].id, case
            await memory.forget([turns[1].id])
            await memory.settle(timeout=60)
            assert await refused(memory) == [], case


async def test_a_refusal_is_asked_once_more_and_recorded_without_its_thoughts(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """One that was a mood costs nothing: the facts are there and nothing is noted as refused."""
    openai_server.then(SORRY, reply([add("name", "Ada", "My name is Ada")]))
    wanted = asking(embedded_settings, openai_server, max_attempts=1)
    async with opened(wanted, vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message(ADA)
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"name": "Ada"}
        assert await refused(memory) == []
        assert (await memory.status()).extraction.requests == 2
        openai_server.answer = lambda _: f"<think>{'Is this about {poison}? ' * 50}</think>\n\n{SORRY}"
        memory = service.agent("ben", "chat")
        await memory.add_user_message("My cousin brews poison.")
        await memory.settle(timeout=60)
        (record,) = await refused(memory)
        assert (
            record.refused
            == f"the model answered without facts that can be read, so patterns read the message: {SORRY}"
        )


# --- while it stays away -------------------------------------------------------------------------------------
async def test_patterns_stand_in_for_a_model_that_stays_away(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Marked as such, for new turns as well; back again, what the model and patterns find replaces them, and history keeps both times."""
    openai_server.answer = lambda _: Reply(status=404, text="no such model")
    clock = FixedClock()
    wanted = asking(settings, openai_server)
    async with opened(wanted, vectors=BruteForceIndex(), clock=clock) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message("My name is Ada and I live in Turin.")
        await until(memory, lambda status: status.outages)
        await asyncio.sleep(0.5)
        assert await memory.fetch_facts() == {}
        clock.tick(STAND_IN_SECONDS + 1)
        meanwhile = await once(memory.fetch_facts, bool, clock=clock)
        assert meanwhile["name"] == "Ada"
        assert meanwhile["location"] == "Turin"
        assert {record.by.partition(":")[0] for record in await standing(memory)} == {"stand-in"}
        assert (await memory.status()).pending["facts"] == 1
        await memory.add_user_message("I love sailing.")
        await once(memory.fetch_facts, lambda facts: "sailing" in str(facts), clock=clock)
        seen_at = clock.now()
        clock.tick(1)
        openai_server.answer = SOUND
        await once(memory.status, lambda status: not status.pending["facts"], clock=clock)
        assert await memory.fetch_facts() == meanwhile | {"preferences": {"likes": ["sailing"]}}
        assert all(record.by.startswith("llm:") for record in await standing(memory))
        before = await memory.fetch_facts(recorded_by=seen_at)
        assert before["location"] == "Turin"
        assert "sailing" in str(before)


async def test_what_stood_in_goes_with_its_turn(
    settings: dict[str, Any], openai_server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgotten while the model is away: nothing of it is left, and nothing comes back; the other turn's stays."""
    monkeypatch.setattr(worker, "STAND_IN_SECONDS", 0.0)
    openai_server.answer = lambda _: Reply(status=503, text="loading")
    async with opened(asking(settings, openai_server), vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        first, _ = await memory.add_turns(
            [{"role": "user", "content": text} for text in (ADA, "I love jazz.")]
        )
        facts = await once(memory.fetch_facts, lambda facts: "jazz" in str(facts))
        assert facts["name"] == "Ada"
        await memory.forget([first.id])
        assert "Ada" not in str(await memory.fetch_facts())
        assert "Ada" not in str(await service.core.store.fact_changes(memory.scope))
        openai_server.answer = SOUND
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"preferences": {"likes": ["jazz"]}}


async def test_what_people_undid_of_a_stand_in_stays_undone(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """A revert of one of the things that a turn states is about the turn, whoever read it; and only about that path."""
    cfg = MemoryConfig(**asking(settings, openai_server), run_worker=False)
    openai_server.answer = by_words(
        {
            "Turin": [
                add("name", "Ada", "My name is Ada"),
                add("location", "Turin", "I live in Turin"),
            ],
            "Rome": [add("location", "Rome", "I live in Rome")],
        }
    )
    async with MemoryService(cfg, embedder=HashEmbedder(), vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        texts = ["My name is Ada and I live in Turin.", "I live in Rome."]
        turns = await memory.add_turns([{"role": "user", "content": text} for text in texts])
        facts = service.core.facts
        await facts.stand_in(turns)
        assert (await memory.fetch_facts())["location"] == "Rome"
        await memory.revert_fact("location")
        assert (await memory.fetch_facts())["location"] == "Turin"
        await facts.extract(turns[1:])
        assert (await memory.fetch_facts())["location"] == "Turin"
        await facts.extract(turns[:1])
        assert await memory.fetch_facts() == {"name": "Ada", "location": "Turin"}


async def test_the_model_reads_a_turn_as_if_nothing_had_stood_in_for_it(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Its change counts whatever stands in before or after it, and a revert lasts."""
    said = "My name is Ada and I live in Turin."
    cfg = MemoryConfig(**asking(embedded_settings, openai_server), run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder(), vectors=BruteForceIndex()) as service:
        facts = service.core.facts

        async def stood_in(user: str) -> tuple[MemoryAgent, list[Turn]]:
            memory = service.agent(user, "chat")
            turns = await memory.add_turns([{"role": "user", "content": said}])
            await facts.stand_in(turns)
            assert (await memory.fetch_facts())["location"] == "Turin"
            return memory, turns

        # After a crash before the stage was struck off the turn is asked for again.
        openai_server.answer = SOUND
        memory, turns = await stood_in("ada")
        await facts.stand_in(turns)
        for _ in range(2):
            await facts.extract(turns)
            assert await memory.fetch_facts() == {"name": "Ada", "location": "Turin"}
            await facts.stand_in(turns)
        assert await memory.fetch_facts() == {"name": "Ada", "location": "Turin"}
        assert len(await service.core.store.fact_changes(memory.scope)) == 2
        # A first statement that was reverted does not come back with the model's own reading.
        openai_server.answer = by_words(
            {"Turin": [add("name", "Ada", "My name is Ada"), add("location", "Turin", "I live in Turin")]}
        )
        memory, turns = await stood_in("ben")
        await memory.revert_fact("location")
        assert await memory.fetch_facts() == {"name": "Ada"}
        await facts.extract(turns)
        assert await memory.fetch_facts() == {"name": "Ada"}
        openai_server.answer = by_words({"Turin": [add("home", "Turin", "I live in Turin")]})
        memory, turns = await stood_in("cora")
        await facts.extract(turns)
        assert await memory.fetch_facts() == {"name": "Ada", "location": "Turin"}


async def test_an_outage_of_before_ends_no_waiting(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that was mended while nobody worked may take its time: `settle` goes by what its own worker finds."""
    monkeypatch.setattr(service_module, "_SETTLE_PATIENCE_SECONDS", 0.5)
    openai_server.answer = lambda _: Reply(status=401, text="who are you?")
    wanted = asking(embedded_settings, openai_server)
    async with opened(wanted, vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message(ADA)
        with pytest.raises(SettleTimeout, match="who are you"):
            await memory.settle()

    def slowly(body: dict[str, Any]) -> Reply:
        return Reply(text=SOUND(body), delay_seconds=2)

    openai_server.answer = slowly
    async with opened(wanted, vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        await memory.settle()
        assert await memory.fetch_facts() == {"name": "Ada"}
