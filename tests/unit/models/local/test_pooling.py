"""Pooling, without the library that it is compared with in with_torch.py."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory_agent.models.local.folder import POOLING_MODES, pool

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=8)
MODES = st.lists(st.sampled_from(sorted(POOLING_MODES)), min_size=1, max_size=4, unique=True)


def batch(lengths: list[int], seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Random token vectors, random ones also in the padding, and the mask."""
    random = np.random.default_rng(seed)
    longest = max(lengths)
    mask = (np.arange(longest)[None, :] < np.array(lengths)[:, None]).astype(np.int64)
    return random.standard_normal((len(lengths), longest, 12)).astype(np.float32), mask


@given(MODES, LENGTHS, st.integers(0, 2**32 - 1), st.floats(-1e4, 1e4, width=32), st.integers(0, 9))
def test_padding_never_matters(
    modes: list[str], lengths: list[int], seed: int, filling: float, more: int
) -> None:
    """Neither what stands in it nor how much of it there is; and a text of one token is that token."""
    tokens, mask = batch(lengths, seed)
    width = ((0, 0), (0, more))
    filled = np.pad(np.where(mask[:, :, None] > 0, tokens, np.float32(filling)), (*width, (0, 0)))
    pooled = pool(filled.astype(np.float32), np.pad(mask, width), modes)
    np.testing.assert_allclose(pooled, pool(tokens, mask, modes), atol=1e-5)
    for row in (row for row, length in enumerate(lengths) if length == 1):
        np.testing.assert_allclose(pooled[row], np.tile(tokens[row, 0], len(modes)), atol=1e-6)
