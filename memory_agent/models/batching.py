"""What all embedders share: concurrent calls become batches, questions wait for none, known texts are not encoded again.

Questions and documents have lanes of their own, each lane encoding one batch after the other. There is no timer:
while the lanes are busy, what arrives meanwhile forms the next batches. Nothing is bound to an event loop while
nothing is in flight, so an embedder may be made before the loop runs.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from memory_agent.errors import EmbedderError, EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

Purpose = Literal["query", "document"]

QUESTION_SECONDS: Final = 2.0
"""For so long after a question another one is expected, and documents leave one of their lanes unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How much is encoded at once."""

    texts: int = 64
    """Texts of a batch."""
    chars: int | None = None
    """Characters of a batch, unless a single text has more."""
    question_lanes: int = 1
    """Batches of questions at a time."""
    document_lanes: int = 1
    """Batches of documents at a time."""


class _Entry:
    """One text in flight, and how many callers wait for it."""

    __slots__ = ("caller", "era", "future", "purpose", "text", "waiting")

    def __init__(self, text: str, purpose: Purpose, caller: object, era: int) -> None:
        self.text = text
        self.era = era
        self.purpose = purpose
        self.caller = caller
        self.waiting = 0
        self.future: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # seen: nobody may be waiting any more, and that is no fault


class BatchingEmbedder(ABC):
    """The `Embedder` port but for `fingerprint`, `split` and the encoding of one batch.

    `cache_size`: vectors kept of the texts used last.
    """

    def __init__(self, limits: BatchLimits, *, cache_size: int) -> None:
        self._limits = limits
        self._cache_size = cache_size
        self._cache: OrderedDict[str, Vector] = OrderedDict()
        self._era = 0
        self._queues: dict[Purpose, deque[_Entry]] = {"query": deque(), "document": deque()}
        self._in_flight: dict[str, _Entry] = {}
        self._lanes: dict[Purpose, set[asyncio.Task[None]]] = {"query": set(), "document": set()}
        self._asked_at = -QUESTION_SECONDS
        self._closed = False

    @abstractmethod
    async def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of one batch, shape (len(texts), dimension). Raises EmbedderError or EmbedderUnavailable."""

    @abstractmethod
    async def _dimension(self) -> int:
        """The length of a vector; asked only for an empty list."""

    async def _release(self) -> None:  # noqa: B027  (not every embedder has something to release)
        """Release what encoding needs; no batch is in hand any more."""

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        if self._closed:
            raise EmbedderUnavailable("the embedder was closed; make a new one")
        if not texts:
            return np.empty((0, await self._dimension()), dtype=np.float32)
        known, entries = self._admit(texts, purpose)
        try:
            # wait() rather than gather(): cancelling this caller must not cancel a text that others wait for.
            if entries:
                await asyncio.wait([entry.future for entry in entries.values()])
        finally:
            for entry in entries.values():
                entry.waiting -= 1
        vectors = known | {text: entry.future.result() for text, entry in entries.items()}
        return np.stack([vectors[text] for text in texts])

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`. What is being encoded now won't be kept either."""
        self._era += 1
        self._cache.clear()

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
    def _admit(self, texts: Sequence[str], purpose: Purpose) -> tuple[dict[str, Vector], dict[str, _Entry]]:
        """What is known of `texts`, and an entry in flight for each of the rest."""
        self._drop_dead_lanes()
        known: dict[str, Vector] = {}
        entries: dict[str, _Entry] = {}
        caller = object()
        if purpose == "query":
            self._asked_at = time.monotonic()
        # Texts of like length next to each other share batches, so that little of a batch is padding.
        for text in sorted(dict.fromkeys(texts), key=len, reverse=True):
            if text in self._cache:
                self._cache.move_to_end(text)
                known[text] = self._cache[text]
                continue
            entry = self._in_flight.get(text)
            if entry is None:
                entry = self._in_flight[text] = _Entry(text, purpose, caller, self._era)
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
        foreign = [entry for entry in self._in_flight.values() if entry.future.get_loop() is not loop]
        for entry in foreign:
            del self._in_flight[entry.text]
        if foreign:
            for purpose, queue in self._queues.items():
                self._queues[purpose] = deque(entry for entry in queue if entry not in foreign)

    async def _run_lane(self, purpose: Purpose) -> None:
        task, batch = asyncio.current_task(), list[_Entry]()
        try:
            # With more lanes than may run now, this one ends; the others start it again when it may.
            while len(self._lanes[purpose]) <= self._lanes_for(purpose) and (
                batch := self._next_batch(purpose)
            ):
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
        """The next texts of this purpose that somebody still waits for, as many as one batch may have."""
        queue, batch, chars = self._queues[purpose], list[_Entry](), 0
        most_chars = self._limits.chars or float("inf")
        while queue and len(batch) < self._limits.texts:
            entry = queue[0]
            if not entry.waiting:  # all who wanted it were cancelled
                self._in_flight.pop(entry.text, None)
                entry.future.cancel()
            elif batch and chars + len(entry.text) > most_chars:
                break
            else:
                batch.append(entry)
                chars += len(entry.text)
            queue.popleft()
        return batch

    async def _encode_batch(self, batch: list[_Entry]) -> None:
        error = await self._try(batch)
        if error is None:
            return
        callers = {entry.caller for entry in batch}
        if len(callers) == 1 or isinstance(error, EmbedderUnavailable):
            self._settle_failed(batch, error)
            return
        # Somebody's text is bad; whose, shows when each caller's are tried alone.
        for caller in callers:
            own = [entry for entry in batch if entry.caller is caller]
            error = await self._try(own)
            if error is not None:
                self._settle_failed(own, error)

    async def _try(self, batch: list[_Entry]) -> BaseException | None:
        """Encode and hand out; the error if that failed, of whatever class, so that no caller waits forever."""
        encoding = asyncio.ensure_future(self._checked_encode([entry.text for entry in batch]))
        try:
            await asyncio.wait([encoding])
        except asyncio.CancelledError:
            encoding.cancel()
            raise
        error = None if encoding.cancelled() else encoding.exception()
        if error is not None or encoding.cancelled():
            return error or EmbedderUnavailable("the encoding was cancelled")
        for entry, vector in zip(batch, encoding.result(), strict=True):
            self._in_flight.pop(entry.text, None)
            if entry.era == self._era:  # else the cache was cleared while it was encoded
                self._remember(entry.text, vector)
            if not entry.future.done():
                entry.future.set_result(vector)
        return None

    async def _checked_encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.asarray(await self._encode(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise EmbedderError(f"the model gave vectors of shape {vectors.shape} for {len(texts)} texts")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbedderError("the model gave a vector that is zero or not finite")
        unit: NDArray[np.float32] = vectors / lengths
        return unit

    def _remember(self, text: str, vector: Vector) -> None:
        if self._cache_size:
            self._cache[text] = vector.copy()  # a row alone, not a view that keeps its whole batch alive
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)

    def _settle_failed(self, entries: Iterable[_Entry], error: BaseException) -> None:
        for entry in entries:
            if self._in_flight.get(entry.text) is entry:
                del self._in_flight[entry.text]
            entry.fail(error)

    def _fail_waiting(self, error: BaseException) -> None:
        for queue in self._queues.values():
            self._settle_failed(queue, error)
            queue.clear()
