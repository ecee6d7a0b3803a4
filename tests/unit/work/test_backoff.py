"""Retry in one place, as a pure function; lease names."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Scope
from memory_agent.work.claims import lease_name
from memory_agent.work.worker import backoff_seconds


def test_waits_double_up_to_the_longest() -> None:
    waits = [backoff_seconds(n, base=1, longest=10, jitter=0) for n in (1, 2, 3, 4, 5, 1_000)]
    assert waits == [1, 2, 4, 8, 10, 10]


@given(st.integers(1, 100), st.floats(0.01, 10), st.floats(10, 1_000), st.floats(0, 1))
def test_jitter_takes_up_to_half_away(failures: int, base: float, longest: float, jitter: float) -> None:
    plain = backoff_seconds(failures, base=base, longest=longest, jitter=0)
    assert (
        plain / 2 <= backoff_seconds(failures, base=base, longest=longest, jitter=jitter) <= plain <= longest
    )


ids = st.text("ab:/|%\\_.é한😀", min_size=1, max_size=4)
"""Short and of few characters, separators among them, so that two scopes may come near each other."""


@given(ids, ids, ids, ids)
def test_no_two_threads_share_a_lease(user: str, thread: str, other_user: str, other_thread: str) -> None:
    one, other = Scope(user_id=user, thread_id=thread), Scope(user_id=other_user, thread_id=other_thread)
    assert (lease_name("index", one) == lease_name("index", other)) == (one == other)
    assert lease_name("index", one) != lease_name("facts", one)
