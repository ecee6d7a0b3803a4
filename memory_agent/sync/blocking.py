"""Blocking methods made of asynchronous ones: an event loop in a thread of its own, and waiting for it."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - before `_close_all` is registered, which is then called before its own
import contextlib
import functools
import inspect
import os
import threading
import weakref
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from memory_agent.errors import NotOpen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

P = ParamSpec("P")
T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own, from `open` to `close`; any number of threads may call what runs on it."""

    def __init__(self) -> None:
        self._portal: BlockingPortal | None = None
        self._process = os.getpid()
        self._stack = contextlib.ExitStack()

    def open(self, manager: AbstractAsyncContextManager[Any]) -> None:
        """Start the thread and enter `manager` there. Raises what that raises, NotOpen if it is open already."""
        _refuse_on_a_loop()
        if self._portal is not None:
            raise NotOpen("this is open already; use one `with` per service")
        with contextlib.ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            # Calls that still wait, such as for the next event, would wait forever.
            stack.callback(portal.call, portal.stop, True)
            stack.enter_context(portal.wrap_async_context_manager(manager))
            self._portal, self._process = portal, os.getpid()
            self._stack = stack.pop_all()
        _open_loops.add(self)

    def close(self) -> None:
        """Leave the manager and end the thread; calls that still wait raise NotOpen."""
        if os.getpid() != self._process:
            return  # the thread is the other process's
        _open_loops.discard(self)
        stack, self._stack = self._stack, contextlib.ExitStack()
        try:
            stack.close()
        finally:
            self._portal = None

    def run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the coroutine and return its result. Interrupted (Ctrl-C), it is cancelled."""
        portal = self._open_portal()
        try:
            future = portal.start_task_soon(functools.partial(call, *args, **kwargs))
        except RuntimeError:  # closed since
            raise NotOpen(_NOT_OPEN) from None
        try:
            result: T = future.result()
        except CancelledError:
            raise NotOpen("it was closed while this call waited") from None
        except BaseException:
            future.cancel()
            raise
        return result

    def _open_portal(self) -> BlockingPortal:
        _refuse_on_a_loop()
        if self._portal is None:
            raise NotOpen(_NOT_OPEN)
        if os.getpid() != self._process:
            raise NotOpen(
                f"it was opened in process {self._process}, of which this one, {os.getpid()}, is a fork; threads stay "
                "behind in a fork, so open it after forking, in each process"
            )
        return self._portal


_open_loops: weakref.WeakSet[Loop] = weakref.WeakSet()


def _close_all() -> None:
    for loop in list(_open_loops):
        loop.close()


# A program may end without closing, as `flask run` does of what a module opened. When `atexit` calls, Python has ended
# the pools of threads that closing works in, and what waits for one of them would never end.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]

_NOT_OPEN = "it is not open; use `with MemoryService(...) as service:`"


def _refuse_on_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "this thread runs an event loop, which a blocking call would hold up; use the class of the same name in "
        "memory_agent, with `await` (in notebooks, too)"
    )


class Blocking:
    """An object whose methods wait for those of an asynchronous one. `with` opens and closes a loop of its own."""

    def __init__(self, asynchronous: Any, loop: Loop | None = None) -> None:
        self._async = asynchronous
        self._loop = loop or Loop()
        self._owns_loop = loop is None

    @classmethod
    def _standing_for(cls, asynchronous: Any, loop: Loop) -> Self:
        """One that a service hands out, on the service's loop."""
        made = cls.__new__(cls)
        Blocking.__init__(made, asynchronous, loop)
        return made

    def __repr__(self) -> str:
        return f"<blocking {self._async!r}>"

    def __enter__(self) -> Self:
        if self._owns_loop:
            self._loop.open(self._async)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_loop:
            self._loop.close()


Handed = TypeVar("Handed", bound=Blocking)


def waits(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The method that waits for what `method` of the asynchronous object returns."""

    @functools.wraps(method)
    def wait(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._loop.run(getattr(self._async, method.__name__), *args, **kwargs)
        return result

    wait.__doc__ = without_await(method.__doc__)
    return wait


def iterates(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
    """The generator of what the asynchronous generator `method` yields."""

    @functools.wraps(method)
    def iterate(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        source: AsyncGenerator[T, None] = getattr(self._async, method.__name__)(*args, **kwargs)
        try:
            while True:
                try:
                    item = self._loop.run(source.__anext__)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            with contextlib.suppress(NotOpen):  # what is closed has ended it
                self._loop.run(source.aclose)

    signature = inspect.signature(method)
    told = str(signature.return_annotation).replace("AsyncGenerator[", "Generator[").replace("]", ", None]")
    iterate.__signature__ = signature.replace(return_annotation=told)  # type: ignore[attr-defined]
    iterate.__doc__ = without_await(method.__doc__)
    return iterate


def hands_out(
    method: Callable[Concatenate[Any, P], Any], kind: type[Handed]
) -> Callable[Concatenate[Any, P], Handed]:
    """The method that hands out, as the blocking `kind`, what `method` hands out; on the same loop, without I/O."""

    @functools.wraps(method)
    def hand_out(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> Handed:
        return kind._standing_for(getattr(self._async, method.__name__)(*args, **kwargs), self._loop)

    return hand_out


def made_like(
    method: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Mark an `__init__` that takes what the asynchronous class's takes."""

    def marked(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return functools.wraps(method)(init)

    return marked


def without_await(doc: str | None) -> str | None:
    """The docstring of an asynchronous method, reworded for the blocking one.

    >>> without_await("`async with contextlib.aclosing(memory.events()) as events:`, `by_kind(await memory.entities())`")
    '`with contextlib.closing(memory.events()) as events:`, `by_kind(memory.entities())`'
    """
    return doc and doc.replace("contextlib.aclosing", "contextlib.closing").replace(
        "async with", "with"
    ).replace("await ", "")
