"""What a request is made of, and how a long wait is cut into short ones."""

import time
from datetime import UTC, datetime

import pytest

from memory_agent.client.calls import in_slices, own_key, written
from memory_agent.errors import InvalidInput, SettleTimeout


def test_query_holds_what_is_not_none_as_the_service_reads_it() -> None:
    time = datetime(2026, 3, 1, 12, tzinfo=UTC)
    found = written({"b": True, "c": False, "d": 0, "e": "x&y", "f": time})
    assert found == {"b": "true", "c": "false", "d": "0", "e": "x&y", "f": "2026-03-01T12:00:00+00:00"}


@pytest.mark.parametrize("key", ["", " ", " a", "a ", "a\nb", "x" * 513, "\ud800", 7])
def test_key_that_no_header_keeps_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="idempotency_key"):
        own_key(key)


async def test_slices_are_as_long_as_asked_and_end_with_the_time() -> None:
    asked: list[float] = []

    async def ask(seconds: float, deadline: float | None) -> None:
        asked.append(seconds)
        assert deadline is not None
        raise SettleTimeout("2 turns owe facts")

    began = time.monotonic()
    with pytest.raises(SettleTimeout, match=r"after 0.25 s in all; the last answer was: 2 turns owe facts"):
        await in_slices(ask, 0.25, slice_seconds=0.1)
    assert time.monotonic() - began >= 0.2
    assert asked[0] == 0.1
    assert 3 <= len(asked) <= 5, "a service that does not wait is not asked without a pause"


async def test_without_time_it_is_asked_once() -> None:
    asked: list[float] = []

    async def ask(seconds: float, deadline: float | None) -> None:
        asked.append(seconds)
        raise SettleTimeout("owed")

    for timeout in (0, -1):
        with pytest.raises(SettleTimeout):
            await in_slices(ask, timeout)
    assert asked == [0.0, 0.0]


@pytest.mark.parametrize("timeout", ["5", True, float("nan"), [1]])
async def test_timeout_that_is_no_number_is_refused(timeout: float) -> None:
    async def ask(seconds: float, deadline: float | None) -> None:
        raise AssertionError("nothing is asked")

    with pytest.raises(InvalidInput, match="timeout is"):
        await in_slices(ask, timeout)
