"""Pooling gives what sentence-transformers' own module gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.models.local.pooling import POOLING_MODES, pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=8)
MODES = st.lists(st.sampled_from(sorted(POOLING_MODES)), min_size=1, max_size=4, unique=True)


def batch(
    lengths: list[int], seed: int, *, dimension: int = 12
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Random token vectors, random ones also in the padding, and the mask."""
    random = np.random.default_rng(seed)
    longest = max(lengths)
    mask = (np.arange(longest)[None, :] < np.array(lengths)[:, None]).astype(np.int64)
    return random.standard_normal((len(lengths), longest, dimension)).astype(np.float32), mask


@pytest.mark.parametrize("mode", POOLING_MODES)
@given(lengths=LENGTHS, seed=st.integers(0, 2**32 - 1))
def test_every_mode_is_that_of_sentence_transformers(mode: str, lengths: list[int], seed: int) -> None:
    """Each way of pooling gives the numbers of sentence-transformers' module of that name."""
    import torch
    from sentence_transformers.sentence_transformer.modules import Pooling

    tokens, mask = batch(lengths, seed)
    given = {"token_embeddings": torch.from_numpy(tokens), "attention_mask": torch.from_numpy(mask)}
    wanted = Pooling(tokens.shape[2], pooling_mode=mode)(given)["sentence_embedding"].numpy()
    assert wanted.shape == (len(lengths), 12)
    np.testing.assert_allclose(pool(tokens, mask, (mode,)), wanted, atol=1e-5)


@given(modes=MODES, lengths=LENGTHS, seed=st.integers(0, 2**32 - 1))
def test_several_modes_stand_side_by_side_in_order(modes: list[str], lengths: list[int], seed: int) -> None:
    """Concatenated modes give sentence-transformers' longer vector, in the order in which they are named."""
    import torch
    from sentence_transformers.sentence_transformer.modules import Pooling

    tokens, mask = batch(lengths, seed)
    given = {"token_embeddings": torch.from_numpy(tokens), "attention_mask": torch.from_numpy(mask)}
    wanted = Pooling(tokens.shape[2], pooling_mode=modes)(given)["sentence_embedding"].numpy()
    pooled = pool(tokens, mask, modes)
    assert pooled.shape == (len(lengths), 12 * len(modes))
    np.testing.assert_allclose(pooled, wanted, atol=1e-5)


@given(
    modes=MODES,
    lengths=LENGTHS,
    seed=st.integers(0, 2**32 - 1),
    filling=st.floats(-1e4, 1e4, width=32, allow_nan=False),
    more=st.integers(0, 9),
)
def test_padding_never_matters(
    modes: list[str], lengths: list[int], seed: int, filling: float, more: int
) -> None:
    """Neither what stands in the padding nor how much of it there is shows in a vector."""
    tokens, mask = batch(lengths, seed)
    width = ((0, 0), (0, more))
    filled = np.pad(np.where(mask[:, :, None] > 0, tokens, np.float32(filling)), (*width, (0, 0)))
    np.testing.assert_allclose(
        pool(filled.astype(np.float32), np.pad(mask, width), modes), pool(tokens, mask, modes), atol=1e-5
    )


@given(mode=st.sampled_from(sorted(POOLING_MODES)), seed=st.integers(0, 2**32 - 1))
def test_a_text_of_one_token_is_that_token(mode: str, seed: int) -> None:
    """With a single token, every way of pooling is that token's vector."""
    tokens, mask = batch([1], seed)
    np.testing.assert_allclose(pool(tokens, mask, (mode,)), tokens[:, 0], atol=1e-6)
