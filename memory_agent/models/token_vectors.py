"""Token vectors of a text: its own tokens, their spans; and a cache by text that knows its size."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from memory_agent.domain import TokenVectors
from memory_agent.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Made = TypeVar("Made")

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


class TextCache(Generic[Made]):
    """Results by text, those used last: at most `most` of them by `size_of` a text and its result; 0 keeps none."""

    def __init__(self, most: int, size_of: Callable[[str, Made], int]) -> None:
        self._most = most
        self._size_of = size_of
        self._kept: OrderedDict[str, Made] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> Made | None:
        """The result for `text` if it is kept; then it is the one used last."""
        if text in self._kept:
            self._kept.move_to_end(text)
        return self._kept.get(text)

    def put(self, text: str, made: Made) -> None:
        """Keep the result for `text`, and let go of those used longest ago; too large ones are not kept at all."""
        size = self._size_of(text, made)
        if size > self._most:
            return
        if text in self._kept:
            self.size -= self._size_of(text, self._kept.pop(text))
        self._kept[text] = made
        self.size += size
        while self.size > self._most:
            self.size -= self._size_of(*self._kept.popitem(last=False))

    def clear(self) -> None:
        """Let go of all."""
        self._kept.clear()
        self.size = 0


def bytes_of(text: str, tokens: TokenVectors) -> int:
    """The memory that a text and the vectors of its tokens take."""
    return tokens.vectors.nbytes + tokens.spans.nbytes + sys.getsizeof(text)
