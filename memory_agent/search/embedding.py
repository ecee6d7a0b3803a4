"""Turns as their search rows hold them by one model: the vectors of their passages, and the codes of their first tokens."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import numpy as np

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.ports import ahead_by, known_scripts, tokens_by
from memory_agent.search.token_codes import packed, word_vectors
from memory_agent.text.writing import is_read
from memory_agent.together import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Turn
    from memory_agent.ports import Embedder


async def embedded(
    turns: Sequence[Turn], embedder: Embedder, *, ahead: Sequence[Turn] = ()
) -> dict[str, tuple[NDArray[np.float32], bytes]]:
    """The vectors of each turn's passages, shape (passages, dimension), and the codes of its first tokens, by turn id.

    `ahead`: turns that will be asked for next. Where the embedder takes them, it is at them while these here are made use of.
    """
    if not turns:
        return {}
    passages = await _passages(turns, embedder)
    flat = [passage for of_turn in passages for passage in of_turn]
    if ahead and (embed_ahead := ahead_by(embedder)):
        with contextlib.suppress(EmbedderError, EmbedderUnavailable):  # told once it is their turn
            later = [passage for of_turn in await _passages(ahead, embedder) for passage in of_turn]
            # Once those that are waited for are admitted.
            asyncio.get_running_loop().call_soon(embed_ahead, later)
    vectors = await embedder.embed(flat, purpose="document")
    cuts = np.cumsum([len(of_turn) for of_turn in passages])[:-1]
    codes = await _codes([of_turn[0] for of_turn in passages], embedder)
    return {
        turn.id: (of_turn, code)
        for turn, of_turn, code in zip(turns, np.split(vectors, cuts), codes, strict=True)
    }


async def _passages(turns: Sequence[Turn], embedder: Embedder) -> list[list[str]]:
    return await together(*(embedder.split(turn.searchable_text) for turn in turns))


async def _codes(texts: Sequence[str], embedder: Embedder) -> list[bytes]:
    """The packed token vectors of each text, which were made with its vector; none if the model has none."""
    tokens = await tokens_by(embedder, texts, purpose="document")
    if tokens is None:
        return [b""] * len(texts)
    read = known_scripts(embedder)

    def work() -> list[bytes]:
        return [
            packed(word_vectors(text, of_text)) if is_read(text, read) else b""
            for text, of_text in zip(texts, tokens, strict=True)
        ]

    return await asyncio.to_thread(work)
