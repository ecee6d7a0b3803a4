"""`memory-agent worker` and `rebuild`: the worker as a process of its own, and its work done over."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from memory_agent.cli.options import THREAD
from memory_agent.cli.output import note, out, print_json, settle_bar
from memory_agent.cli.people import say_if_unknown
from memory_agent.cli.running import OK, UNFINISHED, settings, working_settings
from memory_agent.cli.waiting import StillOwed, patiently, tell_what_is_owed
from memory_agent.data_dir import check_memory

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path


async def work(*, data_dir: Path | None, retry_parked: bool, until_idle: bool, patience: float) -> int:
    """Run until SIGTERM or SIGINT (the stage in hand is finished), or until nothing is owed that can be done."""
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
                with settle_bar(show=True) as bar:
                    async with patiently(service, bar, patience=patience, show=True) as moved:
                        await _first_of(service.settle(progress=moved), working)
            else:
                await working
        except StillOwed as exc:
            tell_what_is_owed(exc.status, data_dir)
            return UNFINISHED
        finally:
            stop.set()
            await working
    note("stopped; what is still owed is taken up by the next worker")
    return OK


async def rebuild_index(*, user_id: str, tenant: str, data_dir: Path | None, as_json: bool) -> int:
    """Owe the index stage to the user's turns again, and wait until it is done."""
    cfg = working_settings(data_dir)
    check_memory(cfg)
    from memory_agent.domain import Scope
    from memory_agent.service import MemoryService

    async with MemoryService(cfg) as service:
        turns = await service.rebuild_index(user_id, tenant=tenant)
        await say_if_unknown(service.agent(user_id, THREAD, tenant=tenant), reach="user")
        with settle_bar(show=not as_json) as moved:
            await service.settle(scope=Scope.of(user_id, tenant=tenant), progress=moved)
    if as_json:
        print_json({"user": user_id, "turns": turns})
    else:
        out.print(f"Indexed {turns} turn(s) of {user_id!r} anew.", markup=False)
    return OK


async def _first_of(settling: Coroutine[Any, Any, None], working: asyncio.Task[None]) -> None:
    """Wait for nothing to be owed, or for the worker to be told to stop; raise what either raised."""
    idle = asyncio.create_task(settling)
    done, _ = await asyncio.wait({idle, working}, return_when=asyncio.FIRST_COMPLETED)
    if idle not in done:
        idle.cancel()
    for task in done:
        task.result()
