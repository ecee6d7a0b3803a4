"""The second look at the best turns: what is looked at, and what becomes of failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.search.postings import CollectionStatistics
from memory_agent.search.rerank import (
    MOST_CHARS,
    LateInteraction,
    SecondLook,
    Shortlist,
    beside,
    within_chars,
)
from memory_agent.testing import HashEmbedder
from tests.unit.search.builders import turn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors, Turn


class ScriptedStage:
    """A second stage that answers 1, 2, 3 … after some seconds, or fails."""

    def __init__(self, *, seconds: float = 0.0, fail: Exception | None = None) -> None:
        self.seconds = seconds
        self.fail = fail

    async def score(self, shortlist: Shortlist) -> NDArray[np.float32] | None:
        await asyncio.sleep(self.seconds)
        if self.fail is not None:
            raise self.fail
        return np.arange(1, len(shortlist.turns) + 1, dtype=np.float32)


def a_shortlist(query: str, turns: Sequence[Turn], *, persons: Sequence[str] = ()) -> Shortlist:
    """A question and turns, of a hundred in which no word was said before."""
    statistics = CollectionStatistics(rows=100, mean_length=5, frequency={})
    return Shortlist(query=query, names=persons, statistics=statistics, turns=turns)


def a_look(stage: ScriptedStage, *, seconds: float = 5.0) -> SecondLook:
    return SecondLook(stage=stage, weights={}, seconds=seconds)


LIST = a_shortlist("cat?", [turn(1, "a cat"), turn(2, "a dog")])


async def test_what_the_stage_says_is_handed_on() -> None:
    """In time and without an error nothing is degraded."""
    degraded: list[str] = []
    scores = await a_look(ScriptedStage()).score(LIST, degraded)
    assert scores is not None
    assert (scores.tolist(), degraded) == ([1, 2], [])


@pytest.mark.parametrize("fail", [EmbedderUnavailable("gone"), EmbedderError("no"), TimeoutError()])
async def test_a_failing_stage_is_named_and_says_nothing(fail: Exception) -> None:
    """Whatever backend it uses: None, and second_stage is degraded."""
    degraded: list[str] = []
    assert await a_look(ScriptedStage(fail=fail)).score(LIST, degraded) is None
    assert degraded == ["second_stage"]


async def test_a_slow_stage_is_not_waited_for() -> None:
    """After `seconds` the answer goes out without it."""
    degraded: list[str] = []
    async with asyncio.timeout(5):
        assert await a_look(ScriptedStage(seconds=60), seconds=0.01).score(LIST, degraded) is None
    assert degraded == ["second_stage"]


async def test_a_callers_cancellation_is_no_failure() -> None:
    """It goes through, and nothing is called degraded."""
    degraded: list[str] = []
    looking = asyncio.create_task(a_look(ScriptedStage(seconds=60)).score(LIST, degraded))
    await asyncio.sleep(0)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert degraded == []


async def test_a_mistake_in_a_stage_is_not_hidden() -> None:
    """What no backend raises is an error of the program."""
    with pytest.raises(ValueError, match="mistake"):
        await a_look(ScriptedStage(fail=ValueError("mistake"))).score(LIST, [])


def test_the_first_turns_that_fit_are_looked_at() -> None:
    """At least one, however long; the limit itself still fits; what comes later is not squeezed in."""
    turns = [turn(n, "x" * size) for n, size in enumerate((4, 5, 9, 1))]
    assert [len(within_chars(turns, limit)) for limit in (0, 3, 4, 8, 9, 17, 18, 19, 100)] == [
        *(1, 1, 1, 1, 2, 2, 3, 4, 4)
    ]
    assert within_chars([], 10) == []
    assert len(within_chars([turn(n, "x" * 1_000) for n in range(50)])) == MOST_CHARS // 1_000


def test_turns_beside_each_other_are_known() -> None:
    """By thread, session and place; -1 where the neighbour is not among them."""
    turns = [
        turn(5, "a"),
        turn(4, "b"),
        turn(7, "c"),
        replace(turn(6, "other session"), session_id="s"),
        replace(turn(3, "other thread"), thread_id="other"),
    ]
    before, after = beside(turns)
    assert before.tolist() == [1, -1, -1, -1, -1]
    assert after.tolist() == [-1, 0, -1, -1, -1]
    assert [places.tolist() for places in beside([])] == [[], []]


# --- stages --------------------------------------------------------------------------------------------------
async def test_late_interaction_prefers_the_turn_with_the_questions_words() -> None:
    """Words that say something, not the name of whom it is about nor function words."""
    stage = LateInteraction(HashEmbedder(), language="english")
    turns = [turn(1, "When did the rain stop for Ann?"), turn(9, "She adopted Felix"), turn(20, "Hello")]
    scores = await stage.score(a_shortlist("When did Ann adopted the Felix?", turns, persons=["Ann"]))
    assert scores is not None
    assert scores.tolist() == pytest.approx([0, 1, 0], abs=0.01)


async def test_late_interaction_looks_beside_a_turn() -> None:
    """A turn next to one with the words scores nearly as high."""
    stage = LateInteraction(HashEmbedder(), language="english")
    scores = await stage.score(a_shortlist("Felix?", [turn(1, "Felix"), turn(2, "Yes!"), turn(4, "No!")]))
    assert scores is not None
    assert scores.tolist() == pytest.approx([1, 0.9, 0], abs=0.02)


async def test_late_interaction_cannot_tell_without_vectors_of_tokens() -> None:
    """None from an embedder without them; its outage goes to the caller."""

    class Tokenless(HashEmbedder):
        async def embed_tokens(
            self, texts: Sequence[str], *, purpose: Literal["query", "document"]
        ) -> list[TokenVectors] | None:
            return None

    assert await LateInteraction(Tokenless(), language="english").score(LIST) is None
    embedder = HashEmbedder()
    embedder.fail = EmbedderUnavailable("gone")
    with pytest.raises(EmbedderUnavailable):
        await LateInteraction(embedder, language="english").score(LIST)
