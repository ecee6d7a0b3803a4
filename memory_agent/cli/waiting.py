"""Waiting for owed work with an end: where nothing moves because a part is down, what is left is told instead."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from memory_agent.cli.output import err, note, outage_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from memory_agent.cli.opening import Service
    from memory_agent.domain import MemoryStatus, Outage, Scope

_LOOK_SECONDS: Final = 0.5
NO_TIMEOUT: Final = math.inf
"""For `settle` within `patiently`, whose patience is asked for; its own would end sooner than a longer one."""


class StillOwed(Exception):
    """Nothing has moved for too long, for a part is down; `.status` is how everything stood then."""

    def __init__(self, status: MemoryStatus) -> None:
        self.status = status
        super().__init__("work is still owed")


@asynccontextmanager
async def patiently(
    service: Service, moved: Callable[..., None], *, scope: Scope | None = None, patience: float, show: bool
) -> AsyncIterator[Callable[..., None]]:
    """`moved`, a bar of `settle_bar`, for `settle(progress=…)`, which raises StillOwed once nothing of the scope (None: anybody's) has moved for `patience` seconds.

    Only while a part is down: work that takes long is waited for. `show`: say which part, and why, as soon as that is
    known.
    """
    spent: list[MemoryStatus] = []

    async def look() -> None:
        owed, since = -1, time.monotonic()
        told: set[tuple[str, str]] = set()
        while True:
            status = await service.status(scope)
            now, left = time.monotonic(), sum(status.pending.values())
            down = await _down(service, status)
            if left != owed or not down:
                owed, since = left, now
            for outage in down:
                if show and (outage.stage, outage.error) not in told:
                    told.add((outage.stage, outage.error))
                    err.print(outage_text(outage), soft_wrap=True)
            if now - since >= patience:
                spent.append(status)
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def looked(status: MemoryStatus, **place: int) -> None:
        moved(status, **place)
        if spent:
            raise StillOwed(spent[0])

    log = logging.getLogger("memory_agent.work.outages")
    was, log.disabled = log.disabled, True  # it would say the same once more, in the middle of the bar
    looking = asyncio.create_task(look())
    try:
        yield looked
    finally:
        looking.cancel()
        await asyncio.wait({looking})
        log.disabled = was


async def _down(service: Service, status: MemoryStatus) -> list[Outage]:
    """The parts that are down now, as the worker there says: an outage is kept until somebody has done the stage's work."""
    if not status.outages:
        return []
    worker = await service.worker_status()
    return [outage for outage in status.outages if not worker.runs or outage.part in worker.down]


def tell_what_is_owed(status: MemoryStatus, data_dir: Path | None) -> None:
    """Print the pending work, what it waits for, and how to go on."""
    owed = ", ".join(f"{count:,} {stage}" for stage, count in status.pending.items() if count)
    note(f"Still owed: {owed}. Nothing of it is lost.")
    where = "" if data_dir is None else f" --data-dir {data_dir}"
    note(f"Once that is mended, go on with: memory-agent worker --until-idle{where}")
