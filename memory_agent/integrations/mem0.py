"""mem0's calls over this memory: `from memory_agent.integrations.mem0 import Memory` in place of `from mem0 import Memory`.

Nothing waits for a language model. What is different stands in docs/mem0.md.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import NotOpen
from memory_agent.integrations.mem0_calls import AsyncMemory, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import TracebackType

    from memory_agent.config import MemoryConfig

    _Running = tuple[asyncio.AbstractEventLoop, asyncio.Event]

__all__ = ["AsyncMemory", "Memory"]

P = ParamSpec("P")
R = TypeVar("R")


def _waits(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Memory, P], R]:
    """The method, waited for."""

    @functools.wraps(method)
    def wait(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(method(self._memory, *args, **kwargs))

    return wait


class Memory:
    """mem0's Memory: `AsyncMemory` on an event loop in a thread of its own, closed when the program ends."""

    def __init__(self, config: MemoryConfig | None = None, *, tenant: str = DEFAULT_TENANT) -> None:
        started: Future[_Running] = Future()
        thread = threading.Thread(target=_run, args=(started,), name="memory_agent mem0", daemon=True)
        thread.start()
        self._loop, stop = started.result()
        self._process = os.getpid()
        self._memory = AsyncMemory(config, tenant=tenant)
        self._end = weakref.finalize(self, _end, self._loop, stop, thread, self._memory)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """As `AsyncMemory.from_config`."""
        return cls(settings_of(config_dict))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the memory for good."""
        self._end()

    def _wait(self, call: Coroutine[Any, Any, R]) -> R:
        if os.getpid() != self._process:  # a fork takes no threads along, and nobody would ever answer
            call.close()
            raise NotOpen("this Memory was made before the process forked; make one in each process")
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    add = _waits(AsyncMemory.add)
    get = _waits(AsyncMemory.get)
    get_all = _waits(AsyncMemory.get_all)
    search = _waits(AsyncMemory.search)
    update = _waits(AsyncMemory.update)
    delete = _waits(AsyncMemory.delete)
    delete_all = _waits(AsyncMemory.delete_all)
    history = _waits(AsyncMemory.history)
    reset = _waits(AsyncMemory.reset)


def _run(started: Future[_Running]) -> None:
    async def until_stopped() -> None:
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()

    asyncio.run(until_stopped())


def _end(
    loop: asyncio.AbstractEventLoop, stop: asyncio.Event, thread: threading.Thread, memory: AsyncMemory
) -> None:
    if not thread.is_alive():  # in a process that was forked since
        return

    async def end() -> None:
        try:
            await memory.close()
        finally:
            stop.set()

    ended = asyncio.run_coroutine_threadsafe(end(), loop)
    if (
        threading.current_thread() is not thread
    ):  # where garbage is collected on the loop itself, nobody waits
        ended.result()
        thread.join()
