"""What was used last, kept."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.lazily import Recent


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=1)), max_size=60), st.integers(0, 8))
def test_the_cache_keeps_what_was_used_last(uses: list[tuple[bool, str]], most: int) -> None:
    """No more than it may, also when texts come again; what is asked for is used, what was let go is not there."""
    cache, kept = Recent[str, int](most), list[tuple[str, int]]()
    for n, (is_put, text) in enumerate(uses):
        value = n if is_put else dict(kept).get(text)
        assert (cache.put(text, n) if is_put else cache.got(text)) == value
        if value is not None:
            kept = [*(pair for pair in kept if pair[0] != text), (text, value)]
            del kept[: max(len(kept) - most, 0)]
    assert list(cache.items()) == kept
    cache.clear()
    assert len(cache) == 0
