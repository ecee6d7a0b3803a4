"""A job killed at each of its writes, and what has to hold after every restart."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from memory_agent import MemoryService
from tests import profiles
from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import AheadClock, Database, Mongo

HOUR = timedelta(hours=1)
"""After which no lease of the dead is live."""

_FEW = 3
"""Writes of a job that is killed at each of them, whatever the profile."""


def acknowledged(database: Database) -> list[str]:
    """What the job said was done before it died, a line for each call."""
    return (Path(database.settings["data_dir"]).parent / "acknowledged").read_text().splitlines()


async def end_erasures(service: MemoryService, clock: AheadClock) -> None:
    """Move the clock on until forget calls had their last passes, of which there may be several."""
    async with asyncio.timeout(200):
        while (await service.status()).erasures:
            clock.ahead += timedelta(minutes=15)
            await asyncio.sleep(0.02)


async def kill_at_every_write(
    nursery: Nursery,
    database: Database,
    job: dict[str, Any],
    recover: Callable[[int], Awaitable[object]],
    *,
    least: int,
    step: int = 1,
    after: int = 1,
) -> None:
    """Run the job killed at each of its writes (each `step`-th), before and after it, and at last undisturbed.

    `recover(pid)` opens the database again, works off what is owed and checks; what it returns has to be the same each
    time. `least`: so many writes there are. `after`: right after a write is right before the next, but for what else is
    under way, so of those kills every second one (2) may do. By day a job of many writes is killed at some, see
    `profiles.kills`, and before them only; on SQLite always only before them, for a COMMIT counts as a write of its own.
    """
    folder = Path(database.settings["data_dir"]).parent
    log = folder / "log"
    job = {
        "settings": database.settings,
        "acknowledged": str(folder / "acknowledged"),
        "log": str(log),
        **job,
    }
    states: list[object] = []
    kills, dear = 0, least > _FEW
    also_after = isinstance(database, Mongo) and (profiles.chosen() == "nightly" or not dear)
    for when, every in (("before", 1), ("after", after))[: 1 + also_after]:
        for at in profiles.kills(dear=dear, least=least // every, first=every, step=step * every):
            database.put_back()
            pid = nursery.spawn({**job, "when": when, "at": at})
            code = nursery.wait()
            assert code in (0, -signal.SIGKILL)
            killed = f"killed {when} write {at}: {log.read_text()}"
            try:
                states.append(await recover(pid))
            except BaseException as exc:
                exc.add_note(killed)
                raise
            assert states[-1] == states[0], killed
            if code == 0:
                break
            kills += 1
    assert kills >= profiles.least(least, dear=dear), f"only {kills} kills"
