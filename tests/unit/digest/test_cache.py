"""Live threads: analyses are kept, the same as if they were not, and the least recently used leave."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.digest.fold import MAX_KEPT_TURNS, AnalysisCache, analyse
from memory_agent.domain import LiveStats, Scope
from tests.unit.search.builders import turn

TEXTS = (
    "You never listen to me!", "I'm sorry, you are right.", "By the way, my name is Ann and I live in Bergen.",
    "Let's go with Postgres.", "```py\nprint('hello')\n```", "Why is the sky blue?", "I'm so happy!", "Good.",
    "haha, just kidding", "We have decided to move.",
)  # fmt: skip
SAID = [turn(i, text, role="user" if i % 2 else "assistant") for i, text in enumerate(TEXTS, start=1)]


def scope(name: str, user: str = "u") -> Scope:
    return Scope(user_id=user, thread_id=name)


async def test_turns_are_analysed_once() -> None:
    live = AnalysisCache(max_threads=3)
    first = await live.analysed(scope("a"), SAID[:6])
    assert first == [(t, analyse(t)) for t in SAID[:6]]
    assert await live.analysed(scope("a"), SAID[:6]) == first
    assert [t.seq for t, _ in await live.analysed(scope("a"), SAID[5:8])] == [6, 7, 8]
    assert live.stats == LiveStats(live_threads=1, max_live_threads=3, turns=8, hits=7, misses=8, evictions=0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10)), max_size=8), st.integers(1, 3))
async def test_what_was_looked_at_before_makes_no_difference(looks: list[tuple[int, int]], most: int) -> None:
    """Whichever stretches were analysed in whichever threads, an analysis is what the rules make of the turn."""
    live = AnalysisCache(max_threads=most)
    for number, (after, through) in enumerate(looks):
        turns = [t for t in SAID if after < t.seq <= through]
        found = await live.analysed(scope(f"{number % 4}"), turns)
        assert found == [(t, analyse(t)) for t in turns]


async def test_the_least_recently_used_thread_leaves() -> None:
    live = AnalysisCache(max_threads=2)
    found = [await live.analysed(scope(name), SAID) for name in "abacab"]
    assert found[1:] == found[:-1]
    # c pushed b out, b then c: a was used between.
    assert (live.stats.live_threads, live.stats.evictions) == (2, 2)
    assert (live.stats.hits, live.stats.misses) == (2 * len(SAID), 4 * len(SAID))


async def test_many_turns_of_one_thread_are_bounded() -> None:
    live = AnalysisCache(max_threads=2)
    many = [turn(i, f"line {i}") for i in range(1, MAX_KEPT_TURNS + 101)]
    assert len(await live.analysed(scope("a"), many)) == len(many)
    assert live.stats.turns == MAX_KEPT_TURNS
    assert len(await live.analysed(scope("a"), many)) == len(many)
    assert live.stats.hits == MAX_KEPT_TURNS


async def test_long_turns_are_analysed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most eight turns of 4,000 characters hold up the event loop."""
    taken = []

    async def to_thread(work: Any) -> Any:
        taken.append(work)
        return work()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    in_place = [[500] * 8, [4_000]]
    in_a_thread = [[500] * 7 + [501], [100_000], [10] * 9]
    for lengths in (*in_place, *in_a_thread):
        taken.clear()
        turns = [turn(i, "x" * length) for i, length in enumerate(lengths, start=1)]
        live = AnalysisCache(max_threads=1)
        assert len(await live.analysed(scope("a"), turns)) == len(turns)
        assert len(taken) == (lengths in in_a_thread), lengths
