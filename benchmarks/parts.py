"""Where the processor's time of a call goes, by part of the package, with the store calls and statements that it makes.

Every thread that is started once this is installed has a profiler of its own (cProfile on the thread's processor time), so that
SQLite's lanes and the model's are in it. A library's time belongs to the part that called it; what no part called is
the event loop's own. Profiling slows small functions down more than large ones: shares are what to read.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import functools
import gc
import inspect
import re
import sqlite3
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import memory_agent
from memory_agent.ports import DocumentStore, VectorIndex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from types import FrameType

    from memory_agent import MemoryService

    Place = tuple[str, int, str]
    """A function's file, line and name; of one in C the name alone."""

PACKAGE: Final = str(Path(memory_agent.__file__).parent) + "/"
LOOP: Final = "event loop"
NATIVE: Final = "libraries' own threads"
_TABLE: Final = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN)\s+(\w+)", re.IGNORECASE)
_ROUNDS: Final = 20
_WRITES: Final = ("insert", "update", "delete", "findandmodify", "replace", "bulkwrite")
_ENDS: Final = ("begin", "commit", "rollback", "pragma")


def part_of(file: str) -> str | None:
    """The folder of the package that a file is in (with the adapter's, below stores), or its name; None: not ours."""
    if not file.startswith(PACKAGE):
        return None
    *folders, name = file.removeprefix(PACKAGE).split("/")
    if not folders:
        return name.removesuffix(".py")
    if folders == ["stores"]:
        return f"stores/{name.removesuffix('.py')}"
    return "/".join(folders[: 2 if folders[0] == "stores" else 1])


# --- processor time ------------------------------------------------------------------------------------------
class Profiles:
    """The processor time of all threads by part, from when this is installed."""

    def __init__(self) -> None:
        self._of_threads: list[cProfile.Profile] = []

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Profile this thread and those that start in the block. Raises RuntimeError where Python can't tell threads apart."""
        if sys.version_info >= (3, 12):
            raise RuntimeError("a profile by part needs Python 3.11: later ones profile all threads as one")
        threading.setprofile(self._begin)
        own = self._begin()
        try:
            yield
        finally:
            own.disable()
            threading.setprofile(None)

    def spent(self) -> Spent:
        """What all threads have spent so far."""
        # What the collector calls would let other threads run, and go on filling a profile while it is read.
        gc.disable()
        try:
            read = [profile.getstats() for profile in self._of_threads]
        finally:
            gc.enable()
        spent = Spent()
        for entries in read:
            spent.add(entries)
        return spent

    def _begin(self, *_event: Any) -> cProfile.Profile:
        profile = cProfile.Profile(time.thread_time)
        self._of_threads.append(profile)
        profile.enable()
        return profile


def _place(code: Any) -> Place:
    # Code objects are equal that do the same at the same line of two files.
    return ("", 0, code) if isinstance(code, str) else (code.co_filename, code.co_firstlineno, code.co_name)


@dataclass(slots=True)
class Spent:
    """Seconds by function, and those of each function (with what it calls) by who calls it."""

    inside: dict[Place, float] = field(default_factory=lambda: defaultdict(float))
    calls: dict[tuple[Place, Place], float] = field(default_factory=lambda: defaultdict(float))
    """By called and calling function."""

    def add(self, entries: Iterable[Any]) -> None:
        """Add what `cProfile.Profile.getstats` gives of a thread."""
        for entry in entries:
            self.inside[_place(entry.code)] += entry.inlinetime
            for call in entry.calls or ():
                self.calls[_place(call.code), _place(entry.code)] += call.totaltime

    def since(self, before: Spent) -> Spent:
        """What was spent after `before`."""
        return Spent(
            inside={code: seconds - before.inside.get(code, 0.0) for code, seconds in self.inside.items()},
            calls={pair: seconds - before.calls.get(pair, 0.0) for pair, seconds in self.calls.items()},
        )

    def by_part(self) -> dict[str, float]:
        """All of it by part: a part's own functions, and what they call that is nobody's of the package."""
        shares = self._shares()
        parts: dict[str, float] = defaultdict(float)
        for code, seconds in self.inside.items():
            for part, share in (shares.get(code) or {LOOP: 1.0}).items():
                parts[part] += share * seconds
        return parts

    def _shares(self) -> dict[Place, dict[str, float]]:
        """Whose the time of each function is: its own part's, else that of those who call it, by how long they do.

        Functions of libraries call each other in circles, so this goes round until nothing much changes any more.
        """
        callers: dict[Place, list[tuple[Place, float]]] = defaultdict(list)
        for (called, calling), seconds in self.calls.items():
            callers[called].append((calling, seconds))
        shares: dict[Place, dict[str, float]] = {}
        for code in self.inside:
            part = part_of(code[0])
            if part or code not in callers:
                shares[code] = {part or LOOP: 1.0}
        libraries = [code for code in self.inside if code not in shares]
        for _ in range(_ROUNDS):
            for code in libraries:
                found: dict[str, float] = defaultdict(float)
                for calling, seconds in callers[code]:
                    for part, share in shares.get(calling, {}).items():
                        found[part] += share * seconds
                if total := sum(found.values()):
                    shares[code] = {part: share / total for part, share in found.items()}
        return shares


