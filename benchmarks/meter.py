"""Timing calls on an event loop: wall and processor time, what an embedder took of it, and how long the loop was not free."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np
import psutil

from benchmarks.measure import percentiles

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import TracebackType

    from benchmarks.vectors import KnowingEmbedder

_R = TypeVar("_R")

TICK_SECONDS: Final = 0.001


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

    def __init__(self, lag: LoopLag, embedder: KnowingEmbedder) -> None:
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
