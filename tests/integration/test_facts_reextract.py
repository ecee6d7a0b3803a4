"""Facts extracted again from stored turns: the former count until a thread's turns are all read, and edits stay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memory_agent import InvalidInput, MemoryAgent, Scope, TurnInput
from memory_agent.domain import FactChange, FactEvent, Message, RebuildStep
from memory_agent.errors import LLMUnavailable
from memory_agent.facts.fold import place_of
from memory_agent.testing import ScriptedLLM
from tests.integration.fact_script import Item, add, asked, by_words, opened, standing

TALK = (
    "The ferry leaves me in Bergen.",
    "By now the ferry leaves me in Oslo.",
    "On Sundays I sit at the chess board.",
    "On my desk stands a cactus.",
)
"""Of which patterns make nothing."""
MORE = tuple(f"Day {number} was quiet." for number in range(8))
"""So that there is a second request."""
ROWS = {"And I row.": [add("sport", "rowing", "I row")]}
POOR = ROWS | {
    TALK[0]: [add("location", "Bergen", TALK[0])],
    TALK[1]: [add("port", "Oslo", TALK[1])],
    TALK[2]: [add("interests", ["chess"], TALK[2])],
    TALK[3]: [add("preferences.likes", ["cactus"], TALK[3])],
}
BETTER = ROWS | {
    TALK[0]: [add("location", "Bergen", TALK[0])],
    TALK[1]: [add("location", "Oslo", TALK[1])],
    TALK[2]: [add("interests", ["chess", "Sundays"], TALK[2])],
    TALK[3]: [add("desk", "cactus", TALK[3])],
}
KNOWN_POORLY = {
    "location": "Bergen",
    "port": "Oslo",
    "interests": ["chess"],
    "preferences": {"likes": ["cactus"]},
}
KNOWN_BETTER = {"location": "Oslo", "interests": ["chess", "Sundays"], "desk": "cactus"}


class Model(ScriptedLLM):
    """States what `rules` say of a message; `fails`: what it answers instead about messages with these words."""

    def __init__(self) -> None:
        super().__init__(self._answered, model="scripted")
        self.rules: dict[str, list[Item]] = POOR
        self.fails: dict[str, Exception | str] = {}

    def _answered(self, messages: Sequence[Message]) -> str | Exception:
        body = {"messages": [{"content": message.content} for message in messages]}
        said = " ".join(message.text for message in asked(body))
        for words, failure in self.fails.items():
            if words in said:
                return failure
        return by_words(self.rules)(body)


SETTINGS = {
    "enable_topics": False,
    "enable_compression": False,
    "max_attempts": 2,
    "enable_fact_extraction": True,
}


@contextlib.asynccontextmanager
async def told(settings: dict[str, Any], llm: Model, *texts: str) -> AsyncIterator[MemoryAgent]:
    """An agent whose facts were extracted from these texts by the poor model, which is a better one then."""
    async with opened({**settings, **SETTINGS}, llm=llm) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns([TurnInput(role="user", content=text) for text in texts])
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == KNOWN_POORLY
        llm.rules = BETTER
        yield memory


async def state(memory: MemoryAgent) -> tuple[Any, ...]:
    """All that can be read of the thread's facts."""
    store = memory._service.core.store
    async with asyncio.timeout(60):  # embedded the last look of an erasure is soon, and empties it as well
        while memory._service.cfg.embedded and (await memory.status()).erasures:
            await asyncio.sleep(0.05)
    await memory._service.core.facts.save(memory.scope)  # forgetting empties it, until the next change
    assert (await store.load_facts(memory.scope)).facts == await memory.fetch_facts()
    return await memory.fetch_facts(), await standing(memory)


async def test_what_was_known_counts_until_all_is_read_and_edits_stay(settings: dict[str, Any]) -> None:
    """With the model away half-way, also for who says something meanwhile; a repeat of the call begins nothing anew."""
    llm = Model()
    async with told(settings, llm, *TALK, *MORE) as memory:
        await memory.set_fact("nickname", "Bee")
        await memory.retract_fact("port")
        spent = (await memory.status()).extraction
        former = await state(memory)
        llm.fails = {"Day 7": LLMUnavailable("it restarts")}
        assert await memory.reextract_facts() == 12
        with pytest.raises(TimeoutError, match="it restarts"):
            await memory.settle(timeout=2)
        status = await memory.status()
        assert (status.pending["reextract"], status.pending["facts"]) == (2, 0)
        assert [outage.stage for outage in status.outages] == ["reextract"]
        assert await state(memory) == former
        assert await memory.reextract_facts() == 2
        await memory.add_user_message("And I row.")
        llm.fails = {}
        await memory.settle(timeout=60)
        known = await memory.fetch_facts()
        assert known == {**KNOWN_BETTER, "nickname": "Bee", "sport": "rowing"}
        await state(memory)
        cost = (await memory.status()).extraction
        assert (cost.turns - spent.turns, cost.requests - spent.requests) == (13, 7)
        # What was known then can still be asked for, and a revert of before the swap goes back to its turn.
        then = former[1][-1].recorded_at
        assert (await memory.fetch_facts(recorded_by=then))["location"] == "Bergen"
        await memory.revert_fact("location")
        assert (await memory.fetch_facts())["location"] == "Bergen"


