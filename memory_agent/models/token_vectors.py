"""Token vectors of a text: its own tokens, their spans, and a cache that knows its size."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import TokenVectors
from memory_agent.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TOKEN_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Vectors of tokens kept by default: with MiniLM those of about 80,000 tokens, 2,500 messages."""


def own_tokens(
    offsets: Sequence[tuple[int, int]], special: Sequence[int], *, prompt: int
) -> tuple[list[int], NDArray[np.int32]]:
    """The tokens of the text behind `prompt` characters, and their spans in the text.

    `special`: 1 for each token that the model adds, as the tokenizer says. Tokens of the prompt, and tokens that stand
    for no character (some tokenizers begin with one), are left out; one that reaches from the prompt into the text
    begins with the text.
    """
    own = [
        n
        for n, ((start, end), added) in enumerate(zip(offsets, special, strict=True))
        if not added and end > max(start, prompt)
    ]
    spans = np.array([offsets[n] for n in own], dtype=np.int32).reshape(len(own), 2) - np.int32(prompt)
    return own, np.maximum(spans, 0)


def token_vectors(spans: NDArray[np.int32], vectors: NDArray[np.float32]) -> TokenVectors:
    """`vectors`, shape (tokens, dimension), of any length, as the port wants them: unit length, float16, read-only.

    Raises EmbedderError for a vector that is zero or not finite.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbedderError("the model gave a token a vector that is zero or not finite")
    unit = (vectors / lengths).astype(np.float16)
    for array in (spans, unit):  # shared between callers
        array.setflags(write=False)
    return TokenVectors(spans=spans, vectors=unit)


class TokenCache:
    """The vectors of the texts used last, at most `most_bytes` with their texts; 0 keeps none."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, TokenVectors] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        """The value kept."""
        return self._bytes

    def get(self, text: str) -> TokenVectors | None:
        """The vectors of `text` if they are kept; then it is the one used last."""
        found = self._kept.get(text)
        if found is not None:
            self._kept.move_to_end(text)
        return found

    def put(self, text: str, tokens: TokenVectors) -> None:
        """Keep the vectors of `text`, and let go of those used longest ago; too large ones are not kept at all."""
        if _size(text, tokens) > self._most_bytes:
            return
        if (before := self._kept.pop(text, None)) is not None:
            self._bytes -= _size(text, before)
        self._kept[text] = tokens
        self._bytes += _size(text, tokens)
        while self._bytes > self._most_bytes:
            self._bytes -= _size(*self._kept.popitem(last=False))

    def clear(self) -> None:
        """Let go of all."""
        self._kept.clear()
        self._bytes = 0


def _size(text: str, tokens: TokenVectors) -> int:
    return tokens.vectors.nbytes + tokens.spans.nbytes + sys.getsizeof(text)
