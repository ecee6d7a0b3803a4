"""Doubles of the ports that need no model, server or disk; they pass the same conformance suites as the real ones."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from memory_agent.checks import checked_time
from memory_agent.domain import (
    Completion,
    Similar,
    TokenVectors,
    Usage,
    new_id,
)
from memory_agent.errors import EmbedderUnavailable, LLMUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import (
        Message,
        PassageVector,
        Scope,
    )

Reply = str | Completion | Exception

_WORD: Final = re.compile(r"\w+")
_PASSAGE_WORDS: Final = 128


class FixedClock:
    """`Clock` that stands still until it is told to move."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = checked_time("now", now)

    def now(self) -> datetime:
        """See `Clock.now`."""
        return self._now

    def set(self, now: datetime) -> None:
        """Move to `now`, forwards or backwards."""
        self._now = checked_time("now", now)

    def tick(self, seconds: float = 1.0) -> datetime:
        """Move on by `seconds`; the new now."""
        self._now = checked_time("now", self._now + timedelta(seconds=seconds))
        return self._now


class HashEmbedder:
    """`Embedder` of hashed words: texts that share words are near each other, deterministically.

    `fail` can be set to an error that the next calls raise.
    """

    def __init__(self, *, dimension: int = 256, seed: str = "") -> None:
        self._dimension = dimension
        self._seed = seed
        self._closed = False
        self.fail: Exception | None = None

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`. Another seed or dimension is another model."""
        return hashlib.sha256(f"hash:{self._dimension}:{self._seed}".encode()).hexdigest()[:12]

    @property
    def scripts(self) -> frozenset[str] | None:
        """See `Embedder.scripts`. Words are hashed in any of them."""
        return None

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`. 128 words are a passage."""
        starts = [match.start() for match in _WORD.finditer(text)][::_PASSAGE_WORDS] or [0]
        ends = [*starts[1:], len(text)]
        return [
            text[0 if i == 0 else start : end]
            for i, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        self._check()
        vectors = np.empty((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._vector(text)
        return vectors

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`. A word is a token, with the vector that it has as a text."""
        self._check()
        return [self._tokens(text) for text in texts]

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`. There is none."""

    async def close(self) -> None:
        """See `Embedder.close`."""
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise EmbedderUnavailable("the embedder was closed; make a new one")
        if self.fail is not None:
            raise self.fail

    def _tokens(self, text: str) -> TokenVectors:
        words = list(_WORD.finditer(text))[:_PASSAGE_WORDS]
        spans = np.array([word.span() for word in words], dtype=np.int32).reshape(len(words), 2)
        vectors = np.array([self._vector(word[0]) for word in words], dtype=np.float32)
        return TokenVectors(spans=spans, vectors=vectors.reshape(len(words), self._dimension))

    def _vector(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self._dimension, dtype=np.float32)
        vector[0] = 0.01  # so that a text without words has a direction as well
        for word in _WORD.findall(text.casefold()):
            digest = hashlib.blake2b(f"{self._seed}:{word}".encode(), digest_size=8).digest()
            value = int.from_bytes(digest, "big")
            vector[value % self._dimension] += 1.0 if value >> 63 else -1.0
        if not vector.any():
            vector[0] = 1.0
        unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
        return unit


class ScriptedLLM:
    """`LLM` that answers from a script: replies in order, or a function of the messages.

    A reply is text, a Completion, or an error to raise. `calls` keeps the messages of every call. A list that has
    run out raises LLMUnavailable.
    """

    def __init__(
        self,
        script: Iterable[Reply] | Callable[[Sequence[Message]], Reply] = (),
        *,
        model: str = "scripted",
    ) -> None:
        self._answer = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._model = model
        self._usage = Usage()
        self.calls: list[tuple[Message, ...]] = []

    @property
    def model(self) -> str:
        """See `LLM.model`."""
        return self._model

    @property
    def usage(self) -> Usage:
        """See `LLM.usage`."""
        return self._usage

    def then(self, *replies: Reply) -> None:
        """Add replies to the list."""
        self._replies.extend(replies)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """See `LLM.complete`. `max_tokens` cuts text off at so many words."""
        self.calls.append(tuple(messages))
        if self._answer is not None:
            reply = self._answer(messages)
        elif self._replies:
            reply = self._replies.pop(0)
        else:
            raise LLMUnavailable(f"the script has no reply for call {len(self.calls)}")
        if isinstance(reply, Exception):
            raise reply
        completion = reply if isinstance(reply, Completion) else _spoken(reply, messages, max_tokens)
        self._usage = Usage(
            requests=self._usage.requests + 1,
            prompt_tokens=self._usage.prompt_tokens + completion.prompt_tokens,
            completion_tokens=self._usage.completion_tokens + completion.completion_tokens,
        )
        return completion

    async def close(self) -> None:
        """See `LLM.close`."""


def _spoken(reply: str, messages: Sequence[Message], max_tokens: int | None) -> Completion:
    """`reply` with words counted as tokens."""
    words = reply.split(" ")
    truncated = max_tokens is not None and len(words) > max_tokens
    prompt_tokens = sum(len(message.content.split()) for message in messages)
    text = " ".join(words[:max_tokens]) if truncated else reply
    return Completion(
        text=text, prompt_tokens=prompt_tokens, completion_tokens=len(text.split()), truncated=truncated
    )


class BruteForceIndex:
    """`VectorIndex` in a dict, exact; the reference that the approximate ones are held to.

    `fail` can be set to an error that the next calls raise.
    """

    def __init__(self) -> None:
        self._users: dict[str, dict[tuple[str, int], PassageVector]] = {}
        self._place = new_id()
        self.fail: Exception | None = None

    @property
    def losses(self) -> int:
        """See `VectorIndex.losses`."""
        return 0

    async def place(self, user_id: str) -> str:
        """See `VectorIndex.place`."""
        self._check()
        return self._place

    async def open(self) -> None:
        """See `VectorIndex.open`."""
        self._check()

    async def close(self) -> None:
        """See `VectorIndex.close`. What was stored stays."""

    async def ping(self) -> None:
        """See `VectorIndex.ping`."""
        self._check()

    async def upsert(self, user_id: str, passages: Sequence[PassageVector]) -> None:
        """See `VectorIndex.upsert`."""
        self._check()
        self._users.setdefault(user_id, {}).update({(p.turn_id, p.passage): p for p in passages})

    async def query(self, scope: Scope, vector: NDArray[np.float32], *, limit: int) -> list[Similar]:
        """See `VectorIndex.query`."""
        self._check()
        nearest: dict[str, float] = {}
        for passage in self._users.get(scope.user_id, {}).values():
            if scope.thread_id in (None, passage.thread_id):
                similarity = min(1.0, max(-1.0, float(passage.vector @ vector)))
                nearest[passage.turn_id] = max(similarity, nearest.get(passage.turn_id, -1.0))
        ranked = sorted(nearest.items(), key=lambda item: (-item[1], item[0]))
        return [Similar(turn_id=turn_id, similarity=value) for turn_id, value in ranked[: max(0, limit)]]

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`."""
        self._check()
        mine, doomed = self._users.get(user_id, {}), set(turn_ids)
        keys = [key for key in mine if key[0] in doomed]
        for key in keys:
            del mine[key]
        return len(keys)

    async def clear(self, user_id: str) -> None:
        """See `VectorIndex.clear`."""
        self._check()
        self._users.pop(user_id, None)

    async def turn_ids(self, user_id: str, *, searched: bool = False) -> set[str]:
        """See `VectorIndex.turn_ids`."""
        self._check()
        return {turn_id for turn_id, _ in self._users.get(user_id, {})}

    def _check(self) -> None:
        if self.fail is not None:
            raise self.fail
