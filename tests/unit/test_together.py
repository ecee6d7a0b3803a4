"""Long work that pauses for others."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from memory_agent.together import pausing

MOST_ITEMS = 50


@pytest.fixture
def lock_is_kept() -> Iterator[None]:
    """Python takes the interpreter's lock from nobody."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(60)
    yield
    sys.setswitchinterval(before)


def items_until_another_ran() -> int:
    """Items of 3 ms that are worked through until another thread had its turn, at most `MOST_ITEMS`."""
    ran: list[bool] = []

    def another() -> None:
        time.sleep(0.001)
        ran.append(True)

    thread = threading.Thread(target=another)
    thread.start()
    worked = 0
    for _ in pausing(range(MOST_ITEMS)):
        until = time.perf_counter() + 0.003
        while time.perf_counter() < until:
            pass
        worked += 1
        if ran:
            break
    thread.join()
    return worked


@pytest.mark.usefixtures("lock_is_kept")
def test_long_work_pauses_for_others_but_not_on_the_event_loop() -> None:
    """There it would keep everybody waiting."""

    async def on_the_loop() -> int:
        return items_until_another_ran()

    async def beside_it() -> int:
        return await asyncio.to_thread(items_until_another_ran)

    assert asyncio.run(beside_it()) < MOST_ITEMS
    assert asyncio.run(on_the_loop()) == MOST_ITEMS
