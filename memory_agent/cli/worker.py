"""`memory-agent worker`: the worker as a process of its own."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from memory_agent.cli.output import note, settle_bar
from memory_agent.cli.running import OK, settings

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path


async def work(*, data_dir: Path | None, retry_parked: bool, until_idle: bool) -> int:
    """Run until SIGTERM or SIGINT (the stage in hand is finished), or until nothing is owed."""
    cfg = settings(data_dir, run_worker=False)
    from memory_agent.service import MemoryService

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with MemoryService(cfg) as service:
        if retry_parked:
            note(f"{await service.retry_parked(None)} parked turn(s) are due again")
        note("working; SIGTERM or ctrl-C finishes the stage in hand and leaves")
        working = asyncio.create_task(service.run_worker(stop))
        try:
            if until_idle:
                with settle_bar(show=True) as moved:
                    await _first_of(service.settle(progress=moved), working)
            else:
                await working
        finally:
            stop.set()
            await working
    note("stopped; what is still owed is taken up by the next worker")
    return OK


async def _first_of(settling: Coroutine[Any, Any, None], working: asyncio.Task[None]) -> None:
    """Wait for nothing to be owed, or for the worker to be told to stop; raise what either raised."""
    idle = asyncio.create_task(settling)
    done, _ = await asyncio.wait({idle, working}, return_when=asyncio.FIRST_COMPLETED)
    if idle not in done:
        idle.cancel()
    for task in done:
        task.result()
