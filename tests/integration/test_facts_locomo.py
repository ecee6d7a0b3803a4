"""A whole conversation of several hundred turns: hundreds of facts, each with its source, contradicted and put right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from memory_agent.facts.fold import fold
from tests.integration import locomo_facts
from tests.integration.fact_script import asked, asking, context, opened, refused, standing

if TYPE_CHECKING:
    from memory_agent.domain import Role
    from tests.servers.openai_script import ScriptedOpenAI

BATCH = 8


@pytest.mark.parametrize("source", [locomo_facts.SOURCE])
async def test_a_whole_conversations_facts_can_be_trusted(
    source: str, embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Every fact's source says so word for word, the newest stands and the older stay known, and calls are few."""
    turns = locomo_facts.conversation()
    assert len(turns) > 400
    expected = locomo_facts.expected(turns)
    openai_server.answer = model = locomo_facts.Metered()
    settings = asking(embedded_settings, openai_server, facts_batch_turns=BATCH)
    async with opened({**settings, "run_worker": False}) as service:
        await service.agent("ann", source).add_turns(turns)
    async with opened(settings) as service:
        memory = service.agent("ann", source)
        await memory.settle(timeout=200)

        stored = {turn.id: turn for turn in await service.core.store.list_turns(memory.scope)}
        records = await memory.fact_history()
        known = [record for record in records if record.stands]
        assert len(known) >= 300
        for record in known:
            for fact_source in record.sources:
                assert fact_source.turn_id is not None
                assert fact_source.thread_id == source
                assert fact_source.quote
                assert fact_source.quote in stored[fact_source.turn_id].content

        values = {".".join(record.path): record.value for record in known if record.op == "set"}
        assert values == expected.values
        assert (await memory.fetch_facts())["people"]["names"] == expected.names
        assert sum(len(older) for older in expected.older.values()) > 20
        for path, older in expected.older.items():
            ended = [record for record in records if ".".join(record.path) == path and record.superseded_by]
            assert [record.value for record in ended] == older
        names = await standing(memory, "people.names")
        assert sum(len(record.sources) for record in names) == expected.named
        assert all(record.confidence > 0.9 for record in names)

        invented = await refused(memory)
        assert len(invented) == expected.invented > 10
        assert {record.refused for record in invented} == {"the quote is not in its turn"}

        changes = await service.core.store.fact_changes(memory.scope)
        assert (await service.core.store.load_facts(memory.scope)).facts == fold(changes)

        waited = len(turns)  # all are user turns, and all waited when the worker began
        cost = (await memory.status()).extraction
        assert cost.requests == len(openai_server.chats) <= math.ceil(waited / BATCH)
        assert (cost.turns, cost.requests, cost.prompt_tokens, cost.completion_tokens) == (
            waited,
            model.requests,
            model.prompt_tokens,
            model.completion_tokens,
        )


async def test_only_the_user_is_asked_about(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """With one of the two people as the assistant, only the other's turns are asked about, and only they state facts."""
    turns = locomo_facts.conversation()[:60]
    user, assistant = turns[0].speaker, turns[1].speaker
    openai_server.answer = locomo_facts.answer
    async with opened(asking(embedded_settings, openai_server)) as service:
        memory = service.agent("ann", "chat")
        for turn in turns:
            role: Role = "user" if turn.speaker == user else "assistant"
            await memory.add_turn(role, turn.content, speaker=turn.speaker, timestamp=turn.timestamp)
        await memory.settle(timeout=60)
        facts = await memory.fetch_facts()
        assert user is not None
        assert list(facts["people"]) == [user.lower()] or set(facts["people"]) == {user.lower(), "names"}
        messages = [message for body in openai_server.chats for message in asked(body)]
        assert {message.speaker for message in messages} == {user}
        assert len(messages) == sum(turn.speaker == user for turn in turns)
        shown = {text for body in openai_server.chats for text in context(body)}
        assert any(
            turn.content[:100] in text for turn in turns if turn.speaker == assistant for text in shown
        )