# --- calls and statements ------------------------------------------------------------------------------------
class Counts:
    """Calls of the store and of the vector index, by who calls; statements by table, once they are counted."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        """By part and method."""
        self.statements: Counter[tuple[str, str]] = Counter()
        """By table or collection, and "read" or "write"."""

    @contextlib.contextmanager
    def statements_counted(self) -> Iterator[None]:
        """Count those of every SQLite connection and MongoDB client that is opened in the block."""
        from pymongo import monitoring

        connect = sqlite3.connect

        @functools.wraps(connect)
        def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **kwargs)
            connection.set_trace_callback(self._sql)
            return connection

        counts = self

        class Listener(monitoring.CommandListener):
            def started(self, event: monitoring.CommandStartedEvent) -> None:
                verb = event.command_name
                place = event.command.get(verb)
                if isinstance(place, str):
                    counts._note(place, verb)

            def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

            def failed(self, event: monitoring.CommandFailedEvent) -> None: ...

        sqlite3.connect = traced  # type: ignore[assignment]  # for as long as the block lasts
        monitoring.register(Listener())  # stays, for there is no taking it back
        try:
            yield
        finally:
            sqlite3.connect = connect

    def count_calls(self, service: MemoryService) -> None:
        """Count the calls of this service's store and vector index from now on."""
        for adapter, port in ((service.core.store, DocumentStore), (service.core.vectors, VectorIndex)):
            for name in dir(port):
                if not name.startswith("_") and inspect.iscoroutinefunction(getattr(adapter, name, None)):
                    setattr(adapter, name, self._counted(name, getattr(adapter, name)))

    def clear(self) -> None:
        """Begin anew."""
        self.calls.clear()
        self.statements.clear()

    def _counted(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def call(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            self.calls[_caller(sys._getframe(1)), name] += 1
            return method(*args, **kwargs)

        return call

    def _sql(self, statement: str) -> None:
        verb = statement.split(None, 1)[0].lower()
        if verb not in _ENDS:
            found = _TABLE.search(statement)
            self._note(found[1] if found else "no table", verb)

    def _note(self, table: str, verb: str) -> None:
        self.statements[table, "write" if verb.lower().startswith(_WRITES) else "read"] += 1


def _caller(frame: FrameType | None) -> str:
    while frame is not None:
        part = part_of(frame.f_code.co_filename)
        if part is not None:
            return part
        frame = frame.f_back
    return LOOP


# --- together ------------------------------------------------------------------------------------------------
async def profile(
    service: MemoryService,
    profiles: Profiles,
    counts: Counts,
    calls: Mapping[str, Callable[[int], Awaitable[Any]]],
    *,
    times: int,
) -> dict[str, Any]:
    """One of each kind of calls, by part: shares of processor time, store calls and statements, means over `times`."""
    counts.count_calls(service)
    report: dict[str, Any] = {}
    for name, call in calls.items():
        await call(0)
        await asyncio.sleep(0.2)  # what the call before left to do
        counts.clear()
        before, processor = profiles.spent(), time.process_time()
        for number in range(1, times + 1):
            await call(number)
        processor = time.process_time() - processor
        seconds = profiles.spent().since(before).by_part()
        seconds[NATIVE] = max(0.0, processor - sum(seconds.values()))
        by_share = sorted(seconds.items(), key=lambda item: -item[1])
        report[name] = {
            "profiled_processor_ms": round(1_000 * processor / times, 2),
            "share": {part: round(spent / sum(seconds.values()), 4) for part, spent in by_share if spent > 0},
            "store_calls": _means(counts.calls, times),
            "statements": _means(counts.statements, times),
        }
    return report


def _means(counts: Counter[tuple[str, str]], times: int) -> dict[str, dict[str, float]]:
    shown: dict[str, dict[str, float]] = defaultdict(dict)
    for (first, second), count in counts.most_common():
        shown[first][second] = round(count / times, 2)
    return dict(shown)
