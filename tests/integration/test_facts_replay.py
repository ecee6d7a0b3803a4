"""Replay: the facts of stored turns extracted anew, looked at, applied wholly or not at all, and taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memory_agent import InvalidInput, MemoryAgent, MemoryService, StoreUnavailable, TurnInput
from memory_agent.facts.people import shown
from tests.integration.fact_script import add, asked, asking, by_words, opened, refused, standing, update
from tests.servers.openai_script import Request, ScriptedOpenAI

TALK = ("I live in Bergen.", "I moved to Oslo last week.", "I play chess.", "My dog Rex is old.")
POOR = {
    TALK[0]: [add("location", "Bergen", "I live in Bergen")],
    TALK[1]: [add("travel", "Oslo", "Oslo last week")],
    TALK[2]: [add("interests", ["chess"], "I play chess")],
    TALK[3]: [add("preferences.likes", ["dogs"], "My dog Rex")],
}
BETTER = {
    TALK[0]: [add("location", "Bergen", "I live in Bergen")],
    TALK[1]: [update("location", "Oslo", "I moved to Oslo")],
    TALK[2]: [add("interests", ["chess", "board games"], "I play chess.")],
    TALK[3]: [add("pets.dog", "Rex", "My dog Rex"), add("age", 90, "I am ninety")],
}
KNOWN_POORLY = {
    "location": "Bergen",
    "travel": "Oslo",
    "interests": ["chess"],
    "preferences": {"likes": ["dogs"]},
}
KNOWN_BETTER = {"location": "Oslo", "interests": ["chess", "board games"], "pets": {"dog": "Rex"}}


def by_model(models: dict[str, Callable[[Request], str]]) -> Callable[[Request], str]:
    """A server with these chat models."""
    return lambda body: models[body["model"]](body)


MODELS = {"gpt-4o-mini": by_words(POOR), "better": by_words(BETTER)}


@pytest.fixture
async def service(settings: dict[str, Any], openai_server: ScriptedOpenAI) -> AsyncIterator[MemoryService]:
    """One that asks the scripted server for facts."""
    async with opened(asking(settings, openai_server)) as service:
        yield service


async def talk(memory: MemoryAgent, server: ScriptedOpenAI) -> list[str]:
    """The talk, its facts extracted by the poor model; the turns' ids."""
    server.answer = by_model(MODELS)
    turns = await memory.add_turns([TurnInput(role="user", content=text) for text in TALK])
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == KNOWN_POORLY
    return [turn.id for turn in turns]


async def state(service: MemoryService, memory: MemoryAgent) -> tuple[Any, ...]:
    """All that can be read of the thread's facts."""
    await service.core.facts.save(memory.scope)  # forgetting empties it, until the next change
    assert shown((await service.core.store.load_facts(memory.scope)).facts) == await memory.fetch_facts()
    return await memory.fetch_facts(), await standing(memory), await refused(memory)


