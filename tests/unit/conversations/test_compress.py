"""When a conversation is compressed."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from memory_agent.context.state import ConversationReader
from memory_agent.conversations.compress import (
    Compressor,
    CompressSettings,
    ExtractiveConversationSummarizer,
    first_due,
)
from memory_agent.digest.fold import AnalysisCache
from memory_agent.domain import Turn
from memory_agent.testing import FixedClock
from tests.unit.search.builders import ExactTokens, turn

SETTINGS = CompressSettings(context_limit_tokens=8_000, recent_messages_count=10)


@pytest.mark.parametrize(
    ("tokens", "turns", "after", "reason"),
    [
        pytest.param(5_999, 99, 0, None, id="below both"),
        pytest.param(6_000, 99, 0, "tokens", id="75 % of the limit"),
        pytest.param(0, 100, 0, "turns", id="100 turns"),
        pytest.param(6_000, 100, 0, "turns", id="both"),
        pytest.param(4_000, 50, 2_000, "tokens", id="with what the last one takes"),
        pytest.param(3_999, 50, 2_000, None, id="not with it either"),
        pytest.param(50_000, 10, 0, None, id="turns that are kept whole anyway"),
        pytest.param(50_000, 11, 0, "tokens", id="one more"),
        pytest.param(0, 0, 50_000, None, id="nothing new"),
    ],
)
def test_when_a_conversation_is_compressed(tokens: int, turns: int, after: int, reason: str | None) -> None:
    said = [turn(i, "x", tokens=tokens if i == turns else 0) for i in range(1, turns + 1)]
    found = first_due(said, tokens_after=after, settings=SETTINGS)
    assert (found and (found.reason, found.turn.seq)) == (reason and (reason, turns))


class OneThread:
    """The part of a document store that says what is due in a thread without compressions."""

    def __init__(self, turns: list[Turn], owed: list[Turn]) -> None:
        self.turns = turns
        self.owed = owed

    async def compressions(self, *_: Any, **__: Any) -> list[Any]:
        return []

    async def list_turns(self, _: Any, *, after_seq: int, through: int, limit: int) -> list[Turn]:
        return [turn for turn in self.turns if after_seq < turn.seq <= through][:limit]

    async def owed_turns(self, *_: Any, **__: Any) -> list[Turn]:
        return self.owed


async def due(
    turns: list[Turn], looked_at: list[Turn] | None = None, *, owed: list[Turn] | None = None, **others: Any
) -> list[int]:
    """After which turns a conversation that was never compressed is to be."""

    store, live = cast("Any", OneThread(turns, owed or [])), AnalysisCache(max_threads=1)
    compressor = Compressor(
        store,
        ExtractiveConversationSummarizer(),
        ConversationReader(
            store, live, cast("Any", None), ExactTokens(), recent_turns=10, most_tokens=SETTINGS.most_tokens
        ),
        FixedClock(),
        ExactTokens(),
        replace(SETTINGS, **others),
    )
    return [found.seq for found in await compressor.due(looked_at or turns)]


def of(count: int, tokens: int) -> list[Turn]:
    return [turn(i, "x", tokens=tokens) for i in range(1, count + 1)]


def steps(turns: list[Turn], **others: Any) -> list[int]:
    """After which turns one compression after the other falls due, each of which takes 2,000 tokens."""
    settings = replace(SETTINGS, **others)
    found: list[int] = []
    while step := first_due(
        turns[found[-1] if found else 0 :], tokens_after=2_000 if found else 0, settings=settings
    ):
        found.append(step.turn.seq)
    return found


def test_a_long_import_is_compressed_bit_by_bit() -> None:
    """Every 100 turns, or each time that the room is used up, never more often than turns are kept whole."""
    assert steps(of(350, 1)) == [100, 200, 300]
    by_tokens = steps(of(100, 300))
    assert by_tokens[:2] == [20, 34]
    gaps = [b - a for a, b in pairwise(by_tokens)]
    assert min(gaps) > SETTINGS.recent_messages_count
    assert steps(of(40, 10_000)) == [11, 22, 33]


async def test_what_fell_due_is_noticed_by_whichever_turns_are_looked_at() -> None:
    """Also if it did so before them; the last of them stands for all, so that nothing before it is still to come."""
    turns = of(120, 1)
    assert await due(turns) == [120]
    assert await due(turns, turns[104:]) == [120]
    assert await due(turns, turns[:100]) == [100]
    assert await due(turns, turns[:99]) == []


async def test_a_parked_turn_holds_further_tries_back() -> None:
    """That the conversation cannot be summarised is known, and shown; one that another stage parked is no sign of it."""
    turns = of(120, 1)
    stuck = replace(turns[99], parked=True, pending=("compress",))
    assert await due(turns, owed=[stuck]) == []
    assert await due(turns, owed=[replace(stuck, pending=("facts", "compress"))]) == [120]
    assert await due(turns, owed=[replace(stuck, parked=False)]) == [120]


async def test_nothing_is_due_where_the_stage_is_off() -> None:
    assert await due(of(120, 1), enable_compression=False) == []