async def test_a_turn_that_cannot_be_read_keeps_its_facts_and_holds_up_no_other(
    settings: dict[str, Any],
) -> None:
    llm = Model()
    async with told(settings, llm, *TALK) as memory:
        llm.fails = {TALK[2]: "I'm sorry, I can't talk about chess."}
        await memory.reextract_facts()
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {**KNOWN_BETTER, "interests": ["chess"]}
        llm.fails = {}
        await memory.reextract_facts()
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == KNOWN_BETTER
        await state(memory)


async def test_forgetting_meanwhile_reaches_what_does_not_count_yet(settings: dict[str, Any]) -> None:
    """And where it takes the last turns that were still to be read, what was read of the others counts."""
    llm = Model()
    async with told(settings, llm, *TALK, *MORE) as memory:
        store = memory._service.core.store
        llm.fails = {"Day 7": LLMUnavailable("it restarts")}
        await memory.reextract_facts()
        with pytest.raises(TimeoutError):
            await memory.settle(timeout=2)
        turns = await store.list_turns(memory.scope)
        await memory.forget([turns[3].id])
        assert "cactus" not in str(await store.fact_changes(memory.scope))
        assert "preferences" not in await memory.fetch_facts()
        await memory.forget([turn.id for turn in turns[8:]])
        llm.fails = {}
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {name: KNOWN_BETTER[name] for name in ("location", "interests")}
        await state(memory)


@pytest.mark.parametrize("left", ["half-way", "applied", "undone"])
async def test_facts_of_an_earlier_version_are_as_that_one_left_them(
    settings: dict[str, Any], left: str
) -> None:
    """Whose generation was one that people applied, and could take back."""
    llm = Model()
    async with told(settings, llm, *TALK, *MORE) as memory:
        store, scope = memory._service.core.store, memory.scope
        turn, *_, last = await store.list_turns(scope)
        of: dict[str, Any] = {"said_at": turn.timestamp, "recorded_at": turn.timestamp, "generation": "g-1"}
        event = FactEvent(op="set", path=("location",), value="Narvik", quote="I live in")
        place = place_of(turn.seq)
        changes = [
            FactChange(key=f"{turn.id}:facts:g-1", kind="extraction", at=place, turn_id=turn.id, turns=(turn.id,),
                       extractor="llm:old:prompt-2", events=(event,), **of),
            FactChange(key="a", kind="replay", at=f"{place}~a", turn_id=None, turns=(), extractor="person", **of),
            FactChange(key="b", kind="undo", at=f"{place}~b", turn_id=None, turns=(), extractor="person", **of),
        ]  # fmt: skip
        for change in changes[: {"half-way": 1, "applied": 2, "undone": 3}[left]]:
            assert await store.append_fact_change(scope, change)
        await memory.forget([last.id])
        await memory.settle(timeout=60)
        known = {**KNOWN_POORLY, "location": "Narvik" if left == "applied" else "Bergen"}
        assert await memory.fetch_facts() == known
        await state(memory)
        await memory.reextract_facts()
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == KNOWN_BETTER
        await state(memory)
        # Another one, left half-way there, comes in with an import.
        stale = replace(event, path=("motto",))
        late = replace(changes[0], key=f"{turn.id}:facts:g-2", generation="g-2", events=(stale,))
        assert await store.append_fact_change(scope, late)
        await memory.forget([(await store.list_turns(scope))[-1].id])
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == KNOWN_BETTER


async def test_of_a_user_all_threads_are_read_and_of_everybody_some_users_with_each_call(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By patterns too, of which nothing is asked; one that was left unfinished begins anew."""
    async with opened({**settings, **SETTINGS}) as service:
        places = [service.agent("ann", "chat"), service.agent("ann", "work"), service.agent("bo", "chat")]
        for memory in places:
            await memory.update_memory("I live in Bergen.", "Noted.")
        await service.settle(60)
        store, scope = service.core.store, places[0].scope
        (made,) = await store.fact_changes(scope)
        worker = await service.pause_worker()
        assert worker.paused
        step = await service.reextract_facts(Scope.of("ann"))
        assert (step.turns, step.users, step.done) == (2, 1, 1)
        await service.resume_worker()
        await service.settle(60)
        monkeypatch.setattr("memory_agent.service._TURNS_AT_ONCE", 1)
        steps: list[RebuildStep] = []
        while not steps or steps[-1].done < steps[-1].users:
            steps.append(await service.reextract_facts())
            await service.settle(60)
        assert [(step.turns, step.users, step.done) for step in steps] == [(2, 2, 1), (1, 2, 2)]
        for memory in places:
            assert await memory.fetch_facts(scope="thread") == {"location": "Bergen"}
        changes = await store.fact_changes(scope)
        assert len(changes) == 5
        assert made in changes
        assert changes[-1].recorded_at - made.recorded_at < timedelta(hours=1)


async def test_where_no_facts_are_extracted_none_are_again(tmp_path: Any) -> None:
    async with opened({"data_dir": tmp_path, "enable_fact_extraction": False}) as service:
        with pytest.raises(InvalidInput, match="enable_fact_extraction is off"):
            await service.agent("ann", "chat").reextract_facts()