async def test_a_replay_is_proposed_applied_and_undone(
    memory: MemoryAgent, service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """A proposal shows every difference with its sources and changes nothing; applied it counts; undone, all is as before."""
    ids = await talk(memory, openai_server)
    before = await state(service, memory)
    asked_before = (await memory.status()).extraction
    seen: list[tuple[int, int]] = []
    proposal = await memory.replay_facts(
        model="better", progress=lambda done, every: seen.append((done, every))
    )
    assert seen[-1] == (4, 4)
    assert (proposal.before, proposal.after) == (KNOWN_POORLY, KNOWN_BETTER)
    assert proposal.extractor.startswith("llm:better:")
    assert (proposal.turns, proposal.failed) == (4, ())
    assert [(".".join(d.path), d.kind, d.before, d.after) for d in proposal.differences] == [
        ("interests", "added", None, "board games"),
        ("location", "changed", "Bergen", "Oslo"),
        ("pets.dog", "added", None, "Rex"),
        ("preferences.likes", "removed", "dogs", None),
        ("travel", "removed", "Oslo", None),
    ]
    (moved,) = [difference for difference in proposal.differences if difference.kind == "changed"]
    assert [source.turn_id for source in moved.sources_before] == [ids[0]]
    assert [(source.turn_id, source.quote) for source in moved.sources_after] == [(ids[1], "I moved to Oslo")]
    assert [(item.path, item.refused) for item in proposal.refused] == [
        (("age",), "the quote is not in its turn")
    ]
    spent = (await memory.status()).extraction
    assert spent.requests - asked_before.requests == proposal.cost.requests == 1
    assert await state(service, memory) == before
    replay_id = await memory.apply_replay(proposal)
    assert await memory.fetch_facts() == KNOWN_BETTER
    assert {record.by for record in await standing(memory)} == {proposal.extractor}
    after = await state(service, memory)
    with pytest.raises(InvalidInput, match="counts already"):
        await memory.apply_replay(proposal)
    assert await state(service, memory) == after
    with pytest.raises(InvalidInput, match=f"newest first: {replay_id}"):
        await memory.undo_replay("other")
    # What people say in between outranks it, and stays when it is undone.
    await memory.set_fact("pets.dog", "Max")
    assert (await memory.fetch_facts())["pets"] == {"dog": "Max"}
    assert await memory.undo_replay() == replay_id
    assert await memory.fetch_facts() == {**KNOWN_POORLY, "pets": {"dog": "Max"}}
    await memory.retract_fact("pets")
    assert await state(service, memory) == before
    with pytest.raises(InvalidInput, match="none"):
        await memory.undo_replay()


async def test_a_turn_whose_reply_is_malformed_keeps_its_facts(
    memory: MemoryAgent, openai_server: ScriptedOpenAI
) -> None:
    """Such a turn is listed with what was wrong, and what is known from it stays; the others are replayed."""
    ids = await talk(memory, openai_server)

    def stumbling(body: Request) -> str:
        if any(message.text == TALK[2] for message in asked(body)):
            return "Chess, you say?"
        return MODELS["better"](body)

    openai_server.answer = by_model({**MODELS, "stumbling": stumbling})
    proposal = await memory.replay_facts(model="stumbling")
    ((turn_id, problem),) = proposal.failed
    assert turn_id == ids[2]
    assert "answered in prose" in problem
    assert proposal.after == {**KNOWN_BETTER, "interests": ["chess"]}
    assert proposal.cost.requests > 2
    await memory.apply_replay(proposal)
    assert await memory.fetch_facts() == proposal.after
    (chess,) = await standing(memory, "interests")
    assert chess.by == "llm:gpt-4o-mini:prompt-3"


async def test_a_proposal_does_not_outlive_its_turns(
    memory: MemoryAgent, service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """Applied after one of its turns was forgotten, it is refused, and nothing has changed."""
    ids = await talk(memory, openai_server)
    proposal = await memory.replay_facts(model="better")
    await memory.forget([ids[3]])
    await memory.settle(timeout=60)
    before = await state(service, memory)
    with pytest.raises(InvalidInput, match="forgotten since"):
        await memory.apply_replay(proposal)
    assert await state(service, memory) == before
    assert {change.generation for change in await service.core.store.fact_changes(memory.scope)} == {""}
    with pytest.raises(InvalidInput, match="thread 'chat'"):
        await service.agent("ann", "other").apply_replay(proposal)
    again = await memory.replay_facts(model="better")
    await memory.apply_replay(again)
    assert await memory.fetch_facts() == {"location": "Oslo", "interests": ["chess", "board games"]}


async def test_turns_that_wait_are_left_to_the_worker(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """A replay skips turns that still owe their facts, and what they state counts when it comes, replay or not."""
    settings = asking(settings, openai_server)
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await talk(memory, openai_server)
    async with opened({**settings, "run_worker": False}) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("I play chess.")
        await memory.add_user_message("I live in Bergen.")
        proposal = await memory.replay_facts(model="better")
        assert proposal.turns == len(TALK)
        await memory.apply_replay(proposal)
        assert await memory.fetch_facts() == KNOWN_BETTER
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.settle(timeout=60)
        assert (await memory.fetch_facts())["location"] == "Bergen"


async def test_two_replays_are_not_applied_at_once(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """While one replay is being applied, another has to wait, and says so."""
    async with opened(asking(embedded_settings, openai_server)) as service:
        memory = service.agent("ann", "chat")
        await talk(memory, openai_server)
        proposal = await memory.replay_facts(model="better")
        store, now = service.core.store, service.clock.now()
        name = 'replay:["ann", "chat"]'
        assert await store.acquire_leases([name], "somebody", now=now, until=now.replace(year=now.year + 1))
        # A service tells its callers that a part is unavailable, and not what the part says.
        with pytest.raises(StoreUnavailable, match=r"another replay|unavailable for now"):
            await memory.apply_replay(proposal)
        assert await memory.fetch_facts() == KNOWN_POORLY
        await store.release_leases([name], "somebody")
        await memory.apply_replay(proposal)
        assert await memory.fetch_facts() == KNOWN_BETTER
