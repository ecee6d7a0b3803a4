"""Rates and concurrency: never more than is allowed, never a wait longer than it takes, and no memory of the idle."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_agent.server.access import Buckets, Concurrency

RATES = st.sampled_from([1, 7, 60, 600, 6_000])
GAPS = st.lists(st.floats(0, 30) | st.floats(0, 0.01), min_size=1, max_size=200)


def times(gaps: list[float], start: float) -> list[float]:
    return list(itertools.accumulate(gaps, initial=start))


# After months a slack in proportion to the clock let one more in.
@example(rate=7, gaps=[60 / 7 - 0.0095], start=1e7)
@given(rate=RATES, gaps=GAPS, start=st.floats(0, 1e7))
def test_no_window_holds_more_than_the_burst_and_the_rate_allow(
    rate: int, gaps: list[float], start: float
) -> None:
    buckets = Buckets(rate)
    went = [now for now in times(gaps, start) if buckets.take("key", now) == 0]
    for first in range(len(went)):
        for last in range(first, len(went)):
            most = max(1, round(rate / 6)) + rate / 60 * (
                went[last] - went[first]
            )  # ten seconds' worth at once
            assert last - first + 1 <= most + 1e-3


@given(rate=RATES, gaps=GAPS, start=st.floats(0, 1e7))
def test_whoever_waits_as_long_as_told_may_go_and_not_much_sooner(
    rate: int, gaps: list[float], start: float
) -> None:
    buckets = Buckets(rate)
    for now in times(gaps, start):
        wait = buckets.take("key", now)
        assert 0 <= wait <= 60 / rate * (1 + 1e-6) + 1e-6
        if wait > 0.1:
            assert buckets.take("key", now + wait - 0.05) > 0
        if wait > 0:
            assert buckets.take("key", now + wait) == 0
            return


def test_rate_of_zero_is_no_limit_but_a_key_may_have_a_rate_of_its_own() -> None:
    buckets = Buckets(0)
    assert {buckets.take("key", 0.0) for _ in range(10_000)} == {0}
    assert len(buckets) == 0
    assert buckets.take("key", 0.0, rate_per_minute=6) == 0
    assert buckets.take("key", 0.0, rate_per_minute=6) == pytest.approx(10)
    assert buckets.take("key", 0.0) == 0


def test_full_buckets_are_forgotten_and_others_are_not() -> None:
    buckets = Buckets(6)
    buckets.take("slow", 0.0, rate_per_minute=1e-9)
    for number in range(10_000):
        buckets.take(str(number), number / 10)
        assert len(buckets) <= 2_048
    assert buckets.take("slow", 1_000.0, rate_per_minute=1e-9) > 0


@given(steps=st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=200), limit=st.integers(1, 5))
def test_no_key_has_more_in_progress_than_may_be_and_nothing_is_left_at_the_end(
    steps: list[tuple[str, bool]], limit: int
) -> None:
    counter = Concurrency(limit)
    held = {"a": 0, "b": 0}
    for key, enters in steps:
        if enters:
            assert counter.enter(key) is (held[key] < limit)
            held[key] = min(held[key] + 1, limit)
        elif held[key]:
            counter.leave(key)
            held[key] -= 1
    for key, count in held.items():
        for _ in range(count):
            counter.leave(key)
    assert len(counter) == 0
