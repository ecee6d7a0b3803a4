"""What real small models answered to the labelled talks, replayed by a real server: facts are as many and as right as the pages promise."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import pytest

from memory_agent.testing import HashEmbedder
from tests.llm.runs import BARS, EVERYDAY_LEAST, FACTS_ALONE, of_model, run
from tests.llm.talks import EVERYDAY, RECORDS, TALK, Outcome, invented, lines_of, read_talk
from tests.servers.recorded import Replay, share_read

T = TypeVar("T")


async def unless_missing(replay: Replay, work: Coroutine[None, None, T]) -> T:
    """What the work gives; fails at once when it asks for what nobody recorded."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=0.05))[0]:
            assert not replay.missing, (
                f"{replay.file.name} has no answer to this request; record again (CONTRIBUTING.md): {replay.missing[0]}"
            )
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return task.result()


async def noted(replay: Replay, talk: Path, folder: Path) -> Outcome:
    """The outcome of a talk with the recorded replies."""
    settings = of_model(replay.base_url, **FACTS_ALONE)
    return await unless_missing(replay, run(read_talk(talk), folder, embedder=HashEmbedder(), **settings))


@pytest.mark.parametrize("model", BARS)
async def test_a_small_model_notes_a_talk(model: str, tmp_path: Path) -> None:
    replay = Replay(RECORDS / f"{model}-{TALK.stem}.jsonl").start()
    outcome = await noted(replay, TALK, tmp_path)
    replay.stop()
    score, (least, most) = outcome.score, BARS[model]
    assert score.right >= least, score.missed
    assert score.wrong <= most, score.violated
    assert share_read(replay.answers) >= 0.98


async def test_ten_everyday_messages_are_noted_and_nothing_false_even_if_the_server_stops_halfway(
    tmp_path: Path,
) -> None:
    file = RECORDS / f"qwen-1.5b-{EVERYDAY.stem}.jsonl"
    replay = Replay(file).start()
    outcome = await noted(replay, EVERYDAY, tmp_path / "undisturbed")
    replay.stop()
    assert len(outcome.score.found) >= EVERYDAY_LEAST, outcome.score.missed
    assert outcome.score.violated == []
    talk = read_talk(EVERYDAY)
    assert invented(talk, lines_of(outcome.documents[talk[0].who])) == []

    stopping = Replay(file, gives=len(replay.seen) // 2).start()

    async def start_again() -> None:
        await asyncio.to_thread(stopping.down.wait)
        stopping.start()

    async with asyncio.TaskGroup() as group:
        group.create_task(start_again())
        again = group.create_task(noted(stopping, EVERYDAY, tmp_path / "stopped"))
    stopping.stop()
    assert again.result().documents == outcome.documents
