"""How long a client waits before it asks again."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.client.connection import LONGEST_PAUSE_SECONDS, pause_before, read_retry_after

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
chances = st.floats(0, 1, exclude_max=True)


@given(retry=st.integers(0, 10_000), chance=chances)
def test_pauses_are_above_zero_and_bounded(retry: int, chance: float) -> None:
    assert 0 < pause_before(retry, chance=chance) <= LONGEST_PAUSE_SECONDS


@given(retry=st.integers(0, 6), chance=chances)
def test_next_pause_is_never_shorter_than_half_of_twice_this_one(retry: int, chance: float) -> None:
    assert pause_before(retry + 1, chance=0.0) * 2 >= pause_before(retry, chance=chance)


@given(asked=st.floats(0, 1e6), chance=chances)
def test_service_is_never_asked_again_sooner_than_it_said(asked: float, chance: float) -> None:
    pause = pause_before(0, chance=chance, retry_after=asked)
    assert asked <= pause <= asked + 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), ("0", 0.0), ("7", 7.0), (" 1.5 ", 1.5), ("-3", 0.0), ("nan", None), ("inf", None),
        ("soon", None), ("", None), ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0), ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sun, 01 Mar 2026 13:00:30 +0100", 30.0),
    ],
)  # fmt: skip
def test_header_is_read_as_a_number_or_a_time(value: str | None, seconds: float | None) -> None:
    assert read_retry_after(value, NOW) == seconds


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001 - hypothesis adds the zone
def test_times_of_the_http_format_are_told_from_now(time: datetime) -> None:
    whole = time.replace(microsecond=0, tzinfo=UTC)
    written = whole.strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert read_retry_after(written, NOW) == max((whole - NOW) / timedelta(seconds=1), 0.0)
