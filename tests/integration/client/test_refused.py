"""What is impossible is refused before anything is sent."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from memory_agent import MemoryClient, errors
from memory_agent.wire import facts
from tests.integration.client.http_script import KEY, HttpScript, answer
from tests.integration.client.samples import PREVIEW, REPLAY, of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


NAIVE = datetime(2026, 3, 1)  # noqa: DTZ001 - what is to be refused
REFUSED: dict[str, Callable[[MemoryClient], Awaitable[Any]]] = {
    "user_msg": lambda m: m.update_memory("\ud800", "Hello"),
    "content": lambda m: m.add_turn("user", ""),
    "role": lambda m: m.add_turn("owner", "Hi"),  # type: ignore[arg-type]
    "timestamp": lambda m: m.add_turn("user", "Hi", timestamp=NAIVE),
    "importance": lambda m: m.add_user_message("Hi", 3),
    "metadata": lambda m: m.add_turn("user", "Hi", metadata={"a": object()}),
    "turns[1].content": lambda m: m.add_turns(
        [{"role": "user", "content": "Hi"}, {"role": "user", "content": 5}]
    ),
    "10,001 turns": lambda m: m.add_turns([{"role": "user", "content": "Hi"}] * 10_001),
    "idempotency_key": lambda m: m.add_turn("user", "Hi", idempotency_key="\n"),
    "user_message": lambda m: m.fetch_memory("\ud800"),
    "max_tokens": lambda m: m.fetch_memory("Hi", max_tokens=-1),
    "now": lambda m: m.fetch_memory("Hi", now=NAIVE),
    "preset": lambda m: m.fetch_memory("Hi", preset="none"),  # type: ignore[arg-type]
    "limit": lambda m: m.fetch_short_term(-1),
    "query": lambda m: m.fetch_long_term(" "),
    "top_k": lambda m: m.fetch_long_term("Hi", 1.5),  # type: ignore[arg-type]
    "scope": lambda m: m.fetch_long_term("Hi", scope="world"),  # type: ignore[arg-type]
    "since": lambda m: m.fetch_long_term("Hi", since=NAIVE),
    "turn_id": lambda m: m.turn_topic(""),
    "timeout": lambda m: m.settle("5"),  # type: ignore[arg-type]
    "topic_id": lambda m: m.topic_stats("current"),
    "topic_id ": lambda m: m.topic_history("suggestions"),
    "into": lambda m: m.merge_topics("a", ""),
    "least": lambda m: m.suggest_merges(2),
    "tag": lambda m: m.tag_topic("a", add=[""]),
    "tags": lambda m: m.tag_topic("a", add="travel"),
    "useful": lambda m: m.feedback("a", useful=1),  # type: ignore[arg-type]
    "as_of": lambda m: m.fetch_facts(as_of=NAIVE),
    "path": lambda m: m.set_fact("", 1),
    "path ": lambda m: m.fact_history(7),  # type: ignore[arg-type]
    "request cannot be written as JSON": lambda m: m.set_fact("a\ud800", 1),
    "value": lambda m: m.set_fact("name", object()),
    "to": lambda m: m.revert_fact("name", NAIVE),
    "proposal": lambda m: m.apply_replay(5),  # type: ignore[arg-type]
    "the proposal is for thread": lambda m: m.apply_replay(REPLAY),
    "participants": lambda m: m.start_session(participants="Ada"),
    "character": lambda m: m.start_session(character="Mira"),  # type: ignore[arg-type]
    "limit ": lambda m: m.history(limit=10_001),
    "after": lambda m: m.history(after=-1),
    "through": lambda m: m.session_context(0),
    "turn_ids": lambda m: m.forget([]),
    "after ": lambda m: anext(m.events(after=5)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
async def test_impossible_value_is_refused_by_name_and_nothing_is_sent(
    script: HttpScript, memory: MemoryClient, name: str
) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        await REFUSED[name](memory)
    expected = "turns[0].content" if name == "user_msg" else name.strip()
    assert expected in str(caught.value)
    assert script.asked == []


async def test_preview_is_not_applied(script: HttpScript) -> None:
    scope = PREVIEW.scope
    async with MemoryClient(scope.user_id, scope.thread_id, base_url=script.url, api_key=KEY) as memory:
        with pytest.raises(errors.InvalidInput, match="a preview can't be applied"):
            await memory.apply_replay(PREVIEW)
    assert script.asked == []


async def test_proposal_is_posted_back_as_it_came(script: HttpScript) -> None:
    scope = REPLAY.scope
    async with MemoryClient(scope.user_id, scope.thread_id, base_url=script.url, api_key=KEY) as memory:
        script.then(answer({"replay_id": "r"}))
        assert await memory.apply_replay(REPLAY) == "r"
    assert script.asked[0].json() == {"proposal": of(facts.FactProposal, REPLAY)}


async def test_no_turns_are_no_request(script: HttpScript, memory: MemoryClient) -> None:
    assert await memory.add_turns([]) == []
    assert script.asked == []
