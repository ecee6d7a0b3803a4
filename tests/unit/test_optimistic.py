"""The one loop of optimistic writes: as many tries as it says, quick ones first, and what is raised at the end."""

import contextlib

import pytest

from memory_agent.concurrency import COSTLY_TRIES, Tries


async def test_a_try_that_did_a_part_of_the_work_does_not_count() -> None:
    tries, made = Tries(3), 0
    async for _ in tries:
        made += 1
        if made <= 10:
            tries.won()
    assert made == 10 + 3


def test_whoever_is_first_at_once_never_leaves_the_event_loop() -> None:
    """The first four tries follow each other without a pause; then each waits."""
    tries = Tries(COSTLY_TRIES)
    for expected in range(4):
        with pytest.raises(StopIteration) as ended:
            anext(tries).__await__().send(None)
        assert ended.value.value == expected
    waiting = anext(tries).__await__()
    with contextlib.closing(waiting), pytest.raises(RuntimeError, match="no running event loop"):
        waiting.send(None)
