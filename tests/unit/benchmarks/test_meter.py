"""What a benchmark's meter says of calls: whose time it was, and how long the loop was not free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.meter import LoopLag, Meter, MeteredEmbedder
from benchmarks.word_vectors import DIMENSION, WordVectors


class Slow(WordVectors):
    """A model that takes a moment, and notes what it was given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> NDArray[np.float32]:
        self.given += texts
        await asyncio.sleep(0.01)
        return await super().embed(texts, purpose=purpose)


def compute(seconds: float) -> None:
    """Hold the loop."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


# --- the loop ------------------------------------------------------------------------------------------------
async def test_a_hold_is_noted_also_one_that_has_just_ended_and_only_once() -> None:
    async with LoopLag() as lag:
        await asyncio.sleep(0.01)
        lag.take()
        compute(0.05)
        first = lag.take()
        assert first.wall >= 0.045
        assert 0 < first.own <= first.wall
        for _ in range(20):  # without computing; on a busy machine one of them may be late
            await asyncio.sleep(0.002)
            later = lag.take()
            if later.wall < first.wall:
                break
        assert later.wall < first.wall


async def test_a_hold_during_a_call_is_its_own() -> None:
    async with LoopLag() as lag:
        meter = Meter(lag, MeteredEmbedder(WordVectors()))

        async def held() -> None:
            await asyncio.sleep(0.005)
            compute(0.05)
            await asyncio.sleep(0.005)

        await meter.time("held", held())
        figures = meter.report()["held"]
        assert figures["hold_ms"] >= 45
        assert figures["p50_ms"] >= 59
        assert figures["processor_ms"] > 0


# --- the model -----------------------------------------------------------------------------------------------
async def test_what_was_learnt_is_not_asked_of_the_model_again() -> None:
    model = Slow()
    embedder = MeteredEmbedder(model)
    assert await embedder.learn(["one day", "two", "one day"]) > 0
    assert await embedder.learn(["two"]) == 0
    assert model.given == ["one day", "two"]

    vectors = await embedder.embed(["two", "three", "one day", "three"], purpose="document")
    assert model.given == ["one day", "two", "three"]
    assert np.array_equal(
        vectors, await WordVectors().embed(["two", "three", "one day", "three"], purpose="query")
    )
    tokens = await embedder.embed_tokens(["one day", "three"], purpose="document")
    assert [len(of.vectors) for of in tokens or ()] == [2, 1]
    assert (await embedder.embed([], purpose="query")).shape == (0, DIMENSION)


async def test_time_besides_the_model_leaves_out_its_own_counted_once_for_calls_at_once() -> None:
    embedder = MeteredEmbedder(Slow())
    async with LoopLag() as lag:
        meter = Meter(lag, embedder)

        async def ask() -> None:
            await asyncio.gather(*(embedder.embed([text], purpose="query") for text in "abc"))

        before = embedder.seconds
        await meter.time("asked", ask(), asks_model=True)
        model = embedder.seconds - before
        await meter.time("waited", ask())
    assert 0.009 < model <= meter.calls["asked"].wall[0]
    assert meter.calls["asked"].besides == [meter.calls["asked"].wall[0] - model]
    assert "besides_p50_ms" in meter.report()["asked"]
    assert "besides_p50_ms" not in meter.report()["waited"]
