"""Vectors are kept by model and text, and only those that are missing are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.vectors import FILE, CachingEmbedder, KeptVectors
from memory_agent.testing import HashEmbedder


class Noting(HashEmbedder):
    """Notes what it is asked for."""

    def __init__(self, seed: str = "") -> None:
        super().__init__(seed=seed)
        self.asked: list[list[str]] = []

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        return await super().embed(texts, purpose=purpose)


async def test_a_text_is_embedded_once_by_each_model_and_its_vector_is_the_same_later(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(1_200)]
    plain = await HashEmbedder().embed(texts, purpose="document")
    first, second, other = Noting(), Noting(), Noting(seed="other")
    embedder = CachingEmbedder(first, KeptVectors(tmp_path))
    await embedder.embed(texts[:5], purpose="document")
    assert np.array_equal(await embedder.embed([*texts, texts[0]], purpose="query"), [*plain, plain[0]])
    assert first.asked == [texts[:5], texts[5:]]
    assert embedder.computed == 1_200
    again = CachingEmbedder(second, KeptVectors(tmp_path))
    assert np.array_equal(await again.embed(texts[::-1], purpose="document"), plain[::-1])
    assert second.asked == []
    await CachingEmbedder(other, KeptVectors(tmp_path)).embed(texts[:1], purpose="document")
    assert other.asked == [texts[:1]]


async def test_no_text_is_written(tmp_path: Path) -> None:
    embedder = CachingEmbedder(HashEmbedder(), KeptVectors(tmp_path))
    await embedder.embed(["a secret of somebody"], purpose="document")
    await embedder.close()
    assert len((tmp_path / FILE).read_bytes()) > 1_024, "the vector is there"
    assert all(b"secret" not in file.read_bytes() for file in tmp_path.iterdir())
