"""What all embedders share: passages of long texts, batches of concurrent calls, vectors of tokens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

import numpy as np

from memory_agent.domain import TokenVectors
from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.lazily import Recent
from memory_agent.products import product

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Hidden = tuple[NDArray[np.int32], Floats]
    """Spans of tokens in their text, shape (tokens, 2), and their vectors, shape (tokens, dimension), as a model gives them."""


Purpose = Literal["query", "document"]

QUESTION_SECONDS: Final = 2.0
"""For so long after a question another one is expected, and documents leave one of their lanes unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The size of a batch in texts and characters (but for a single text that has more), and batches at a time."""

    texts: int = 64
    chars: float = float("inf")
    question_lanes: int = 1
    document_lanes: int = 1


class Encoded(NamedTuple):
    """A text's vector, shape (dimension,), unit length, and those of its tokens; None if the model gives none."""

    vector: NDArray[np.float32]
    tokens: TokenVectors | None


@dataclass(slots=True, eq=False)
class _Entry:
    """One text in flight, and how many callers wait for it."""

    text: str
    purpose: Purpose
    caller: object
    era: int
    waiting: int = 0
    future: asyncio.Future[Encoded] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class BatchingEmbedder(ABC):
    """The `Embedder` port but for `fingerprint`, `split` and the encoding of one batch.

    `cache_size`: texts whose vectors are kept, those used last.
    """

    gives_tokens: ClassVar[bool] = False
    """Whether `_encode` gives the vectors of tokens."""

    def __init__(self, limits: BatchLimits, *, cache_size: int) -> None:
        self._limits = limits
        self._cache: Recent[str, Encoded] = Recent(cache_size)
        self._era = 0  # ends when the caches are cleared
        self._queues: dict[Purpose, deque[_Entry]] = {"query": deque(), "document": deque()}
        self._in_flight: dict[str, _Entry] = {}
        self._lanes: dict[Purpose, set[asyncio.Task[None]]] = {"query": set(), "document": set()}
        self._ahead: set[asyncio.Task[None]] = set()
        self._asked_at = -QUESTION_SECONDS
        self._closed = False

    @property
    def scripts(self) -> frozenset[str] | None:
        """See `Embedder.scripts`."""
        return None

    @abstractmethod
    async def _encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[TokenVectors] | None]:
        """Vectors of one batch, shape (len(texts), dimension), and of its texts' tokens; None if it `gives_tokens` not.

        Raises EmbedderError or EmbedderUnavailable.
        """

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
        return np.stack([encoded.vector for encoded in await self._found(texts, purpose)])

    async def embed_tokens(self, texts: Sequence[str], *, purpose: Purpose) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`."""
        self._refuse_if_closed()
        if not self.gives_tokens:
            return None
        return [encoded.tokens for encoded in await self._found(texts, purpose) if encoded.tokens is not None]

    def embed_ahead(self, texts: Sequence[str]) -> None:
        """Begin with documents that are asked for soon, behind all that are waited for: as many as are sure to be kept until then."""
        ahead = asyncio.get_running_loop().create_task(self._embedded_ahead(texts[: self._cache.most // 4]))
        self._ahead.add(ahead)
        ahead.add_done_callback(self._ahead.discard)

    async def _embedded_ahead(self, texts: Sequence[str]) -> None:
        # What fails is told to whoever asks for these then.
        with contextlib.suppress(EmbedderError, EmbedderUnavailable):
            self._refuse_if_closed()
            await self._found(texts, "document")

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise EmbedderUnavailable("the embedder was closed; make a new one")

    async def _found(self, texts: Sequence[str], purpose: Purpose) -> list[Encoded]:
        """The vectors of each text, from the cache or the lanes."""
        known, entries = self._admit(texts, purpose)
        try:
            # wait() rather than gather(): cancelling this caller must not cancel a text that others wait for.
            if entries:
                await asyncio.wait([entry.future for entry in entries.values()])
        finally:
            for entry in entries.values():
                entry.waiting -= 1
        return [entries[text].future.result() if text in entries else known[text] for text in texts]

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`. What is being encoded now won't be kept either, and what nobody asked for yet not begun."""
        self._era += 1
        self._cache.clear()
        for ahead in self._ahead:
            if not ahead.get_loop().is_closed():
                ahead.cancel()

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
    def _admit(self, texts: Sequence[str], purpose: Purpose) -> tuple[dict[str, Encoded], dict[str, _Entry]]:
        """The cached results of `texts`, and an entry in flight for each of the rest."""
        self._drop_dead_lanes()
        known: dict[str, Encoded] = {}
        entries: dict[str, _Entry] = {}
        caller = object()
        if purpose == "query":
            self._asked_at = time.monotonic()
        # Texts of like length next to each other share batches, so that little of a batch is padding.
        for text in sorted(dict.fromkeys(texts), key=len, reverse=True):
            if (kept := self._cache.got(text)) is not None:
                known[text] = kept
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
        if foreign := [entry for entry in self._in_flight.values() if entry.future.get_loop() is not loop]:
            for entry in foreign:
                del self._in_flight[entry.text]
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
        """The next texts of this purpose that somebody still waits for, as many as a batch may have."""
        queue, batch, chars = self._queues[purpose], list[_Entry](), 0
        while queue and len(batch) < self._limits.texts:
            entry = queue[0]
            if not entry.waiting:  # all who wanted it were cancelled
                self._in_flight.pop(entry.text, None)
                entry.future.cancel()
                queue.popleft()
                continue
            if batch and chars + len(entry.text) > self._limits.chars:
                break
            batch.append(queue.popleft())
            chars += len(entry.text)
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
        encoding = asyncio.ensure_future(self._checked([entry.text for entry in batch]))
        try:
            await asyncio.wait([encoding])
        except asyncio.CancelledError:
            encoding.cancel()
            raise
        error = None if encoding.cancelled() else encoding.exception()
        if error is not None or encoding.cancelled():
            return error or EmbedderUnavailable("the encoding was cancelled")
        for entry, found in zip(batch, encoding.result(), strict=True):
            self._in_flight.pop(entry.text, None)
            if entry.era == self._era:  # else the cache was cleared while it was encoded
                self._cache.put(entry.text, found)
            if not entry.future.done():
                entry.future.set_result(found)
        return None

    async def _checked(self, texts: Sequence[str]) -> list[Encoded]:
        made, tokens = await self._encode(texts)
        vectors = np.asarray(made, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise EmbedderError(f"the model gave vectors of shape {vectors.shape} for {len(texts)} texts")
        if tokens is not None and len(tokens) != len(texts):
            raise EmbedderError(f"the model gave the tokens of {len(tokens)} texts for {len(texts)}")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbedderError("the model gave a vector that is zero or not finite")
        unit = vectors / lengths
        if tokens is None:
            return [Encoded(vector, None) for vector in unit]
        return [Encoded(vector, of_text) for vector, of_text in zip(unit, tokens, strict=True)]

    def _settle_failed(self, entries: Iterable[_Entry], error: BaseException | None) -> None:
        """Tell `error`, if there is one, to whoever waits for these."""
        if error is None:
            return
        for entry in entries:
            if self._in_flight.get(entry.text) is entry:
                del self._in_flight[entry.text]
            if not entry.future.done():
                entry.future.set_exception(error)
                entry.future.exception()  # seen: nobody may be waiting any more, and that is no fault

    def _fail_waiting(self, error: BaseException) -> None:
        for queue in self._queues.values():
            self._settle_failed(queue, error)
            queue.clear()


class Piece(NamedTuple):
    """One token, or a few that belong together: `text[start:end]` weighs `weight` tokens."""

    start: int
    end: int
    weight: int = 1


def cut_passages(text: str, pieces: Sequence[Piece], *, window: int, overlap: int) -> list[str]:
    """`text` in passages of at most `window` tokens, in order; each begins about `overlap` tokens before the last's end.

    Every character is in some passage. A passage ends where a sentence does if one does in its last quarter, else
    between words if it can, else between any two pieces. No piece may weigh more than `window`.
    """
    if sum(piece.weight for piece in pieces) <= window:
        return [text]
    passages = []
    first, begin = 0, 0
    while True:
        stop = _fill(pieces, first, window)
        if stop == len(pieces):
            passages.append(text[begin:])
            return passages
        stop = _good_end(text, pieces, first, stop)
        end = pieces[stop].start
        passages.append(text[begin:end])
        back = _step_back(text, pieces, stop, overlap, floor=first + 1)
        first, begin = back, pieces[back].start


def _fill(pieces: Sequence[Piece], first: int, window: int) -> int:
    """The first piece that no longer fits into a window beginning with piece `first`."""
    weight, stop = 0, first
    while stop < len(pieces) and weight + pieces[stop].weight <= window:
        weight += pieces[stop].weight
        stop += 1
    return max(stop, first + 1)


def _good_end(text: str, pieces: Sequence[Piece], first: int, stop: int) -> int:
    earliest = max(first + 1, stop - max(1, (stop - first) // 4))
    between_words = None
    for candidate in range(stop, earliest - 1, -1):
        gap = text[pieces[candidate - 1].end : pieces[candidate].start]
        last = text[pieces[candidate - 1].end - 1 : pieces[candidate - 1].end]
        if "\n" in gap or last in "。！？" or (gap and last in ".!?…"):
            return candidate
        if gap and between_words is None:
            between_words = candidate
    return between_words or stop


def _step_back(text: str, pieces: Sequence[Piece], stop: int, overlap: int, *, floor: int) -> int:
    """The piece with which the next passage begins: about `overlap` tokens before `stop`, between words if it can."""
    back, weight = stop, 0
    while back > floor and weight + pieces[back - 1].weight <= overlap:
        back -= 1
        weight += pieces[back].weight
    for candidate in range(back, stop):
        if pieces[candidate].start > pieces[candidate - 1].end:
            return candidate
    return stop if back < stop and pieces[stop].start > pieces[stop - 1].end else back


MOST_TOKENS: Final = 128
"""Tokens of a text that have vectors: what a long turn is about is said at its beginning (docs/benchmarks.md)."""
DIRECTIONS: Final = 64
"""Numbers of a token vector at most, of the model's 384 or more: with so many late interaction finds the same turns."""

_SAMPLE_TEXTS: Final = 4
_SAMPLE_WORDS: Final = 96
_LEAST_LETTERS: Final = 3


def own_tokens(
    offsets: Sequence[tuple[int, int]], special: Sequence[int], *, prompt: int
) -> tuple[list[int], NDArray[np.int32]]:
    """The first MOST_TOKENS tokens of the text behind `prompt` characters, and their spans in the text.

    `special`: 1 for each token that the model adds, as the tokenizer says. Tokens of the prompt, and tokens that stand
    for no character (some tokenizers begin with one), are left out; one that reaches from the prompt into the text
    begins with the text.
    """
    own = [
        n
        for n, ((start, end), added) in enumerate(zip(offsets, special, strict=True))
        if not added and end > max(start, prompt)
    ][:MOST_TOKENS]
    spans = np.array([offsets[n] for n in own], dtype=np.int32).reshape(len(own), 2) - np.int32(prompt)
    return own, np.maximum(spans, 0)


def sample_texts(vocabulary: Iterable[str]) -> list[str]:
    """Texts of the words in a model's vocabulary, in its order, which is by frequency: what its directions are told by.

    The same for the same model, in any language that it knows.
    """
    bare = (piece.lstrip("▁Ġ") for piece in vocabulary)
    words = [piece for piece in bare if len(piece) >= _LEAST_LETTERS and piece.isalpha()]
    count = _SAMPLE_TEXTS * _SAMPLE_WORDS
    chosen = words[:: max(len(words) // (2 * count), 1)][:count]
    return [" ".join(chosen[n::_SAMPLE_TEXTS]) for n in range(_SAMPLE_TEXTS)]


def principal_directions(vectors: Floats) -> Floats:
    """The directions in which unit vectors, shape (n, dimension), lie most: shape (dimension, DIRECTIONS or fewer).

    Eigenvectors of their second moments, those of the largest eigenvalues first. Their signs are chosen, so that two machines
    with the same model have the same ones.
    """
    unit = _unit(vectors)
    _, directions = np.linalg.eigh(unit.T.astype(np.float64) @ unit.astype(np.float64))
    found = directions[:, ::-1][:, :DIRECTIONS]
    signs = np.sign(np.linspace(1.0, 2.0, len(found)) @ found)
    turned: Floats = (found * np.where(signs == 0.0, 1.0, signs)).astype(np.float32)
    return turned


def token_vectors(
    spans: NDArray[np.int32], vectors: Floats, directions: Floats | None = None
) -> TokenVectors:
    """`vectors`, shape (tokens, dimension), of any length, as the port wants them: unit length, float16, read-only.

    `directions`: those that they are told by, see `principal_directions`; None: as they are. Raises EmbedderError for a
    vector that is zero or not finite.
    """
    unit = _unit(vectors)
    if directions is not None:
        along = product(unit, directions.T)
        unit = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-6)
    found = TokenVectors(spans=spans, vectors=unit.astype(np.float16))
    for array in (found.spans, found.vectors):  # shared between callers
        array.setflags(write=False)
    return found


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbedderError("the model gave a token a vector that is zero or not finite")
    unit: Floats = vectors / lengths
    return unit
