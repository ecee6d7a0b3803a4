"""Tasks beside an open service: its worker, and what is repeated every so often."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from memory_agent.work.worker import Worker


@contextlib.asynccontextmanager
async def repeating(call: Callable[[], None], seconds: float) -> AsyncIterator[None]:
    """`call` every so many seconds while the block lasts."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            call()

    task = asyncio.create_task(repeat(), name="memory-agent housekeeping")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextlib.asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """The worker as a task for as long as the block lasts; it finishes the batch in hand before the block ends."""
    worker.resume()
    task = asyncio.create_task(worker.run(), name="memory-agent worker")
    try:
        yield task
    finally:
        worker.stop()
        await task
