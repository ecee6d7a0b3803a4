"""What facts cost: `python -m benchmarks.fact_cost FILE`.

Prompt tokens a turn (by our own token counter) for several batch sizes, over the conversations of a recall set in which
every second speaker is the user; a model that states nothing answers. And how long folding takes, by changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_agent import MemoryConfig, MemoryService
from memory_agent.domain import Completion, FactChange, FactEvent, Usage
from memory_agent.facts.fold import fold_facts
from memory_agent.facts.order import place_of
from memory_agent.models.tokens import best_token_counter
from memory_agent.testing import BruteForceIndex, HashEmbedder
from memory_agent.work import worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import Message

NOTHING = '{"additions": [], "updates": [], "retractions": []}'


class Counting:
    """An LLM that states nothing, and counts what it is sent."""

    model = "counting"
    usage = Usage()

    def __init__(self) -> None:
        self._counter = best_token_counter()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """See `LLM.complete`."""
        tokens = sum(self._counter.count(message.content) for message in messages)
        return Completion(text=NOTHING, prompt_tokens=tokens, completion_tokens=self._counter.count(NOTHING))

    async def close(self) -> None:
        """See `LLM.close`."""


def conversations(file: Path) -> list[list[dict[str, Any]]]:
    """The turns of each conversation; every second speaker is the assistant."""
    with lzma.open(file, "rt") as lines:
        corpora = [json.loads(line)["turns"] for line in lines]
    found = []
    for turns in corpora:
        user = turns[0]["role"]
        found.append(
            [
                {"role": "user" if turn["role"] in (user, "user") else "assistant", "content": turn["text"]}
                for turn in turns
                if turn["text"].strip()
            ]
        )
    return found


async def cost(batch: int, talks: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Print what extraction from all conversations costs with so many turns in a request."""
    with tempfile.TemporaryDirectory() as folder:
        cfg = MemoryConfig(data_dir=Path(folder), enable_topics=False, run_worker=False)
        setattr(worker, "FACTS_BATCH_TURNS", batch)  # noqa: B010 - a constant of the package, varied here
        async with MemoryService(
            cfg, embedder=HashEmbedder(), vectors=BruteForceIndex(), llm=Counting()
        ) as service:
            for number, talk in enumerate(talks):
                await service.agent("user", f"talk {number}").add_turns(talk)
            stop = asyncio.Event()
            working = asyncio.create_task(service.run_worker(stop))
            await service.settle()
            stop.set()
            await working
            spent = (await service.status()).extraction
    print(f"{batch:>10}{spent.turns:>10,}{spent.requests:>10,}{spent.prompt_tokens / spent.turns:>20.0f}")


def folding(count: int) -> None:
    """Print how long folding so many changes of two events takes."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    changes = [
        FactChange(
            key=str(number),
            kind="extraction",
            at=place_of(number),
            turn_id=str(number),
            turns=(str(number),),
            said_at=start + timedelta(minutes=number),
            recorded_at=start + timedelta(minutes=number),
            extractor="made up",
            events=(
                FactEvent(
                    op="set", path=("group", f"k{number % 200}"), value=f"value {number}", quote="said"
                ),
                FactEvent(op="add", path=("list",), value=f"element {number % 500}", quote="said"),
            ),
            thread_id="t",
            seq=number,
        )
        for number in range(1, count + 1)
    ]
    times = []
    for _ in range(5):
        began = time.perf_counter()
        fold_facts(changes)
        times.append(time.perf_counter() - began)
    print(f"{count:>10,}{sorted(times)[2] * 1_000:>20.1f}")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="a recall set, such as locomo-dev.jsonl.xz")
    options = parser.parse_args()
    if not options.file.is_file():
        parser.error(f"{options.file} is not a file")
    talks = conversations(options.file)
    print(f"{'batch':>10}{'turns':>10}{'requests':>10}{'prompt tokens/turn':>20}")
    for batch in (1, 4, 8, 16):
        asyncio.run(cost(batch, talks))
    print(f"\n{'changes':>10}{'fold, ms (median)':>20}")
    for count in (100, 1_000, 4_000):
        folding(count)


if __name__ == "__main__":
    main()
