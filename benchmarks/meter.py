"""Timing calls on an event loop: wall and processor time, what an embedder took of it, and how long the loop was not free."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

import numpy as np
import psutil

from benchmarks.measure import percentiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from benchmarks.vectors import TokenArrays
    from memory_agent.domain import TokenVectors
    from memory_agent.ports import Embedder

_R = TypeVar("_R")

TICK_SECONDS: Final = 0.001
AT_ONCE: Final = 500
"""Texts that a model is given in one call."""


def say(what: str) -> None:
    """Tell how far a benchmark is, on standard error; its standard output holds the figures alone."""
    print(what, file=sys.stderr, flush=True)


class Others:
    """How busy other processes keep the machine, from when this is made: figures taken meanwhile may be false."""

    def __init__(self) -> None:
        self._start = self._now()

    def share(self) -> float:
        """Of all cores' time since then, what was neither idle nor this process's own (a mongod is another, too)."""
        total, idle, own = (now - then for now, then in zip(self._now(), self._start, strict=True))
        return round(max(0.0, total - idle - own) / total, 3) if total else 0.0

    @staticmethod
    def _now() -> tuple[float, float, float]:
        times = psutil.cpu_times()
        # Guests' time is in user's already.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return total, times.idle + getattr(times, "iowait", 0.0), time.process_time()


# --- the event loop ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Hold:
    """The longest times that the loop was not free, in seconds, by the wall's clock and by what its thread computed meanwhile.

    On a busy machine the first one holds other processes' turns as well, and waits for Python's lock; the second is ours.
    """

    wall: float = 0.0
    own: float = 0.0

    def report(self) -> dict[str, float]:
        """Both in milliseconds."""
        return {"hold_ms": round(self.wall * 1_000, 2), "hold_own_ms": round(self.own * 1_000, 2)}

    def __or__(self, other: Hold) -> Hold:
        return Hold(max(self.wall, other.wall), max(self.own, other.own))


class LoopLag:
    """A task that wants to run every millisecond, and notes by how much it is late. Use as `async with LoopLag() as lag:`."""

    def __init__(self) -> None:
        self._longest = Hold()
        self._slept_at = (0.0, 0.0)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._slept_at = _clocks()
        self._task = asyncio.create_task(self._tick(), name="loop lag")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def take(self) -> Hold:
        """The longest holds since the last call, one that lasts until now included."""
        self._note()
        longest, self._longest = self._longest, Hold()
        return longest

    async def _tick(self) -> None:
        while True:
            self._slept_at = _clocks()
            await asyncio.sleep(TICK_SECONDS)
            self._note()

    def _note(self) -> None:
        wall, own = (now - then for now, then in zip(_clocks(), self._slept_at, strict=True))
        late = max(0.0, wall - TICK_SECONDS)
        self._longest |= Hold(late, min(own, late))
        self._slept_at = _clocks()


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


# --- the model -----------------------------------------------------------------------------------------------
class MeteredEmbedder:
    """`Embedder` over another that counts its time. What `learn` was given is known from then on, and costs nothing.

    `seconds`: how long at least one call was with the model.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}
        # As tuples of arrays, which the garbage collector passes over: it must not take longer for what a benchmark keeps.
        self._known_tokens: dict[str, TokenArrays] = {}
        self._in_hand = 0
        self._began = 0.0
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """See the class."""
        return self._seconds + (time.perf_counter() - self._began if self._in_hand else 0.0)

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`."""
        return self._embedder.fingerprint

    @property
    def scripts(self) -> frozenset[str] | None:
        """See `Embedder.scripts`."""
        return self._embedder.scripts

    async def learn(self, texts: Sequence[str]) -> float:
        """Embed what is new of these documents as a worker would; seconds of the model for each of them, 0 for none."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        began = time.perf_counter()
        for start in range(0, len(new), AT_ONCE):
            some = new[start : start + AT_ONCE]
            self._known |= zip(some, await self.embed(some, purpose="document"), strict=True)
            tokens = await self.embed_tokens(some, purpose="document") or ()
            self._known_tokens |= {
                text: (its.spans, its.vectors) for text, its in zip(some, tokens, strict=bool(tokens))
            }
        return (time.perf_counter() - began) / len(new) if new else 0.0

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`."""
        return await self._embedder.split(text)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        if self._known.keys().isdisjoint(texts):
            with self._working():
                return await self._embedder.embed(texts, purpose=purpose)
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        found = dict(zip(new, await self.embed(new, purpose=purpose) if new else (), strict=True))
        return np.stack([found[text] if text in found else self._known[text] for text in texts])

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`."""
        if self._known_tokens.keys().isdisjoint(texts):
            with self._working():
                return await self._embedder.embed_tokens(texts, purpose=purpose)
        new = [text for text in dict.fromkeys(texts) if text not in self._known_tokens]
        made = (await self.embed_tokens(new, purpose=purpose) or ()) if new else ()
        found = dict(zip(new, made, strict=True))
        return [found[text] if text in found else self._kept(text) for text in texts]

    def embed_ahead(self, texts: Sequence[str]) -> None:
        """See `ahead_by` of the ports; of what is not known."""
        new = [text for text in texts if text not in self._known]
        if new and (begin := getattr(self._embedder, "embed_ahead", None)):
            begin(new)

    def _kept(self, text: str) -> TokenVectors:
        from memory_agent.domain import TokenVectors  # which an environment of peers need not have

        spans, vectors = self._known_tokens[text]
        return TokenVectors(spans=spans, vectors=vectors)

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`; what was learnt stays."""
        self._embedder.clear_cache()

    async def close(self) -> None:
        """See `Embedder.close`."""
        await self._embedder.close()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        if not self._in_hand:
            self._began = time.perf_counter()
        self._in_hand += 1
        try:
            yield
        finally:
            self._in_hand -= 1
            if not self._in_hand:
                self._seconds += time.perf_counter() - self._began


# --- calls ---------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Calls:
    """What was measured of one kind of call, in seconds each.

    `besides`: without the time in which the model worked, of calls that wait for it.
    """

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    besides: list[float] = field(default_factory=list)
    hold: Hold = field(default_factory=Hold)

    def report(self) -> dict[str, float]:
        """Percentiles in milliseconds; `processor_ms` is the median of all threads' processor time."""
        shown = percentiles(self.wall) | {"processor_ms": round(float(np.median(self.processor)) * 1_000, 2)}
        if self.besides:
            shown |= {f"besides_{name}": value for name, value in percentiles(self.besides).items()}
        return shown | self.hold.report()


class Meter:
    """Measures calls by name, one at a time."""

    def __init__(self, lag: LoopLag, embedder: MeteredEmbedder) -> None:
        self._lag = lag
        self._embedder = embedder
        self.calls: dict[str, Calls] = defaultdict(Calls)

    async def time(self, name: str, call: Awaitable[_R], *, asks_model: bool = False) -> _R:
        """What the call gives. `asks_model`: it waits for the model, which does nothing else meanwhile."""
        self._lag.take()
        model, processor, wall = self._embedder.seconds, time.process_time(), time.perf_counter()
        answer = await call
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        calls = self.calls[name]
        calls.hold |= self._lag.take()
        calls.wall.append(wall)
        calls.processor.append(processor)
        if asks_model:
            calls.besides.append(wall - (self._embedder.seconds - model))
        return answer

    def report(self) -> dict[str, Any]:
        """Every kind's figures."""
        return {name: calls.report() for name, calls in self.calls.items()}
