"""A backup of a large memory under load, and its restore elsewhere: seconds, size, the same answers, and what the doctor finds.

`python -m benchmarks.backup [--text FILE …] [--turns N] [--hashed] [--mongo URI]`: FILEs are conversations as for
`benchmarks.speed --text`, repeated under other users' names to N turns; without them texts are made up. Turns go on being
stored while the backup is taken. With `--hashed` vectors are made of hashes of words, without a model.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.texts import made_up, text_option, texts_of
from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys, open_store
from memory_agent.doctor.examine import Examiner
from memory_agent.exports.restoring import restore
from memory_agent.exports.run import back_up
from memory_agent.testing import HashEmbedder

if TYPE_CHECKING:
    from benchmarks.texts import Texts

TURNS_A_USER = 2_000
AT_ONCE = 100
ASKED = 40


async def _fill(service: MemoryService, texts: Texts, turns: int) -> list[str]:
    """Store so many turns; the users."""
    users = [f"user {number}" for number in range(max(1, turns // TURNS_A_USER))]
    numbers = itertools.count()
    for user in users:
        agent = service.agent(user, "chat")
        for _ in range(0, TURNS_A_USER, AT_ONCE):
            await agent.add_turns(
                [texts.turn(number).at(number) for number in itertools.islice(numbers, AT_ONCE)]
            )
        await service.settle()
        print(f"{user} is there", file=sys.stderr)
    return users


async def _answers(service: MemoryService, users: list[str], texts: Texts) -> list[list[str]]:
    asked = [(users[number % len(users)], texts.question(number)) for number in range(ASKED)]
    return [[hit.turn.id for hit in await service.search(user, text, 5)] for user, text in asked]


async def _wrong(service: MemoryService) -> list[str]:
    """What the doctor finds wrong, API keys aside."""
    core = service.core
    examiner = Examiner(core.store, None, core.vectors, now=service.clock.now())
    return [each.what async for each in examiner.findings() if each.wrong]


async def main(texts: Texts, turns: int, mongo_uri: str | None, *, hashed: bool) -> dict[str, Any]:
    """Measure once."""
    more: dict[str, Any] = {"embedder": HashEmbedder()} if hashed else {}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first: dict[str, Any] = {"data_dir": place / "first", "enable_fact_extraction": True}
        second: dict[str, Any] = {"data_dir": place / "second"}
        if mongo_uri is not None:
            first |= {"mongo_uri": mongo_uri, "db_name": "backup_first"}
            second |= {"mongo_uri": mongo_uri, "db_name": "backup_second"}
        cfg, file = MemoryConfig(**first), place / "memory.backup.gz"
        async with MemoryService(cfg, **more) as service:
            users = await _fill(service, texts, turns)
            answers = await _answers(service, users, texts)
            found["turns"] = (await service.status()).turns
            writing, stop = 0, asyncio.Event()

            async def go_on() -> None:
                nonlocal writing
                agent = service.agent("late", "chat")
                while not stop.is_set():
                    await agent.update_memory(texts.turn(writing).text, "I see.")
                    writing += 1
                    await asyncio.sleep(0.02)

            load = asyncio.create_task(go_on())
            began = time.monotonic()
            async with AsyncExitStack() as stack:
                store, keys = await open_store(cfg, None, stack), await open_keys(cfg, None, stack)
                written = await back_up(file, store, keys, now=datetime.now(UTC))
            found["backup_seconds"] = round(time.monotonic() - began, 1)
            stop.set()
            await load
            found["updates_meanwhile"] = writing
        found["megabytes"] = round(file.stat().st_size / 1e6, 1)
        found["bytes_a_turn"] = round(file.stat().st_size / written.records["turn"])
        began = time.monotonic()
        await restore(file, MemoryConfig(**second), now=datetime.now(UTC))
        found["restore_seconds"] = round(time.monotonic() - began, 1)
        async with MemoryService(MemoryConfig(**second), **more) as service:
            began = time.monotonic()
            found["same_answers_at_once"] = sum(
                one == other
                for one, other in zip(answers, await _answers(service, users, texts), strict=True)
            )
            await service.settle()
            found["settle_seconds"] = round(time.monotonic() - began, 1)
            found["same_answers"] = sum(
                one == other
                for one, other in zip(answers, await _answers(service, users, texts), strict=True)
            )
            found["asked"] = len(answers)
            began = time.monotonic()
            found["doctor_finds"] = await _wrong(service)
            found["doctor_seconds"] = round(time.monotonic() - began, 1)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    text_option(parser)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--hashed", action="store_true", help="vectors made of hashes, without a model")
    parser.add_argument("--mongo", metavar="URI")
    given = parser.parse_args()
    chosen = texts_of(parser, given.text, otherwise=made_up())
    print(json.dumps(asyncio.run(main(chosen, given.turns, given.mongo, hashed=given.hashed)), indent=1))
