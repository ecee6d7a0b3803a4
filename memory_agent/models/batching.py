"""Batching for all embedders: concurrent calls become batches, questions wait for none, known texts are not encoded again.

Questions and documents have lanes of their own, each lane encoding one batch after the other. There is no timer:
while the lanes are busy, what arrives meanwhile forms the next batches. Nothing is bound to an event loop while
nothing is in flight, so an embedder may be made before the loop runs. Texts whose tokens are wanted go through the
same lanes, in batches of their own.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.token_vectors import TOKEN_CACHE_BYTES, TextCache, bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors


Purpose = Literal["query", "document"]
Wish = Literal["vector", "tokens"]
"""What is wanted of a text."""

QUESTION_SECONDS: Final = 2.0
"""For so long after a question another one is expected, and documents leave one of their lanes unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The size of a batch in texts and characters (but for a single text that has more), and batches at a time."""

    texts: int = 64
    chars: float = float("inf")
    question_lanes: int = 1
    document_lanes: int = 1


@dataclass(slots=True, eq=False)
class _Entry:
    """One text in flight, and how many callers wait for it."""

    key: tuple[Wish, str]
    purpose: Purpose
    caller: object
    era: int
    waiting: int = 0
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class BatchingEmbedder(ABC):
    """The `Embedder` port but for `fingerprint`, `split` and the encoding of one batch.

    `cache_size`: vectors kept of the texts used last; `token_cache_bytes`: of vectors of tokens, so many bytes.
    """

    gives_tokens: ClassVar[bool] = False
    """Whether `_encode_tokens` is there to be called."""

    def __init__(
        self, limits: BatchLimits, *, cache_size: int, token_cache_bytes: int = TOKEN_CACHE_BYTES
    ) -> None:
        self._limits = limits
        self._caches: dict[Wish, TextCache[Any]] = {
            "vector": TextCache(cache_size, lambda *_: 1),
            "tokens": TextCache(token_cache_bytes, bytes_of),
        }
        self._era = 0  # ends when the caches are cleared
        self._queues: dict[Purpose, deque[_Entry]] = {"query": deque(), "document": deque()}
        self._in_flight: dict[tuple[Wish, str], _Entry] = {}
        self._lanes: dict[Purpose, set[asyncio.Task[None]]] = {"query": set(), "document": set()}
        self._asked_at = -QUESTION_SECONDS
        self._closed = False

    @property
    def scripts(self) -> frozenset[str] | None:
        """See `Embedder.scripts`."""
        return None

    @abstractmethod
    async def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of one batch, shape (len(texts), dimension). Raises EmbedderError or EmbedderUnavailable."""

    async def _encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Vectors of the tokens of one batch, in its order. Raises EmbedderError or EmbedderUnavailable."""
        raise NotImplementedError

    @abstractmethod
    async def _dimension(self) -> int:
        """The length of a vector; asked only for an empty list."""

    async def _release(self) -> None:  # noqa: B027  (not every embedder has something to release)
        """Release what encoding needs; no batch is in hand any more."""

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        self._refuse_if_closed()
        if not texts:
            return np.empty((0, await self._dimension()), dtype=np.float32)
        return np.stack(await self._found(texts, "vector", purpose))

    async def embed_tokens(self, texts: Sequence[str], *, purpose: Purpose) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`."""
        self._refuse_if_closed()
        if not self.gives_tokens:
            return None
        return await self._found(texts, "tokens", purpose)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise EmbedderUnavailable("the embedder was closed; make a new one")

    async def _found(self, texts: Sequence[str], wish: Wish, purpose: Purpose) -> list[Any]:
        """The wish of each text, from the cache or the lanes."""
        known, entries = self._admit(texts, wish, purpose)
        try:
            # wait() rather than gather(): cancelling this caller must not cancel a text that others wait for.
            if entries:
                await asyncio.wait([entry.future for entry in entries.values()])
        finally:
            for entry in entries.values():
                entry.waiting -= 1
        return [entries[text].future.result() if text in entries else known[text] for text in texts]

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`. What is being encoded now won't be kept either."""
        self._era += 1
        for cache in self._caches.values():
            cache.clear()

    async def close(self) -> None:
        """Finish the batches in hand, fail what waits, release the model. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._fail_waiting(EmbedderUnavailable("the embedder was closed while this text waited"))
        self._drop_dead_lanes()
        if running := self._lanes["query"] | self._lanes["document"]:
            await asyncio.wait(running)
        await self._release()

    # --- admitting -------------------------------------------------------------------------------------------
    def _admit(
        self, texts: Sequence[str], wish: Wish, purpose: Purpose
    ) -> tuple[dict[str, Any], dict[str, _Entry]]:
        """The cached results of `texts`, and an entry in flight for each of the rest."""
        self._drop_dead_lanes()
        known: dict[str, Any] = {}
        entries: dict[str, _Entry] = {}
        caller = object()
        if purpose == "query":
            self._asked_at = time.monotonic()
        # Texts of like length next to each other share batches, so that little of a batch is padding.
        for text in sorted(dict.fromkeys(texts), key=len, reverse=True):
            if (kept := self._caches[wish].get(text)) is not None:
                known[text] = kept
                continue
            entry = self._in_flight.get((wish, text))
            if entry is None:
                entry = self._in_flight[wish, text] = _Entry((wish, text), purpose, caller, self._era)
                self._queues[purpose].append(entry)
            elif purpose == "query" and entry.purpose == "document" and entry in self._queues["document"]:
                self._queues["document"].remove(entry)
                entry.purpose = "query"
                self._queues["query"].append(entry)
            entry.waiting += 1
            entries[text] = entry
        self._start_lanes()
        return known, entries

    # --- lanes -----------------------------------------------------------------------------------------------
    def _start_lanes(self) -> None:
        for purpose, queue in self._queues.items():
            running = self._lanes[purpose]
            for _ in range(min(len(queue), self._lanes_for(purpose) - len(running))):
                running.add(asyncio.get_running_loop().create_task(self._run_lane(purpose)))

    def _lanes_for(self, purpose: Purpose) -> int:
        """Lanes that may run: while questions come, one core is kept free of documents."""
        if purpose == "query":
            return self._limits.question_lanes
        questions_come = time.monotonic() - self._asked_at < QUESTION_SECONDS
        return max(1, self._limits.document_lanes - questions_come)

    def _drop_dead_lanes(self) -> None:
        """Forget lanes that ended without a word (cancelled before they began), or whose loop is not this one.

        What waited for them belongs to that loop: nobody here does.
        """
        loop = asyncio.get_running_loop()
        for purpose, running in self._lanes.items():
            alive = {lane for lane in running if not lane.done() and lane.get_loop() is loop}
            if len(alive) < len(running):
                self._lanes[purpose] = alive
        if foreign := [entry for entry in self._in_flight.values() if entry.future.get_loop() is not loop]:
            for entry in foreign:
                del self._in_flight[entry.key]
            for purpose, queue in self._queues.items():
                self._queues[purpose] = deque(entry for entry in queue if entry not in foreign)

    async def _run_lane(self, purpose: Purpose) -> None:
        task, batch = asyncio.current_task(), list[_Entry]()
        try:
            # With more lanes than may run now, this one ends; the others start it again when it may.
            while len(self._lanes[purpose]) <= self._lanes_for(purpose):
                if not (batch := self._next_batch(purpose)):
                    break
                await self._encode_batch(batch)
                self._start_lanes()
        except asyncio.CancelledError:  # the loop is ending
            stopped = EmbedderUnavailable("the embedder was stopped while this text waited")
            self._settle_failed(batch, stopped)
            self._fail_waiting(stopped)
            raise
        finally:
            # Not in a done callback: whoever is admitted before that ran would find no free lane, and wait forever.
            self._lanes[purpose].discard(task)

    def _next_batch(self, purpose: Purpose) -> list[_Entry]:
        """The next texts of this purpose and one wish that somebody still waits for, as many as a batch may have."""
        queue, batch, chars = self._queues[purpose], list[_Entry](), 0
        while queue and len(batch) < self._limits.texts:
            entry = queue[0]
            if not entry.waiting:  # all who wanted it were cancelled
                self._in_flight.pop(entry.key, None)
                entry.future.cancel()
                queue.popleft()
                continue
            wish, text = entry.key
            if batch and (wish != batch[0].key[0] or chars + len(text) > self._limits.chars):
                break
            batch.append(queue.popleft())
            chars += len(text)
        return batch

    async def _encode_batch(self, batch: list[_Entry]) -> None:
        callers = {entry.caller for entry in batch}
        error = await self._try(batch)
        if error is None or isinstance(error, EmbedderUnavailable) or len(callers) == 1:
            self._settle_failed(batch, error)
            return
        # Somebody's text is bad; whose, shows when each caller's are tried alone.
        for caller in callers:
            own = [entry for entry in batch if entry.caller is caller]
            self._settle_failed(own, await self._try(own))

    async def _try(self, batch: list[_Entry]) -> BaseException | None:
        """Encode and hand out; the error if that failed, of whatever class, so that no caller waits forever."""
        wish, texts = batch[0].key[0], [entry.key[1] for entry in batch]
        encode = self._checked_tokens if wish == "tokens" else self._checked_encode
        encoding = asyncio.ensure_future(encode(texts))
        try:
            await asyncio.wait([encoding])
        except asyncio.CancelledError:
            encoding.cancel()
            raise
        error = None if encoding.cancelled() else encoding.exception()
        if error is not None or encoding.cancelled():
            return error or EmbedderUnavailable("the encoding was cancelled")
        for entry, found in zip(batch, encoding.result(), strict=True):
            self._in_flight.pop(entry.key, None)
            if entry.era == self._era:  # else the cache was cleared while it was encoded
                self._caches[wish].put(entry.key[1], found)
            if not entry.future.done():
                entry.future.set_result(found)
        return None

    async def _checked_tokens(self, texts: Sequence[str]) -> list[Any]:
        found = await self._encode_tokens(texts)
        if len(found) != len(texts):
            raise EmbedderError(f"the model gave the tokens of {len(found)} texts for {len(texts)}")
        return found

    async def _checked_encode(self, texts: Sequence[str]) -> list[Any]:
        vectors = np.asarray(await self._encode(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise EmbedderError(f"the model gave vectors of shape {vectors.shape} for {len(texts)} texts")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbedderError("the model gave a vector that is zero or not finite")
        return [row / length for row, length in zip(vectors, lengths, strict=True)]

    def _settle_failed(self, entries: Iterable[_Entry], error: BaseException | None) -> None:
        """Tell `error`, if there is one, to whoever waits for these."""
        if error is None:
            return
        for entry in entries:
            if self._in_flight.get(entry.key) is entry:
                del self._in_flight[entry.key]
            if not entry.future.done():
                entry.future.set_exception(error)
                entry.future.exception()  # seen: nobody may be waiting any more, and that is no fault

    def _fail_waiting(self, error: BaseException) -> None:
        for queue in self._queues.values():
            self._settle_failed(queue, error)
            queue.clear()
