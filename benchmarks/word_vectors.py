"""An embedder without a model, for benchmarks in which the model's time would hide everything else."""

from __future__ import annotations

import functools
import hashlib
import re
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from memory_agent.domain import TokenVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DIMENSION: Final = 384
TOKEN_DIMENSION: Final = 64
_WORD: Final = re.compile(r"\w+")
_MOST_TOKENS: Final = 128


class WordVectors:
    """`Embedder` without a model: a word has a random direction, a text the sum of its words'; as many numbers as MiniLM gives."""

    fingerprint = "wordvectors1"
    scripts = None

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`. One passage, however long."""
        return [text]

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        sums = [sum(map(_direction, _WORD.findall(text.casefold())), _direction("")) for text in texts]
        vectors = np.array(sums, dtype=np.float32).reshape(len(texts), DIMENSION)
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors]:
        """See `Embedder.embed_tokens`. A word is a token."""
        return [_tokens(text) for text in texts]

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`. Words' directions are nobody's."""

    async def close(self) -> None:
        """See `Embedder.close`."""


@functools.lru_cache(maxsize=20_000)
def _direction(word: str) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
    vector = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
    return unit


def _tokens(text: str) -> TokenVectors:
    words = list(_WORD.finditer(text))[:_MOST_TOKENS]
    spans = np.array([word.span() for word in words], dtype=np.int32).reshape(len(words), 2)
    heads = [_direction(word[0].casefold())[:TOKEN_DIMENSION] for word in words]
    vectors = np.array(heads, dtype=np.float32).reshape(len(words), TOKEN_DIMENSION)
    return TokenVectors(spans=spans, vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
