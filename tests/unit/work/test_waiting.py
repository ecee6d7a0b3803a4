"""Waiting for owed work."""

import asyncio

from memory_agent.work.pending import Looks


async def test_who_stops_waiting_leaves_nothing_that_waits() -> None:
    moved = asyncio.Event()
    await Looks(0.0).pause(moved)
    pause = asyncio.create_task(Looks(None).pause(moved))
    await asyncio.sleep(0)
    pause.cancel()
    await asyncio.wait({pause})
    await asyncio.sleep(0)
    assert pause.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
