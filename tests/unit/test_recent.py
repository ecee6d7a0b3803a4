"""What was used last, kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.recent import Recent


@given(st.lists(st.text(max_size=3), max_size=60), st.integers(0, 8))
def test_the_cache_keeps_what_was_used_last(puts: list[str], most: int) -> None:
    """No more than it may, also when texts come again."""
    cache = Recent[str, int](most)
    for n, text in enumerate(puts):
        cache.put(text, n)
    newest = list(dict.fromkeys(reversed(puts)))[:most]
    assert len(cache) == len(newest)
    assert [cache.got(text) for text in newest] == [len(puts) - 1 - puts[::-1].index(text) for text in newest]
    cache.clear()
    assert len(cache) == 0
