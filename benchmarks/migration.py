"""A move to another embedding model while clients ask: failed searches, recall meanwhile, seconds, and an exact way back.

`python -m benchmarks.migration FILE … [--to MODEL] [--precision int8] [--users 20] [--turns 100] [--clients 4]`: FILEs are
conversations as for `benchmarks.speed --text`. The questions are turns' own words, of which every third is left out, and the
recall is whether the turn is among the first five.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.texts import conversations
from memory_agent import MemoryConfig, MemoryService

if TYPE_CHECKING:
    from benchmarks.texts import Texts

TOP = 5
EVERY = 4
"""Each so manieth turn is asked for."""

Answer = list[tuple[str, float]]


def question(text: str) -> str:
    """The text without every third word."""
    return " ".join(word for number, word in enumerate(text.split()) if number % 3)[:400]


class Run:
    """A filled memory, and what is asked of it."""

    def __init__(self, service: MemoryService) -> None:
        self.service = service
        self.asked: dict[tuple[str, str], str] = {}

    async def fill(self, texts: Texts, users: int, turns: int) -> None:
        """Store so many turns of each user, and choose the questions."""
        numbers = itertools.count()
        for user in (f"user {number}" for number in range(users)):
            given = [texts.turn(number).at(number) for number in itertools.islice(numbers, turns)]
            stored = await self.service.agent(user, "chat").add_turns(given)
            self.asked |= {
                (user, turn.id): question(turn.content)
                for turn in stored[::EVERY]
                if len(turn.content.split()) >= 2 * TOP
            }
        await self.service.settle()

    async def ask(self, place: tuple[str, str]) -> Answer:
        """The best turns' ids and scores."""
        found = await self.service.search(place[0], self.asked[place], TOP)
        return [(each.turn.id, each.score) for each in found]

    async def answers(self) -> dict[tuple[str, str], Answer]:
        """Of all questions."""
        return {place: await self.ask(place) for place in self.asked}

    async def until(self, phase: str) -> float:
        """Seconds until nobody is left in this phase."""
        began = time.monotonic()
        while True:
            state = await self.service.embedder_migration()
            if state is not None and state.phase == phase:
                is_moved = state.looked and state.users == state.moved
                if state.is_over or is_moved:
                    return round(time.monotonic() - began, 1)
            await asyncio.sleep(0.1)


def recall(answers: list[tuple[tuple[str, str], Answer]]) -> float:
    """The share of questions whose turn is found."""
    found = [place[1] in [turn_id for turn_id, _ in answer] for place, answer in answers]
    return round(sum(found) / len(found), 4)


async def main(given: argparse.Namespace) -> dict[str, Any]:
    """Measure once."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        cfg = MemoryConfig(data_dir=Path(folder) / "data", enable_fact_extraction=False)
        async with MemoryService(cfg) as service:
            run = Run(service)
            await run.fill(conversations(given.files), given.users, given.turns)
            found["questions"] = len(run.asked)
            old = await run.answers()
            plan = await service.plan_migration(given.to, precision=given.precision)
            found["plan"] = {"seconds": round(plan.seconds, 1), "megabytes": round(plan.disk_bytes / 1e6, 2)}
            meanwhile: list[tuple[tuple[str, str], Answer]] = []
            failed, stop = 0, asyncio.Event()

            async def client(number: int) -> None:
                nonlocal failed
                for place in itertools.cycle(list(run.asked)[number :: given.clients]):
                    if stop.is_set():
                        return
                    try:
                        meanwhile.append((place, await run.ask(place)))
                    except Exception as exc:
                        failed += 1
                        print(f"failed: {exc!r}")

            clients = [asyncio.create_task(client(number)) for number in range(given.clients)]
            await service.migrate_embedder(given.to, precision=given.precision)
            found["seconds"] = await run.until("moving")
            stop.set()
            await asyncio.gather(*clients)
            new = await run.answers()
            found["searches_meanwhile"], found["failed"] = len(meanwhile), failed
            found["by_old_or_new_wholly"] = sum(answer in (old[at], new[at]) for at, answer in meanwhile)
            found["recall_old"], found["recall_new"] = recall(list(old.items())), recall(list(new.items()))
            found["recall_meanwhile"] = recall(meanwhile)
            found["below_the_lower_of_both"] = sum(
                recall([(at, answer)]) < min(recall([(at, old[at])]), recall([(at, new[at])]))
                for at, answer in meanwhile
            )
            report = await service.compare_embedders(questions=100)
            found["report"] = {
                "overlap": round(report.overlap, 3),
                "found_by_source": report.found_by_source,
                "found_by_target": report.found_by_target,
            }
            await service.roll_back_migration()
            found["seconds_back"] = await run.until("rolled back")
            found["same_answers_and_scores_after_rollback"] = (await run.answers()) == old
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--to", default="all-MiniLM-L6-v2")
    parser.add_argument("--precision")
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--clients", type=int, default=4)
    print(json.dumps(asyncio.run(main(parser.parse_args())), indent=1))
