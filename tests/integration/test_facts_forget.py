"""Forgetting a turn forgets what it stated, what was understood with its help, and what was kept of either."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryService, TurnInput
from memory_agent.domain import new_id
from memory_agent.work.admit import admit
from tests.integration.fact_script import (
    Item,
    add,
    asked,
    asking,
    by_words,
    context,
    known,
    opened,
    refused,
    reply,
    standing,
)
from tests.servers.openai_script import Request, ScriptedOpenAI

SISTER, MOVE = "My sister is called Anna.", "My sister lives in Oslo now."


ALL = {"family": {"sister": ["Anna"]}, "people": {"anna": {"location": "Oslo"}}}
LEFT = {"people": {"sister": {"location": "Oslo"}}}


def understanding(body: Request) -> str:
    """A model that knows the sister's name if a turn or a known fact says so."""
    items: list[Item] = []
    around = " ".join([*context(body), *known(body), *(message.text for message in asked(body))])
    for message in asked(body):
        if message.text == SISTER:
            items.append(add("family.sister", "Anna", SISTER))
        if message.text == MOVE:
            items.append(add("location", "Oslo", MOVE, "Anna" if "Anna" in around else "sister"))
    return reply(items)


@pytest.fixture
async def service(settings: dict[str, Any], openai_server: ScriptedOpenAI) -> AsyncIterator[MemoryService]:
    """One that asks the scripted server for facts."""
    async with opened(asking(settings, openai_server)) as service:
        yield service


async def traces(service: MemoryService, needle: str) -> list[str]:
    """Where the word is still found: in every read of facts, and in what lies behind them."""
    memory, store = service.agent("ann", "chat"), service.core.store
    places = {
        "facts": await memory.fetch_facts(),
        "of the user": await memory.fetch_facts(scope="user"),
        "history": await memory.fact_history(),
        "changes": await store.fact_changes(memory.scope.user),
        "document": await store.load_facts(memory.scope),
        "turns": await store.list_turns(memory.scope.user),
        "status": await memory.status(),
        "prompt": str(await memory.fetch_memory("Who lives where?")),
    }
    return [place for place, what in places.items() if needle in str(what)]


@pytest.mark.parametrize("seen", ["as-context", "as-a-known-fact", "in-the-same-batch"])
async def test_what_was_understood_with_its_help_goes(
    seen: str, settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """A fact of turn B that took a name from turn A goes with A, and B's facts are extracted anew from what is left."""
    openai_server.answer = understanding

    settings = asking(settings, openai_server)
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        if seen == "in-the-same-batch":
            turns = await memory.add_turns([TurnInput(role="user", content=text) for text in (SISTER, MOVE)])
            first, second = (turn.id for turn in turns)
        else:
            first = (await memory.add_user_message(SISTER)).id
            await memory.settle(timeout=60)
            if seen == "as-a-known-fact":
                await memory.add_user_message("Hello!")
            second = (await memory.add_user_message(MOVE)).id
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == ALL
        (change,) = await service.core.store.fact_changes(memory.scope, keys=[f"{second}:facts"])
        assert first in change.turns
        receipt = await memory.forget([first])
        # A worker may be quick enough to find out the second's again before the first is gone; that goes as well.
        assert receipt.turns == 1
        assert 2 <= receipt.fact_changes <= 3
        assert await traces(service, "Anna") == []
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == LEFT
        assert await traces(service, "Anna") == []
        (record,) = await standing(memory)
        assert record.sources[0].turn_id == second


async def test_the_reply_that_could_not_be_read_goes(
    memory: MemoryAgent, service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """What the model said is kept with its turn and may tell of a forgotten one: it goes, and the turn is read anew."""
    openai_server.answer = lambda body: (
        '{"facts": [Anna, that is the sister.' if MOVE in str(asked(body)) else understanding(body)
    )
    first = await memory.add_user_message(SISTER)
    await memory.settle(timeout=60)
    await memory.add_user_message(MOVE)
    await memory.settle(timeout=60)
    assert "Anna, that is the sister" in str(await refused(memory))
    openai_server.answer = understanding
    await memory.forget([first.id])
    assert await traces(service, "Anna") == []
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == LEFT


async def edited(memory: MemoryAgent) -> str:
    """A thread with a fact of a turn and one of a person; the turn's id."""
    turn = await memory.add_user_message("I live in Bergen.")
    await memory.settle(timeout=60)
    await memory.set_fact("nickname", "Zebulon")
    assert await memory.fetch_facts() == {"location": "Bergen", "nickname": "Zebulon"}
    return turn.id


async def test_edits_go_also_where_a_writers_clock_was_ahead(settings: dict[str, Any]) -> None:
    """clear() takes an edit that was made after a turn whose id is of the future."""
    async with opened({**settings, "run_worker": False}) as service:
        memory = service.agent("ann", "chat")
        (draft,) = admit(
            [TurnInput(role="user", content="Hello from tomorrow.")],
            now=service.clock.now() + timedelta(days=1),
            counter=service.core.counter,
            idempotency_key=None,
            stages=service.cfg.stages,
        )
        # UUIDv7: the first 48 bits are milliseconds.
        tomorrow = int(new_id().replace("-", "")[:12], 16) + 86_400_000
        ahead = f"{tomorrow:012x}"
        draft = dataclasses.replace(draft, id=f"{ahead[:8]}-{ahead[8:]}{draft.id[13:]}")
        await service.core.store.append_turns(memory.scope, [draft])
        await memory.set_fact("nickname", "Zebulon")
        await memory.clear()
        assert await memory.fetch_facts() == {}
        assert await service.core.store.fact_changes(memory.scope) == []


async def test_facts_extracted_again_go_with_their_turns(
    memory: MemoryAgent, service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """What was made of a forgotten turn, and what was understood with its help, goes of every generation."""
    openai_server.answer = by_words({SISTER: [add("family.sister", "Anna", SISTER)]})
    first = await memory.add_user_message(SISTER)
    await memory.add_user_message(MOVE)
    await memory.settle(timeout=60)
    openai_server.answer = understanding
    await memory.reextract_facts()
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == ALL
    openai_server.answer = by_words({})
    await memory.forget([first.id])
    assert await traces(service, "Anna") == []
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == {}
